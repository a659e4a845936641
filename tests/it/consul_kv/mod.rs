//! Dtabs in a real Consul: what is kept there, what others do to it, and what happens when it breaks.

mod breaking;
mod keeping;
mod replays;
mod sharing;

use std::time::{Duration, Instant};

use crate::support::{Agent, Answer, Consul, Rosterd, Wire, get};

/// Longer than a request may take: a one-shot reader waits 30 s for a store that has never answered.
const LONG: Duration = Duration::from_secs(40);

/// A rosterd whose dtabs are in a folder of this Consul.
struct Kept {
    rosterd: Rosterd,
    folder: String,
}

impl Kept {
    /// Its dtabs are in `folder`.
    fn start(consul: &Consul, folder: &str) -> Self {
        Self::start_at(consul, Agent::Server, folder, "")
    }

    /// Asks this agent; `more` are further keys of the storage.
    fn start_at(consul: &Consul, agent: Agent, folder: &str, more: &str) -> Self {
        Self::start_on(consul.port_of(agent), folder, more)
    }

    /// Asks what listens at this port.
    fn start_on(port: u16, folder: &str, more: &str) -> Self {
        let rosterd = Rosterd::start(&format!(
            "storage: {{kind: io.l5d.consul, host: 127.0.0.1, port: {port}, pathPrefix: /{folder}, {more}}}
interfaces: [{{kind: io.l5d.httpController, port: 0}}]\n"
        ));
        Self { rosterd, folder: folder.to_owned() }
    }

    fn key(&self, namespace: &str) -> String {
        format!("{}/{namespace}", self.folder)
    }

    fn send(&self, method: &str, namespace: &str, headers: &str, body: &str) -> Answer {
        let length = body.len();
        let head = format!("Host: x\r\nContent-Type: application/dtab\r\n{headers}Content-Length: {length}\r\n\r\n");
        let mut wire = Wire::open(self.rosterd.http()).with_patience(LONG);
        wire.send(format!("{method} /api/1/dtabs/{namespace} HTTP/1.1\r\n{head}{body}").as_bytes());
        wire.answer(false)
    }

    /// Creates: the status.
    fn post(&self, namespace: &str, dtab: &str) -> u16 {
        self.send("POST", namespace, "", dtab).head.status()
    }

    /// Creates or replaces: the status.
    fn put(&self, namespace: &str, dtab: &str) -> u16 {
        self.send("PUT", namespace, "", dtab).head.status()
    }

    /// Replaces a version: the status.
    fn update(&self, namespace: &str, dtab: &str, etag: &str) -> u16 {
        self.send("PUT", namespace, &format!("If-Match: {etag}\r\n"), dtab).head.status()
    }

    fn delete(&self, namespace: &str) -> u16 {
        self.send("DELETE", namespace, "", "").head.status()
    }

    fn ask(&self, namespace: &str) -> Answer {
        self.send("GET", namespace, "Accept: application/dtab\r\n", "")
    }

    /// The text of a namespace and its version as `Etag` has it; none if there is no such namespace.
    fn read(&self, namespace: &str) -> Option<(String, String)> {
        let answer = self.ask(namespace);
        match answer.head.status() {
            200 => {
                let etag = answer.head.header("etag").expect("an Etag").to_owned();
                Some((answer.text().trim_end().to_owned(), etag))
            }
            404 => None,
            _ => panic!("GET {namespace}: {answer:?}"),
        }
    }

    fn text(&self, namespace: &str) -> Option<String> {
        self.read(namespace).map(|(text, _)| text)
    }

    /// All namespaces, as JSON.
    fn list(&self) -> String {
        let answer = get(self.rosterd.http(), "/api/1/dtabs");
        assert_eq!(answer.head.status(), 200, "{answer:?}");
        answer.text().trim_end().to_owned()
    }

    /// What `/n` is bound to in a namespace, which is what routers see: the port of `/n => /$/inet/127.0.0.1/PORT`.
    fn bound(&self, namespace: &str) -> Option<String> {
        let answer = get(self.rosterd.http(), &format!("/api/1/bind/{namespace}?path=/n"));
        assert_eq!(answer.head.status(), 200, "{answer:?}");
        let (_, rest) = answer.text().split_once("/$/inet/127.0.0.1/")?;
        rest.split_once('"').map(|(port, _)| port.to_owned())
    }

    /// Waits until routers see this: how long that took.
    fn wait_bound(&self, namespace: &str, port: Option<&str>, limit: Duration) -> Duration {
        let began = Instant::now();
        loop {
            let bound = self.bound(namespace);
            if bound.as_deref() == port {
                return began.elapsed();
            }
            assert!(began.elapsed() < limit, "{namespace} is bound to {bound:?} and not to {port:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A dtab whose `/n` is bound to a port.
fn to_port(port: u16) -> String {
    format!("/n=>/$/inet/127.0.0.1/{port}")
}
