//! The Consul agent that stood behind the recordings: one service, and long polls that are never answered.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

const WEB: &str = r#"[
  {"Node": "n1", "Address": "10.0.0.9", "ServiceID": "s", "ServiceName": "s", "ServiceTags": [], "ServiceAddress": "",
   "ServicePort": 8080, "ServiceMeta": {"tier": "gold"}, "NodeMeta": {"nodeName": "node-7"}},
  {"Node": "n1", "Address": "10.0.0.10", "ServiceID": "s", "ServiceName": "s", "ServiceTags": [], "ServiceAddress": "",
   "ServicePort": 8080, "ServiceMeta": {}, "NodeMeta": {}}]"#;
const SELF: &str = r#"{"Config": {"Datacenter": "dc1", "Domain": "consul."}}"#;

pub struct Consul(u16);

impl Consul {
    pub fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                std::thread::spawn(move || serve(stream));
            }
        });
        Self(port)
    }

    pub fn port(&self) -> u16 {
        self.0
    }
}

/// Answers the requests of one connection, one after the other, until the client leaves.
fn serve(mut stream: TcpStream) -> Option<()> {
    let mut lines = BufReader::new(stream.try_clone().ok()?);
    loop {
        let mut first = String::new();
        lines.read_line(&mut first).ok().filter(|read| *read > 0)?;
        let mut header = String::new();
        while lines.read_line(&mut header).ok().filter(|read| *read > 0)? > 2 {
            header.clear();
        }
        let target = first.split(' ').nth(1)?;
        if target.contains("index=") {
            // A long poll: held until the client gives up.
            lines.read_to_end(&mut Vec::new()).ok()?;
            return None;
        }
        let body = match target.split(['?', '/']).collect::<Vec<_>>()[..] {
            ["", "v1", "agent", ..] => SELF,
            ["", "v1", _, "service", "web", ..] => WEB,
            _ => "[]",
        };
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-Consul-Index: 7\r\n";
        write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).ok()?;
    }
}
