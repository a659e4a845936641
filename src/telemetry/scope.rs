//! What namerd counts at each of its servers: a Finagle server scope.

use std::fmt;
use std::sync::Arc;

use tokio::time::Instant;

use super::legacy::LevelGuard;
use super::{Counter, Histogram, Level, Scope};

/// How namerd calls an answer with a status of 500 or above that was no thrown error.
const SERVER_ERROR: &str = "com.twitter.finagle.service.ResponseClassificationSyntheticException";

/// The figures of one server, under a scope such as `adminhttp` or
/// `interface/io.l5d.httpController/io.l5d.httpController`.
///
/// Of what Finagle has here, left out are figures of its own machinery (`admission_control`, `thread_usage`, `nacks`,
/// `pending_io_events`, …), of the socket's inside (`tcp_…`, `socket_…`) and of single messages (`…_payload_bytes`).
#[derive(Clone)]
pub struct ServerScope {
    figures: Arc<Figures>,
}

struct Figures {
    scope: Scope,
    requests: Counter,
    success: Counter,
    failures: Counter,
    pending: Level,
    latency: Histogram,
    handle_time: Histogram,
    connects: Counter,
    closes: Counter,
    connections: Level,
    tls_connections: Level,
    connection_duration: Histogram,
    connection_requests: Histogram,
    connection_received: Histogram,
    connection_sent: Histogram,
    received: Counter,
    sent: Counter,
    read_timeout: Counter,
    write_timeout: Counter,
}

/// The figures of an HTTP server's streams: open watches are its `http/stream/response/pending`.
#[derive(Clone)]
pub struct StreamScope {
    figures: Arc<StreamFigures>,
}

struct StreamFigures {
    opened: Counter,
    closed: Counter,
    pending: Level,
    duration: Histogram,
    failures: Counter,
    broken_off: Counter,
}

/// A request that is being answered. Dropped without a result, its client has gone or its handler panicked: a failure.
pub struct Answering {
    figures: Arc<Figures>,
    _pending: LevelGuard,
    began: Instant,
    failure: Option<&'static str>,
    success: bool,
}

/// An open connection, until dropped.
pub struct Connected {
    figures: Arc<Figures>,
    _open: (LevelGuard, Option<LevelGuard>),
    began: Instant,
    requests: u64,
    received: u64,
    sent: u64,
}

/// An open stream, until dropped.
pub struct Streaming {
    figures: Arc<StreamFigures>,
    _open: LevelGuard,
    began: Instant,
}

// === impl ServerScope ===

impl ServerScope {
    /// Makes the names under `scope`, or joins those that count there already.
    pub fn new(scope: Scope) -> Self {
        let figures = Figures {
            requests: scope.counter("requests"),
            success: scope.counter("success"),
            failures: scope.counter("failures"),
            pending: scope.level("pending"),
            latency: scope.histogram("request_latency_ms"),
            handle_time: scope.histogram("handletime_us"),
            connects: scope.counter("connects"),
            closes: scope.counter("closes"),
            connections: scope.level("connections"),
            tls_connections: scope.level("tls/connections"),
            connection_duration: scope.histogram("connection_duration"),
            connection_requests: scope.histogram("connection_requests"),
            connection_received: scope.histogram("connection_received_bytes"),
            connection_sent: scope.histogram("connection_sent_bytes"),
            received: scope.counter("received_bytes"),
            sent: scope.counter("sent_bytes"),
            read_timeout: scope.counter("read_timeout"),
            write_timeout: scope.counter("write_timeout"),
            scope,
        };
        Self { figures: Arc::new(figures) }
    }

    /// Counts a connection.
    pub fn connected(&self, tls: bool) -> Connected {
        let figures = self.figures.clone();
        figures.connects.inc();
        let open = (figures.connections.up(), tls.then(|| figures.tls_connections.up()));
        Connected { figures, _open: open, began: Instant::now(), requests: 0, received: 0, sent: 0 }
    }

    /// Counts a request until it is answered. A stream is answered when its head is sent.
    pub fn answering(&self) -> Answering {
        let figures = self.figures.clone();
        Answering { _pending: figures.pending.up(), figures, began: Instant::now(), failure: None, success: false }
    }

    /// A client was silent for longer than its server waits.
    pub fn read_timed_out(&self) {
        self.figures.read_timeout.inc();
    }

    /// A client did not take what it asked for in time.
    pub fn write_timed_out(&self) {
        self.figures.write_timeout.inc();
    }
}

impl fmt::Debug for ServerScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ServerScope").field(&self.figures.scope).finish()
    }
}

// === impl Answering ===

impl Answering {
    /// The request was answered with this HTTP status: below 500 it is a success, as in namerd.
    pub fn answered(self, status: u16) {
        if status < 500 { self.succeeded() } else { self.failed(SERVER_ERROR) }
    }

    /// The request was answered.
    pub fn succeeded(mut self) {
        self.success = true;
    }

    /// The request could not be answered. `class` names the failure below `failures/`.
    pub fn failed(mut self, class: &'static str) {
        self.failure = Some(class);
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        let figures = &self.figures;
        let took = self.began.elapsed();
        figures.latency.record_ms(took);
        figures.handle_time.record(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
        // Counted at the end, as Finagle does: requests = success + failures.
        figures.requests.inc();
        if self.success {
            figures.success.inc();
        } else {
            figures.failures.inc();
        }
        if let Some(class) = self.failure {
            figures.scope.scope("failures").counter(class).inc();
        }
    }
}

// === impl Connected ===

impl Connected {
    /// A request came over this connection.
    pub fn request(&mut self) {
        self.requests += 1;
    }

    /// Bytes came.
    pub fn received(&mut self, bytes: usize) {
        self.received += bytes as u64;
        self.figures.received.add(bytes as u64);
    }

    /// Bytes went.
    pub fn sent(&mut self, bytes: usize) {
        self.sent += bytes as u64;
        self.figures.sent.add(bytes as u64);
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        let figures = &self.figures;
        figures.closes.inc();
        figures.connection_duration.record_ms(self.began.elapsed());
        figures.connection_requests.record(self.requests);
        figures.connection_received.record(self.received);
        figures.connection_sent.record(self.sent);
    }
}

// === impl StreamScope ===

impl StreamScope {
    /// Makes the names under the scope of an HTTP server.
    pub fn new(scope: &Scope) -> Self {
        let streams = scope.scope("http").scope("stream").scope("response");
        let figures = StreamFigures {
            opened: streams.counter("opened"),
            closed: streams.counter("closed"),
            pending: streams.level("pending"),
            duration: streams.histogram("duration_ms"),
            failures: streams.counter("failures"),
            broken_off: scope.counter("dispatch/stream/failures"),
        };
        Self { figures: Arc::new(figures) }
    }

    /// Counts a stream.
    pub fn opened(&self) -> Streaming {
        let figures = self.figures.clone();
        figures.opened.inc();
        Streaming { _open: figures.pending.up(), figures, began: Instant::now() }
    }
}

impl fmt::Debug for StreamScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamScope").finish_non_exhaustive()
    }
}

// === impl Streaming ===

impl Streaming {
    /// The client went before the stream ended.
    pub fn broken_off(self) {
        self.figures.failures.inc();
        self.figures.broken_off.inc();
    }
}

impl Drop for Streaming {
    fn drop(&mut self) {
        let figures = &self.figures;
        figures.closed.inc();
        figures.duration.record_ms(self.began.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{JsonQuery, Legacy};
    use super::*;

    fn shown(legacy: &Legacy, scope: &str) -> Vec<String> {
        let json = legacy.json(JsonQuery { subtree: Some(scope), ..JsonQuery::default() }).expect("the scope");
        let all: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&json).expect("JSON");
        let counted = all.into_iter().filter(|(_, value)| value.as_f64() != Some(0.0));
        counted.map(|(name, value)| format!("{name} {value}")).collect()
    }

    #[tokio::test]
    async fn answers_below_500_are_successes_and_clients_that_went_are_failures() {
        let legacy = Legacy::default();
        let server = ServerScope::new(legacy.scope("adminhttp"));
        server.answering().answered(200);
        server.answering().answered(404);
        server.answering().answered(503);
        drop(server.answering());
        let waiting = server.answering();
        let failure = format!("failures/{SERVER_ERROR} 1");
        assert_eq!(shown(&legacy, "adminhttp"), ["failures 2", &failure, "pending 1.0", "requests 4", "success 2"]);
        waiting.succeeded();
        let zero = legacy.json(JsonQuery { subtree: Some("adminhttp/pending"), ..JsonQuery::default() });
        assert_eq!(zero.expect("the gauge"), r#"{"":0.0}"#);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_counted_while_it_is_open_and_its_bytes_as_they_come() {
        let legacy = Legacy::default();
        let server = ServerScope::new(legacy.scope("adminhttp"));
        let mut connection = server.connected(false);
        connection.request();
        connection.received(100);
        connection.sent(20);
        assert_eq!(
            shown(&legacy, "adminhttp"),
            ["connections 1.0", "connects 1", "received_bytes 100", "sent_bytes 20"]
        );
        tokio::time::advance(Duration::from_millis(1_500)).await;
        drop(connection);
        tokio::time::advance(Legacy::SNAPSHOT_INTERVAL).await;
        let all = shown(&legacy, "adminhttp");
        for figure in
            ["closes 1", "connection_duration.sum 1500", "connection_requests.sum 1", "connection_sent_bytes.max 20"]
        {
            assert!(all.iter().any(|shown| shown == figure), "{figure} in {all:?}");
        }
        assert!(!all.iter().any(|shown| shown.starts_with("connections ")), "{all:?}");
    }

    #[tokio::test]
    async fn open_streams_are_pending_and_those_that_clients_leave_are_failures() {
        let legacy = Legacy::default();
        let streams = StreamScope::new(&legacy.scope("s"));
        let (first, second) = (streams.opened(), streams.opened());
        first.broken_off();
        let names = ["closed 1", "failures 1", "opened 2", "pending 1.0"];
        assert_eq!(shown(&legacy, "s/http/stream/response"), names);
        drop(second);
        assert_eq!(shown(&legacy, "s/http/stream/response"), ["closed 2", "failures 1", "opened 2"]);
        assert_eq!(shown(&legacy, "s/dispatch"), ["stream/failures 1"]);
    }
}
