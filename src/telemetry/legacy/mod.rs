//! namerd's own metrics: a tree of scopes whose leaves are counters, gauges and histograms, without labels.
//!
//! Dashboards made for namerd ask for these names, so they are kept for what namerd has, and nothing is added to them.
//! What only rosterd has is in the registry of [`super::Metrics`].

mod histogram;
mod influx;
mod json;
mod prometheus;
mod tree;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use tokio::time::Instant;

pub use histogram::{Histogram, Summary};
pub use json::{JsonQuery, NoSuchSubtree};

use histogram::Windows;
use tree::{Metric, Node};

/// The tree. Handles are shared: whoever asks for a name twice gets the same counter, so that two servers of one kind
/// count together, as in namerd.
#[derive(Clone)]
pub struct Legacy {
    shared: Arc<Shared>,
}

struct Shared {
    root: RwLock<Node>,
    windows: Windows,
}

/// A place in the tree, under which names are made.
#[derive(Clone)]
pub struct Scope {
    legacy: Legacy,
    path: Arc<[String]>,
}

/// Counts up.
#[derive(Clone, Debug, Default)]
pub struct Counter(Arc<AtomicU64>);

/// How many there are now of something.
#[derive(Clone, Debug, Default)]
pub struct Level(Arc<AtomicI64>);

/// One that is there until this is dropped.
#[derive(Debug)]
pub struct LevelGuard(Level);

/// Several that are there, all of which go when this is dropped.
#[derive(Debug)]
pub struct LevelShare {
    level: Level,
    count: i64,
}

// === impl Legacy ===

impl Legacy {
    /// Time between snapshots of histograms in namerd.
    pub const SNAPSHOT_INTERVAL: Duration = Duration::from_secs(60);

    /// An empty tree whose histograms begin a new window every `interval`.
    pub fn new(interval: Duration) -> Self {
        let windows = Windows { epoch: Instant::now(), length: interval };
        Self { shared: Arc::new(Shared { root: RwLock::default(), windows }) }
    }

    /// The scope `name` at the root: `adminhttp`, `interface`, `namer`, `jvm`.
    pub fn scope(&self, name: &str) -> Scope {
        Scope { legacy: self.clone(), path: [name.to_owned()].into() }
    }
}

impl Default for Legacy {
    fn default() -> Self {
        Self::new(Self::SNAPSHOT_INTERVAL)
    }
}

impl fmt::Debug for Legacy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Legacy").finish_non_exhaustive()
    }
}

// === impl Scope ===

impl Scope {
    /// The scope `name` below this one. A name may hold `/`: a namer's prefix is one scope (`#/io.l5d.consul`).
    #[must_use]
    pub fn scope(&self, name: &str) -> Self {
        let path = self.path.iter().cloned().chain([name.to_owned()]).collect();
        Self { legacy: self.legacy.clone(), path }
    }

    /// The counter `name`; `/` in it separates scopes. Names must come from the program, never from a client: they
    /// are kept for good.
    pub fn counter(&self, name: &str) -> Counter {
        let mut counter = Counter::default();
        self.at(name, |metric| match metric {
            Metric::None => *metric = Metric::Counter(counter.clone()),
            Metric::Counter(known) => counter = known.clone(),
            _ => debug_assert!(false, "{name} is no counter"),
        });
        counter
    }

    /// The gauge `name`: how many there are of something.
    pub fn level(&self, name: &str) -> Level {
        let mut level = Level::default();
        self.at(name, |metric| match metric {
            Metric::None => *metric = Metric::Level(level.clone()),
            Metric::Level(known) => level = known.clone(),
            _ => debug_assert!(false, "{name} is no level"),
        });
        level
    }

    /// The gauge `name`, read when somebody looks. The last one counts; it must not block.
    pub fn gauge(&self, name: &str, read: impl Fn() -> f64 + Send + Sync + 'static) {
        self.at(name, |metric| match metric {
            Metric::None | Metric::Gauge(_) => *metric = Metric::Gauge(Box::new(read)),
            _ => debug_assert!(false, "{name} is no gauge"),
        });
    }

    /// The histogram `name`.
    pub fn histogram(&self, name: &str) -> Histogram {
        let mut histogram = Histogram::new(self.legacy.shared.windows);
        self.at(name, |metric| match metric {
            Metric::None => *metric = Metric::Histogram(histogram.clone()),
            Metric::Histogram(known) => histogram = known.clone(),
            _ => debug_assert!(false, "{name} is no histogram"),
        });
        histogram
    }

    fn at(&self, name: &str, set: impl FnOnce(&mut Metric)) {
        let mut root = self.legacy.shared.root.write();
        let scopes = self.path.iter().map(String::as_str);
        set(&mut root.make(scopes.chain(name.split('/'))).metric);
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Scope").field(&self.path).finish()
    }
}

// === impl Counter ===

impl Counter {
    /// One more.
    pub fn inc(&self) {
        self.add(1);
    }

    /// `n` more.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// The count.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

// === impl Level ===

impl Level {
    /// One more, until the guard is dropped.
    pub fn up(&self) -> LevelGuard {
        self.0.fetch_add(1, Ordering::Relaxed);
        LevelGuard(self.clone())
    }

    /// A share of it, none at first.
    pub fn share(&self) -> LevelShare {
        LevelShare { level: self.clone(), count: 0 }
    }

    /// How many there are now.
    pub fn get(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl LevelShare {
    /// So many there are now in this share.
    pub fn set(&mut self, count: usize) {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        if count != self.count {
            self.level.0.fetch_add(count - self.count, Ordering::Relaxed);
            self.count = count;
        }
    }
}

impl Drop for LevelShare {
    fn drop(&mut self) {
        self.set(0);
    }
}

impl Drop for LevelGuard {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_name_is_one_metric_however_often_it_is_asked_for() {
        let legacy = Legacy::default();
        let scope = legacy.scope("interface").scope("io.l5d.httpController");
        scope.counter("requests").inc();
        legacy.scope("interface").scope("io.l5d.httpController").counter("requests").add(2);
        assert_eq!(scope.counter("requests").get(), 3);
        let _guards = (scope.level("pending").up(), scope.level("pending").up());
        assert_eq!(scope.level("pending").get(), 2);
    }
}
