//! What every interface serves from.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use prometheus_client::registry::Registry;

use super::http::HttpMetrics;
use crate::config::{Fixes, OwnLimits};
use crate::interpreter::Interpreter;
use crate::runtime::{Connections, Drain};
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
    /// Bounds on what clients may use.
    pub limits: OwnLimits,
    /// Which of namerd's quirks are mended.
    pub fixes: Fixes,
    /// Counts the connections of all interfaces against one limit.
    pub connections: Arc<Connections>,
    /// The way out.
    pub drain: Drain,
    /// Metrics under namerd's names.
    pub legacy: Legacy,
    /// Metrics under rosterd's own names.
    pub metrics: IfaceMetrics,
}

/// rosterd's own metrics of all interfaces.
#[derive(Clone, Debug)]
pub struct IfaceMetrics {
    /// Those of the HTTP controller.
    pub http: HttpMetrics,
}

// === impl IfaceMetrics ===

impl IfaceMetrics {
    /// Makes and registers them.
    pub fn register(registry: &mut Registry) -> Self {
        Self { http: HttpMetrics::register(registry) }
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").field("limits", &self.limits).finish_non_exhaustive()
    }
}
