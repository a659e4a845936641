//! The end of a session.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

use super::rows::Rows;
use super::{HALF_CLOSED, Session, times};
use crate::mux::{BadFrame, BadMessage, Tag};
use crate::telemetry::Traffic;
use crate::wire::linger;

/// A client must read some of what waits for it within this time, where the configuration says nothing.
const WRITE_PATIENCE: Duration = Duration::from_secs(60);

/// The reasons of [`Fault`].
pub(in crate::iface::thrift) const FAULTS: [&str; 5] =
    ["bad_frame", "bad_message", "duplicate_tag", "handshake_refused", "bad_thrift"];

/// Why a session ended.
#[derive(Debug)]
pub(super) enum End {
    /// Everything was answered, and it was time to go.
    Done,
    /// The client closed it, or it broke.
    Gone(Option<io::Error>),
    /// It is not thrift, nor mux.
    Foreign(&'static str),
    /// The client sent something that ends a session; what is written already is its answer.
    Fault(Fault),
    /// Something took too long.
    TimedOut(&'static str),
}

/// What a client did wrong.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error("{0}")]
    Frame(#[from] BadFrame),
    #[error("{0}")]
    Message(#[from] BadMessage),
    #[error("the tag {0} is in use already")]
    DuplicateTag(Tag),
    #[error("{0}")]
    Handshake(&'static str),
    #[error("unreadable thrift: {0}")]
    Thrift(String),
}

// === impl Session ===

impl<IO: AsyncRead + AsyncWrite + Unpin + Send> Session<IO> {
    /// Gives everything back, tells the client what it still has to know, and closes.
    pub(super) async fn finish(mut self, end: End) {
        self.end_watching(&end);
        self.rows = Rows::new();
        self.exchanges.clear();
        self.tasks.clear();
        self.pending.set(0);
        self.parked.set(0);
        self.log(&end);
        if !matches!(end, End::Gone(Some(_)) | End::TimedOut(_)) {
            let patience = if self.ended { HALF_CLOSED } else { self.write_patience() };
            if timeout(patience, self.flush()).await.is_ok_and(|flushed| flushed.is_ok()) && !self.ended {
                self.leaving.let_go();
                linger(&mut self.io).await;
            }
        }
        self.times.look();
        self.server.stats.closed(self.times.age(), self.traffic);
    }

    async fn flush(&mut self) -> io::Result<()> {
        while !self.output.is_sent() {
            let sent = self.output.write_some(&mut self.io).await?;
            self.moved(Traffic { sent: sent as u64, ..Traffic::default() });
        }
        Ok(())
    }

    pub(super) fn write_patience(&self) -> Duration {
        self.server.write_timeout.unwrap_or(WRITE_PATIENCE)
    }

    fn log(&self, end: &End) {
        let (server, peer) = (&self.server, self.peer);
        tracing::debug!(%peer, ?end, requests = self.traffic.requests, "session ended");
        match end {
            End::Done | End::Gone(_) => {}
            End::Foreign(protocol) => {
                server.metrics.foreign(protocol);
                if let Some(left_out) = server.foreign.due() {
                    tracing::warn!(
                        %peer, protocol, left_out,
                        "not ThriftMux, nor framed thrift: connection closed; is it the right port, and does the client \
                         use TLS where the interface does not, or the other way round?"
                    );
                }
            }
            End::Fault(fault) => {
                server.metrics.ended(fault.reason());
                match server.faults.due() {
                    Some(left_out) => {
                        tracing::info!(%peer, %fault, left_out, "session closed because of what the client sent");
                    }
                    None => tracing::debug!(%peer, %fault, "session closed because of what the client sent"),
                }
            }
            End::TimedOut(what) => {
                server.metrics.ended(what);
                match *what {
                    times::UNREAD => server.stats.write_timed_out(),
                    times::QUIET => server.stats.read_timed_out(),
                    _ => {}
                }
            }
        }
    }
}

// === impl Fault ===

impl Fault {
    fn reason(&self) -> &'static str {
        match self {
            Self::Frame(_) => "bad_frame",
            Self::Message(_) => "bad_message",
            Self::DuplicateTag(_) => "duplicate_tag",
            Self::Handshake(_) => "handshake_refused",
            Self::Thrift(_) => "bad_thrift",
        }
    }
}

impl From<Fault> for End {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}
