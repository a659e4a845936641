//! Figures that the program keeps anyway, read when somebody looks.

use std::fmt;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, EncodeLabelSet, EncodeMetric, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::runtime::{Connections, Limit, LimitCounts, Readiness, ReadyState, StateDir, tls};
use crate::store::{Evaluators, Staleness, Usage};

/// Says how full a table is. Must not block.
type ReadUsage = Box<dyn Fn() -> Usage + Send + Sync>;

/// Tables by name: how full they are.
#[derive(Default)]
pub struct Tables {
    list: Vec<(&'static str, ReadUsage)>,
}

/// Connections by server.
#[derive(Debug, Default)]
pub struct ConnectionCounts {
    list: Vec<(&'static str, Arc<Connections>)>,
}

/// Says how much is stale. Must not block.
type ReadStaleness = Box<dyn Fn() -> Staleness + Send + Sync>;

/// Sources by name: how many of their values are the last good ones.
#[derive(Default)]
pub struct StaleValues {
    list: Vec<(String, ReadStaleness)>,
}

/// What limits on single requests are set to, and how often each refused something.
#[derive(Debug)]
pub struct LimitFigures {
    set: Vec<(Limit, u64)>,
    counts: LimitCounts,
}

/// Handshakes and certificates of servers.
#[derive(Debug)]
pub struct TlsFigures(pub Vec<Arc<tls::Server>>);

/// Files in `stateDir`, and how their writes go.
#[derive(Debug)]
pub struct KeptFiles(pub StateDir);

/// Formulas that were run.
#[derive(Debug)]
pub struct Evaluations(pub Evaluators);

/// Readiness, as `/ready` shows it.
#[derive(Debug)]
pub struct ReadinessState(pub Readiness);

/// One gauge without labels.
pub(super) fn gauge(to: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: f64) -> fmt::Result {
    let gauge = ConstGauge::new(value);
    gauge.encode(to.encode_descriptor(name, help, None, MetricType::Gauge)?)
}

/// One counter without labels; `_total` is added to its name.
pub(super) fn counter<V: EncodeCounterValue>(
    to: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    value: V,
) -> fmt::Result {
    let mut metric = to.encode_descriptor(name, help, None, MetricType::Counter)?;
    metric.encode_counter::<NoLabelSet, _, u64>(&value, None)
}

fn gauges<L: EncodeLabelSet, V: EncodeGaugeValue>(
    to: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    rows: impl Iterator<Item = (L, V)>,
) -> fmt::Result {
    let mut metric = to.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, value) in rows {
        metric.encode_family(&labels)?.encode_gauge(&value)?;
    }
    Ok(())
}

fn counters<L: EncodeLabelSet>(
    to: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    rows: impl Iterator<Item = (L, u64)>,
) -> fmt::Result {
    let mut metric = to.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (labels, value) in rows {
        ConstCounter::new(value).encode(metric.encode_family(&labels)?)?;
    }
    Ok(())
}

// === impl Tables ===

impl Tables {
    /// Adds a table; `usage` must not block.
    #[must_use]
    pub fn with(mut self, name: &'static str, usage: impl Fn() -> Usage + Send + Sync + 'static) -> Self {
        self.list.push((name, Box::new(usage)));
        self
    }
}

impl fmt::Debug for Tables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.list.iter().map(|(name, _)| name)).finish()
    }
}

impl Collector for Tables {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let to = &mut encoder;
        let usages: Vec<([(&str, &str); 1], Usage)> =
            self.list.iter().map(|(name, usage)| ([("table", *name)], usage())).collect();
        let rows = |figure: fn(&Usage) -> u64| usages.iter().map(move |(labels, usage)| (*labels, figure(usage)));
        gauges(to, "table_entries", "Entries in a table", rows(|usage| usage.len as u64))?;
        let in_use = rows(|usage| usage.in_use as u64);
        gauges(to, "table_entries_in_use", "Entries of a table that somebody watches", in_use)?;
        gauges(to, "table_budget", "Entries that a table may have", rows(|usage| usage.budget as u64))?;
        counters(to, "table_refused", "Look-ups refused because a table was full", rows(|usage| usage.refused))
    }
}

// === impl ConnectionCounts ===

impl ConnectionCounts {
    /// Adds the connections of a server, or of several under one limit.
    #[must_use]
    pub fn with(mut self, server: &'static str, connections: Arc<Connections>) -> Self {
        self.list.push((server, connections));
        self
    }
}

impl Collector for ConnectionCounts {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let to = &mut encoder;
        let rows = |figure: fn(&Connections) -> usize| {
            self.list.iter().map(move |(server, connections)| ([("server", *server)], figure(connections) as u64))
        };
        gauges(to, "connections_open", "Open connections", rows(Connections::open))?;
        gauges(to, "connections_limit", "Connections that may be open", rows(Connections::limit))?;
        let refused = self.list.iter().flat_map(|(server, connections)| {
            let refusals = connections.refusals();
            [("limit", refusals.over_limit), ("descriptors", refusals.no_descriptor)]
                .map(|(reason, count)| ([("server", *server), ("reason", reason)], count))
        });
        counters(to, "connections_refused", "Connections accepted and closed at once", refused)
    }
}

// === impl StaleValues ===

impl StaleValues {
    /// Adds a source; `staleness` must not block.
    pub fn add(&mut self, source: String, staleness: impl Fn() -> Staleness + Send + Sync + 'static) {
        self.list.push((source, Box::new(staleness)));
    }
}

impl fmt::Debug for StaleValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.list.iter().map(|(source, _)| source)).finish()
    }
}

impl Collector for StaleValues {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let to = &mut encoder;
        let read: Vec<([(&str, &str); 1], Staleness)> =
            self.list.iter().map(|(source, read)| ([("source", source.as_str())], read())).collect();
        let counts = read.iter().map(|(labels, stale)| (*labels, stale.count as u64));
        gauges(to, "stale_values", "Values kept although their source fails", counts)?;
        let ages = read
            .iter()
            .map(|(labels, stale)| (*labels, stale.since.map_or(0.0, |since| since.elapsed().as_secs_f64())));
        gauges(to, "stale_seconds", "How long the oldest of them has been stale", ages)
    }
}

// === impl LimitFigures ===

impl LimitFigures {
    /// Shows the limits that are `set`.
    pub fn new(set: Vec<(Limit, u64)>, counts: LimitCounts) -> Self {
        Self { set, counts }
    }
}

impl Collector for LimitFigures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let to = &mut encoder;
        let rows = |figure: &dyn Fn(Limit, u64) -> u64| -> Vec<_> {
            self.set.iter().map(|(limit, value)| ([("limit", limit.to_string())], figure(*limit, *value))).collect()
        };
        gauges(
            to,
            "limit",
            "Limits on single requests, by the key that sets them",
            rows(&|_, value| value).into_iter(),
        )?;
        let refused = rows(&|limit, _| self.counts.count(limit));
        counters(to, "limit_refused", "What was refused because it exceeded a limit", refused.into_iter())
    }
}

// === impl TlsFigures ===

impl Collector for TlsFigures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        let to = &mut encoder;
        let done = self.0.iter().map(|server| ([("server", server.key())], server.done()));
        counters(to, "tls_handshakes", "TLS handshakes that were finished", done)?;
        let failed = self.0.iter().flat_map(|server| {
            tls::Reason::ALL
                .map(|reason| ([("server", server.key()), ("reason", reason.label())], server.failed(reason)))
        });
        counters(to, "tls_handshake_failures", "TLS handshakes that failed", failed)?;
        let not_after = self.0.iter().map(|server| ([("server", server.key())], server.not_after()));
        let help = "Until when the certificate is valid, in seconds since 1970";
        gauges(to, "tls_certificate_not_after_seconds", help, not_after)?;
        let renewals = self.0.iter().flat_map(|server| {
            let renewals = server.renewals();
            [("used", renewals.used), ("refused", renewals.refused)]
                .map(|(outcome, count)| ([("server", server.key()), ("outcome", outcome)], count))
        });
        counters(to, "tls_renewals", "Changed files of certificates and keys that were found", renewals)
    }
}

// === impl KeptFiles ===

impl Collector for KeptFiles {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let to = &mut encoder;
        let files = self.0.files();
        let written = files.iter().map(|file| {
            let since = file.written.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
            ([("file", file.name)], since.map_or(0.0, |since| since.as_secs_f64().floor()))
        });
        let help = "When a file in stateDir was last written, in seconds since 1970; 0 = not by this process";
        gauges(to, "state_file_written_seconds", help, written)?;
        let failing = files.iter().map(|file| ([("file", file.name)], u64::from(file.failing.is_some())));
        gauges(to, "state_file_failing", "1 while a file in stateDir cannot be written", failing)?;
        let failures = files.iter().map(|file| ([("file", file.name)], file.failures));
        counters(to, "state_file_write_failures", "Writes of a file in stateDir that failed", failures)
    }
}

// === impl Evaluations ===

impl Collector for Evaluations {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (runs, panics) = self.0.counts();
        counter(&mut encoder, "evaluations", "Formulas run", runs)?;
        counter(&mut encoder, "evaluation_panics", "Formulas that panicked; each is a defect", panics)
    }
}

// === impl ReadinessState ===

impl Collector for ReadinessState {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (ready, missing, lost) = match self.0.state() {
            ReadyState::Ready(lost) => (1, 0, lost.len()),
            ReadyState::Starting(missing) => (0, missing.len(), 0),
            ReadyState::Draining => (0, 0, 0),
        };
        let to = &mut encoder;
        gauge(to, "ready", "1 when ready, as /ready says", f64::from(ready))?;
        gauge(to, "missing", "Things that are waited for before it is ready", missing as f64)?;
        gauge(to, "degraded", "Things that have been lost since it was ready", lost as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Legacy, MetricsSetup};
    use super::*;

    fn shown(collector: impl Collector) -> Vec<String> {
        let mut setup = MetricsSetup::new(Legacy::default());
        setup.own.register_collector(Box::new(collector));
        setup.finish().own_text().lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
    }

    #[tokio::test]
    async fn tables_show_how_full_they_are() {
        let tables = Tables::default()
            .with("bindings", || Usage { len: 3, in_use: 2, budget: 10, refused: 1 })
            .with("address sets", || Usage { len: 0, in_use: 0, budget: 20, refused: 0 });
        assert_eq!(
            shown(tables),
            [
                "rosterd_table_entries{table=\"bindings\"} 3",
                "rosterd_table_entries{table=\"address sets\"} 0",
                "rosterd_table_entries_in_use{table=\"bindings\"} 2",
                "rosterd_table_entries_in_use{table=\"address sets\"} 0",
                "rosterd_table_budget{table=\"bindings\"} 10",
                "rosterd_table_budget{table=\"address sets\"} 20",
                "rosterd_table_refused_total{table=\"bindings\"} 1",
                "rosterd_table_refused_total{table=\"address sets\"} 0",
            ]
        );
    }

    #[tokio::test]
    async fn connections_are_shown_with_their_limit_and_refusals_with_the_reason() {
        let connections = ConnectionCounts::default().with("admin", Connections::new(1_024));
        assert_eq!(
            shown(connections),
            [
                "rosterd_connections_open{server=\"admin\"} 0",
                "rosterd_connections_limit{server=\"admin\"} 1024",
                "rosterd_connections_refused_total{server=\"admin\",reason=\"limit\"} 0",
                "rosterd_connections_refused_total{server=\"admin\",reason=\"descriptors\"} 0",
            ]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn stale_values_are_shown_by_source_with_the_age_of_the_oldest() {
        let mut stale = StaleValues::default();
        let since = tokio::time::Instant::now();
        stale.add("/#/io.l5d.fs".to_owned(), move || Staleness { count: 2, since: Some(since) });
        stale.add("DNS".to_owned(), Staleness::default);
        tokio::time::advance(std::time::Duration::from_secs(7)).await;
        assert_eq!(
            shown(stale),
            [
                "rosterd_stale_values{source=\"/#/io.l5d.fs\"} 2",
                "rosterd_stale_values{source=\"DNS\"} 0",
                "rosterd_stale_seconds{source=\"/#/io.l5d.fs\"} 7.0",
                "rosterd_stale_seconds{source=\"DNS\"} 0.0",
            ]
        );
    }

    #[tokio::test]
    async fn limits_are_shown_with_what_they_refused() {
        let counts = LimitCounts::default();
        counts.refused(Limit::BodyBytes);
        assert_eq!(
            shown(LimitFigures::new(vec![(Limit::BodyBytes, 1_024)], counts)),
            [
                "rosterd_limit{limit=\"limits.bodyBytes\"} 1024",
                "rosterd_limit_refused_total{limit=\"limits.bodyBytes\"} 1",
            ]
        );
    }

    #[tokio::test]
    async fn readiness_says_how_much_is_missing_or_lost() {
        let readiness = Readiness::new();
        let pending = readiness.pending("storage");
        let state = || shown(ReadinessState(readiness.clone()));
        assert_eq!(state(), ["rosterd_ready 0.0", "rosterd_missing 1.0", "rosterd_degraded 0.0"]);
        drop(pending);
        readiness.watch("storage", || Some("connection refused".to_owned()));
        assert_eq!(state(), ["rosterd_ready 1.0", "rosterd_missing 0.0", "rosterd_degraded 1.0"]);
        readiness.off();
        assert_eq!(state(), ["rosterd_ready 0.0", "rosterd_missing 0.0", "rosterd_degraded 0.0"]);
    }

    #[tokio::test]
    async fn files_in_the_state_directory_show_how_their_writes_go() {
        let folder = tempfile::tempdir().expect("a folder");
        let state = StateDir::open(folder.path());
        let file = state.file("x", "the x");
        file.told(&Ok(()));
        file.told(&Err(std::io::ErrorKind::StorageFull.into()));
        let shown = shown(KeptFiles(state));
        let (written, rest) = shown.split_first().expect("figures");
        let written = written.strip_prefix("rosterd_state_file_written_seconds{file=\"x\"} ").expect("the time");
        assert!(written.parse::<f64>().expect("a number") > 1.7e9, "{written}");
        let expected =
            ["rosterd_state_file_failing{file=\"x\"} 1", "rosterd_state_file_write_failures_total{file=\"x\"} 1"];
        assert_eq!(rest, expected);
    }

    #[tokio::test]
    async fn evaluations_are_counted() {
        let shown = shown(Evaluations(Evaluators::start(1)));
        assert_eq!(shown, ["rosterd_evaluations_total 0", "rosterd_evaluation_panics_total 0"]);
    }
}
