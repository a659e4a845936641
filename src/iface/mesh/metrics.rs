//! What is counted about the mesh interface, under rosterd's own names.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::method::Method;

/// Figures of the mesh interface. All its interfaces share them.
#[derive(Clone, Debug)]
pub struct MeshMetrics {
    streams: Family<ByMethod, Gauge>,
    messages: Family<ByMethod, Counter>,
    answers: Family<Answer, Counter>,
    stalled: Counter,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByMethod {
    method: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answer {
    method: &'static str,
    status: u8,
}

/// An open stream: counted until it is dropped.
#[derive(Debug)]
pub(super) struct OpenStream(Gauge);

// === impl MeshMetrics ===

impl MeshMetrics {
    /// Makes and registers them.
    pub fn register(registry: &mut Registry) -> Self {
        let this = Self {
            streams: Family::default(),
            messages: Family::default(),
            answers: Family::default(),
            stalled: Counter::default(),
        };
        // Counters that are not there before the first event cannot be compared with what they were.
        for method in Method::ALL {
            drop(this.stream(method));
            drop(this.messages.get_or_create(&ByMethod { method: method.name() }));
        }
        let mesh = registry.sub_registry_with_prefix("mesh");
        mesh.register("open_streams", "Watches that are open now, by method", this.streams.clone());
        mesh.register("messages", "Messages sent, by method", this.messages.clone());
        mesh.register("answers", "Calls that have ended, by method and gRPC status", this.answers.clone());
        mesh.register(
            "stalled_streams",
            "Streams reset because the client had no room for a value within stallTimeoutMs",
            this.stalled.clone(),
        );
        this
    }

    pub(super) fn stream(&self, method: Method) -> OpenStream {
        let open = self.streams.get_or_create(&ByMethod { method: method.name() }).clone();
        open.inc();
        OpenStream(open)
    }

    pub(super) fn message(&self, method: Method) {
        self.messages.get_or_create(&ByMethod { method: method.name() }).inc();
    }

    pub(super) fn ended(&self, method: Option<Method>, status: u8) {
        let method = method.map_or("unknown", Method::name);
        self.answers.get_or_create(&Answer { method, status }).inc();
    }

    pub(super) fn stalled(&self) {
        self.stalled.inc();
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.dec();
    }
}
