//! The nodes of the tree.

use std::collections::BTreeMap;

use super::{Counter, Histogram, Level, Summary};

/// A scope, a metric, or both: `failures` counts and has one counter below it for each kind.
#[derive(Default)]
pub(super) struct Node {
    pub(super) metric: Metric,
    pub(super) children: BTreeMap<String, Node>,
}

#[derive(Default)]
pub(super) enum Metric {
    #[default]
    None,
    Counter(Counter),
    Level(Level),
    Gauge(Box<dyn Fn() -> f64 + Send + Sync>),
    Histogram(Histogram),
}

/// What a metric shows at this moment.
pub(super) enum Shown {
    Nothing,
    Count(u64),
    Gauge(f64),
    Window(Summary),
}

// === impl Node ===

impl Node {
    pub(super) fn make<'a>(&mut self, path: impl Iterator<Item = &'a str>) -> &mut Self {
        path.fold(self, |node, scope| node.children.entry(scope.to_owned()).or_default())
    }

    pub(super) fn find<'a>(&self, mut path: impl Iterator<Item = &'a str>) -> Option<&Self> {
        path.try_fold(self, |node, scope| node.children.get(scope))
    }

    /// Visits this node and all below it, each with its scopes joined by `separator`.
    pub(super) fn visit(&self, name: &str, separator: char, see: &mut impl FnMut(&str, &Metric)) {
        see(name, &self.metric);
        for (scope, child) in &self.children {
            let below = if name.is_empty() { scope.clone() } else { format!("{name}{separator}{scope}") };
            child.visit(&below, separator, see);
        }
    }
}

// === impl Metric ===

impl Metric {
    pub(super) fn shown(&self) -> Shown {
        match self {
            Self::None => Shown::Nothing,
            Self::Counter(counter) => Shown::Count(counter.get()),
            Self::Level(level) => Shown::Gauge(level.get() as f64),
            Self::Gauge(read) => Shown::Gauge(read()),
            Self::Histogram(histogram) => histogram.last_window().map_or(Shown::Nothing, Shown::Window),
        }
    }
}

/// A name as Prometheus and InfluxDB take it.
pub(super) fn escaped(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || c == ':' { c } else { '_' }).collect()
}
