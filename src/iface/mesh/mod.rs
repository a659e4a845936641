//! `io.l5d.mesh`: names over gRPC.
//!
//! A router keeps one HTTP/2 connection, with a stream for each name and each address set on it, which may be open for
//! weeks. A [`session`] is one connection and one task. Its calls are small futures of that task, so that all that change
//! in one turn leave in one write, and each stream holds only its newest value: what a client has no room for is
//! replaced, not queued.
//!
//! gRPC is a thin layer over HTTP/2 (five octets before each message, the status in trailers), which is [`frames`]; that
//! leaves the windows of the streams in sight. What a client has had no room for during `stallTimeoutMs` resets its
//! stream, and the client opens another one with a fresh window; a framework that owns the streams cannot do that.
//!
//! Answers are namerd's, byte for byte, except where `docs/differences.md` says otherwise.

mod ask;
mod authority;
mod config;
mod frames;
mod method;
mod metrics;
mod session;
mod watching;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

pub use config::MeshConfig;
pub use metrics::MeshMetrics;

use self::watching::Encoded;
use super::{Core, NameReader, Serving};
use crate::interpreter::Interpreter;
use crate::runtime::{self, Drain, Limit, LimitCounts, Listener, Phase, RateLimit};
use crate::store::Client;
use crate::telemetry::ServerStats;

/// So many requests of more than the first window may be in memory at a time.
const LARGE: usize = 4;

/// How long a call waits for a first value (`watch`es of addresses say that there is none yet).
const PATIENCE: Duration = Duration::from_secs(60);

/// What all sessions of an interface share.
struct Server {
    interpreter: Arc<dyn Interpreter>,
    names: NameReader,
    rate: Option<Arc<RateLimit>>,
    limits: LimitCounts,
    /// `limits.bodyBytes`: bytes of one request.
    most_bytes: usize,
    large: Semaphore,
    /// `limits.watchesPerConnection`
    watches: usize,
    stall: Duration,
    drain: Drain,
    stats: ServerStats,
    metrics: MeshMetrics,
    encoded: Encoded,
}

/// Serves what comes to `listener` until the drain ends it. Must be called within a runtime.
pub fn serve(core: &Core, kind: &'static str, config: &MeshConfig, listener: Listener) -> Serving {
    let stats = ServerStats::new(core.legacy.scope("interface").scope(kind)).over_tls(listener.has_tls());
    let server = Arc::new(Server {
        interpreter: core.interpreter.clone(),
        names: core.names.clone(),
        rate: core.rate.clone(),
        limits: core.limits.clone(),
        most_bytes: core.body_bytes,
        large: Semaphore::new(LARGE),
        watches: core.sessions.watches,
        stall: config.stall,
        drain: core.drain.clone(),
        stats,
        metrics: core.metrics.mesh.clone(),
        encoded: Encoded::default(),
    });
    let (connections, drain) = (core.connections.clone(), core.drain.clone());
    Box::pin(async move {
        let serve = move |io, peer| session::serve(io, peer, server.clone());
        runtime::accept(listener, connections, &drain, Phase::Close, serve).await;
    })
}

// === impl Server ===

impl Server {
    /// Whether a client may ask something now.
    fn admits(&self, client: Client) -> bool {
        let admits = self.rate.as_ref().is_none_or(|rate| rate.admits(client.0));
        if !admits {
            self.limits.refused(Limit::RequestsPerSecondPerClient);
        }
        admits
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("watches", &self.watches).finish_non_exhaustive()
    }
}
