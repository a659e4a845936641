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
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::client::{ClientMetrics, Connect, Failure, Reason, Server, Timings};
use crate::text::root_cause;

/// How long to wait for a turn to connect. Servers that are there connect thousands in this time, and one that is not
/// sends away whoever waits.
const TURN: Duration = Duration::from_secs(30);

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
}

/// How long an exchange may take until the head of its answer is there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// In all.
    pub(super) until: Instant,
    /// Once it is sent.
    pub(super) answer: Duration,
}

/// An answer whose head is there.
pub(super) struct Exchange {
    pub(super) head: response::Parts,
    body: Incoming,
    _connection: AbortOnDropHandle<()>,
}

/// A connection, and the task that carries its bytes.
type Connection = (http1::SendRequest<Full<Bytes>>, AbortOnDropHandle<()>);

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
        Self { upstream, connect, timings, metrics, host }
    }

    /// Sends a request and waits for the head of its answer. What this shows of the server counts for all: whether
    /// connections to it can be made, and whether HTTP is spoken there. What it answers is the request's own.
    pub(super) async fn begin(
        &self,
        server: &Arc<Server>,
        mut request: Request<Full<Bytes>>,
        Patience { until, answer }: Patience,
    ) -> Result<Exchange, Unsent> {
        request.headers_mut().insert(HOST, self.host.clone());
        let (mut sender, connection) =
            self.connected(server, until).await.map_err(|failure| Unsent { failure, sent: false })?;
        let answer = answer.min(until.saturating_duration_since(Instant::now()));
        let sent = tokio::time::timeout(answer, sender.send_request(request)).await;
        let sent = sent.map(|sent| sent.map_err(|error| broken(&error))).unwrap_or_else(|_| {
            // Who has to wait for others may take longer than a handshake, and is well all the same.
            let waited_for_others = answer != self.timings.handshake;
            let reason = if waited_for_others { Reason::Silent } else { Reason::HandshakeTimeout };
            Err(Failure::new(reason, format!("no answer within {} ms", answer.as_millis())))
        });
        match sent {
            Ok(answer) => {
                server.answered();
                let (head, body) = answer.into_parts();
                Ok(Exchange { head, body, _connection: connection })
            }
            Err(failure) => {
                if failure.reason.is_of_connection() {
                    server.failed(&failure);
                }
                Err(Unsent { failure, sent: true })
            }
        }
    }

    /// A connection, once it is this one's turn. It is made in a task of its own, so that whoever gives up before its time
    /// is over leaves behind what is to be known of the server.
    async fn connected(&self, server: &Arc<Server>, until: Instant) -> Result<Connection, Failure> {
        let began = Instant::now();
        let turn = tokio::time::timeout_at(until.min(began + TURN), server.turn()).await;
        let turn = turn.map_err(|_| {
            let text = format!("others connect there: no turn within {} ms", began.elapsed().as_millis());
            Failure::new(Reason::Busy, text)
        })?;
        // Those whose turn was before may have found out.
        if let Some(failure) = server.refusal() {
            return Err(failure);
        }
        let (upstream, connect, limit) = (self.upstream.clone(), self.connect.clone(), self.timings.connect);
        let (metrics, server) = (self.metrics.clone(), server.clone());
        let connecting = tokio::spawn(async move {
            let _turn = turn;
            let connected = dial(&*connect, &server, limit).await;
            metrics.connected(&upstream, connected.as_ref().err().map(|failure| failure.reason));
            connected.inspect_err(|failure| server.failed(failure))
        });
        match tokio::time::timeout_at(until, connecting).await {
            Ok(Ok(connected)) => connected,
            Ok(Err(panic)) => Err(Failure::new(Reason::Panic, format!("internal error: {panic}"))),
            Err(_) => {
                let text = format!("no connection within {} ms", began.elapsed().as_millis());
                Err(Failure::new(Reason::ConnectTimeout, text))
            }
        }
    }
}

async fn dial(connect: &dyn Connect, server: &Server, limit: Duration) -> Result<Connection, Failure> {
    let stream = tokio::time::timeout(limit, connect.connect(server.address())).await;
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
