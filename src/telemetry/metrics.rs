//! Both sets of metrics, put together at start and read afterwards.

use std::fmt;
use std::sync::Arc;

use prometheus_client::encoding::prometheus_text;
use prometheus_client::registry::Registry;

use super::Legacy;

/// The `Content-Type` of [`Metrics::own_text`].
pub const OWN_CONTENT_TYPE: &str = prometheus_text::CONTENT_TYPE;

/// Where the parts of the program register their metrics.
#[derive(Debug)]
pub struct MetricsSetup {
    /// Names that all programs share: `process_…`.
    pub common: Registry,
    /// rosterd's own names; each gets the prefix `rosterd_`.
    pub own: Registry,
    /// namerd's names.
    pub legacy: Legacy,
}

/// All metrics of the process.
#[derive(Clone)]
pub struct Metrics {
    registries: Arc<[Registry; 2]>,
    legacy: Legacy,
}

// === impl MetricsSetup ===

impl MetricsSetup {
    /// Nothing is registered yet.
    pub fn new(legacy: Legacy) -> Self {
        Self { common: Registry::default(), own: Registry::with_prefix("rosterd"), legacy }
    }

    /// Everything is registered.
    pub fn finish(self) -> Metrics {
        Metrics { registries: Arc::new([self.common, self.own]), legacy: self.legacy }
    }
}

// === impl Metrics ===

impl Metrics {
    /// rosterd's own names in the Prometheus text format, with help and types.
    pub fn own_text(&self) -> String {
        let mut text = String::new();
        for registry in &*self.registries {
            if prometheus_text::encode(&mut text, registry).is_err() {
                // A String takes everything, so a collector has failed; what the others said is of use still.
                tracing::error!("a metric could not be shown; this is a defect, please report it");
            }
        }
        text
    }

    /// namerd's names.
    pub fn legacy(&self) -> &Legacy {
        &self.legacy
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}
