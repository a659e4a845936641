//! A stand-in for the Consul agent behind the recordings: service `web`, services that come and go, and long polls that are
//! held until something changes.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::{SocketAddrV4, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;

const WEB: &str = r#"[
  {"Node": "n1", "Address": "10.0.0.9", "ServiceID": "s", "ServiceName": "s", "ServiceTags": ["heavy"], "ServiceAddress": "",
   "ServicePort": 8080, "ServiceMeta": {"tier": "gold"}, "NodeMeta": {"nodeName": "node-7"}},
  {"Node": "n1", "Address": "10.0.0.10", "ServiceID": "s", "ServiceName": "s", "ServiceTags": [], "ServiceAddress": "",
   "ServicePort": 8080, "ServiceMeta": {}, "NodeMeta": {}}]"#;
const SELF: &str = r#"{"Config": {"Datacenter": "dc1", "Domain": "consul."}}"#;

/// How soon a held poll sees a change, or that its client has left.
const TURN: Duration = Duration::from_millis(20);

pub struct PlayedConsul {
    port: u16,
    catalog: Arc<Mutex<Catalog>>,
}

/// The services besides `web`, each with its answer.
struct Catalog {
    index: u64,
    services: BTreeMap<String, String>,
}

impl PlayedConsul {
    pub fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let catalog = Arc::new(Mutex::new(Catalog { index: 7, services: BTreeMap::new() }));
        let shared = catalog.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let catalog = shared.clone();
                std::thread::spawn(move || serve(stream, &catalog));
            }
        });
        Self { port, catalog }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The service has these nodes now.
    pub fn set(&self, service: &str, nodes: &[SocketAddrV4]) {
        let node = |at: &SocketAddrV4| {
            json!({"Node": "n1", "Address": at.ip(), "ServiceID": "s", "ServiceName": "s", "ServiceTags": [],
                   "ServiceAddress": "", "ServicePort": at.port(), "ServiceMeta": {}, "NodeMeta": {}})
        };
        let answer = serde_json::Value::from_iter(nodes.iter().map(node)).to_string();
        let mut catalog = self.catalog.lock();
        catalog.index += 1;
        catalog.services.insert(service.to_owned(), answer);
    }
}

/// Answers the requests of one connection, one after the other, until the client leaves.
fn serve(mut stream: TcpStream, catalog: &Mutex<Catalog>) -> Option<()> {
    stream.set_read_timeout(Some(TURN)).ok()?;
    let mut lines = BufReader::new(stream.try_clone().ok()?);
    loop {
        let first = line(&mut lines)?;
        while line(&mut lines)?.len() > 2 {}
        let target = first.split(' ').nth(1)?;
        if let Some(seen) = target.split_once("index=") {
            let seen: u64 = seen.1.split('&').next()?.parse().ok()?;
            while catalog.lock().index <= seen {
                // A client that waits sends nothing: what comes is its end.
                match stream.peek(&mut [0]) {
                    Err(error) if is_late(&error) => {}
                    _ => return None,
                }
            }
        }
        let catalog = catalog.lock();
        let body = match target.split(['?', '/']).collect::<Vec<_>>()[..] {
            ["", "v1", "agent", ..] => SELF,
            ["", "v1", _, "service", "web", ..] => WEB,
            ["", "v1", _, "service", name, ..] => catalog.services.get(name).map_or("[]", String::as_str),
            _ => "[]",
        };
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-Consul-Index: {}", catalog.index);
        write!(stream, "{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).ok()?;
    }
}

fn line(lines: &mut BufReader<TcpStream>) -> Option<String> {
    let mut line = String::new();
    loop {
        match lines.read_line(&mut line) {
            Ok(0) => return None,
            Ok(_) => return Some(line),
            Err(error) if is_late(&error) => {}
            Err(_) => return None,
        }
    }
}

fn is_late(error: &std::io::Error) -> bool {
    [ErrorKind::WouldBlock, ErrorKind::TimedOut, ErrorKind::Interrupted].contains(&error.kind())
}
