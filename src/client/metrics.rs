//! Metrics of what is followed at other name servers.

use std::fmt;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use super::upstream::{Figures, Shared};
use super::{Ask, Reason, Upstream};

/// The outcome of a connection that was made.
const OK: &str = "ok";

/// Counts what the client does. Cloning shares the counts.
#[derive(Clone, Default)]
pub struct ClientMetrics {
    ended: Family<Ended, Counter>,
    answers: Family<Answered, Counter>,
    connections: Family<Connected, Counter>,
    upstreams: Arc<Mutex<Vec<Weak<Shared>>>>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Ended {
    upstream: Arc<str>,
    reason: Reason,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Answered {
    upstream: Arc<str>,
    ask: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Connected {
    upstream: Arc<str>,
    outcome: &'static str,
}

/// What upstreams know of their watches and servers, read when somebody looks.
#[derive(Debug)]
struct Watches(ClientMetrics);

// === impl ClientMetrics ===

impl ClientMetrics {
    /// Registers them.
    pub fn register(&self, registry: &mut Registry) {
        let help = "Attempts to follow something at another name server that ended, by reason";
        registry.register("client_attempts_ended", help, self.ended.clone());
        registry.register("client_answers", "Good answers of other name servers", self.answers.clone());
        let help = "Connections to other name servers that were made, or not";
        registry.register("client_connections", help, self.connections.clone());
        registry.register_collector(Box::new(Watches(self.clone())));
    }

    /// Shows the watches and servers of `upstream` too.
    pub fn show(&self, upstream: &Upstream) {
        self.upstreams.lock().push(upstream.downgrade());
        let upstream = upstream.name();
        // Counters that are not there before the first event cannot be compared with what they were.
        for reason in Reason::ALL {
            drop(self.ended.get_or_create(&Ended { upstream: upstream.clone(), reason }));
        }
        drop(self.connections.get_or_create(&Connected { upstream: upstream.clone(), outcome: OK }));
    }

    fn shown(&self) -> Vec<Arc<Shared>> {
        let mut upstreams = self.upstreams.lock();
        upstreams.retain(|upstream| upstream.strong_count() > 0);
        upstreams.iter().filter_map(Weak::upgrade).collect()
    }

    pub(super) fn ended(&self, upstream: &Arc<str>, reason: Reason) {
        self.ended.get_or_create(&Ended { upstream: upstream.clone(), reason }).inc();
    }

    pub(super) fn answered(&self, upstream: &Arc<str>, ask: &Ask) {
        self.answers.get_or_create(&Answered { upstream: upstream.clone(), ask: ask.kind() }).inc();
    }

    /// A connection was made, or why not.
    pub(super) fn connected(&self, upstream: &Arc<str>, failed: Option<Reason>) {
        let outcome = failed.map_or(OK, Reason::word);
        self.connections.get_or_create(&Connected { upstream: upstream.clone(), outcome }).inc();
    }

    /// How many attempts ended for this reason, over all upstreams.
    pub fn ends(&self, upstream: &Upstream, reason: Reason) -> u64 {
        self.ended.get_or_create(&Ended { upstream: upstream.name().clone(), reason }).get()
    }
}

impl fmt::Debug for ClientMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientMetrics").finish_non_exhaustive()
    }
}

/// What is read of an upstream's figures, after the word for it.
type Value = (&'static str, fn(&Figures) -> f64);

// === impl Watches ===

impl Collector for Watches {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let read: Vec<(Arc<str>, Figures)> =
            self.0.shown().iter().map(|upstream| (upstream.name.clone(), upstream.figures())).collect();
        let mut gauges = |name: &str, help: &str, label: &str, values: &[Value]| {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (upstream, figures) in &read {
                for (word, value) in values {
                    let labels = [("upstream", &**upstream), (label, *word)];
                    let labels = if label.is_empty() { &labels[..1] } else { &labels[..] };
                    ConstGauge::new(value(figures)).encode(metric.encode_family(&labels)?)?;
                }
            }
            Ok(())
        };
        gauges(
            "client_watches",
            "Watches of another name server, by how they fare",
            "condition",
            &[
                ("waiting", |figures| figures.waiting as f64),
                ("current", |figures| figures.current as f64),
                ("stale", |figures| figures.stale.count as f64),
            ],
        )?;
        gauges(
            "client_stale_seconds",
            "How long the oldest stale watch has been so",
            "",
            &[("", |figures| figures.stale.since.map_or(0.0, |since| since.elapsed().as_secs_f64()))],
        )?;
        gauges(
            "client_servers",
            "Known addresses of another name server",
            "state",
            &[
                ("usable", |figures| figures.usable as f64),
                ("avoided", |figures| figures.avoided as f64),
                ("draining", |figures| figures.draining as f64),
            ],
        )
    }
}
