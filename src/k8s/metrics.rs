//! rosterd's own metrics of what is asked of Kubernetes.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use super::{ApiServers, ServerFigures};

/// Counts requests and streams. Cloning shares the counts.
#[derive(Clone, Debug, Default)]
pub struct ApiMetrics {
    ended: Family<Ended, Counter>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Ended {
    server: String,
    reason: &'static str,
}

/// The watches of each server, read when somebody looks.
#[derive(Debug)]
struct Watches(ApiServers);

// === impl ApiMetrics ===

impl ApiMetrics {
    /// Registers them, and the figures of `servers`.
    pub fn register(servers: &ApiServers, registry: &mut Registry) {
        let help = "Lists and watch streams of Kubernetes by how they ended";
        registry.register("kubernetes_requests_ended", help, servers.metrics().ended.clone());
        registry.register_collector(Box::new(Watches(servers.clone())));
    }

    pub(super) fn ended(&self, server: &str, reason: &'static str) {
        self.ended.get_or_create(&Ended { server: server.to_owned(), reason }).inc();
    }
}

// === impl Watches ===

impl Collector for Watches {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let servers = self.0.figures();
        let mut gauges = |name: &str, help: &str, value: &dyn Fn(&ServerFigures) -> f64| {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for figures in &servers {
                let labels = [("server", figures.server.as_str())];
                ConstGauge::new(value(figures)).encode(metric.encode_family(&labels)?)?;
            }
            Ok(())
        };
        gauges("kubernetes_watches", "Watches of a Kubernetes API server", &|server| server.watches as f64)?;
        gauges("kubernetes_streams_open", "Streams open at it", &|server| server.open as f64)?;
        gauges("kubernetes_streams_limit", "Streams that may be", &|server| server.limit as f64)?;
        let help = "Time since the last sign of the watch that has gone without for longest";
        gauges("kubernetes_watch_age_seconds", help, &|server| server.oldest.as_secs_f64())
    }
}
