//! One connection: one task that reads a request, has it answered, and goes on.

use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use futures_util::FutureExt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, timeout};

use super::body::{BodyError, Framing};
use super::head::{BadHead, HEADER_SLOTS};
use super::receive::{LARGEST, Received};
use super::response::Framed;
use super::{Body, Coding, Head, Request, Response};
use crate::runtime::{Drain, Limit, LimitCounts, Phase, Seldom, guess, heavy};
use crate::store::Client;
use crate::telemetry::{ServerStats, Traffic};
use crate::wire::{Output, Room, linger};

/// A client must read some of an answer within this time, where the configuration says nothing.
const WRITE_PATIENCE: Duration = Duration::from_secs(60);
/// A client that has closed its side may still want the answer, for so long.
const HALF_CLOSED: Duration = Duration::from_secs(1);
/// Encoding more than this is not done on the runtime's own threads.
pub(super) const HEAVY_FROM: usize = 256 << 10;
/// Answers to pipelined requests are collected up to this size.
const FLUSH_FROM: usize = 64 << 10;

/// What answers requests.
pub trait Service: Send + Sync + 'static {
    /// The bytes of an answer that is there already, for a plain GET on a connection that goes on.
    fn prepared(&self, head: &Head<'_>, client: Client) -> Option<Bytes> {
        let _ = (head, client);
        None
    }

    /// Answers a request. Dropping the future gives up.
    fn call(&self, request: Request) -> impl Future<Output = Response> + Send;
}

/// What all connections of a server share.
#[derive(Debug)]
pub struct Server {
    /// `limits.bodyBytes`
    pub body_bytes: usize,
    /// `socketOptions.readTimeoutMs`: longest silence of a client between requests. Watches are exempt: their clients
    /// have nothing to say.
    pub read_timeout: Option<Duration>,
    /// `socketOptions.writeTimeoutMs`: longest time in which a client reads nothing of what waits for it.
    pub write_timeout: Option<Duration>,
    /// Metrics.
    pub stats: ServerStats,
    /// Where bodies are counted that are too large.
    pub limits: LimitCounts,
    /// The drain of the process.
    pub drain: Drain,
    /// The phase of the drain in which connections end.
    pub until: Phase,
    pub(super) room: Room,
    foreign: Seldom,
}

/// Why a connection ended.
#[derive(Debug)]
pub(super) enum End {
    /// The last answer has been sent.
    Done,
    /// The client closed it, or it broke.
    Gone(Option<io::Error>),
    /// The client was silent, or did not read, for too long.
    TimedOut,
    /// The client sent far more than it may behind a request that is still being answered.
    Flooded,
    /// A defect: what was to be sent could not be encoded.
    Broken,
}

pub(super) struct Connection<IO> {
    pub(super) io: IO,
    pub(super) server: Arc<Server>,
    pub(super) input: BytesMut,
    pub(super) output: Output,
    pub(super) traffic: Traffic,
    peer: SocketAddr,
}

/// A request whose head has been read.
struct Asked {
    request: Request,
    framing: Framing,
    coding: Coding,
    alive: bool,
    head: bool,
    expects: bool,
}

enum Step {
    Answered,
    Asked(Box<Asked>),
    Bad(BadHead),
}

/// Serves one connection until it ends.
pub async fn serve<IO, S>(io: IO, peer: SocketAddr, service: Arc<S>, server: Arc<Server>)
where
    IO: AsyncRead + AsyncWrite + Unpin + Send,
    S: Service,
{
    let (began, _connected) = (Instant::now(), server.stats.connected());
    let (input, output, traffic) = (BytesMut::new(), Output::default(), Traffic::default());
    let mut connection = Connection { io, server: server.clone(), input, output, traffic, peer };
    let end = connection.run(&*service).await;
    tracing::debug!(%peer, ?end, requests = connection.traffic.requests, "connection ended");
    server.stats.closed(began.elapsed(), connection.traffic);
}

// === impl Server ===

impl Server {
    /// A server whose connections end at `until`.
    pub fn new(body_bytes: usize, stats: ServerStats, drain: Drain, until: Phase) -> Self {
        Self {
            body_bytes,
            read_timeout: None,
            write_timeout: None,
            stats,
            limits: LimitCounts::default(),
            drain,
            until,
            room: Room::new(body_bytes, LARGEST),
            foreign: Seldom::new(Duration::from_secs(60)),
        }
    }
}

// === impl Connection ===

impl<IO: AsyncRead + AsyncWrite + Unpin + Send> Connection<IO> {
    async fn run<S: Service>(&mut self, service: &S) -> End {
        let server = self.server.clone();
        let mut closing = pin!(server.drain.reached(server.until));
        loop {
            let length = match self.read_head(closing.as_mut()).await {
                Ok(length) => length,
                Err(end) => return end,
            };
            let mut went_on = match self.step(length, service) {
                Step::Answered => Ok(()),
                Step::Asked(asked) => self.handle(*asked, service).await,
                Step::Bad(bad) => Err(self.refuse(bad).await),
            };
            if went_on.is_ok() && self.output.len() >= FLUSH_FROM {
                went_on = self.flush().await;
            }
            if let Err(end) = went_on {
                return end;
            }
        }
    }

    /// Deals with a whole head: answers it from what is there, or takes it out of the buffer.
    fn step<S: Service>(&mut self, length: usize, service: &S) -> Step {
        let (began, client) = (Instant::now(), Client(self.peer.ip()));
        let mut slots = [httparse::EMPTY_HEADER; HEADER_SLOTS];
        let head = match Head::parse(&self.input[..length], &mut slots) {
            Ok(head) => head,
            Err(bad) => return Step::Bad(bad),
        };
        self.traffic.requests += 1;
        if head.is_plain_get()
            && !self.server.drain.ends_connections(self.server.until)
            && let Some(answer) = service.prepared(&head, client)
        {
            self.output.share(answer);
            self.input.advance(length);
            self.server.stats.answered(200, began.elapsed());
            return Step::Answered;
        }
        let framing = match head.framing() {
            Ok(framing) => framing,
            Err(bad) => return Step::Bad(bad),
        };
        let request = Request::new(&head, client);
        let coding = request.coding();
        let (alive, head_only) = (head.keeps_alive(), head.method == "HEAD");
        let expects = head.header("expect").is_some_and(|value| value.eq_ignore_ascii_case(b"100-continue"));
        self.input.advance(length);
        Step::Asked(Box::new(Asked { request, framing, coding, alive, head: head_only, expects }))
    }

    async fn handle<S: Service>(&mut self, asked: Asked, service: &S) -> Result<(), End> {
        let Asked { mut request, framing, coding, alive, head, expects } = asked;
        let _handling = self.server.stats.handling();
        let encoding = request.header("content-encoding").map(<[u8]>::to_vec);
        let Received { body, room } = match self.receive(framing, expects, encoding.as_deref()).await? {
            Ok(received) => received,
            Err(error) => return self.refuse_body(error).await,
        };
        request.body = body;
        let began = Instant::now();
        let response = self.call(service, request).await?;
        drop(room); // the body has become what it is to be
        self.server.stats.answered(response.status, began.elapsed());
        self.respond(response, alive, head, coding).await
    }

    /// Has a request answered. Nothing of that is left afterwards: an answer may be a watch, which lasts for days.
    async fn call<S: Service>(&mut self, service: &S, request: Request) -> Result<Response, End> {
        let mut call = Box::pin(service.call(request));
        if let Some(response) = call.as_mut().now_or_never() {
            return Ok(response);
        }
        self.flush().await?;
        self.wait_for(call).await
    }

    /// Waits for an answer. A client that goes away gives up its question.
    async fn wait_for(&mut self, mut call: Pin<Box<impl Future<Output = Response>>>) -> Result<Response, End> {
        let gone = tokio::select! {
            biased;
            response = &mut call => return Ok(response),
            gone = self.read_ahead() => gone,
        };
        match gone {
            End::Gone(None) => timeout(HALF_CLOSED, call).await.map_err(|_| End::Gone(None)),
            End::Flooded => Ok(call.await), // it pipelines faster than it is answered, and has to wait
            end => Err(end),
        }
    }

    async fn respond(&mut self, response: Response, alive: bool, head: bool, accepted: Coding) -> Result<(), End> {
        let coding = if head { Coding::Identity } else { response.coding(accepted) };
        let no_length = head && !matches!(&response.body, Body::Full(body) if !body.is_empty());
        let over = self.server.drain.ends_connections(self.server.until);
        let close = !alive || no_length || over || response.closes();
        let framed = Framed { head, close, coding };
        let mut text = Vec::with_capacity(160);
        let body = match &response.body {
            Body::Full(body) if !no_length => Some(encode(coding, body.clone()).await),
            Body::Full(_) | Body::None | Body::Stream(_) => None,
        };
        response.write_head(&mut text, framed, body.as_ref().map(Bytes::len));
        self.output.push(&text);
        match (response.body, body) {
            (Body::Stream(lines), _) if !head => self.stream(lines, coding).await?,
            (_, Some(body)) if !head => self.output.share(body),
            _ => {}
        }
        if close {
            return Err(self.finish().await);
        }
        Ok(())
    }

    async fn refuse_body(&mut self, error: BodyError) -> Result<(), End> {
        let (status, framed) = match error {
            BodyError::TooLarge => (413, false),
            BodyError::Malformed => (400, false),
            BodyError::NoRoom => (503, false),
            BodyError::UnknownCoding => (415, true),
            BodyError::BadCoding => (400, true),
        };
        if error == BodyError::TooLarge {
            self.server.limits.refused(Limit::BodyBytes);
        }
        let response = Response::refusal(status, error);
        let response = if status == 503 { response.header("Retry-After", "10") } else { response };
        self.server.stats.answered(status, Duration::ZERO);
        // Where the body ends is not known, so nothing can come after it.
        self.respond(response, framed, false, Coding::Identity).await
    }

    /// Answers something that is no request, as namerd does it, and ends the connection.
    pub(super) async fn refuse(&mut self, bad: BadHead) -> End {
        let status = match bad {
            BadHead::Malformed => "400 Bad Request",
            BadHead::LineTooLong => "414 Request-URI Too Long",
            BadHead::HeadersTooLong => "431 Request Header Fields Too Large",
        };
        if bad == BadHead::Malformed
            && self.traffic.requests == 0
            && let Some(left_out) = self.server.foreign.due()
        {
            let guess = guess(&self.input);
            tracing::warn!(peer = %self.peer, guess, left_out, "not HTTP/1.1: connection closed; is it the right port?");
        }
        self.output.print(format_args!("HTTP/1.0 {status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"));
        self.finish().await
    }

    /// Sends what is left and closes, so that the client gets all of it.
    pub(super) async fn finish(&mut self) -> End {
        if let Err(end) = self.flush().await {
            return end;
        }
        linger(&mut self.io).await;
        End::Done
    }

    /// Writes everything that waits. Cancel safe.
    pub(super) async fn flush(&mut self) -> Result<(), End> {
        self.flush_within(Some(self.server.write_timeout.unwrap_or(WRITE_PATIENCE))).await
    }

    /// Writes everything that waits; the client must read some of it within `patience`. Cancel safe.
    pub(super) async fn flush_within(&mut self, patience: Option<Duration>) -> Result<(), End> {
        while !self.output.is_sent() {
            let write = self.output.write_some(&mut self.io);
            let written = match patience {
                None => write.await,
                Some(patience) => match timeout(patience, write).await {
                    Ok(written) => written,
                    Err(_) => {
                        self.server.stats.write_timed_out();
                        return Err(End::TimedOut);
                    }
                },
            };
            let sent = written.map_err(|error| End::Gone(Some(error)))?;
            self.moved(Traffic { sent: sent as u64, ..Traffic::default() });
        }
        Ok(())
    }

    pub(super) fn moved(&mut self, more: Traffic) {
        self.traffic.received += more.received;
        self.traffic.sent += more.sent;
        self.server.stats.moved(more);
    }
}

/// Encodes a body.
async fn encode(coding: Coding, body: Bytes) -> Bytes {
    if coding == Coding::Identity || body.len() < HEAVY_FROM {
        return coding.encode(body);
    }
    let plain = body.clone();
    heavy(move || coding.encode(body)).await.unwrap_or(plain)
}
