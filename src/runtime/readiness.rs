//! Readiness: a set of named things that are still missing.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

/// Says what is wrong, if something is. Must not block.
type Probe = Box<dyn Fn() -> Option<String> + Send + Sync>;

/// Is this process ready to be asked?
///
/// Ready when nothing is missing any more; only a drain takes that back. What is lost later is told as a degradation.
#[derive(Clone)]
pub struct Readiness {
    shared: Arc<Shared>,
}

struct Shared {
    missing: watch::Sender<BTreeSet<String>>,
    draining: AtomicBool,
    probes: Mutex<BTreeMap<String, Probe>>,
}

/// One thing that is missing. Dropping it says that it is there.
pub struct Pending {
    shared: Arc<Shared>,
    name: String,
}

/// The state of this moment, as `/ready` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Everything is there; the list tells what has been lost since, `name: what is wrong`.
    Ready(Vec<String>),
    /// These are missing.
    Starting(Vec<String>),
    /// The process is going.
    Draining,
}

// === impl Readiness ===

impl Default for Readiness {
    fn default() -> Self {
        Self {
            shared: Arc::new(Shared {
                missing: watch::Sender::default(),
                draining: AtomicBool::new(false),
                probes: Mutex::default(),
            }),
        }
    }
}

impl Readiness {
    /// Nothing is missing yet. Whoever starts things takes a [`Readiness::pending`] for each before anybody asks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Something is missing until the guard is dropped.
    pub fn pending(&self, name: impl Into<String>) -> Pending {
        let name = name.into();
        self.shared.missing.send_modify(|missing| {
            missing.insert(name.clone());
        });
        Pending { shared: self.shared.clone(), name }
    }

    /// `name` is missing until `there`, or `limit`, whichever comes first.
    #[must_use = "dropping the handle says that it is there"]
    pub fn await_at_most(
        &self,
        name: impl Into<String>,
        limit: Duration,
        there: impl Future<Output = ()> + Send + 'static,
    ) -> AbortOnDropHandle<()> {
        let pending = self.pending(name);
        AbortOnDropHandle::new(tokio::spawn(async move {
            if tokio::time::timeout(limit, there).await.is_err() {
                tracing::warn!(task = %pending.name, waited_ms = limit.as_millis(), "not there yet, going on without");
            }
        }))
    }

    /// Asks `probe` each time somebody looks: what it says is a degradation, not a lack of readiness.
    pub fn watch(&self, name: impl Into<String>, probe: impl Fn() -> Option<String> + Send + Sync + 'static) {
        self.shared.probes.lock().insert(name.into(), Box::new(probe));
    }

    /// Never ready again: the process is going.
    pub fn off(&self) {
        self.shared.draining.store(true, Ordering::Release);
    }

    /// Waits until nothing is missing. Cancel safe.
    pub async fn ready(&self) {
        let mut missing = self.shared.missing.subscribe();
        if missing.wait_for(BTreeSet::is_empty).await.is_err() {
            std::future::pending().await // cannot happen: the sender lives in `self`
        }
    }

    /// The state of this moment.
    pub fn state(&self) -> State {
        if self.shared.draining.load(Ordering::Acquire) {
            return State::Draining;
        }
        let missing: Vec<String> = self.shared.missing.borrow().iter().cloned().collect();
        if !missing.is_empty() {
            return State::Starting(missing);
        }
        let probes = self.shared.probes.lock();
        State::Ready(probes.iter().filter_map(|(name, probe)| Some(format!("{name}: {}", probe()?))).collect())
    }
}

impl fmt::Debug for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Readiness").field("missing", &*self.shared.missing.borrow()).finish_non_exhaustive()
    }
}

// === impl Pending ===

impl Drop for Pending {
    fn drop(&mut self) {
        let mut left = 0;
        self.shared.missing.send_modify(|missing| {
            missing.remove(&self.name);
            left = missing.len();
        });
        tracing::info!(task = %self.name, left, "start-up step done");
    }
}

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pending").field(&self.name).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn ready_when_the_last_thing_is_there() {
        let readiness = Readiness::new();
        let ports = readiness.pending("ports");
        let storage = readiness.pending("storage");
        assert_eq!(readiness.state(), State::Starting(vec!["ports".to_owned(), "storage".to_owned()]));
        drop(ports);
        assert_eq!(readiness.state(), State::Starting(vec!["storage".to_owned()]));
        drop(storage);
        readiness.ready().await;
        assert_eq!(readiness.state(), State::Ready(Vec::new()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_backend_that_stays_away_holds_readiness_back_for_its_limit_only() {
        let readiness = Readiness::new();
        let _task = readiness.await_at_most("storage", Duration::from_secs(5), std::future::pending());
        let began = tokio::time::Instant::now();
        assert!(matches!(readiness.state(), State::Starting(_)));
        readiness.ready().await;
        assert_eq!(began.elapsed(), Duration::from_secs(5));
    }

    #[tokio::test]
    async fn a_later_loss_degrades_and_a_drain_ends_readiness() {
        let readiness = Readiness::new();
        let lost = Arc::new(AtomicBool::new(false));
        let probe = lost.clone();
        readiness.watch("storage", move || probe.load(Ordering::Relaxed).then(|| "connection refused".to_owned()));
        assert_eq!(readiness.state(), State::Ready(Vec::new()));
        lost.store(true, Ordering::Relaxed);
        assert_eq!(readiness.state(), State::Ready(vec!["storage: connection refused".to_owned()]));
        readiness.off();
        assert_eq!(readiness.state(), State::Draining);
    }
}
