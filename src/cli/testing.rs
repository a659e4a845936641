//! A server for tests of commands: it answers by a script and tells what it was asked.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::client::{Client, Port};

/// How the fake answers one request.
pub(super) enum Reply {
    /// A whole answer: status line, further header lines, body.
    Whole(&'static str, &'static str, String),
    /// A watch that gives these lines and stays open.
    Open(Vec<&'static str>),
    /// A watch that gives these lines and ends.
    Ended(Vec<&'static str>),
}

impl Reply {
    pub(super) fn ok(body: &str) -> Self {
        Self::Whole("200 OK", "", body.to_owned())
    }

    pub(super) fn status(status: &'static str) -> Self {
        Self::Whole(status, "", String::new())
    }
}

/// A server on a port of its own, until dropped.
pub(super) struct Fake {
    url: String,
    asked: Arc<Mutex<Vec<String>>>,
    _tasks: JoinSet<()>,
}

impl Fake {
    /// `script` gets the request as it came, and how many came before it.
    pub(super) async fn start(script: impl Fn(&str, usize) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (log, script) = (asked.clone(), Arc::new(script));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                connections.spawn(serve(socket, log.clone(), script.clone()));
            }
        });
        Self { url, asked, _tasks: tasks }
    }

    pub(super) fn url(&self) -> String {
        self.url.clone()
    }

    /// Every request so far: the request line, the headers that matter, the body.
    pub(super) fn asked(&self) -> Vec<String> {
        self.asked.lock().clone()
    }
}

async fn serve(mut socket: TcpStream, log: Arc<Mutex<Vec<String>>>, script: Arc<impl Fn(&str, usize) -> Reply>) {
    let Some(request) = read(&mut socket).await else { return };
    let before = {
        let mut log = log.lock();
        log.push(request.clone());
        log.len() - 1
    };
    let (text, open) = match script(&request, before) {
        Reply::Whole(status, headers, body) => {
            let length = body.len();
            (
                format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"),
                false,
            )
        }
        Reply::Open(lines) => (chunked(&lines), true),
        Reply::Ended(lines) => (chunked(&lines) + "0\r\n\r\n", false),
    };
    let _ = socket.write_all(text.as_bytes()).await;
    if open {
        // Until the client leaves.
        let _ = socket.read(&mut [0]).await;
    }
}

fn chunked(lines: &[&str]) -> String {
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned();
    lines.iter().fold(head, |text, line| format!("{text}{:x}\r\n{line}\n\r\n", line.len() + 1))
}

/// A request without the headers that every client sends.
async fn read(socket: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        if socket.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let text = String::from_utf8(bytes[..head].to_vec()).unwrap();
    let header = |name: &str| {
        text.lines().find_map(|line| line.split_once(": ").filter(|(found, _)| found.eq_ignore_ascii_case(name)))
    };
    let length = header("content-length").map_or(0, |(_, length)| length.parse().unwrap());
    while bytes.len() < head + 4 + length {
        socket.read_buf(&mut bytes).await.ok()?;
    }
    let mut request = text.lines().next().unwrap().to_owned();
    for name in ["content-type", "if-match"] {
        if let Some((_, value)) = header(name) {
            request.push_str(&format!("\n{name}: {value}"));
        }
    }
    if length > 0 {
        request.push_str(&format!("\n\n{}", String::from_utf8(bytes[head + 4..].to_vec()).unwrap()));
    }
    Some(request)
}

/// A client of the server at `url`.
pub(super) fn client(url: &str) -> Client {
    super::install_crypto();
    Client::new(url, Port::CONTROLLER).unwrap()
}

/// What became of a command line.
pub(super) struct Ran {
    pub(super) status: u8,
    pub(super) data: String,
    pub(super) talk: String,
}

/// Runs a command line, `SERVER` in it replaced by the fake's address.
pub(super) async fn run(fake: &Fake, line: &[&str]) -> Ran {
    run_into(fake, line, usize::MAX).await
}

/// [`run`] with a standard output whose reader leaves after so many lines.
pub(super) async fn run_into(fake: &Fake, line: &[&str], lines: usize) -> Ran {
    let url = fake.url();
    let args = line.iter().map(|arg| arg.replace("SERVER", &url).into()).collect::<Vec<_>>();
    // A command brings its own runtime.
    tokio::task::spawn_blocking(move || run_to(args, lines)).await.unwrap()
}

/// Runs a command line that asks no server.
pub(super) fn run_alone(args: Vec<OsString>) -> Ran {
    run_to(args, usize::MAX)
}

fn run_to(args: Vec<OsString>, lines: usize) -> Ran {
    let (mut data, mut talk) = (Leaving { data: Vec::new(), lines }, Vec::new());
    let status = super::run(args, &mut data, &mut talk);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { status, data: text(data.data), talk: text(talk) }
}

/// A file that goes with the test.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn new(text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("rosterd-test-{:016x}", rand::random::<u64>()));
        std::fs::File::create_new(&path).unwrap().write_all(text.as_bytes()).unwrap();
        Self(path)
    }

    pub(super) fn name(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A reader that leaves.
struct Leaving {
    data: Vec<u8>,
    lines: usize,
}

impl Leaving {
    fn check(&self) -> io::Result<()> {
        let seen = self.data.iter().filter(|byte| **byte == b'\n').count();
        if seen < self.lines { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    }
}

impl Write for Leaving {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.check()?;
        self.data.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.check()
    }
}
