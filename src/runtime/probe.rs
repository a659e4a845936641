//! Probes: questions that are put to a backend before anybody relies on it.

use std::fmt;
use std::pin::Pin;

/// One question, which is asked when its future is polled.
pub struct Probe {
    /// What is tried, for people: `services of Consul at 127.0.0.1:8500`.
    pub what: String,
    /// What came of it: a few words, or what is wrong and the remedy.
    pub outcome: Pin<Box<dyn Future<Output = Result<String, String>> + Send>>,
}

// === impl Probe ===

impl Probe {
    /// Tries `what` by `ask`.
    pub fn new(what: String, ask: impl Future<Output = Result<String, String>> + Send + 'static) -> Self {
        Self { what, outcome: Box::pin(ask) }
    }
}

impl fmt::Debug for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Probe").field("what", &self.what).finish_non_exhaustive()
    }
}
