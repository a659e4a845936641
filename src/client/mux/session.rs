//! One connection to one server, and the task that owns it.

use std::sync::Arc;

use bytes::Bytes;
use tokio_util::task::AbortOnDropHandle;

use super::calls::{Calls, Phase};
use super::handshake::{self, Wire};
use super::turn::Conversation;
use crate::client::{ClientMetrics, Connect, End, Failure, Reason, Server, Timings};

/// A connection that is made, used by all watches, and closed when nobody uses it or something is wrong with it.
pub(super) struct Session {
    server: Arc<Server>,
    calls: Arc<Calls>,
    _task: AbortOnDropHandle<()>,
}

/// What sessions are made of.
pub(super) struct Making {
    pub upstream: Arc<str>,
    pub connect: Arc<dyn Connect>,
    pub timings: Timings,
    pub metrics: ClientMetrics,
}

/// Whatever becomes of the task, callers learn that the session has ended.
struct Ending(Arc<Calls>);

// === impl Session ===

impl Session {
    /// Begins to connect.
    pub(super) fn open(making: &Arc<Making>, server: &Arc<Server>) -> Self {
        let calls = Arc::new(Calls::new());
        let task = tokio::spawn(run(making.clone(), server.clone(), calls.clone()));
        Self { server: server.clone(), calls, _task: AbortOnDropHandle::new(task) }
    }

    /// Whether what happens here is known of `server`, and not of one that had the address before.
    pub(super) fn is_with(&self, server: &Arc<Server>) -> bool {
        Arc::ptr_eq(&self.server, server)
    }

    /// Whether it can be given to those who come now.
    pub(super) fn is_usable(&self) -> bool {
        matches!(self.calls.phase(), Phase::Opening | Phase::Open)
    }

    pub(super) fn has_ended(&self) -> bool {
        self.calls.phase() == Phase::Ended
    }

    pub(super) fn is_draining(&self) -> bool {
        self.calls.phase() == Phase::Draining
    }

    /// Waits until the handshake is done.
    pub(super) async fn opened(&self) -> Result<(), End> {
        self.calls.reach(|phase| phase != Phase::Opening).await;
        if self.has_ended() { Err(self.calls.end()) } else { Ok(()) }
    }

    /// Waits until the server says that it goes.
    pub(super) async fn draining(&self) {
        self.calls.reach(|phase| phase == Phase::Draining).await;
    }

    /// Sends a message and waits for its answer, however long that takes. Dropping this tells the server not to bother.
    pub(super) async fn call(&self, message: Bytes) -> Result<Bytes, End> {
        self.calls.call(message).await
    }
}

/// The life of a session.
async fn run(making: Arc<Making>, server: Arc<Server>, calls: Arc<Calls>) {
    let ending = Ending(calls.clone());
    let opened = open(&making, &server).await;
    making.metrics.connected(&making.upstream, opened.as_ref().err().map(|failure| failure.reason));
    let end = match opened {
        Ok(wire) => {
            calls.advance(Phase::Open);
            let mut conversation = Conversation::new(wire, making.timings, server.clone());
            let Err(end) = conversation.go_on(&calls).await;
            calls.ended(end.clone()); // before the calls that are open are dropped
            end
        }
        Err(failure) => End::Failed(failure),
    };
    if let End::Failed(failure) = &end {
        server.failed(failure);
    }
    calls.ended(end);
    drop(ending);
}

/// Connects and shakes hands, each within its time.
async fn open(making: &Making, server: &Server) -> Result<Wire, Failure> {
    let late = |reason, what: &str, limit: std::time::Duration| {
        Failure::new(reason, format!("{what} took longer than {} ms", limit.as_millis()))
    };
    let Timings { connect, handshake, .. } = making.timings;
    let stream = tokio::time::timeout(connect, making.connect.connect(server.address()));
    let stream = stream.await.map_err(|_| late(Reason::ConnectTimeout, "the connection", connect))??;
    let mut wire = Wire::new(stream);
    let shaken = tokio::time::timeout(handshake, handshake::shake(&mut wire)).await;
    shaken.map_err(|_| late(Reason::HandshakeTimeout, "the handshake", handshake))??;
    Ok(wire)
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.ended(End::failed(Reason::Panic, "internal error: the task of a connection ended"));
    }
}
