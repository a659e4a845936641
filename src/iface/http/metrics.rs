//! What is counted about the HTTP controller.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// The endpoints that have watches.
const STREAMS: [&str; 6] = ["dtabs", "dtab", "bind", "addr", "resolve", "bound-names"];

/// Figures of the HTTP controller, by endpoint. All its interfaces share them.
#[derive(Clone, Debug)]
pub struct HttpMetrics {
    requests: Family<Answer, Counter>,
    streams: Family<Endpoint, Gauge>,
    lines: Family<Endpoint, Counter>,
    failures: Family<Endpoint, Counter>,
    ready: Counter,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answer {
    endpoint: &'static str,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Endpoint {
    endpoint: &'static str,
}

/// An open watch: counted until it is dropped.
#[derive(Debug)]
pub(super) struct OpenStream {
    open: Gauge,
    lines: Counter,
    failures: Counter,
}

// === impl HttpMetrics ===

impl HttpMetrics {
    /// Makes and registers them.
    pub fn register(registry: &mut Registry) -> Self {
        let this = Self {
            requests: Family::default(),
            streams: Family::default(),
            lines: Family::default(),
            failures: Family::default(),
            ready: Counter::default(),
        };
        // Counters that are not there before the first event cannot be compared with what they were.
        for endpoint in STREAMS {
            drop(this.stream(endpoint));
        }
        let http = registry.sub_registry_with_prefix("http");
        http.register("requests", "Requests to the HTTP controller by endpoint and status", this.requests.clone());
        http.register("open_streams", "Watches that are open now", this.streams.clone());
        http.register("stream_lines", "Values sent to watches", this.lines.clone());
        http.register(
            "stream_failures",
            "Failed evaluations that watches did not show: they keep the last good value",
            this.failures.clone(),
        );
        http.register("ready_answers", "Requests answered with bytes that were there already", this.ready.clone());
        this
    }

    pub(super) fn answered(&self, endpoint: &'static str, status: u16) {
        self.requests.get_or_create(&Answer { endpoint, status }).inc();
    }

    /// The counter of good answers of an endpoint, for those who count often.
    pub(super) fn good(&self, endpoint: &'static str) -> Counter {
        self.requests.get_or_create(&Answer { endpoint, status: 200 }).clone()
    }

    pub(super) fn answered_from_memory(&self, good: &Counter) {
        good.inc();
        self.ready.inc();
    }

    pub(super) fn stream(&self, endpoint: &'static str) -> OpenStream {
        let endpoint = Endpoint { endpoint };
        let open = self.streams.get_or_create(&endpoint).clone();
        open.inc();
        let lines = self.lines.get_or_create(&endpoint).clone();
        OpenStream { open, lines, failures: self.failures.get_or_create(&endpoint).clone() }
    }
}

// === impl OpenStream ===

impl OpenStream {
    pub(super) fn line(&self) {
        self.lines.inc();
    }

    pub(super) fn failed(&self, reason: &str) {
        tracing::debug!(reason, "a watch keeps its last value: the evaluation failed");
        self.failures.inc();
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.open.dec();
    }
}
