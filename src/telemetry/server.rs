//! What namerd counts at each of its servers: a Finagle server scope.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::{Counter, Histogram, Level, LevelGuard, LevelShare, Scope};

/// How namerd calls an answer with a status of 500 or above that was no thrown error.
const SERVER_ERROR: &str = "com.twitter.finagle.service.ResponseClassificationSyntheticException";

/// The figures of one server, under a scope such as `adminhttp` or
/// `interface/io.l5d.httpController/io.l5d.httpController`. Servers of one scope count together, as in namerd.
///
/// Of what Finagle has here, left out are figures of its own machinery (`admission_control`, `thread_usage`, `nacks`,
/// `pending_io_events`, …), of the socket's inside (`tcp_…`, `socket_…`) and of single messages (`…_payload_bytes`).
#[derive(Clone)]
pub struct ServerStats {
    figures: Arc<Figures>,
    tls: bool,
}

/// An open connection.
#[derive(Debug)]
pub struct Connected {
    _counted: LevelGuard,
    _over_tls: Option<LevelGuard>,
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
    streams: Option<Streams>,
}

struct Streams {
    opened: Counter,
    closed: Counter,
    pending: Level,
    duration: Histogram,
    failures: Counter,
    broken_off: Counter,
}

/// What one connection has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Requests.
    pub requests: u64,
    /// Bytes from the client.
    pub received: u64,
    /// Bytes to the client.
    pub sent: u64,
}

// === impl ServerStats ===

impl ServerStats {
    /// The figures of a server without streams.
    pub fn new(scope: Scope) -> Self {
        Self::with(scope, None)
    }

    /// The same for a server of HTTP streams: open watches are `http/stream/response/pending`.
    pub fn with_streams(scope: Scope) -> Self {
        let streams = scope.scope("http").scope("stream").scope("response");
        let figures = Streams {
            opened: streams.counter("opened"),
            closed: streams.counter("closed"),
            pending: streams.level("pending"),
            duration: streams.histogram("duration_ms"),
            failures: streams.counter("failures"),
            broken_off: scope.counter("dispatch/stream/failures"),
        };
        Self::with(scope, Some(figures))
    }

    fn with(scope: Scope, streams: Option<Streams>) -> Self {
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
            streams,
            scope,
        };
        Self { figures: Arc::new(figures), tls: false }
    }

    /// Counts connections as those over TLS, too, if the server has it.
    #[must_use]
    pub fn over_tls(self, tls: bool) -> Self {
        Self { tls, ..self }
    }

    /// A client has connected; it is counted among the open connections until the guard goes.
    pub fn connected(&self) -> Connected {
        let figures = &self.figures;
        figures.connects.inc();
        Connected { _counted: figures.connections.up(), _over_tls: self.tls.then(|| figures.tls_connections.up()) }
    }

    /// A connection has ended.
    pub fn closed(&self, after: Duration, traffic: Traffic) {
        let figures = &self.figures;
        figures.closes.inc();
        figures.connection_duration.record_ms(after);
        figures.connection_requests.record(traffic.requests);
        figures.connection_received.record(traffic.received);
        figures.connection_sent.record(traffic.sent);
    }

    /// Bytes have gone through. (Requests are counted as they are answered.)
    pub fn moved(&self, traffic: Traffic) {
        self.figures.received.add(traffic.received);
        self.figures.sent.add(traffic.sent);
    }

    /// A request is being handled, until the guard goes.
    pub fn handling(&self) -> LevelGuard {
        self.figures.pending.up()
    }

    /// A request has been answered with this HTTP status: below 500 it is a success, as in namerd. A stream is answered
    /// when its head is sent.
    pub fn answered(&self, status: u16, took: Duration) {
        let figures = &self.figures;
        figures.requests.inc();
        if status < 500 {
            figures.success.inc();
        } else {
            figures.failures.inc();
            figures.scope.scope("failures").counter(SERVER_ERROR).inc();
        }
        figures.latency.record_ms(took);
        figures.handle_time.record(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    }

    /// A request of another protocol has been answered; `failure` is what namerd calls a failed one.
    pub fn finished(&self, failure: Option<&'static str>, took: Duration) {
        let figures = &self.figures;
        figures.requests.inc();
        match failure {
            None => figures.success.inc(),
            Some(failure) => {
                figures.failures.inc();
                figures.scope.scope("failures").counter(failure).inc();
            }
        }
        figures.latency.record_ms(took);
    }

    /// Requests of one client that are being handled, until the share goes.
    pub fn handling_some(&self) -> LevelShare {
        self.figures.pending.share()
    }

    /// A client was silent for longer than its server waits.
    pub fn read_timed_out(&self) {
        self.figures.read_timeout.inc();
    }

    /// A client did not take what it asked for in time.
    pub fn write_timed_out(&self) {
        self.figures.write_timeout.inc();
    }

    /// A stream has been opened; it is counted among the open ones until the guard goes. None where the server has no
    /// streams.
    pub fn stream_opened(&self) -> Option<LevelGuard> {
        let streams = self.figures.streams.as_ref()?;
        streams.opened.inc();
        Some(streams.pending.up())
    }

    /// A stream has ended, `broken` off by its client or not.
    pub fn stream_closed(&self, after: Duration, broken: bool) {
        if let Some(streams) = &self.figures.streams {
            streams.closed.inc();
            streams.duration.record_ms(after);
            if broken {
                streams.failures.inc();
                streams.broken_off.inc();
            }
        }
    }
}

impl fmt::Debug for ServerStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ServerStats").field(&self.figures.scope).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{JsonQuery, Legacy};
    use super::*;

    /// What is not zero below a scope.
    fn shown(legacy: &Legacy, scope: &str) -> Vec<String> {
        let json = legacy.json(JsonQuery { subtree: Some(scope), ..JsonQuery::default() }).expect("the scope");
        let all: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&json).expect("JSON");
        let counted = all.into_iter().filter(|(_, value)| value.as_f64() != Some(0.0));
        counted.map(|(name, value)| format!("{name} {value}")).collect()
    }

    #[tokio::test]
    async fn answers_below_500_are_successes() {
        let legacy = Legacy::default();
        let server = ServerStats::new(legacy.scope("adminhttp"));
        let handling = server.handling();
        for status in [200, 404, 503] {
            server.answered(status, Duration::from_millis(1));
        }
        let failure = format!("failures/{SERVER_ERROR} 1");
        assert_eq!(shown(&legacy, "adminhttp"), ["failures 1", &failure, "pending 1.0", "requests 3", "success 2"]);
        drop(handling);
        let pending = legacy.json(JsonQuery { subtree: Some("adminhttp/pending"), ..JsonQuery::default() });
        assert_eq!(pending.expect("the gauge"), r#"{"":0.0}"#);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_counted_while_it_is_open_and_its_bytes_as_they_come() {
        let legacy = Legacy::default();
        let server = ServerStats::new(legacy.scope("adminhttp"));
        let connected = server.connected();
        server.moved(Traffic { requests: 0, received: 100, sent: 20 });
        let counted = ["connections 1.0", "connects 1", "received_bytes 100", "sent_bytes 20"];
        assert_eq!(shown(&legacy, "adminhttp"), counted);
        drop(connected);
        server.closed(Duration::from_millis(1_500), Traffic { requests: 1, received: 100, sent: 20 });
        tokio::time::advance(Legacy::SNAPSHOT_INTERVAL).await;
        let all = shown(&legacy, "adminhttp");
        let ended = ["closes 1", "connection_duration.sum 1500", "connection_requests.sum 1"];
        for figure in ended.into_iter().chain(["connection_received_bytes.max 100", "connection_sent_bytes.max 20"]) {
            assert!(all.iter().any(|shown| shown == figure), "{figure} in {all:?}");
        }
        assert!(!all.iter().any(|shown| shown.starts_with("connections ")), "{all:?}");
    }

    #[tokio::test]
    async fn connections_over_tls_are_told_apart() {
        let legacy = Legacy::default();
        let plain = ServerStats::new(legacy.scope("s"));
        let _connected = (plain.connected(), plain.clone().over_tls(true).connected());
        assert_eq!(shown(&legacy, "s"), ["connections 2.0", "connects 2", "tls/connections 1.0"]);
    }

    #[tokio::test]
    async fn open_streams_are_pending_and_those_that_clients_leave_are_failures() {
        let legacy = Legacy::default();
        let server = ServerStats::with_streams(legacy.scope("s"));
        let (first, second) = (server.stream_opened(), server.stream_opened());
        drop(first);
        server.stream_closed(Duration::from_secs(1), true);
        let names = ["closed 1", "failures 1", "opened 2", "pending 1.0"];
        assert_eq!(shown(&legacy, "s/http/stream/response"), names);
        drop(second);
        server.stream_closed(Duration::from_secs(1), false);
        assert_eq!(shown(&legacy, "s/http/stream/response"), ["closed 2", "failures 1", "opened 2"]);
        assert_eq!(shown(&legacy, "s/dispatch"), ["stream/failures 1"]);
        assert!(ServerStats::new(legacy.scope("t")).stream_opened().is_none());
    }
}
