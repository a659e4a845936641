//! One-shot bind and resolve over HTTP as a share of what a bare hyper server answers on the same machine in the same
//! run: same client, same connections, an answer of the same size. Both servers are processes of their own; rounds are
//! interleaved and the best of each counts, since other load on the machine meets all alike.
//!
//! `cargo bench --bench http`

#![expect(clippy::print_stdout, reason = "a bench tells what it measured")]

#[allow(dead_code, unused_imports, reason = "shared with the tests")]
#[path = "../tests/it/support/mod.rs"]
mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use http_body_util::Full;
use hyper::body::Bytes;
use support::{Rosterd, folder, get};

const CONNECTIONS: usize = 16;
const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_millis(1_500);

fn main() {
    if std::env::args().nth(1).as_deref() == Some("bare") {
        return bare();
    }
    let folder = folder();
    std::fs::create_dir(folder.path().join("disco")).expect("the folder is writable");
    std::fs::write(folder.path().join("disco/web"), "10.0.0.1 8080\n10.0.0.2 8080\n10.0.0.3 8080\n").expect("writable");
    let rosterd = Rosterd::start_in(
        folder,
        "storage: {kind: io.l5d.inMemory, namespaces: {default: /svc => /#/io.l5d.fs}}\n\
         namers: [{kind: io.l5d.fs, rootDir: disco}]\n\
         interfaces: [{kind: io.l5d.httpController, port: 0}]\n",
    );
    let (bind, resolve) = ("/api/1/bind/default?path=/svc/web", "/api/1/resolve/default?path=/svc/web");
    let mut hyper = Bare::start(&get(rosterd.http(), bind).body);
    let mut best = [0.0_f64; 3];
    for _ in 0..ROUNDS {
        for (rate, (port, target)) in
            best.iter_mut().zip([(hyper.port, "/"), (rosterd.http(), bind), (rosterd.http(), resolve)])
        {
            *rate = rate.max(requests_per_second(port, target));
        }
    }
    hyper.child.kill().expect("the bare server is ours");
    hyper.child.wait().expect("it ends");
    let [hyper, bind, resolve] = best;
    println!("requests a second, {CONNECTIONS} connections: bare hyper {hyper:.0}");
    for (what, rate) in [("bind", bind), ("resolve", resolve)] {
        println!("{what}: {rate:.0}, {:.0} % of it", 100.0 * rate / hyper);
        assert!(rate > 0.7 * hyper, "{what} reaches less than 70 % of a bare hyper server");
    }
}

/// Sends the next request on a connection as soon as the answer to the last one is there.
fn requests_per_second(port: u16, target: &str) -> f64 {
    let stop = Arc::new(AtomicBool::new(false));
    let request = Arc::new(format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n"));
    let began = Instant::now();
    let clients: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            let (stop, request) = (stop.clone(), request.clone());
            thread::spawn(move || {
                let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the port is served");
                stream.set_nodelay(true).expect("a fresh socket takes options");
                let (mut answered, mut buffer, mut length) = (0_u64, [0; 4096], None);
                while !stop.load(Ordering::Relaxed) {
                    stream.write_all(request.as_bytes()).expect("the server reads");
                    let mut read = 0;
                    while length.is_none_or(|length| read < length) {
                        read += stream.read(&mut buffer[read..]).expect("the server answers");
                        assert!(read > 0, "the server closed");
                        length = length.or_else(|| whole_length(&buffer[..read]));
                    }
                    answered += 1;
                }
                answered
            })
        })
        .collect();
    thread::sleep(ROUND);
    stop.store(true, Ordering::Relaxed);
    let answered: u64 = clients.into_iter().map(|client| client.join().expect("a client")).sum();
    answered as f64 / began.elapsed().as_secs_f64()
}

/// Length of an answer, head and body; all answers to one target have the same.
fn whole_length(read: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(read).ok()?;
    let head = text.find("\r\n\r\n")? + 4;
    let length = text.lines().find_map(|line| {
        let lower = line.to_ascii_lowercase();
        lower.strip_prefix("content-length: ")?.parse::<usize>().ok()
    });
    Some(head + length.expect("answers to one-shot requests have a length"))
}

/// This program once more, as the server to compare with.
struct Bare {
    child: Child,
    port: u16,
}

impl Bare {
    fn start(body: &[u8]) -> Self {
        let program = std::env::current_exe().expect("this program has a path");
        let mut child = Command::new(program)
            .arg("bare")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program runs");
        child.stdin.take().expect("piped").write_all(body).expect("it reads");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("it says its port");
        Self { child, port: line.trim().parse().expect("a port") }
    }
}

/// A hyper server that answers everything with what it read from stdin.
fn bare() {
    let mut body = Vec::new();
    std::io::stdin().read_to_end(&mut body).expect("a body");
    let body = Bytes::from(body);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async move {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        println!("{}", listener.local_addr().expect("bound").port());
        loop {
            let (stream, _) = listener.accept().await.expect("a connection");
            stream.set_nodelay(true).expect("a fresh socket takes options");
            let body = body.clone();
            tokio::spawn(async move {
                let answer = hyper::service::service_fn(move |_| {
                    let body = body.clone();
                    async move { Ok::<_, std::convert::Infallible>(hyper::Response::new(Full::new(body))) }
                });
                let io = hyper_util::rt::TokioIo::new(stream);
                let _ = hyper::server::conn::http1::Builder::new().serve_connection(io, answer).await;
            });
        }
    });
}
