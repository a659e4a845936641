//! Telemetry: metrics and their exporters.
//!
//! There are two sets of names. [`Legacy`] is namerd's tree, for dashboards that exist; [`prometheus_client`]'s registry
//! holds rosterd's own names, with types, help and labels, served at `/metrics`.
//!
//! A part's own metrics are a struct that registers itself and is handed to whoever counts:
//!
//! ```
//! use prometheus_client::encoding::EncodeLabelSet;
//! use prometheus_client::metrics::{counter::Counter, family::Family};
//! use prometheus_client::registry::Registry;
//!
//! #[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
//! struct Ended {
//!     reason: &'static str,
//! }
//!
//! #[derive(Clone)]
//! struct WatchMetrics {
//!     ended: Family<Ended, Counter>,
//! }
//!
//! impl WatchMetrics {
//!     /// `registry` adds the prefix of the program.
//!     fn register(registry: &mut Registry) -> Self {
//!         let ended = Family::default();
//!         registry.register("watches_ended", "Watches that ended", ended.clone());
//!         Self { ended }
//!     }
//! }
//! # let mut registry = Registry::default();
//! # WatchMetrics::register(&mut registry).ended.get_or_create(&Ended { reason: "client" }).inc();
//! ```
//!
//! Figures that are kept anyway (tables, connections, the process) are read by collectors when somebody looks.

mod collect;
mod config;
mod legacy;
mod metrics;
mod process;
mod server;
mod var_state;

pub use collect::{
    ConnectionCounts, Evaluations, KeptFiles, LimitFigures, ReadinessState, StaleValues, Tables, TlsFigures,
};
pub use config::{KINDS, PrometheusConfig, TelemeterBlock, TelemeterConfig};
pub use legacy::{Counter, Histogram, JsonQuery, Legacy, Level, LevelGuard, LevelShare, NoSuchSubtree, Scope, Summary};
pub use metrics::{Metrics, MetricsSetup, OWN_CONTENT_TYPE};
pub use process::Process;
pub use server::{Connected, ServerStats, Traffic};
pub use var_state::VarState;
