use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::sync::{Barrier, Notify};

use super::*;

const AT_ONCE: usize = 30;

/// Counts its connections. `/length`, `/chunked` and `/empty` are answered in that way, `/ended` too, and then the
/// connection ends without a word; `/held` when it is let go, `/together` when so many are asked for.
struct Server {
    connections: AtomicUsize,
    open: AtomicUsize,
    go: Notify,
    together: Barrier,
}

impl Server {
    async fn start() -> (Arc<Self>, Arc<Links>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = Address::new("127.0.0.1", listener.local_addr().expect("bound").port());
        let (connections, open) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let server = Arc::new(Self { connections, open, go: Notify::new(), together: Barrier::new(AT_ONCE) });
        let accepting = server.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let server = accepting.clone();
                server.connections.fetch_add(1, Ordering::SeqCst);
                server.open.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(async move {
                    let _ = server.serve(stream).await;
                    server.open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        (server, Links::new(&address, None).expect("a host"))
    }

    async fn serve(&self, stream: TcpStream) -> io::Result<()> {
        let mut stream = BufReader::new(stream);
        loop {
            let mut first = String::new();
            stream.read_line(&mut first).await?;
            let mut line = String::new();
            while line != "\r\n" {
                line.clear();
                if stream.read_line(&mut line).await? == 0 {
                    return Ok(());
                }
            }
            let path = first.split(' ').nth(1).unwrap_or_default();
            match path {
                "/held" => self.go.notified().await,
                "/together" => {
                    self.together.wait().await;
                }
                _ => {}
            }
            let answer: &[u8] = match path {
                "/chunked" => b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n0\r\n\r\n",
                "/empty" => b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
                _ => b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab",
            };
            stream.write_all(answer).await?;
            if path == "/ended" {
                return Ok(());
            }
        }
    }
}

async fn ask(links: &Links, path: &str) -> Result<String, Broken> {
    let request = Request::get(path).body(Full::default()).expect("a request");
    let mut exchange = links.send(request).await?;
    let mut body = Vec::new();
    while let Some(some) = exchange.some().await? {
        body.extend_from_slice(&some);
    }
    Ok(String::from_utf8(body).expect("text"))
}

#[tokio::test]
async fn exchanges_one_after_the_other_have_one_connection() {
    let (server, links) = Server::start().await;
    for _ in 0..100 {
        for (path, body) in [("/length", "ab"), ("/chunked", "ab"), ("/empty", "")] {
            assert_eq!(ask(&links, path).await.as_deref(), Ok(body));
        }
    }
    assert_eq!(server.connections.load(Ordering::SeqCst), 1);
}

/// Of all that end in one moment, each leaves its connection to the next one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn there_are_never_more_connections_than_exchanges_at_once() {
    let (server, links) = Server::start().await;
    let asking: Vec<_> = (0..AT_ONCE)
        .map(|_| {
            let links = links.clone();
            tokio::spawn(async move {
                for _ in 0..20 {
                    ask(&links, "/together").await.expect("answered");
                }
            })
        })
        .collect();
    for asking in asking {
        asking.await.expect("none panics");
    }
    assert_eq!(server.connections.load(Ordering::SeqCst), AT_ONCE);
}

#[tokio::test]
async fn a_connection_that_ended_while_it_was_free_is_not_blamed() {
    let (server, links) = Server::start().await;
    for round in 1..=20 {
        assert_eq!(ask(&links, "/ended").await.as_deref(), Ok("ab"));
        while server.open.load(Ordering::SeqCst) > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(server.connections.load(Ordering::SeqCst), round);
    }
}

#[tokio::test]
async fn an_exchange_that_is_given_up_ends_its_connection() {
    let (server, links) = Server::start().await;
    assert!(timeout(Duration::from_millis(50), ask(&links, "/held")).await.is_err());
    server.go.notify_one();
    while server.open.load(Ordering::SeqCst) > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(ask(&links, "/length").await.as_deref(), Ok("ab"));
    assert_eq!(server.connections.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_connection_is_not_used_again_after_a_long_time() {
    let (server, links) = Server::start().await;
    assert_eq!(ask(&links, "/length").await.as_deref(), Ok("ab"));
    tokio::time::pause();
    tokio::time::advance(KEPT).await;
    tokio::time::resume();
    assert_eq!(ask(&links, "/length").await.as_deref(), Ok("ab"));
    assert_eq!(server.connections.load(Ordering::SeqCst), 2);
}
