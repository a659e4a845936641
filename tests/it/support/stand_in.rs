//! A stand-in for a Consul agent, where a real one cannot be made to answer so, or to be counted.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use serde_json::Value;

use super::in_project;

/// Answers as an agent does: at once without an index, or when the value has another one, else when the wait is over.
/// Closes connections beyond a limit with 429, as agents do.
pub struct StandIn {
    port: u16,
    shared: Arc<Shared>,
}

/// What is answered for a path.
#[derive(Clone, Debug)]
pub struct Reply {
    /// Status line, headers and body as they are sent.
    pub bytes: Vec<u8>,
    /// The index in it; one without is answered at once, always.
    pub index: Option<u64>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    connections: AtomicUsize,
    most_connections: AtomicUsize,
    accepted: AtomicUsize,
    limit: AtomicUsize,
}

#[derive(Default)]
struct State {
    replies: HashMap<String, Reply>,
    default: Option<Reply>,
    asked: Vec<String>,
    held: usize,
    /// Answers to nothing whose target has this in it.
    silent: Option<String>,
}

impl Reply {
    /// A good answer.
    pub fn ok(index: u64, body: &str) -> Self {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-Consul-Index: {index}\r\n");
        let bytes = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes();
        Self { bytes, index: Some(index) }
    }
}

impl Reply {
    /// What a real one was recorded to answer; no bytes where it ended the connection instead. None for an exchange that
    /// the recorder gave up, and for a body that is not kept as it was.
    pub fn recorded(exchange: &Value) -> Option<Self> {
        let response = &exchange["response"];
        let Some(status) = response["status"].as_u64() else {
            return (exchange["closed_by"] == "server").then_some(Self { bytes: Vec::new(), index: None });
        };
        let body = response["body"].as_str().filter(|body| *body != "(gzip)")?;
        let mut head = format!("{}\r\n", response["line"].as_str()?);
        let mut index = None;
        for header in response["headers"].as_array()? {
            let (name, value) = (header[0].as_str()?, header[1].as_str()?);
            match name.to_ascii_lowercase().as_str() {
                "content-length" | "transfer-encoding" => continue,
                "x-consul-index" if [200, 404].contains(&status) => index = value.parse().ok(),
                _ => {}
            }
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
        Some(Self { bytes: [head.as_bytes(), body.as_bytes()].concat(), index })
    }
}

/// The exchanges with a real Consul in a recording (`tests/data/golden/backends/consul`).
pub fn consul_recording(file: &str) -> Vec<Value> {
    let path = in_project(&format!("tests/data/golden/backends/consul/{file}.json"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let recording: Value = serde_json::from_str(&text).expect("JSON");
    recording["exchanges"].as_array().expect("a list").clone()
}

impl StandIn {
    pub fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let shared = Arc::new(Shared { limit: AtomicUsize::new(usize::MAX), ..Shared::default() });
        let accepting = shared.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let shared = accepting.clone();
                // Small stacks: there may be many.
                let serve = std::thread::Builder::new().stack_size(256 << 10);
                serve.spawn(move || shared.serve_counted(stream)).expect("a thread");
            }
        });
        Self { port, shared }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Answers a path with this from now on.
    pub fn set(&self, path: &str, reply: Reply) {
        self.shared.state.lock().replies.insert(path.to_owned(), reply);
        self.shared.changed.notify_all();
    }

    /// Answers every other path with this.
    pub fn set_default(&self, reply: Reply) {
        self.shared.state.lock().default = Some(reply);
        self.shared.changed.notify_all();
    }

    /// Answers nothing whose path or parameters have this in them, until the next call; "" is in all.
    pub fn silence(&self, part: Option<&str>) {
        self.shared.state.lock().silent = part.map(str::to_owned);
        self.shared.changed.notify_all();
    }

    /// How many connections one client may have.
    pub fn limit(&self, connections: usize) {
        self.shared.limit.store(connections, Ordering::Relaxed);
    }

    /// The requests so far, without the method.
    pub fn asked(&self) -> Vec<String> {
        self.shared.state.lock().asked.clone()
    }

    /// How many requests are held now.
    pub fn held(&self) -> usize {
        self.shared.state.lock().held
    }

    /// How many connections there were so far.
    pub fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::Relaxed)
    }

    /// How many connections were open at once at most.
    pub fn most_connections(&self) -> usize {
        self.shared.most_connections.load(Ordering::Relaxed)
    }
}

impl Shared {
    fn serve_counted(&self, mut stream: TcpStream) {
        self.accepted.fetch_add(1, Ordering::Relaxed);
        let open = self.connections.fetch_add(1, Ordering::Relaxed) + 1;
        if open > self.limit.load(Ordering::Relaxed) {
            stream.write_all(b"HTTP/1.1 429 Too Many Requests\r\nConnection: close\r\nContent-Length: 0\r\n\r\n").ok();
            // Closed with something unread, a connection may lose what was written.
            stream.shutdown(Shutdown::Write).ok();
            stream.set_read_timeout(Some(Duration::from_secs(1))).ok();
            std::io::copy(&mut stream, &mut std::io::sink()).ok();
        } else {
            self.most_connections.fetch_max(open, Ordering::Relaxed);
            self.serve(stream);
        }
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }

    /// Answers the requests of one connection, one after the other, until the client leaves.
    fn serve(&self, mut stream: TcpStream) -> Option<()> {
        stream.set_nodelay(true).ok()?;
        let mut lines = BufReader::new(stream.try_clone().ok()?);
        loop {
            let mut first = String::new();
            lines.read_line(&mut first).ok().filter(|read| *read > 0)?;
            let mut header = String::new();
            while lines.read_line(&mut header).ok().filter(|read| *read > 0)? > 2 {
                header.clear();
            }
            let target = first.split(' ').nth(1)?.to_owned();
            let reply = self.reply(&target);
            stream.write_all(&reply.bytes).ok()?;
            if reply.bytes.is_empty() {
                return None; // as when an agent is killed
            }
        }
    }

    fn reply(&self, target: &str) -> Reply {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let parameter = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        let from: Option<u64> = parameter("index").and_then(|index| index.parse().ok());
        let until = Instant::now() + parameter("wait").map_or(Duration::from_secs(300), go_duration);
        let mut state = self.state.lock();
        state.asked.push(target.to_owned());
        state.held += 1;
        let reply = loop {
            if state.silent.as_ref().is_some_and(|part| target.contains(part)) {
                self.changed.wait(&mut state);
                continue;
            }
            let reply = state.replies.get(path).or(state.default.as_ref()).cloned();
            let reply = reply.unwrap_or_else(|| Reply::ok(1, "[]"));
            let held = from.is_some() && reply.index == from && Instant::now() < until;
            if !held {
                break reply;
            }
            self.changed.wait_until(&mut state, until);
        };
        state.held -= 1;
        reply
    }
}

fn go_duration(text: &str) -> Duration {
    if let Some(millis) = text.strip_suffix("ms") {
        return Duration::from_millis(millis.parse().expect("a number"));
    }
    let (number, unit) = text.split_at(text.len() - 1);
    let number: u64 = number.parse().expect("a number");
    Duration::from_secs(if unit == "m" { 60 * number } else { number })
}
