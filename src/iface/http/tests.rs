//! The controller over a socket, with a namer whose answers the test sets.

mod watches;
mod writes;

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::*;
use crate::config::{OwnLimits, SocketOptions};
use crate::iface::testing::{self, Fixture, path};
use crate::runtime::{Drain, Endpoint};
use crate::telemetry::Legacy;

/// A served controller: the fixture namer at `/#/t`, `default` = `/svc=>/#/t`.
struct World {
    fixture: Arc<Fixture>,
    address: SocketAddr,
    drain: Drain,
    counts: LimitCounts,
    api: Arc<Api>,
    _server: AbortOnDropHandle<()>,
}

struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl World {
    fn new() -> Self {
        Self::with(&[("default", "/svc=>/#/t")], OwnLimits::default())
    }

    fn with(dtabs: &[(&str, &str)], limits: OwnLimits) -> Self {
        let (fixture, core) = testing::core(dtabs, &limits);
        let (drain, counts) = (core.drain.clone(), core.limits.clone());
        let listener = Listener::bind(Endpoint {
            what: "test".to_owned(),
            key: "test".to_owned(),
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            options: SocketOptions::default(),
            tls: None,
        })
        .expect("free port");
        let address = listener.address();
        let server = AbortOnDropHandle::new(tokio::spawn(serve(&core, "io.l5d.httpController", listener)));
        Self { fixture, address, drain, counts, api: Arc::new(Api::new(&core)), _server: server }
    }

    async fn ask(&self, request: &str) -> Answer {
        let mut stream = TcpStream::connect(self.address).await.expect("connect");
        stream.write_all(request.as_bytes()).await.expect("write");
        let mut got = Vec::new();
        stream.read_to_end(&mut got).await.expect("read");
        let text = String::from_utf8(got).expect("text");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        let status = head[9..12].parse().expect("status");
        Answer { status, head: head.to_owned(), body: body.to_owned() }
    }

    async fn request(&self, method: &str, target: &str, headers: &str, body: &str) -> Answer {
        let length = body.len();
        let head =
            format!("{method} {target} HTTP/1.1\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n");
        self.ask(&(head + body)).await
    }

    async fn get(&self, target: &str) -> Answer {
        self.request("GET", target, "", "").await
    }

    async fn put(&self, namespace: &str, dtab: &str) -> Answer {
        self.request("PUT", &format!("/api/1/dtabs/{namespace}"), "Content-Type: application/dtab\r\n", dtab).await
    }

    async fn watch(&self, target: &str) -> Watching {
        let mut stream = TcpStream::connect(self.address).await.expect("connect");
        stream.write_all(format!("GET {target} HTTP/1.1\r\n\r\n").as_bytes()).await.expect("write");
        let mut watching = Watching { stream, got: Vec::new(), head: String::new() };
        watching.head = within(watching.until("\r\n\r\n")).await.expect("a head at once");
        watching
    }
}

struct Watching {
    stream: TcpStream,
    got: Vec<u8>,
    head: String,
}

impl Watching {
    async fn until(&mut self, end: &str) -> Option<String> {
        loop {
            if let Some(at) = self.got.windows(end.len()).position(|window| window == end.as_bytes()) {
                let text = self.got.drain(..at + end.len()).collect();
                return Some(String::from_utf8(text).expect("text"));
            }
            if self.stream.read_buf(&mut self.got).await.expect("read") == 0 {
                return None;
            }
        }
    }

    /// The next chunk; it must be one whole line.
    async fn line(&mut self) -> String {
        let size = within(self.until("\r\n")).await.expect("a chunk");
        let size = usize::from_str_radix(size.trim_end(), 16).expect("size");
        while self.got.len() < size + 2 {
            within(self.stream.read_buf(&mut self.got)).await.expect("read");
        }
        let chunk = String::from_utf8(self.got.drain(..size + 2).collect()).expect("text");
        chunk.strip_suffix("\r\n").expect("end of chunk").to_owned()
    }

    async fn silent(&mut self) {
        let more = tokio::time::timeout(Duration::from_millis(150), self.stream.read_buf(&mut self.got)).await;
        assert!(more.is_err() && self.got.is_empty(), "{more:?} {}", String::from_utf8_lossy(&self.got));
    }
}

async fn within<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(5), future).await.expect("in time")
}

fn leaf(name: &str, residual: &str, port: u16) -> String {
    format!(r#"{{"type":"leaf","bound":{{"addr":{},"id":"/#/t/{name}","path":"{residual}"}}}}"#, bound(port).trim_end())
        + "\n"
}

fn bound(port: u16) -> String {
    format!(r#"{{"type":"bound","addrs":[{{"ip":"127.0.0.1","port":{port},"meta":{{}}}}],"meta":{{}}}}"#) + "\n"
}

const NEG: &str = "{\"type\":\"neg\"}\n";

#[tokio::test]
async fn a_bound_name_is_answered_with_its_addresses_and_again_when_they_change() {
    let world = World::new();
    world.fixture.serve("/web", &["127.0.0.1:80"]);
    for _ in 0..3 {
        let answer = world.get("/api/1/bind/default?path=/svc/web/r").await;
        assert_eq!((answer.status, answer.body.as_str()), (200, &*leaf("web", "/r", 80)));
        assert!(!answer.head.contains("Content-Type"), "{}", answer.head);
    }
    world.fixture.serve("/web", &["127.0.0.1:81"]);
    assert_eq!(world.get("/api/1/bind/default?path=/svc/web/r").await.body, leaf("web", "/r", 81));
    world.put("default", "/svc=>/#/t/web").await;
    assert_eq!(world.get("/api/1/bind/default?path=/svc/web/r").await.body, leaf("web", "/web/r", 81));
}

/// The second time, and on one connection, answers come from those kept ready; they must follow every write.
#[tokio::test]
async fn a_ready_answer_is_never_older_than_the_last_write() {
    let world = World::new();
    world.fixture.serve("/web", &["127.0.0.1:80"]);
    let mut stream = TcpStream::connect(world.address).await.expect("connect");
    for port in 80..200 {
        world.fixture.serve("/web", &[&format!("127.0.0.1:{port}")]);
        for (target, expected) in [
            ("/api/1/bind/default?path=/svc/web", leaf("web", "/", port)),
            ("/api/1/addr/default?path=/#/t/web", bound(port)),
            ("/api/1/resolve/default?path=/svc/web&dtab=/a=>/b", bound(port)),
        ] {
            stream.write_all(format!("GET {target} HTTP/1.1\r\n\r\n").as_bytes()).await.expect("write");
            let mut got = Vec::new();
            while !got.ends_with(b"}\n") {
                within(stream.read_buf(&mut got)).await.expect("read");
            }
            let got = String::from_utf8(got).expect("text");
            assert!(got.ends_with(&format!("\r\n\r\n{expected}")), "{target}: {got}");
        }
    }
}

#[tokio::test]
async fn a_failing_dtab_is_shown_to_readers_and_not_to_watchers() {
    let world = World::new();
    world.fixture.serve("/web", &["127.0.0.1:80"]);
    let target = "/api/1/bind/default?path=/svc/web";
    let mut watching = world.watch(&format!("{target}&watch=1")).await;
    assert_eq!(watching.line().await, leaf("web", "/", 80));
    assert_eq!(world.get(target).await.status, 200);
    world.put("default", "/svc=>/a;/a=>/svc").await;
    let answer = world.get(target).await;
    assert_eq!((answer.status, answer.body.as_str()), (500, "Max recursion level: 100 reached in Namer lookup"));
    assert!(answer.head.contains("Connection: close"));
    watching.silent().await;
    world.put("default", "/svc=>/#/t/web").await;
    assert_eq!(watching.line().await, leaf("web", "/web", 80), "the repair, with its other residual");
}

#[tokio::test]
async fn a_client_that_asks_too_often_is_told_when_to_come_again() {
    let limits = OwnLimits { requests_per_second_per_client: Some(1), ..OwnLimits::default() };
    let world = World::with(&[("default", "/svc=>/#/t")], limits);
    world.fixture.serve("/web", &["127.0.0.1:1"]);
    let began = Instant::now();
    let (mut served, mut refused) = (0, 0);
    // Answers that are there already count as well.
    while refused == 0 && served < 30 {
        let answer = world.get("/api/1/resolve/default?path=/svc/web").await;
        match answer.status {
            200 => served += 1,
            status => {
                assert_eq!((status, world.counts.count(Limit::RequestsPerSecondPerClient)), (429, 1));
                assert!(answer.body.contains("(limits.requestsPerSecondPerClient)"), "{}", answer.body);
                assert!(answer.head.contains("\r\nRetry-After: 1\r\n"), "{}", answer.head);
                refused += 1;
            }
        }
    }
    assert!(refused == 1 && f64::from(served) <= 1.0 + began.elapsed().as_secs_f64(), "{served} were served");
}

#[tokio::test]
async fn questions_without_sense_are_refused_with_the_reason() {
    let world = World::new();
    for (target, status, body) in [
        ("/api/1/bind/default", 400, "Invalid path: missing"),
        ("/api/1/bind/default?path=/a&x=%", 400, "Invalid path: missing"),
        ("/api/1/addr/default?path=invalid", 400, "Invalid path: invalid / '/' expected but 'i' found at '[i]nvalid'"),
        ("/api/1/resolve/default?path=", 400, "Invalid path:  / '/' expected but end of input found at '[]'"),
        ("/api/1/bind/default?path=/a&dtab=nonsense", 400, "Invalid dtab: '/' expected but 'n' found at '[n]onsense'"),
        ("/api/1/bind?path=/a", 404, ""),
        ("/api/1/addr/default?path=/$/fail", 500, "name tree failed"),
        ("/api/1/delegate?path=/a&dtab=x", 400, "Invalid dtab: '/' expected but 'x' found at '[x]'"),
    ] {
        let answer = world.get(target).await;
        assert_eq!((answer.status, answer.body.as_str()), (status, body), "{target}");
    }
    let answer = world.request("GET", "/api/1/dtabs", "Dtab-Local: nonsense\r\n", "").await;
    assert_eq!(answer.body, "Invalid Dtab headers: '/' expected but 'n' found at '[n]onsense'");
}

/// Nobody answers for the name; the clock is the test's.
#[tokio::test(start_paused = true)]
async fn a_question_without_an_answer_ends_after_30_seconds_with_the_reason() {
    let world = World::new();
    world.fixture.presence(&path("/web")).fail("connection refused");
    let (mut near, far) = tokio::io::duplex(1 << 16);
    let stats = ServerStats::new(Legacy::default().scope("s"));
    let server = Arc::new(Server::new(1000, stats, Drain::new(), Phase::Close));
    let serving = http1::serve(far, world.address, world.api.clone(), server);
    let _serving = AbortOnDropHandle::new(tokio::spawn(serving));
    near.write_all(b"GET /api/1/bind/default?path=/svc/web HTTP/1.1\r\n\r\n").await.expect("write");
    let began = tokio::time::Instant::now();
    let mut got = Vec::new();
    while !got.ends_with(b"refused") {
        near.read_buf(&mut got).await.expect("read");
    }
    assert_eq!(began.elapsed(), Duration::from_secs(30));
    let got = String::from_utf8(got).expect("text");
    assert!(got.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{got}");
    assert!(got.ends_with("\r\n\r\nno answer within 30 s: connection refused"), "{got}");
}

#[tokio::test]
async fn a_form_is_a_query_and_wins_over_it() {
    let world = World::new();
    world.fixture.serve("/web", &["127.0.0.1:80"]);
    let typed = "Content-Type: application/x-www-form-urlencoded\r\n";
    let answer = world.request("POST", "/api/1/addr/default?path=/x", typed, "path=%2F%23%2Ft%2Fweb").await;
    assert_eq!(answer.body, bound(80));
}

#[tokio::test]
async fn delegate_explains_and_has_its_own_rules() {
    let world = World::with(&[("yeezus", "/yeezy => /yeezus")], OwnLimits::default());
    let nested = r#"{"type":"delegate","path":"/yeezy","delegate":{"type":"neg","path":"/yeezus","dentry":{"prefix":"/yeezy","dst":"/yeezus"}}}"#;
    let answer = world.get("/api/1/delegate/yeezus?path=/yeezy&watch=true").await;
    assert_eq!((answer.status, answer.body.as_str()), (200, nested));
    assert_eq!(world.get("/api/1/delegate?path=/yeezy&namespace=yeezus").await.body, nested);
    assert_eq!(world.get("/api/1/delegate?path=/yeezy").await.body, r#"{"type":"neg","path":"/yeezy"}"#);
    let rounded = world.get("/api/1/delegate/x?path=/a&dtab=/a=>0.00001*/b%260.5*/c").await;
    assert!(rounded.body.contains(r#"{"weight":0.0,"tree""#), "{}", rounded.body);
    let post = async |headers: &str, body: &str| world.request("POST", "/api/1/delegate?path=/x", headers, body).await;
    let json = "Content-Type: application/json\r\n";
    let body = r#"{"namespace":"yeezus","dtab":"","path":"/yeezy","more":1}"#;
    assert_eq!(post(json, body).await.body, nested);
    assert_eq!(post("Content-Type: application/json;charset=utf-8\r\n", body).await.status, 415);
    assert_eq!(post(json, "{\"dtab\":\"\"}").await.body, "Malformed delegation request: {\"dtab\":\"\"}");
    assert_eq!(
        post(json, r#"{"dtab":"","path":"svc"}"#).await.body,
        "Invalid path: '/' expected but 's' found at '[s]vc'"
    );
    assert_eq!(world.request("PUT", "/api/1/delegate?path=/x", "", "").await.status, 405);
}

#[tokio::test]
async fn a_delegation_that_takes_too_long_says_so() {
    let world = World::new();
    let answer = world.get("/api/1/delegate/default?path=/svc/never").await;
    assert_eq!((answer.status, answer.body.as_str()), (503, "Request timed out."));
}
