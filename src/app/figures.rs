//! What the process shows about its parts: metrics, and what `/ready` calls degraded.

use std::sync::Arc;
use std::time::SystemTime;

use super::Parts;
use super::limits::Limits;
use crate::consul::ConsulMetrics;
use crate::k8s::ApiMetrics;
use crate::runtime::{Connections, Readiness, tls};
use crate::store::{Staleness, Usage};
use crate::telemetry::{
    ConnectionCounts, Evaluations, KeptFiles, MetricsSetup, ReadinessState, StaleValues, Tables, TlsFigures,
};
use crate::text::calendar;

/// Registers the figures of the parts.
pub(super) fn register(
    metrics: &mut MetricsSetup,
    parts: &Parts,
    readiness: &Readiness,
    limits: &Limits,
    admin: &Arc<Connections>,
) {
    let usage: Arc<dyn Fn() -> (Usage, Usage) + Send + Sync> = match &parts.relay {
        Some((_, relay)) => {
            let remote = relay.interpreter.clone();
            Arc::new(move || remote.usage())
        }
        None => {
            let local = parts.local.clone();
            Arc::new(move || local.usage())
        }
    };
    let addresses = usage.clone();
    let tables = Tables::default().with("bindings", move || usage().0).with("address sets", move || addresses().1);
    let interfaces = limits.connections.clone();
    let connections = ConnectionCounts::default().with("interfaces", interfaces).with("admin", admin.clone());
    metrics.own.register_collector(Box::new(tables));
    ConsulMetrics::register(&parts.agents, &mut metrics.own);
    ApiMetrics::register(&parts.servers, &mut metrics.own);
    parts.client.register(&mut metrics.own);
    metrics.own.register_collector(Box::new(Evaluations(parts.evaluators.clone())));
    metrics.own.register_collector(Box::new(ReadinessState(readiness.clone())));
    metrics.own.register_collector(Box::new(limits.figures()));
    metrics.own.register_collector(Box::new(connections));
    metrics.own.register_collector(Box::new(stale_values(parts, readiness)));
    if let Some(state_dir) = parts.state_dir.clone() {
        metrics.own.register_collector(Box::new(KeptFiles(state_dir.clone())));
        readiness.watch("stateDir", move || state_dir.degradation());
    }
}

/// Registers the figures of what has TLS. A certificate that is not as it should be degrades readiness.
pub(super) fn register_tls(metrics: &mut MetricsSetup, readiness: &Readiness, servers: &[Arc<tls::Server>]) {
    for server in servers {
        let probed = server.clone();
        readiness.watch(format!("TLS of {}", server.key()), move || probed.degradation());
    }
    metrics.own.register_collector(Box::new(TlsFigures(servers.to_vec())));
}

/// The sources whose values can go stale. What is stale degrades readiness, and never takes it away.
fn stale_values(parts: &Parts, readiness: &Readiness) -> StaleValues {
    let mut values = StaleValues::default();
    let mut source = |name: String, read: Arc<dyn Fn() -> Staleness + Send + Sync>| {
        let probe = read.clone();
        readiness.watch(name.clone(), move || degradation(probe()));
        values.add(name, move || read());
    };
    let namers = parts.local.namers();
    for (_, configured) in namers.iter() {
        let namer = configured.namer.clone();
        source(configured.prefix.to_string(), Arc::new(move || namer.staleness()));
    }
    let hosts = namers.hosts().clone();
    match &parts.relay {
        // The storage of a relay is one of them.
        Some((_, relay)) => {
            for upstream in relay.upstreams.clone() {
                let (name, probed) = (upstream.name().to_string(), upstream.clone());
                source(name.clone(), Arc::new(move || upstream.staleness()));
                readiness.watch(name, move || probed.degradation()); // which says more
            }
        }
        None => {
            let storage = parts.storage.clone();
            source("storage".to_owned(), Arc::new(move || storage.staleness()));
        }
    }
    source("DNS".to_owned(), Arc::new(move || hosts.staleness()));
    values
}

fn degradation(Staleness { count, since }: Staleness) -> Option<String> {
    let since = calendar::java(SystemTime::now() - since?.elapsed());
    Some(format!("stale since {since} (values: {count})"))
}
