//! rosterd's own metrics of what is asked of Consul.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use super::Agents;

/// Counts requests. Cloning shares the counts.
#[derive(Clone, Debug, Default)]
pub struct ConsulMetrics {
    ended: Family<Ended, Counter>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Ended {
    agent: String,
    reason: &'static str,
}

/// The watches of each agent, read when somebody looks.
#[derive(Debug)]
struct Watches(Agents);

// === impl ConsulMetrics ===

impl ConsulMetrics {
    /// Registers them, and the figures of `agents`.
    pub fn register(agents: &Agents, registry: &mut Registry) {
        let help = "Requests of Consul watches by how they ended";
        registry.register("consul_requests_ended", help, agents.metrics().ended.clone());
        registry.register_collector(Box::new(Watches(agents.clone())));
    }

    pub(super) fn ended(&self, agent: &str, reason: &'static str) {
        self.ended.get_or_create(&Ended { agent: agent.to_owned(), reason }).inc();
    }
}

// === impl Watches ===

impl Collector for Watches {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let agents = self.0.figures();
        let mut gauges = |name: &str, help: &str, value: &dyn Fn(&super::AgentFigures) -> f64| {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for figures in &agents {
                let labels = [("agent", figures.agent.as_str())];
                ConstGauge::new(value(figures)).encode(metric.encode_family(&labels)?)?;
            }
            Ok(())
        };
        gauges("consul_watches", "Watches of a Consul agent", &|agent| agent.watches as f64)?;
        gauges("consul_polls_open", "Long polls open at it", &|agent| agent.open as f64)?;
        gauges("consul_polls_limit", "Long polls that may be (maxPolls)", &|agent| agent.limit as f64)?;
        let help = "Time since the last good answer of the watch that has gone without for longest";
        gauges("consul_watch_age_seconds", help, &|agent| agent.oldest.as_secs_f64())
    }
}
