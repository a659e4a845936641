//! The admin server: health, metrics, state pages, log level.
//!
//! | path | what it says |
//! |---|---|
//! | `/admin/ping` | `pong`: the process lives |
//! | `/live` | the same for who expects it there |
//! | `/ready` | whether it can be asked: 200 or 503, and what is missing or lost |
//! | `/metrics` | rosterd's own metrics, Prometheus text |
//! | `/admin/metrics.json` | namerd's metrics; `tree`, `pretty`, `q` |
//! | paths of telemeters | namerd's metrics as Prometheus or InfluxDB text |
//! | `/admin/shutdown` | POST: drains and ends the process; `grace` |
//! | `/admin/drain` | POST: drains, and the process stays |
//! | `/admin`, `/admin/index.txt` | the paths there are |
//! | `/admin/server_info` | name, version, start |
//! | `/config.json` | the configuration, secrets masked |
//! | `/logging.json` | log levels; POST `logger`, `level` sets one |
//! | `/dtab/delegator.json` | how a path is looked up under the dtab of the request |
//! | `/namer_state/….json`, `/storage/….json` | state of namers and of the storage |
//! | `/admin/watches` | watches of routers, those that have stopped first; HTML or JSON |
//! | `/admin/watches/dtab.json` | who has the newest dtab of a `namespace`, at all replicas |
//! | `/admin/ledger/dtab` | the same, at this one, for peers |
//! | `/admin/ledger` | what peers of the watch ledger ask for; `since` |
//! | `/limits.json` | limits, their use, and what they refused |
//!
//! Answers are made from what is there already: none but the delegation, which takes two seconds at most, waits for a
//! backend, a storage or the work of the interfaces.

mod config;
mod grace;
mod pages;
mod routes;
mod security;
#[cfg(test)]
mod tests;
mod watches;

use std::sync::Arc;
use std::time::Duration;

pub use config::{AdminConfig, PathPattern, Security};
pub use pages::Pages;
pub use watches::LedgerAccess;

use crate::config::SocketOptions;
use crate::http1;
use crate::iface::NameReader;
use crate::interpreter::Interpreter;
use crate::ledger::{Ledger, Puller};
use crate::runtime::logs::LogControl;
use crate::runtime::{Connections, Drain, LimitCounts, Listener, Phase, Readiness, accept};
use crate::telemetry::{Metrics, Process, ServerStats, TelemeterConfig};
use routes::Routes;

/// Connections that the admin server takes unless told otherwise: its clients are few.
pub const MOST_CONNECTIONS: usize = 1_024;

/// A client that says nothing for so long is forgotten, so that forgotten clients do not use up the connections.
const IDLE: Duration = Duration::from_secs(600);

/// What the admin server shows and does.
pub struct AdminState {
    /// `/ready`
    pub readiness: Readiness,
    /// `/logging.json`
    pub logs: LogControl,
    /// Metrics, to be shown under both sets of names.
    pub metrics: Metrics,
    /// Where namerd's names are shown as text, too.
    pub telemeters: Vec<TelemeterConfig>,
    /// `/config.json`: the configuration as JSON, without secrets.
    pub config: serde_json::Value,
    /// `/admin/server_info`
    pub process: Process,
    /// State pages.
    pub pages: Pages,
    /// Who explains names for `/dtab/delegator.json`.
    pub interpreter: Arc<dyn Interpreter>,
    /// Reads the dtab and the path of such a request.
    pub names: NameReader,
    /// `/admin/watches`
    pub ledger: Ledger,
    /// The other replicas, if there are some.
    pub peers: Option<Puller>,
    /// Who may read `/admin/ledger`.
    pub ledger_access: LedgerAccess,
    /// `limits.bodyBytes`
    pub body_bytes: usize,
    /// What limits refused.
    pub limits: LimitCounts,
    /// Which paths are served; none = all.
    pub security: Option<Security>,
    /// `socketOptions`, for the timeouts.
    pub socket_options: SocketOptions,
    /// The connections of this server.
    pub connections: Arc<Connections>,
    /// The figures of this server: `adminhttp`.
    pub stats: ServerStats,
}

/// Serves until the drain is done: it is the last to go, so that its clients can watch. `/admin/shutdown` asks `drain`
/// for the drain.
pub async fn serve(listener: Listener, state: AdminState, drain: Drain) {
    let connections = state.connections.clone();
    let stats = state.stats.clone().over_tls(listener.has_tls());
    let mut server = http1::Server::new(state.body_bytes, stats, drain.clone(), Phase::Done);
    server.limits = state.limits.clone();
    server.read_timeout = Some(state.socket_options.read_timeout.unwrap_or(IDLE));
    server.write_timeout = state.socket_options.write_timeout;
    let (server, routes) = (Arc::new(server), Arc::new(Routes::new(state, drain.clone())));
    accept(listener, connections, &drain, Phase::Done, move |conn, peer| {
        http1::serve(conn, peer, routes.clone(), server.clone())
    })
    .await;
}
