//! `io.l5d.thriftNameInterpreter`: names over ThriftMux, what Linkerd 1 routers speak; plain framed thrift and finagle's
//! upgraded thrift on the same port.
//!
//! A router keeps one connection and parks a long poll for each name on it: a request that is answered when the stamp
//! that it carries is not that of the present value. So almost everything here waits almost always:
//!
//! * A [`topics::Topic`] is what can be polled: one for each distinct question, with its answer encoded once per version
//!   and shared by all sessions.
//! * A [`session`] is one connection and one task. Parked polls are rows of a table in it, not tasks; what changes marks
//!   them in the session's mailbox, and all answers of a turn leave in one write.
//!
//! Answers are namerd's, byte for byte, except where `docs/differences.md` says otherwise.

mod config;
mod metrics;
mod session;
mod topics;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use config::{CacheLimits, ThriftConfig};
pub use metrics::ThriftMetrics;
pub use session::leave::SILENCE as PING_SILENCE;

use self::topics::Topics;
use super::{Core, NameReader, Serving, Sessions};
use crate::config::SocketOptions;
use crate::interpreter::Interpreter;
use crate::ledger::Ledger;
use crate::runtime::{self, Drain, LimitCounts, Listener, Phase, RateLimit, Seldom};
use crate::telemetry::{Counter, ServerStats};
use crate::wire::Room;

/// So many requests of the largest size may be in memory at a time. What they are parsed to is many times as large.
const LARGEST: usize = 2;
/// And so many of up to 64 KiB.
const HARDLY_LARGE: usize = 256;

/// What all sessions of an interface share.
struct Server {
    interpreter: Arc<dyn Interpreter>,
    topics: Topics,
    names: NameReader,
    rate: Option<Arc<RateLimit>>,
    limits: LimitCounts,
    /// `limits.bodyBytes`: bytes of one request.
    most_bytes: usize,
    /// For requests over 64 KiB, and for those that are only larger than usual.
    room: Room,
    small_room: Room,
    settings: Sessions,
    read_timeout: Option<Duration>,
    write_timeout: Option<Duration>,
    drain: Drain,
    ledger: Ledger,
    stats: ServerStats,
    mux_connects: Counter,
    plain_connects: Counter,
    metrics: ThriftMetrics,
    foreign: Seldom,
    faults: Seldom,
}

/// Serves what comes to `listener` until the drain ends it. Must be called within a runtime.
pub fn serve(core: &Core, kind: &'static str, config: &ThriftConfig, listener: Listener) -> Serving {
    let mut server = Server::new(core, kind, config, listener.options());
    server.stats = server.stats.over_tls(listener.has_tls());
    let server = Arc::new(server);
    let (connections, drain) = (core.connections.clone(), core.drain.clone());
    Box::pin(async move {
        let serve = move |io, peer| session::serve(io, peer, server.clone());
        runtime::accept(listener, connections, &drain, Phase::Close, serve).await;
    })
}

// === impl Server ===

impl Server {
    fn new(core: &Core, kind: &'static str, config: &ThriftConfig, options: &SocketOptions) -> Self {
        let scope = core.legacy.scope("interface").scope(kind);
        let (thrift, topics) = (scope.scope("thrift"), Topics::new(config, core.fixes.lone_weights));
        topics.register(&scope);
        thrift.gauge("protocol/thriftmux", || 1.0);
        Self {
            interpreter: core.interpreter.clone(),
            topics,
            names: core.names.clone(),
            rate: core.rate.clone(),
            limits: core.limits.clone(),
            most_bytes: core.body_bytes,
            room: Room::new(core.body_bytes, LARGEST),
            small_room: Room::new(Room::LARGE, HARDLY_LARGE),
            settings: core.sessions.clone(),
            read_timeout: options.read_timeout,
            write_timeout: options.write_timeout,
            drain: core.drain.clone(),
            ledger: core.ledger.clone(),
            mux_connects: thrift.counter("thriftmux/connects"),
            plain_connects: thrift.counter("thriftmux/downgraded_connects"),
            stats: ServerStats::new(thrift),
            metrics: core.metrics.thrift.clone(),
            foreign: Seldom::new(Duration::from_secs(60)),
            faults: Seldom::new(Duration::from_secs(10)),
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("settings", &self.settings).finish_non_exhaustive()
    }
}
