//! Streams of the HTTP controller: what one of them gets is its own, and what a server does is that server's.

use std::collections::HashMap;
use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use rosterd::client::http::Http;
use rosterd::client::{Answer, Ask, ClientMetrics, Connect, Explain, Failure, Feed, Reason, Stream, Timings, Upstream};
use rosterd::name::{Addr, AddrSet, Limits, NameTree, Path};
use rosterd::store::{Cell, State, Watch};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, duplex};
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};

use super::loops::{A, B, SOON, until};
use super::namerd::set;
use super::net::Link;
use super::{Told, addresses, holds};

/// Servers by address. Cloning shares it.
#[derive(Clone, Default)]
struct Web(Arc<Mutex<HashMap<SocketAddr, Server>>>);

struct Server {
    link: Link,
    answer: fn(&str) -> Reply,
    dialled: usize,
}

/// What is sent for a request, and whether the connection stays open then.
struct Reply(String, bool);

const ADDRESSES: &str = r#"{"type":"bound","addrs":[{"ip":"10.0.0.1","port":80,"meta":{}}],"meta":{}}"#;

fn stream(line: &str) -> Reply {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    Reply(format!("{head}{:x}\r\n{line}\n\r\n", line.len() + 1), true)
}

fn whole(status: &str, kind: &str, body: &str) -> Reply {
    let length = body.len();
    Reply(format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}"), false)
}

/// As namerd: names that end in `bad` fail with a line of text, after which the stream ends.
fn well(request: &str) -> Reply {
    if request.contains("/delegate/") {
        return whole("200 OK", "application/json", r#"{"type":"neg","path":"/svc","dentry":null}"#);
    }
    if request.contains("bad") { whole("200 OK", "application/json", "no such thing\n") } else { stream(ADDRESSES) }
}

fn silent(_: &str) -> Reply {
    Reply(String::new(), true)
}

fn proxy(_: &str) -> Reply {
    whole("200 OK", "text/html; charset=utf-8", "<h1>Welcome</h1>\n")
}

fn full(_: &str) -> Reply {
    whole("503 Service Unavailable", "text/plain", "no room")
}

impl Web {
    fn host(&self, address: &str, link: Link, answer: fn(&str) -> Reply) {
        let server = Server { link, answer, dialled: 0 };
        self.0.lock().insert(address.parse().expect("an address"), server);
    }

    fn dialled(&self, address: &str) -> usize {
        self.0.lock()[&address.parse::<SocketAddr>().expect("an address")].dialled
    }
}

#[async_trait]
impl Connect for Web {
    async fn connect(&self, address: SocketAddr) -> Result<Box<dyn Stream>, Failure> {
        let (link, answer) = {
            let mut servers = self.0.lock();
            let server = servers.get_mut(&address).expect("a server");
            server.dialled += 1;
            (server.link, server.answer)
        };
        match link {
            Link::Refuses => return Err(Failure::new(Reason::Connect, "connection refused")),
            Link::BlackHole => pending().await,
            Link::Up => {}
        }
        let (near, far) = duplex(16 << 10);
        tokio::spawn(serve(far, answer));
        Ok(Box::new(near))
    }
}

async fn serve(stream: DuplexStream, answer: fn(&str) -> Reply) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut request = String::new();
    stream.read_line(&mut request).await?;
    let Reply(bytes, stays) = answer(&request);
    stream.write_all(bytes.as_bytes()).await?;
    // The rest of the request, until the client goes.
    let mut rest = String::new();
    while stays && stream.read_line(&mut rest).await? > 0 {}
    Ok(())
}

fn client(web: &Web, servers: &[&str]) -> (Upstream, ClientMetrics) {
    let (timings, metrics) = (Timings::default(), ClientMetrics::default());
    let http = Http::new("test", Arc::new(web.clone()), timings, Limits::DEFAULT, metrics.clone(), ("namerd", ""));
    let addrs = Watch::new(Cell::ready(addresses(servers)), Arc::new(Told));
    (Upstream::new("test", Arc::new(http.expect("a host")), addrs, timings, metrics.clone()), metrics)
}

fn addr(upstream: &Upstream, id: &str) -> Feed<AddrSet> {
    let ask = Ask::Addr { id: Path::parse(id).expect("an id") };
    let feed = upstream.feed(&Handle::current(), ask, |answer| match answer {
        Answer::Addr(Addr::Bound(set)) => Ok(set),
        other => Err(format!("no addresses: {other:?}")),
    });
    feed.begun()
}

#[tokio::test(start_paused = true)]
async fn a_black_hole_holds_up_nobody_who_is_with_another_server() {
    let web = Web::default();
    web.host(A, Link::BlackHole, well);
    web.host(B, Link::Up, well);
    let (upstream, metrics) = client(&web, &[A, B]);
    let feeds: Vec<_> = (0..3_000).map(|n| addr(&upstream, &format!("/#/fs/{n}"))).collect();
    sleep(SOON).await;
    let known = feeds.iter().filter(|feed| feed.cell().snapshot().value().is_some()).count();
    assert!(known >= 1_400, "those who are with the good one have their values at once: {known}");
    let began = Instant::now();
    for feed in &feeds {
        holds(feed, &set(&["10.0.0.1:80"]), Duration::from_secs(5)).await;
    }
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(web.dialled(A), 64, "of those who waited for a turn nobody tries what others have found out");
    assert_eq!(metrics.ends(&upstream, Reason::Busy), 0);
}

#[tokio::test(start_paused = true)]
async fn what_one_name_gets_says_nothing_of_its_server() {
    for bad in
        [well as fn(&str) -> Reply, |request| if request.contains("bad") { full(request) } else { well(request) }]
    {
        let web = Web::default();
        web.host(A, Link::Up, bad);
        let (upstream, metrics) = client(&web, &[A]);
        let _bad = addr(&upstream, "/#/fs/bad");
        let mut feeds = Vec::new();
        for n in 0..120 {
            let feed = addr(&upstream, &format!("/#/fs/{n}"));
            holds(&feed, &set(&["10.0.0.1:80"]), SOON).await;
            feeds.push(feed);
            sleep(Duration::from_secs(3)).await;
            assert_eq!(upstream.staleness().count, 0);
            let page = upstream.page();
            assert!(page["servers"][0]["avoided"].is_null(), "{page}");
        }
        let refusals = metrics.ends(&upstream, Reason::Declared) + metrics.ends(&upstream, Reason::Nack);
        assert!((36..=150).contains(&refusals), "it is asked with delays that grow: {refusals}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_no_of_a_younger_stream_changes_nothing_where_an_older_one_vouches() {
    let web = Web::default();
    web.host(A, Link::Up, well);
    web.host(B, Link::Up, |_| whole("200 OK", "application/json", "no such thing\n"));
    let (upstream, _) = client(&web, &[A, B]);
    let feeds: Vec<_> = (0..20).map(|n| addr(&upstream, &format!("/#/fs/{n}"))).collect();
    for feed in &feeds {
        holds(feed, &set(&["10.0.0.1:80"]), Duration::from_secs(1)).await;
    }
    for _ in 0..6_000 {
        sleep(SOON).await;
        for feed in &feeds {
            assert!(super::is_current(feed), "{:?}", feed.cell());
        }
        assert_eq!(upstream.staleness().count, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_page_of_a_proxy_is_no_answer() {
    let web = Web::default();
    web.host(A, Link::Up, proxy);
    let (upstream, metrics) = client(&web, &[A]);
    let feed = addr(&upstream, "/#/fs/web");
    until("it is told", SOON, || metrics.ends(&upstream, Reason::BadAnswer) > 0).await;
    assert!(matches!(feed.cell().snapshot().state, State::Pending), "{:?}", feed.cell());
}

#[tokio::test(start_paused = true)]
async fn a_question_that_is_asked_once_is_answered_although_a_server_is_dead() {
    for (link, answer) in
        [(Link::BlackHole, well as fn(&str) -> Reply), (Link::Up, silent), (Link::Refuses, well), (Link::Up, full)]
    {
        let web = Web::default();
        web.host(A, link, answer);
        web.host(B, Link::Up, well);
        let (upstream, _) = client(&web, &[A, B]);
        let path = Path::parse("/svc").expect("a path");
        let ask = Explain { ns: "default".into(), dtab: "".into(), tree: NameTree::Leaf(path) };
        for _ in 0..20 {
            let explained = upstream.explain(&ask, Duration::from_secs(2)).await;
            assert!(explained.is_ok(), "{link:?}: {explained:?}");
        }
        if link == Link::BlackHole {
            assert!(web.dialled(A) <= 10, "once it is known nobody asks there: {}", web.dialled(A));
        }
    }
}
