//! The admin server over real sockets.

use std::io::Read;
use std::net::SocketAddr;
use std::time::Duration;

use flate2::read::GzDecoder;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_util::task::AbortOnDropHandle;

use super::*;
use crate::app::{Config, Parts};
use crate::config::{Secret, read_text};
use crate::ledger::{Asks, Event, Rules, WatchKey};
use crate::runtime::logs::Level;
use crate::runtime::{Endpoint, Request as Wanted};
use crate::telemetry::{Legacy, MetricsSetup, PrometheusConfig};

/// A namer that is not asked unless a request wants namers.
const CONFIG: &str = "storage: {kind: io.l5d.inMemory}
interfaces: [{kind: io.l5d.httpController}]
namers: [{kind: io.l5d.rewrite, prefix: /r, pattern: '/{port}', name: '/$/inet/127.1/{port}'}]
";

const PATIENCE: Duration = Duration::from_secs(10);

struct Running {
    address: SocketAddr,
    readiness: Readiness,
    drain: Drain,
    legacy: Legacy,
    logs: LogControl,
    server: AbortOnDropHandle<()>,
}

struct Answer {
    head: String,
    body: Vec<u8>,
}

// === impl Running ===

impl Running {
    fn start() -> Self {
        Self::start_with(|_| {})
    }

    fn start_with(change: impl FnOnce(&mut AdminState)) -> Self {
        let setup = MetricsSetup::new(Legacy::default());
        let legacy = setup.legacy.clone();
        let stats = ServerStats::new(legacy.scope("adminhttp"));
        let parts =
            Parts::build(&Config::load("f", CONFIG, None).expect("valid").0, &Legacy::default(), None).expect("built");
        let mut state = AdminState {
            readiness: Readiness::new(),
            logs: LogControl::new(Level::INFO, |_| {}),
            metrics: setup.finish(),
            telemeters: Vec::new(),
            config: json!({"admin": {"port": 9991}}),
            process: Process::new(),
            pages: Pages::default(),
            interpreter: parts.interpreter,
            names: NameReader::default(),
            ledger: Ledger::new(RULES, 0),
            peers: None,
            ledger_access: LedgerAccess { token: None, over_tls: false },
            body_bytes: 1 << 20,
            limits: LimitCounts::default(),
            security: None,
            socket_options: SocketOptions::default(),
            connections: Connections::new(MOST_CONNECTIONS),
            stats,
        };
        change(&mut state);
        let endpoint = Endpoint {
            what: "http".to_owned(),
            key: "admin".to_owned(),
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            options: SocketOptions::default(),
            tls: None,
        };
        let listener = Listener::bind(endpoint).expect("free port");
        let (address, drain) = (listener.address(), Drain::new());
        let (readiness, logs) = (state.readiness.clone(), state.logs.clone());
        let server: JoinHandle<()> = tokio::spawn(serve(listener, state, drain.clone()));
        Self { address, readiness, drain, legacy, logs, server: AbortOnDropHandle::new(server) }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("connect")
    }

    /// Sends a request with these lines after the first and reads its answer.
    async fn ask(&self, line: &str, more: &str) -> Answer {
        let mut socket = self.connect().await;
        let headers = if more.contains("\r\n\r\n") { more.to_owned() } else { format!("{more}\r\n") };
        let request = format!("{line} HTTP/1.1\r\nHost: x\r\n{headers}");
        tokio::time::timeout(PATIENCE, exchange(&mut socket, &request)).await.expect("in time")
    }

    async fn get(&self, path: &str) -> Answer {
        self.ask(&format!("GET {path}"), "").await
    }

    async fn post_form(&self, path: &str, form: &str) -> Answer {
        let kind = "Content-Type: application/x-www-form-urlencoded";
        self.ask(&format!("POST {path}"), &format!("{kind}\r\nContent-Length: {}\r\n\r\n{form}", form.len())).await
    }
}

async fn exchange(socket: &mut TcpStream, request: &str) -> Answer {
    socket.write_all(request.as_bytes()).await.expect("write");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(socket.read_u8().await.expect("a head"));
    }
    let head = String::from_utf8(head).expect("text");
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("content-length").then(|| value.parse().expect("a length"))
    });
    let length: usize = if request.starts_with("HEAD") { 0 } else { length.unwrap_or(0) };
    let mut body = vec![0; length];
    socket.read_exact(&mut body).await.expect("a body");
    Answer { head, body }
}

// === impl Answer ===

impl Answer {
    fn status(&self) -> u16 {
        self.head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status")
    }

    fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }

    /// Status and body.
    fn brief(&self) -> (u16, &str) {
        (self.status(), self.text())
    }

    fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }
}

fn prometheus(path: &str, prefix: &str) -> TelemeterConfig {
    TelemeterConfig::Prometheus(PrometheusConfig { path: path.to_owned(), prefix: prefix.to_owned() })
}

fn security(text: &str) -> Option<Security> {
    let text = format!("security: {text}");
    Some(read_text("f", &text, "the test", |fields| fields.opt("security")).expect("valid").0)
}

#[tokio::test]
async fn ping_answers_as_namerd_does() {
    let admin = Running::start();
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain;charset=UTF-8\r\nContent-Length: 4\r\nContent-Language: en\r\n\r\n";
    for request in ["GET /admin/ping", "GET //admin//ping", "POST /admin/ping", "GET /admin/ping?x=1"] {
        let answer = admin.ask(request, "").await;
        assert_eq!((&*answer.head, answer.text()), (head, "pong"), "{request}");
    }
    let answer = admin.ask("HEAD /admin/ping", "").await;
    assert_eq!((&*answer.head, answer.text()), (head, ""));
    assert_eq!(admin.get("/live").await.brief(), (200, "live\n"));
}

#[tokio::test]
async fn text_is_packed_for_who_asks_for_it() {
    let admin = Running::start();
    let answer = admin.ask("GET /admin/ping", "Accept-Encoding: gzip\r\n").await;
    let start = "HTTP/1.1 200 OK\r\nContent-Type: text/plain;charset=UTF-8\r\nContent-Language: en\r\ncontent-encoding: gzip\r\n";
    assert!(answer.head.starts_with(start), "{}", answer.head);
    let mut text = String::new();
    GzDecoder::new(&*answer.body).read_to_string(&mut text).expect("gzip");
    assert_eq!(text, "pong");
}

#[tokio::test]
async fn one_connection_takes_many_requests() {
    let admin = Running::start();
    let mut socket = admin.connect().await;
    for _ in 0..3 {
        let answer = exchange(&mut socket, "GET /admin/ping HTTP/1.1\r\n\r\n").await;
        assert_eq!(answer.text(), "pong");
    }
    drop(socket);
    let counted = admin.get("/admin/metrics.json?q=adminhttp").await.json();
    assert_eq!((&counted["requests"], &counted["success"], &counted["failures"]), (&json!(3), &json!(3), &json!(0)));
}

#[tokio::test]
async fn what_is_not_there_is_404_in_plain_text() {
    let admin = Running::start();
    for path in ["/nonexistent", "/admin/ping/", "/metrics.json", "/admin/metrics/prometheus", "/admin/registry.json"] {
        let answer = admin.get(path).await;
        assert_eq!(answer.status(), 404, "{path}");
        assert!(answer.head.contains("Content-Type: text/plain\r\n"), "{}", answer.head);
        assert!(answer.text().contains(path) && answer.text().ends_with("/admin lists the paths there are\n"));
    }
}

#[tokio::test]
async fn ready_says_what_is_missing_what_was_lost_and_that_it_goes() {
    let admin = Running::start();
    let storage = admin.readiness.pending("storage io.l5d.consul");
    let _ports = admin.readiness.pending("ports");
    assert_eq!(admin.get("/ready").await.brief(), (503, "waiting for: ports; storage io.l5d.consul\n"));
    drop((storage, _ports));
    assert_eq!(admin.get("/ready").await.brief(), (200, "ready\n"));
    admin.readiness.watch("storage", || Some("connection refused".to_owned()));
    assert_eq!(admin.get("/ready").await.brief(), (200, "degraded: storage: connection refused\n"));
    admin.readiness.off();
    assert_eq!(admin.get("/ready").await.brief(), (503, "draining\n"));
    assert_eq!(admin.get("/admin/ping").await.text(), "pong");
}

#[tokio::test]
async fn shutdown_is_asked_for_with_post_only() {
    let admin = Running::start();
    let answer = admin.get("/admin/shutdown").await;
    let head = "HTTP/1.1 405 Method Not Allowed\r\nAllow: POST\r\nContent-Type: text/plain;charset=UTF-8\r\nContent-Length: 0\r\nContent-Language: en\r\n\r\n";
    assert_eq!(answer.head, head);
    assert_eq!(admin.ask("PUT /admin/shutdown", "").await.status(), 405);
    assert!(admin.ask("HEAD /admin/shutdown", "").await.head.starts_with("HTTP/1.1 405 "));
    assert_eq!(admin.drain.way(), None);
    let answer = admin.ask("POST /admin/shutdown?grace=4.seconds", "").await;
    let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/plain;charset=UTF-8\r\nContent-Length: 9\r\nContent-Language: en\r\n\r\n";
    assert_eq!((&*answer.head, answer.text()), (head, "quitting\n"));
    let request = Wanted { grace: Some(Duration::from_secs(4)), ..Wanted::end("POST /admin/shutdown") };
    assert_eq!(admin.drain.requested().await, request);
    assert_eq!(admin.ask("POST /admin/shutdown", "").await.brief(), (200, "quitting\n"));
}

#[tokio::test]
async fn a_drain_after_which_the_process_stays_can_still_become_its_end() {
    let admin = Running::start();
    assert_eq!(admin.get("/admin/drain").await.status(), 405);
    assert_eq!(admin.drain.way(), None);
    for _ in 0..2 {
        assert_eq!(admin.ask("POST /admin/drain", "").await.brief(), (200, "draining\n"));
        assert_eq!(admin.drain.requested().await, Wanted::stay("POST /admin/drain"));
    }
    assert_eq!(admin.ask("POST /admin/shutdown", "").await.brief(), (200, "quitting\n"));
    assert_eq!(admin.drain.told_to_end().await, Wanted::end("POST /admin/shutdown"));
}

#[tokio::test]
async fn a_grace_that_is_no_duration_stops_nothing() {
    let admin = Running::start();
    let answer = admin.ask("POST /admin/shutdown?grace=abc", "").await;
    assert_eq!(answer.brief(), (400, "could not parse 'grace' parameter: abc is not a valid duration"));
    assert_eq!(admin.drain.way(), None);
}

#[tokio::test]
async fn a_page_of_another_site_can_neither_stop_the_process_nor_silence_its_log() {
    let admin = Running::start();
    for origin in ["http://evil.example", "null", "http://x:8080", "x"] {
        let answer = admin.ask("POST /admin/shutdown", &format!("Origin: {origin}\r\n")).await;
        assert_eq!(answer.status(), 403, "{origin}");
        assert_eq!(admin.ask("POST /admin/drain", &format!("Origin: {origin}\r\n")).await.status(), 403, "{origin}");
        let answer = admin.ask("POST /logging.json?logger=root&level=OFF", &format!("Origin: {origin}\r\n")).await;
        assert_eq!(answer.status(), 403, "{origin}");
    }
    assert_eq!(admin.drain.way(), None);
    assert_eq!(admin.ask("POST /admin/shutdown", "Origin: http://x\r\n").await.status(), 200);
}

#[tokio::test]
async fn the_server_ends_after_the_drain_and_lets_go_of_idle_clients() {
    let admin = Running::start();
    let mut idle = admin.connect().await;
    assert_eq!(exchange(&mut idle, "GET /admin/ping HTTP/1.1\r\n\r\n").await.text(), "pong");
    admin.drain.enter(Phase::Close);
    assert_eq!(admin.get("/admin/ping").await.text(), "pong");
    admin.drain.enter(Phase::Done);
    let Running { server, .. } = admin;
    assert_eq!(tokio::time::timeout(PATIENCE, idle.read_u8()).await.expect("in time").ok(), None);
    drop(idle);
    tokio::time::timeout(PATIENCE, server).await.expect("in time").expect("no panic");
}

#[tokio::test]
async fn own_metrics_are_always_there() {
    let admin = Running::start_with(|state| {
        let mut setup = MetricsSetup::new(Legacy::default());
        Process::new().register(&mut setup);
        state.metrics = setup.finish();
    });
    let answer = admin.get("/metrics").await;
    assert!(answer.head.contains("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"), "{}", answer.head);
    assert!(answer.text().contains("\n# TYPE process_max_fds gauge\n"), "{}", answer.text());
    assert!(!answer.text().contains("jvm:"), "namerd's names are at the telemeter's path only");
}

#[tokio::test]
async fn telemeters_show_namerds_names_at_their_paths() {
    let admin = Running::start_with(|state| {
        state.telemeters =
            vec![prometheus("/admin/metrics/prometheus", "l5d_"), prometheus("/other", ""), TelemeterConfig::Influx];
    });
    admin.legacy.scope("interface").counter("x.y/requests").add(3);
    let answer = admin.get("/admin/metrics/prometheus").await;
    assert!(answer.head.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"), "{}", answer.head);
    assert!(answer.text().contains("l5d_interface:x_y:requests 3\n"), "{}", answer.text());
    assert!(answer.text().contains("l5d_adminhttp:connections 1.0\n"), "{}", answer.text());
    assert!(admin.get("/other").await.text().contains("\ninterface:x_y:requests 3\n"));
    assert!(admin.get("/admin/metrics/influxdb").await.text().contains("interface:x_y,host=x requests=3\n"));
    assert_eq!(admin.get("/metrics").await.brief(), (200, ""));
}

#[tokio::test]
async fn a_telemeter_at_the_path_of_the_own_metrics_adds_its_names() {
    let admin = Running::start_with(|state| {
        let mut setup = MetricsSetup::new(Legacy::default());
        Process::new().register(&mut setup);
        state.metrics = setup.finish();
        state.telemeters = vec![prometheus("//metrics", "")];
    });
    let answer = admin.get("/metrics").await;
    assert!(answer.text().contains("\nprocess_max_fds "), "{}", answer.text());
    assert!(answer.text().contains("\njvm:fd_limit "), "{}", answer.text());
}

#[tokio::test]
async fn metrics_are_shown_as_json_whole_or_in_part() {
    let admin = Running::start();
    admin.legacy.scope("foo").counter("bar/bas").inc();
    let flat = admin.get("/admin/metrics.json").await;
    assert!(flat.head.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"), "{}", flat.head);
    assert_eq!(flat.json()["foo/bar/bas"], 1);
    assert_eq!(flat.json()["adminhttp/connections"], 1.0);
    assert_eq!(admin.get("/admin/metrics.json?q=foo/bar").await.text(), r#"{"bas":1}"#);
    assert_eq!(admin.get("/admin/metrics.json?tree=1&q=foo").await.text(), r#"{"bar":{"bas":{"counter":1}}}"#);
    assert_eq!(admin.get("/admin/metrics.json?pretty=TRUE;q=foo").await.text(), "{\n  \"bar/bas\" : 1\n}");
    let unknown = admin.get("/admin/metrics.json?q=nope").await;
    assert_eq!(unknown.brief(), (404, r#"{"error": "No such subtree: nope"}"#));
    assert!(unknown.head.contains("Content-Type: application/json\r\n"), "{}", unknown.head);
    assert_eq!(admin.get("/admin/metrics.json?q=").await.text(), r#"{"error": "No such subtree: "}"#);
    assert_eq!(admin.get("/admin/metrics.json?q=%22").await.json()["error"], "No such subtree: \"");
}

#[tokio::test]
async fn log_levels_are_listed_and_set() {
    let admin = Running::start();
    let listed = admin.get("/logging.json").await;
    assert!(listed.head.contains("Content-Type: application/json\r\n"), "{}", listed.head);
    assert!(listed.text().starts_with(r#"[{"logger":"root","level":"INFO"},{"logger":"rosterd","level":"INFO"},"#));
    let shown = |logger: &str| {
        let levels = admin.logs.levels();
        levels.into_iter().find(|(name, _)| name == logger).map(|(_, level)| level.to_string())
    };
    let answer = admin.post_form("/logging.json", "logger=rosterd&level=debug").await;
    assert_eq!(answer.head, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(shown("rosterd").as_deref(), Some("DEBUG"));
    assert_eq!(admin.ask("POST /logging.json?logger=root&level=WARNING", "").await.status(), 200);
    assert_eq!(shown("root").as_deref(), Some("WARNING"));
}

#[tokio::test]
async fn loggers_and_levels_that_are_none_are_answered_as_by_namerd() {
    let admin = Running::start();
    assert_eq!(admin.post_form("/logging.json", "logger=io.buoyant&level=DEBUG").await.brief(), (200, ""));
    assert_eq!(admin.post_form("/logging.json", "logger=root&level=LOUD").await.brief(), (200, ""));
    let refused = admin.post_form("/logging.json", "logger=io.buoyant").await;
    assert_eq!(refused.head, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    let refused = admin.ask("PUT /logging.json", "Content-Length: 0\r\n").await;
    assert_eq!(refused.head, "HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n");
    assert!(admin.logs.levels().iter().all(|(_, level)| *level == Level::INFO));
}

#[tokio::test]
async fn the_configuration_and_the_program_are_shown() {
    let admin = Running::start();
    let config = admin.get("/config.json").await;
    assert_eq!(config.text(), r#"{"admin":{"port":9991}}"#);
    assert!(config.head.contains("Content-Type: application/json;charset=UTF-8\r\n"), "{}", config.head);
    let info = admin.get("/admin/server_info").await;
    assert!(info.text().starts_with("{\n  \"name\" : \"rosterd\",\n  \"version\" : \""), "{}", info.text());
    assert!(info.json()["uptime"].as_u64().is_some_and(|uptime| uptime < 60_000), "{}", info.text());
}

#[tokio::test]
async fn state_pages_are_found_by_path_and_listed() {
    let admin = Running::start_with(|state| {
        state.pages.add("/namer_state/io.l5d.fs.json".to_owned(), || Some(json!({"events": {}})));
        state.pages.add("/storage/dtabs.json".to_owned(), || None);
        state.telemeters = vec![prometheus("/m", "")];
    });
    let page = admin.get("/namer_state/io.l5d.fs.json").await;
    assert_eq!(page.brief(), (200, r#"{"events":{}}"#));
    assert!(page.head.contains("Content-Type: application/json\r\n"), "{}", page.head);
    assert_eq!(admin.get("/storage/dtabs.json").await.status(), 404);
    assert_eq!(admin.get("/namer_state/other.json").await.status(), 404);
    let index = admin.get("/admin").await;
    let paths = [
        "/admin",
        "/admin/drain",
        "/admin/index.txt",
        "/admin/ledger",
        "/admin/ledger/dtab",
        "/admin/metrics.json",
        "/admin/ping",
        "/admin/server_info",
        "/admin/shutdown",
        "/admin/watches",
        "/admin/watches.json",
        "/admin/watches/dtab.json",
        "/config.json",
        "/dtab/delegator.json",
        "/live",
        "/logging.json",
        "/m",
        "/metrics",
        "/namer_state/io.l5d.fs.json",
        "/ready",
        "/storage/dtabs.json",
    ];
    assert_eq!(index.text().lines().collect::<Vec<_>>(), paths);
    assert_eq!(admin.get("/admin/index.txt").await.text(), index.text());
}

#[tokio::test]
async fn what_peers_ask_for_takes_a_token_or_tls() {
    let asked = |admin: Running, more: &'static str| async move { admin.ask("GET /admin/ledger", more).await };
    let with = |access: LedgerAccess| Running::start_with(|state| state.ledger_access = access);
    let token = || Some(Secret::new("s3cr3t"));
    let refused = asked(Running::start(), "").await;
    assert!(refused.head.starts_with("HTTP/1.1 403 "), "{}", refused.head);
    for wrong in
        ["Authorization: Bearer s3cr3\r\n", "Authorization: Bearer s3cr3T\r\n", "Authorization: s3cr3t\r\n", ""]
    {
        let refused = asked(with(LedgerAccess { token: token(), over_tls: true }), wrong).await;
        assert!(refused.head.starts_with("HTTP/1.1 401 "), "{wrong}: {}", refused.head);
    }
    for (access, more) in [
        (LedgerAccess { token: token(), over_tls: false }, "Authorization: Bearer s3cr3t\r\n"),
        (LedgerAccess { token: None, over_tls: true }, ""),
    ] {
        let told = asked(with(access), more).await;
        assert!(told.head.starts_with("HTTP/1.1 200 ") && told.text().contains(r#""entries":[]"#), "{}", told.text());
    }
}

const RULES: Rules = Rules { retry_max: Duration::from_secs(600), most_entries: 100 };

#[tokio::test]
async fn watches_are_shown_to_people_and_programs() {
    let admin = Running::start();
    let page = admin.ask("GET /admin/watches", "Accept: text/html,*/*\r\n").await;
    assert!(page.head.contains("text/html") && page.text().contains("0 live; 0 late; 0 unknown; 0 stopped; 0 clients"));
    for path in ["/admin/watches", "/admin/watches.json?limit=1"] {
        let json: serde_json::Value = serde_json::from_str(admin.get(path).await.text()).expect("JSON");
        assert_eq!(json["watches"]["stopped"], 0, "{json}");
    }
    let refused = admin.get("/admin/watches?limit=abc").await;
    assert_eq!((refused.status(), refused.text()), (400, "limit is a number of watches to be shown\n"));

    let path = "/svc/<script>alert(1)</script>".into();
    let key = Arc::new(WatchKey { asks: Asks::Bind, ns: "default".into(), dtab: "".into(), path });
    let cut = Event::Cut { key: key.clone(), ago: Duration::from_secs(60) };
    let ledger = Ledger::new(RULES, 0);
    let router = "192.0.2.1".parse().expect("an address");
    ledger.tell(router, &mut vec![Event::Opened, Event::Claimed(key), cut]);
    let admin = Running::start_with(|state| state.ledger = ledger);
    let page = admin.ask("GET /admin/watches", "Accept: text/html,*/*\r\n").await;
    let row =
        "<td>192.0.2.1</td><td>late</td><td>bind default /svc/&lt;script&gt;alert(1)&lt;/script&gt;</td><td>60 s</td>";
    assert!(page.text().contains(row) && !page.text().contains("<script"), "{}", page.text());
}

#[tokio::test]
async fn refused_paths_are_an_empty_404_however_they_are_spelled() {
    let admin = Running::start_with(|state| {
        state.security = security("{controlEnabled: false, pathBlacklist: ['^/config[.]json$']}");
    });
    let empty = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
    for request in ["POST /admin/shutdown", "POST //admin/shutdown", "GET /config.json?x", "GET //config.json"] {
        assert_eq!(admin.ask(request, "").await.head, empty, "{request}");
    }
    assert_eq!(admin.drain.way(), None);
    assert_eq!(admin.get("/admin/ping").await.text(), "pong");
}

#[tokio::test]
async fn a_delegation_uses_the_dtab_of_the_request_and_namers_only_with_a_namespace() {
    let admin = Running::start();
    let bound = r#""bound":{"addr":{"type":"bound","addrs":[{"ip":"127.0.0.1","port":8080,"meta":{}}],"meta":{}}"#;
    let dentry = r#""dentry":{"prefix":"/svc","dst":"/#/r"}"#;
    let answer = admin.get("/dtab/delegator.json?path=/svc/8080&dtab=/svc=>/%23/r").await;
    let neg =
        format!(r#"{{"type":"delegate","path":"/svc/8080","delegate":{{"type":"neg","path":"/#/r/8080",{dentry}}}}}"#);
    assert_eq!(answer.brief(), (200, &*neg));
    assert!(answer.head.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"), "{}", answer.head);
    let answer = admin.get("/dtab/delegator.json?path=/svc/8080&namespace=any&dtab=/svc=>/%23/r").await;
    assert!(answer.text().contains(bound), "{}", answer.text());
    let body = r#"{"namespace":"default","dtab":"/svc=>/#/r","path":"/svc/8080"}"#;
    let headers = format!("Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let posted = admin.ask("POST /dtab/delegator.json", &headers).await;
    assert_eq!(posted.brief(), answer.brief());
}

#[tokio::test]
async fn a_delegation_that_asks_for_nothing_is_refused_in_namerds_way() {
    let admin = Running::start();
    assert_eq!(admin.get("/dtab/delegator.json").await.brief(), (400, "Invalid path: missing"));
    let answer = admin.get("/dtab/delegator.json?path=invalid-param").await;
    assert_eq!(answer.brief(), (400, "Invalid path: '/' expected but 'i' found at '[i]nvalid-param'"));
    let answer = admin.get("/dtab/delegator.json?path=/a&dtab=invalid-param").await;
    assert_eq!(answer.brief(), (400, "Invalid dtab: '/' expected but 'i' found at '[i]nvalid-param'"));
    let broken = "Content-Type: application/json\r\nContent-Length: 1\r\n\r\n{";
    let answer = admin.ask("POST /dtab/delegator.json", broken).await;
    assert_eq!(answer.brief(), (400, "Malformed delegation request: {"));
    let text = "Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}";
    let answer = admin.ask("POST /dtab/delegator.json", text).await;
    assert_eq!(answer.head, "HTTP/1.1 415 Unsupported Media Type\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(admin.ask("PUT /dtab/delegator.json", "").await.status(), 405);
    assert_eq!(admin.ask("HEAD /dtab/delegator.json?path=/a", "").await.status(), 200);
}
