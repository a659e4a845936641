//! One request and its answer, on a connection of its own.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::HOST;
use http::{HeaderValue, Request, response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::sync::Semaphore;
use tokio_util::task::AbortOnDropHandle;

use crate::client::{ClientMetrics, Connect, Failure, Reason, Server, Timings};
use crate::text::root_cause;

/// So many connections are being made at a time; the others wait their turn.
const AT_ONCE: usize = 64;

/// Bytes of one answer, or of one line of a stream: a dtab of the greatest size, or a large tree with its addresses.
pub(super) const MOST_BYTES: usize = 64 << 20;

/// What exchanges of one upstream have in common.
pub(super) struct Exchanges {
    pub(super) upstream: Arc<str>,
    pub(super) connect: Arc<dyn Connect>,
    pub(super) timings: Timings,
    pub(super) metrics: ClientMetrics,
    /// The `Host` of requests.
    pub(super) host: HeaderValue,
    turns: Semaphore,
}

/// An answer whose head is there.
pub(super) struct Exchange {
    pub(super) head: response::Parts,
    body: Incoming,
    _connection: AbortOnDropHandle<()>,
}

/// What went wrong, and whether the request may have reached the server.
#[derive(Debug)]
pub(super) struct Unsent {
    pub(super) failure: Failure,
    pub(super) sent: bool,
}

// === impl Exchanges ===

impl Exchanges {
    pub(super) fn new(
        upstream: Arc<str>,
        connect: Arc<dyn Connect>,
        timings: Timings,
        metrics: ClientMetrics,
        host: HeaderValue,
    ) -> Self {
        Self { upstream, connect, timings, metrics, host, turns: Semaphore::new(AT_ONCE) }
    }

    /// Sends a request and waits for the head of its answer, for as long as a handshake may take at first; `patience` is
    /// for a server that has to wait for others.
    pub(super) async fn begin(
        &self,
        server: &Server,
        mut request: Request<Full<Bytes>>,
        patience: Duration,
    ) -> Result<Exchange, Unsent> {
        request.headers_mut().insert(HOST, self.host.clone());
        let connected = {
            let _turn = self.turns.acquire().await;
            self.connect(server).await
        };
        self.metrics.connected(&self.upstream, connected.as_ref().err().map(|failure| failure.reason));
        let (mut sender, connection) = connected.map_err(|failure| Unsent { failure, sent: false })?;
        let failed = |failure| Unsent { failure, sent: true };
        let answer = tokio::time::timeout(patience, sender.send_request(request)).await;
        let answer = answer.map_err(|_| {
            // Who has to wait for others may take longer than a handshake, and is well all the same.
            let waited_for_others = patience > self.timings.handshake;
            let reason = if waited_for_others { Reason::Silent } else { Reason::HandshakeTimeout };
            failed(Failure::new(reason, format!("no answer within {} ms", patience.as_millis())))
        })?;
        let (head, body) = answer.map_err(|error| failed(broken(&error)))?.into_parts();
        Ok(Exchange { head, body, _connection: connection })
    }

    async fn connect(
        &self,
        server: &Server,
    ) -> Result<(http1::SendRequest<Full<Bytes>>, AbortOnDropHandle<()>), Failure> {
        let limit = self.timings.connect;
        let stream = tokio::time::timeout(limit, self.connect.connect(server.address())).await;
        let stream = stream.map_err(|_| {
            Failure::new(Reason::ConnectTimeout, format!("the connection took longer than {} ms", limit.as_millis()))
        })??;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|error| broken(&error))?;
        let connection = tokio::spawn(async move {
            // How it ends shows to those who use it.
            let _ = connection.await;
        });
        Ok((sender, AbortOnDropHandle::new(connection)))
    }
}

// === impl Exchange ===

impl Exchange {
    /// Some bytes of the body; none at its end, in good order.
    pub(super) async fn some(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            match self.body.frame().await {
                None => return Ok(None),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
                Some(Err(error)) => return Err(broken(&error)),
            }
        }
    }

    /// The whole body.
    pub(super) async fn whole(&mut self, limit: Duration) -> Result<Bytes, Failure> {
        let read = async {
            let mut whole = BytesMut::new();
            while let Some(data) = self.some().await? {
                if whole.len() + data.len() > MOST_BYTES {
                    return Err(too_long());
                }
                whole.extend_from_slice(&data);
            }
            Ok(whole.freeze())
        };
        let late = |_| Failure::new(Reason::Silent, format!("the answer took longer than {} ms", limit.as_millis()));
        tokio::time::timeout(limit, read).await.map_err(late)?
    }
}

pub(super) fn too_long() -> Failure {
    Failure::new(Reason::BadAnswer, format!("an answer of more than {MOST_BYTES} bytes"))
}

fn broken(error: &hyper::Error) -> Failure {
    let cause = root_cause(error);
    if error.is_parse() {
        return Failure::new(Reason::Handshake, format!("not HTTP: {cause}"));
    }
    Failure::new(Reason::Closed, format!("the connection broke: {cause}"))
}
