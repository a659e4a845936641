//! A session: one connection of a client.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use h2::server::{Connection, SendResponse};
use h2::{Ping, PingPong, RecvStream};
use http::{Method as Verb, Request};
use tokio::time::Instant;

use super::Server;
use super::ask::{Answer, answer};
use super::authority::Authority;
use super::frames::{Answering, FIRST_WINDOW, Gone, read};
use super::method::{Code, Method, Status};
use super::watching::follow;
use crate::runtime::{Conn, Phase};
use crate::store::{Cell, Client};
use crate::telemetry::Traffic;

/// A client that is connected has said this much by then: its preface and settings.
const BEGIN_WITHIN: Duration = Duration::from_secs(10);
/// A client is asked whether it is still there, and has so long to answer.
const PING_EVERY: Duration = Duration::from_secs(30);
const PONG_WITHIN: Duration = Duration::from_secs(10);
/// A client has this long to take the last words.
const LEAVE_WITHIN: Duration = Duration::from_secs(5);
/// All requests that are being read together.
const CONNECTION_WINDOW: u32 = 1 << 20;
/// What waits in memory for one stream because the socket takes no more.
const SEND_BUFFER: usize = 64 << 10;
/// Linkerd 1 takes too few streams for an error of the stream (linkerd#2363), so that there is no small limit; a call
/// beyond `limits.watchesPerConnection` is refused in words.
const STREAMS: u32 = 100_000;
/// Linkerd 1 may give many young streams up at once.
const PENDING_RESETS: usize = 10_000;

/// A call, which may become a stream: that is a smaller future, since streams are many and stay for long.
type Call = Pin<Box<dyn Future<Output = Option<Following>> + Send>>;
type Following = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Serves a connection to its end.
pub(super) async fn serve(io: Conn, peer: SocketAddr, server: Arc<Server>) {
    let (began, _connected) = (Instant::now(), server.stats.connected());
    let mut builder = h2::server::Builder::new();
    builder
        .initial_window_size(FIRST_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_concurrent_streams(STREAMS)
        .max_pending_accept_reset_streams(PENDING_RESETS)
        .max_send_buffer_size(SEND_BUFFER);
    let mut traffic = Traffic::default();
    match tokio::time::timeout(BEGIN_WITHIN, builder.handshake(Authority::new(io))).await {
        Ok(Ok(connection)) => {
            let mut session = Session {
                client: Client(peer.ip()),
                server: server.clone(),
                calls: FuturesUnordered::new(),
                streams: FuturesUnordered::new(),
                leaving: Cell::ready(false),
                requests: 0,
            };
            session.run(connection).await;
            traffic.requests = session.requests;
        }
        Ok(Err(error)) => tracing::debug!(%peer, %error, "no HTTP/2 is spoken here"),
        Err(_) => tracing::debug!(%peer, "connected, and silent"),
    }
    server.stats.closed(began.elapsed(), traffic);
}

struct Session {
    client: Client,
    server: Arc<Server>,
    calls: FuturesUnordered<Call>,
    streams: FuturesUnordered<Following>,
    /// Tells the streams to end.
    leaving: Arc<Cell<bool>>,
    requests: u64,
}

// === impl Session ===

impl Session {
    async fn run(&mut self, mut connection: Connection<Authority<Conn>, Bytes>) {
        let server = self.server.clone();
        let hold = server.drain.hold(Phase::EndStreams);
        let mut leaves = std::pin::pin!(hold.over());
        let mut pings = connection.ping_pong().map(Pings::new);
        loop {
            tokio::select! {
                // First what there is to answer, so that all of it leaves in one write.
                biased;
                Some(following) = self.calls.next(), if !self.calls.is_empty() => self.streams.extend(following),
                Some(()) = self.streams.next(), if !self.streams.is_empty() => {}
                accepted = connection.accept() => match accepted {
                    Some(Ok((request, respond))) => self.begin(request, respond),
                    Some(Err(error)) => {
                        tracing::debug!(client = %self.client.0, %error, "a connection has ended");
                        return;
                    }
                    None => return,
                },
                () = keep_alive(&mut pings) => {
                    tracing::debug!(client = %self.client.0, "a client answers no ping");
                    return;
                }
                () = &mut leaves => break,
            }
        }
        self.leave(connection).await;
    }

    fn begin(&mut self, request: Request<RecvStream>, respond: SendResponse<Bytes>) {
        self.requests += 1;
        let (server, client, leaving) = (self.server.clone(), self.client, self.leaving.clone());
        let is_full = self.calls.len() + self.streams.len() >= server.watches;
        self.calls.push(Box::pin(async move {
            let began = Instant::now();
            let method = Method::of(request.uri().path());
            let mut answering = Answering::begin(respond).ok()?;
            let answer = tokio::select! {
                answer = asked(&server, client, method, request, is_full) => answer,
                () = answering.reset() => return None,
            };
            let failed = answer.as_ref().is_err_and(|status| status.code == Code::Internal);
            server.stats.finished(failed.then_some("io.buoyant.grpc.runtime.GrpcStatus$Internal"), began.elapsed());
            let status = match answer {
                Ok(Answer::Watch(source)) => {
                    let method = method?; // there is none without
                    return Some(Box::pin(async move {
                        let followed = follow(&server, method, source, answering, leaving).await;
                        if followed == Err(Gone::Stalled) {
                            server.metrics.stalled();
                            tracing::warn!(
                                client = %client.0, method = method.name(),
                                "a stream was reset: its client had no room for a value for {} s", server.stall.as_secs()
                            );
                        }
                    }) as Following);
                }
                Ok(Answer::Once(bytes)) => {
                    answering.message(bytes, server.stall).await.ok()?;
                    Status::OK
                }
                Err(status) => status,
            };
            server.metrics.ended(method, status.code as u8);
            answering.end(&status);
            None
        }));
    }

    /// Ends all streams with their trailers, and then the connection: a Linkerd 1 drops all streams of a connection as
    /// soon as it hears that it will close.
    async fn leave(&mut self, mut connection: Connection<Authority<Conn>, Bytes>) {
        self.leaving.publish(true);
        let last_words = async {
            while !self.calls.is_empty() || !self.streams.is_empty() {
                tokio::select! {
                    biased;
                    Some(following) = self.calls.next(), if !self.calls.is_empty() => self.streams.extend(following),
                    Some(()) = self.streams.next(), if !self.streams.is_empty() => {}
                    accepted = connection.accept() => match accepted {
                        Some(Ok((_, respond))) => {
                            if let Ok(answering) = Answering::begin(respond) {
                                answering.end(&Status::new(Code::Unavailable, "the server is going away"));
                            }
                        }
                        Some(Err(_)) | None => return,
                    },
                }
            }
            connection.graceful_shutdown();
            while let Some(Ok(_)) = connection.accept().await {}
        };
        drop(tokio::time::timeout(LEAVE_WITHIN, last_words).await);
    }
}

/// Reads a request and answers it.
async fn asked(
    server: &Server,
    client: Client,
    method: Option<Method>,
    request: Request<RecvStream>,
    is_full: bool,
) -> Result<Answer, Status> {
    let (head, mut body) = request.into_parts();
    if head.method != Verb::POST {
        return Err(Status::new(Code::Unknown, format!("unsupported method: {}", head.method)));
    }
    let method = method.ok_or_else(|| Status::new(Code::Unimplemented, head.uri.path()))?;
    if !server.admits(client) {
        return Err(Status::new(Code::ResourceExhausted, "too many requests (limits.requestsPerSecondPerClient)"));
    }
    if is_full {
        let text = format!("more than {} calls on one connection (limits.watchesPerConnection)", server.watches);
        return Err(Status::new(Code::ResourceExhausted, text));
    }
    let body = read(&mut body, server).await?;
    answer(server, client, method, body).await
}

/// Asks a client now and then whether it is still there.
struct Pings {
    pings: PingPong,
    next: Instant,
    is_out: bool,
}

// === impl Pings ===

impl Pings {
    fn new(pings: PingPong) -> Self {
        Self { pings, next: Instant::now() + PING_EVERY, is_out: false }
    }
}

/// Ends when a client has not answered. Cancel safe.
async fn keep_alive(pings: &mut Option<Pings>) {
    let Some(Pings { pings, next, is_out }) = pings else { return std::future::pending().await };
    loop {
        tokio::select! {
            () = tokio::time::sleep_until(*next) => {
                if std::mem::replace(is_out, true) || pings.send_ping(Ping::opaque()).is_err() {
                    return;
                }
                *next = Instant::now() + PONG_WITHIN;
            }
            pong = std::future::poll_fn(|cx| pings.poll_pong(cx)), if *is_out => {
                if pong.is_err() {
                    return std::future::pending().await; // the connection says why
                }
                (*is_out, *next) = (false, Instant::now() + PING_EVERY);
            }
        }
    }
}
