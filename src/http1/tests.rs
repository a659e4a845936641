//! Conversations with a server that says what it was asked.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::UnboundedReceiverStream;

use super::*;
use crate::runtime::{Drain, Phase};
use crate::store::Client;
use crate::telemetry::{Legacy, ServerStats};

/// Answers with what it was asked; `/never` never answers, `/slow` late, `/large` at length; `/stream` is fed by the test; `/fail` fails.
struct Echo {
    lines: parking_lot::Mutex<Option<mpsc::UnboundedReceiver<Bytes>>>,
}

impl Service for Echo {
    fn prepared(&self, head: &Head<'_>, _: Client) -> Option<Bytes> {
        (head.target == b"/prepared").then(|| Response::with_body(200, "ready").to_bytes(Coding::Identity))?
    }

    async fn call(&self, request: Request) -> Response {
        match request.path() {
            "/never" => std::future::pending().await,
            "/slow" => {
                tokio::time::sleep(Duration::from_secs(1)).await;
                Response::with_body(200, "slow")
            }
            "/large" => Response::with_body(200, vec![b'x'; 100 << 10]),
            "/fail" => Response::failure("it broke"),
            "/none" => Response::new(404),
            "/text" => Response::with_body(200, "text text text text text").header("Content-Type", "text/plain"),
            "/stream" => {
                let lines = self.lines.lock().take().expect("one stream a test");
                Response::stream(Box::pin(UnboundedReceiverStream::new(lines))).header("Content-Type", "text/plain")
            }
            path => {
                let query = request.query().map(String::from_utf8_lossy).unwrap_or_default();
                let body = String::from_utf8_lossy(&request.body);
                Response::with_body(200, format!("{} {path} {query} {body}", request.method()))
            }
        }
    }
}

struct Talk {
    client: DuplexStream,
    feed: Option<mpsc::UnboundedSender<Bytes>>,
    server: JoinHandle<()>,
    drain: Drain,
    tree: Legacy,
}

impl Talk {
    fn new() -> Self {
        Self::with_window(1 << 20)
    }

    /// `window` is what the client has room for without reading.
    fn with_window(window: usize) -> Self {
        let (client, far) = tokio::io::duplex(window);
        let (feed, lines) = mpsc::unbounded_channel();
        let (drain, tree) = (Drain::new(), Legacy::default());
        let stats = ServerStats::with_streams(tree.scope("s"));
        let settings = Arc::new(Server::new(1000, stats, drain.clone(), Phase::Close));
        let service = Arc::new(Echo { lines: parking_lot::Mutex::new(Some(lines)) });
        let peer = SocketAddr::from(([192, 0, 2, 1], 4321));
        let server = tokio::spawn(serve(far, peer, service, settings));
        Self { client, feed: Some(feed), server, drain, tree }
    }

    async fn say(&mut self, text: impl AsRef<[u8]>) -> &mut Self {
        self.client.write_all(text.as_ref()).await.expect("open");
        self
    }

    fn feed(&self, line: &'static str) {
        self.feed.as_ref().expect("fed").send(Bytes::from_static(line.as_bytes())).expect("watched");
    }

    /// What comes within half a second (of a paused clock).
    async fn hear(&mut self) -> String {
        let mut got = Vec::new();
        while let Ok(Ok(count)) = tokio::time::timeout(Duration::from_millis(500), self.client.read_buf(&mut got)).await
            && count > 0
        {}
        String::from_utf8(got).expect("text")
    }

    /// Everything until the server closes.
    async fn hear_all(&mut self) -> String {
        let mut got = Vec::new();
        let read = self.client.read_to_end(&mut got);
        tokio::time::timeout(Duration::from_secs(3600), read).await.expect("closed").expect("open");
        String::from_utf8_lossy(&got).into_owned()
    }

    fn metric(&self, name: &str) -> u64 {
        self.tree.scope("s").counter(name).get()
    }
}

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

#[tokio::test(start_paused = true)]
async fn requests_of_one_connection_are_answered_in_order() {
    let mut talk = Talk::new();
    talk.say(
        "GET /a?b#c HTTP/1.1\r\n\r\nGET /prepared HTTP/1.1\r\n\r\n\r\nPUT /d HTTP/1.1\r\nContent-Length: 3\r\n\r\nxyz",
    )
    .await;
    let expected = [ok("GET /a b#c "), ok("ready"), ok("PUT /d  xyz")].concat();
    assert_eq!(talk.hear().await, expected);
    assert_eq!((talk.metric("requests"), talk.metric("success")), (3, 3));
}

#[tokio::test(start_paused = true)]
async fn whoever_pipelines_far_ahead_of_a_slow_answer_is_answered_in_order() {
    let mut talk = Talk::with_window(16 << 10);
    let (mut client, server) = (talk.client, talk.server);
    let writer = tokio::spawn(async move {
        let mut asked = b"GET /slow HTTP/1.1\r\n\r\n".to_vec();
        (0..10_000).for_each(|n| asked.extend(format!("GET /{n} HTTP/1.1\r\n\r\n").bytes()));
        let (mut read, mut write) = tokio::io::split(&mut client);
        let reading = async {
            let (mut got, last) = (Vec::new(), b"GET /9999  ");
            while !got.ends_with(last) {
                assert!(read.read_buf(&mut got).await.expect("open") > 0, "closed after {} bytes", got.len());
            }
            got
        };
        let (got, written) = tokio::join!(reading, write.write_all(&asked));
        written.expect("read");
        got
    });
    let got = writer.await.expect("answered");
    let expected: String = (0..10_000).map(|n| ok(&format!("GET /{n}  "))).collect();
    assert_eq!(String::from_utf8(got).expect("text"), ok("slow") + &expected);
    talk.feed.take();
    server.await.expect("no panic");
}

#[tokio::test(start_paused = true)]
async fn answers_to_a_client_that_pipelines_and_does_not_read_do_not_pile_up() {
    let mut talk = Talk::with_window(64 << 10);
    talk.say("GET /large HTTP/1.1\r\n\r\n".repeat(1000)).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(talk.metric("requests"), 1, "the second is asked when the first has been written");
}

#[tokio::test(start_paused = true)]
async fn a_chunked_body_is_read_whole() {
    let mut talk = Talk::new();
    talk.say("PUT /d HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\nGET /next HTTP/1.1\r\n\r\n").await;
    assert_eq!(talk.hear().await, [ok("PUT /d  abcde"), ok("GET /next  ")].concat());
}

#[tokio::test(start_paused = true)]
async fn an_encoded_body_is_unpacked() {
    let mut talk = Talk::new();
    let packed = Coding::Gzip.encode(Bytes::from_static(b"/a=>/b"));
    let head = format!("PUT /d HTTP/1.1\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n", packed.len());
    talk.say([head.as_bytes(), &packed].concat()).await;
    assert_eq!(talk.hear().await, ok("PUT /d  /a=>/b"));
    talk.say("PUT /d HTTP/1.1\r\nContent-Encoding: br\r\nContent-Length: 1\r\n\r\nx").await;
    assert!(talk.hear().await.starts_with("HTTP/1.1 415 Unsupported Media Type\r\n"));
    talk.say("PUT /d HTTP/1.1\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx").await;
    assert!(talk.hear().await.starts_with("HTTP/1.1 400 Bad Request\r\n"));
    talk.say("GET /on HTTP/1.1\r\n\r\n").await;
    assert_eq!(talk.hear().await, ok("GET /on  "));
}

#[tokio::test(start_paused = true)]
async fn a_body_over_the_limit_is_refused_and_named() {
    for head in ["Content-Length: 1001\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n3e9\r\n"] {
        let mut talk = Talk::new();
        talk.say(format!("PUT /d HTTP/1.1\r\n{head}")).await;
        let answer = talk.hear_all().await;
        assert!(answer.starts_with("HTTP/1.1 413 Request Entity Too Large\r\nConnection: close\r\n"), "{answer}");
        assert!(answer.ends_with("the request body is larger than limits.bodyBytes allows"), "{answer}");
    }
    let mut talk = Talk::new();
    let bomb = Coding::Gzip.encode(vec![b'x'; 2000].into());
    let head = format!("PUT /d HTTP/1.1\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n", bomb.len());
    talk.say([head.as_bytes(), &bomb].concat()).await;
    assert!(talk.hear_all().await.starts_with("HTTP/1.1 413"));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_asks_first_is_told_to_go_on() {
    let mut talk = Talk::new();
    talk.say("PUT /d HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n").await;
    assert_eq!(talk.hear().await, "HTTP/1.1 100 Continue\r\n\r\n");
    talk.say("abc").await;
    assert_eq!(talk.hear().await, ok("PUT /d  abc"));
    talk.say("PUT /d HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 1001\r\n\r\n").await;
    assert!(talk.hear_all().await.starts_with("HTTP/1.1 413"), "a body that will not do is not asked for");
}

#[tokio::test(start_paused = true)]
async fn the_connection_ends_when_the_client_says_so() {
    for (request, closes) in [
        ("GET /a HTTP/1.0\r\n\r\n", true),
        ("GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", false),
        ("GET /a HTTP/1.1\r\nConnection: close\r\n\r\n", true),
        ("GET /a HTTP/1.1\r\n\r\n", false),
        ("GET /fail HTTP/1.1\r\n\r\n", true),
        ("HEAD /a HTTP/1.1\r\n\r\n", false),
        ("HEAD /none HTTP/1.1\r\n\r\n", true),
        ("HEAD /stream HTTP/1.1\r\n\r\n", true),
    ] {
        let mut talk = Talk::new();
        talk.say(request).await;
        let answer = talk.hear().await;
        assert!(answer.starts_with("HTTP/1.1 "), "{request}");
        assert_eq!(answer.contains("Connection: close\r\n"), closes, "{request}: {answer}");
        if request.starts_with("HEAD") {
            assert!(answer.ends_with("\r\n\r\n"), "{request}: {answer}");
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(talk.server.is_finished(), closes, "{request}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_no_request_is_refused_as_namerd_does_it() {
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(70_000));
    let headers = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(9000));
    for (request, status) in [
        ("GET\r\n\r\n", "400 Bad Request"),
        ("GET /é HTTP/1.1\r\n\r\n", "400 Bad Request"),
        ("\u{16}\u{3}\u{1}", "400 Bad Request"),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "400 Bad Request"),
        ("PUT / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "400 Bad Request"),
        (&long, "414 Request-URI Too Long"),
        (&headers, "431 Request Header Fields Too Large"),
    ] {
        let mut talk = Talk::new();
        talk.say(request).await;
        let expected = format!("HTTP/1.0 {status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
        assert_eq!(talk.hear_all().await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_head_that_does_not_end_is_given_up() {
    let mut talk = Talk::new();
    talk.say("GET / HTTP/1.1\r\n").await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(!talk.server.is_finished());
    talk.say("a: b\r\n").await;
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert!(talk.server.is_finished(), "further headers do not prolong it");
}

#[tokio::test(start_paused = true)]
async fn half_a_head_does_not_hold_up_the_end() {
    for (before, after) in [("GET /a HT", ""), ("", "GET /a HT"), ("GET /a HT", "\r\n")] {
        let mut talk = Talk::new();
        talk.say(before).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        talk.drain.enter(Phase::Close);
        talk.client.write_all(after.as_bytes()).await.ok();
        tokio::time::timeout(Duration::from_secs(3), talk.server).await.expect("ends").expect("no panic");
    }
    let mut talk = Talk::new();
    talk.say("GET /a HT").await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    talk.drain.enter(Phase::Close);
    tokio::time::sleep(Duration::from_millis(100)).await;
    talk.say("TP/1.1\r\n\r\n").await;
    assert!(
        talk.hear_all().await.starts_with("HTTP/1.1 200 OK\r\nConnection: close\r\n"),
        "one on its way is answered"
    );
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_kept() {
    let mut talk = Talk::new();
    tokio::time::sleep(Duration::from_secs(86_400)).await;
    talk.say("GET /a HTTP/1.1\r\n\r\n").await;
    assert_eq!(talk.hear().await, ok("GET /a  "));
}

#[tokio::test(start_paused = true)]
async fn a_question_is_given_up_when_its_client_goes() {
    let mut talk = Talk::new();
    talk.say("GET /never HTTP/1.1\r\n\r\n").await;
    assert_eq!(talk.hear().await, "");
    drop(talk.client);
    tokio::time::timeout(Duration::from_secs(2), talk.server).await.expect("given up").expect("no panic");
}

#[tokio::test(start_paused = true)]
async fn textual_answers_are_encoded_on_request() {
    let mut talk = Talk::new();
    talk.say("GET /text HTTP/1.1\r\nAccept-Encoding: gzip\r\n\r\n").await;
    let mut got = Vec::new();
    while !got.windows(4).any(|end| end == b"\r\n\r\n") {
        talk.client.read_buf(&mut got).await.expect("open");
    }
    let head = String::from_utf8_lossy(&got);
    assert!(head.contains("Content-Type: text/plain\r\ncontent-encoding: gzip\r\ncontent-length: "), "{head}");
    let mut talk = Talk::new();
    talk.say("GET /a HTTP/1.1\r\nAccept-Encoding: gzip\r\n\r\n").await;
    assert_eq!(talk.hear().await, ok("GET /a  "), "no content type, no coding");
}

const STREAM_HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n";

#[tokio::test(start_paused = true)]
async fn a_streams_head_is_sent_at_once_and_each_line_as_it_comes() {
    let mut talk = Talk::new();
    talk.say("GET /stream HTTP/1.1\r\n\r\n").await;
    assert_eq!(talk.hear().await, STREAM_HEAD);
    talk.feed("{\"type\":\"neg\"}\n");
    assert_eq!(talk.hear().await, "f\r\n{\"type\":\"neg\"}\n\r\n");
    talk.feed.take();
    assert_eq!(talk.hear().await, "0\r\n\r\n");
    talk.say("GET /a HTTP/1.1\r\n\r\n").await;
    assert_eq!(talk.hear().await, ok("GET /a  "), "the connection is still good");
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_let_go_as_soon_as_its_client_is_gone() {
    let mut talk = Talk::new();
    talk.say("GET /stream HTTP/1.1\r\n\r\n").await;
    talk.hear().await;
    let feed = talk.feed.take().expect("fed");
    drop(talk.client);
    tokio::time::timeout(Duration::from_secs(1), feed.closed()).await.expect("let go");
}

#[tokio::test(start_paused = true)]
async fn a_drain_ends_streams_with_their_last_chunk_and_idle_connections_later() {
    let (mut stream, mut idle) = (Talk::new(), Talk::new());
    stream.say("GET /stream HTTP/1.1\r\n\r\n").await;
    stream.feed("x");
    assert_eq!(stream.hear().await, [STREAM_HEAD, "1\r\nx\r\n"].concat());
    idle.say("GET /a HTTP/1.1\r\n\r\n").await;
    idle.hear().await;
    for drain in [&stream.drain, &idle.drain] {
        drain.enter(Phase::LameDuck);
    }
    stream.feed("y");
    assert_eq!(stream.hear().await, "1\r\ny\r\n", "everything is served during the lame duck");
    for drain in [&stream.drain, &idle.drain] {
        drain.enter(Phase::EndStreams);
    }
    assert_eq!(stream.hear().await, "0\r\n\r\n");
    stream.drain.finished(Phase::EndStreams).await;
    idle.say("GET /b HTTP/1.1\r\n\r\n").await;
    assert_eq!(idle.hear().await, ok("GET /b  "));
    idle.drain.enter(Phase::Close);
    assert_eq!(idle.hear_all().await, "");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_gets_the_last_chunk_or_is_cut() {
    let mut talk = Talk::with_window(64);
    talk.say("GET /stream HTTP/1.1\r\n\r\n").await;
    talk.feed("a line that does not fit into the window of a client that is asleep, however short it is\n");
    tokio::time::sleep(Duration::from_secs(1)).await;
    talk.drain.enter(Phase::EndStreams);
    tokio::time::timeout(Duration::from_secs(5), talk.drain.finished(Phase::EndStreams)).await.expect("cut");
}

/// Tens of thousands of watches are one such future each, and little else.
#[tokio::test]
async fn a_connection_stays_small() {
    let stats = ServerStats::with_streams(Legacy::default().scope("s"));
    let settings = Arc::new(Server::new(1000, stats, Drain::new(), Phase::Close));
    let service = Arc::new(Echo { lines: parking_lot::Mutex::new(None) });
    let (near, _far) = tokio::io::duplex(1);
    let size = size_of_val(&serve(near, SocketAddr::from(([192, 0, 2, 1], 4321)), service, settings));
    assert!(size <= 4096, "{size} bytes");
}
