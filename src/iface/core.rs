//! What every interface serves from.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::registry::Registry;

use super::NameReader;
use super::http::HttpMetrics;
use super::mesh::MeshMetrics;
use super::thrift::ThriftMetrics;
use crate::config::Fixes;
use crate::interpreter::Interpreter;
use crate::ledger::Ledger;
use crate::runtime::{Connections, Drain, LimitCounts, RateLimit};
use crate::storage::Storage;
use crate::telemetry::Legacy;

/// A server that runs until the drain ends it.
pub type Serving = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The parts of the process that interfaces use. Cloning shares them.
#[derive(Clone)]
pub struct Core {
    /// Answers names.
    pub interpreter: Arc<dyn Interpreter>,
    /// Keeps dtabs.
    pub storage: Arc<dyn Storage>,
    /// Reads names in requests, under the limits of the configuration.
    pub names: NameReader,
    /// `limits.bodyBytes`
    pub body_bytes: usize,
    /// Bounds the requests of each client, over all interfaces; none = any number.
    pub rate: Option<Arc<RateLimit>>,
    /// What limits refused.
    pub limits: LimitCounts,
    /// Which of namerd's quirks are mended.
    pub fixes: Fixes,
    /// How sessions that last are treated.
    pub sessions: Sessions,
    /// Counts the connections of all interfaces against one limit.
    pub connections: Arc<Connections>,
    /// The way out.
    pub drain: Drain,
    /// Which watches have stopped.
    pub ledger: Ledger,
    /// Metrics under namerd's names.
    pub legacy: Legacy,
    /// Metrics under rosterd's own names.
    pub metrics: IfaceMetrics,
}

/// How sessions that last for days are treated.
#[derive(Clone, Debug)]
pub struct Sessions {
    /// `maxPollAgeMs`
    pub max_poll_age: Duration,
    /// `limits.watchesPerConnection`
    pub watches: usize,
    /// `drain.spreadMs`
    pub spread: Duration,
    /// `drain.pingSilence`
    pub ping_silence: bool,
}

/// rosterd's own metrics of all interfaces.
#[derive(Clone, Debug)]
pub struct IfaceMetrics {
    /// Those of the HTTP controller.
    pub http: HttpMetrics,
    /// Those of the mesh interface.
    pub mesh: MeshMetrics,
    /// Those of the thrift interface.
    pub thrift: ThriftMetrics,
}

// === impl IfaceMetrics ===

impl IfaceMetrics {
    /// Makes and registers them.
    pub fn register(registry: &mut Registry) -> Self {
        Self {
            http: HttpMetrics::register(registry),
            mesh: MeshMetrics::register(registry),
            thrift: ThriftMetrics::register(registry),
        }
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").field("names", &self.names).finish_non_exhaustive()
    }
}
