//! A real Kubernetes API server on a real etcd, and a kubectl proxy before it.

use std::sync::OnceLock;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::PATIENCE;
use super::backends::Backends;
use super::wire::{Answer, Wire};

/// A control plane of this test's own, ended when it goes out of scope. No controller runs in it: what is there is what
/// tests write.
///
/// The calls block.
pub struct Kubernetes {
    backends: Mutex<Backends>,
    proxy: u16,
    etcd: u16,
}

impl Kubernetes {
    /// An empty one with the namespace `srv`, in about 10 s. Stories that do not break it use [`Kubernetes::shared`].
    pub fn start() -> Self {
        let mut backends = Backends::new();
        let port = |address: &str| -> u16 {
            let (_, port) = address.rsplit_once(':').expect("host:port");
            port.parse().expect("a port")
        };
        let (proxy, etcd) = (port(backends.variable("KUBE_PROXY")), port(backends.variable("ETCD")));
        for backend in ["etcd", "kube-apiserver", "kube-proxy"] {
            backends.command(&format!("start {backend}"));
        }
        let kubernetes = Self { backends: Mutex::new(backends), proxy, etcd };
        kubernetes.make_namespace("srv");
        kubernetes
    }

    /// One for all stories of this program that leave it running; they keep apart by [`super::unique`] names.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Kubernetes> = OnceLock::new();
        SHARED.get_or_init(Self::start)
    }

    /// The port of the proxy, where anybody may do anything in plain text.
    pub fn proxy(&self) -> u16 {
        self.proxy
    }

    /// What `backend env` says under this name: `KUBE`, `KUBE_CA`, …
    pub fn variable(&self, name: &str) -> String {
        self.backends.lock().variable(name).to_owned()
    }

    /// `kill`, `start`, `pause`, … of `kube-apiserver`, `etcd` or `kube-proxy`.
    pub fn command(&self, what: &str, backend: &str) {
        self.backends.lock().command(&format!("{what} {backend}"));
    }

    /// Forgets the history of everything, as etcd does after five minutes.
    pub fn compact(&self) {
        let ask = |path: &str, body: &Value| -> Value {
            let answer = exchange(self.etcd, "POST", path, body);
            assert_eq!(answer.head.status(), 200, "{path}: {answer:?}");
            serde_json::from_slice(&answer.body).expect("JSON")
        };
        let status = ask("/v3/maintenance/status", &json!({}));
        let revision = status["header"]["revision"].as_str().expect("a revision");
        ask("/v3/kv/compaction", &json!({ "revision": revision, "physical": true }));
    }

    /// A namespace from now on.
    pub fn make_namespace(&self, name: &str) {
        let namespace = json!({ "metadata": { "name": name } });
        self.expect(&[201, 409], "POST", "/api/v1/namespaces", &namespace);
    }

    /// An object of a collection is like this from now on.
    pub fn put(&self, collection: &str, name: &str, mut object: Value) {
        object["metadata"]["name"] = name.into();
        let answer = self.ask("GET", &format!("{collection}/{name}"), &Value::Null);
        if answer.head.status() == 404 {
            self.expect(&[201], "POST", collection, &object);
        } else {
            let known: Value = serde_json::from_slice(&answer.body).expect("JSON");
            object["metadata"]["resourceVersion"] = known["metadata"]["resourceVersion"].clone();
            self.expect(&[200], "PUT", &format!("{collection}/{name}"), &object);
        }
    }

    /// An object is gone.
    pub fn delete(&self, collection: &str, name: &str) {
        self.expect(&[200, 202], "DELETE", &format!("{collection}/{name}"), &Value::Null);
    }

    fn expect(&self, statuses: &[u16], method: &str, path: &str, body: &Value) {
        let answer = self.ask(method, path, body);
        assert!(statuses.contains(&answer.head.status()), "{method} {path}: {answer:?}");
    }

    /// One request to the proxy.
    pub fn ask(&self, method: &str, path: &str, body: &Value) -> Answer {
        exchange(self.proxy, method, path, body)
    }
}

fn exchange(port: u16, method: &str, path: &str, body: &Value) -> Answer {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let mut wire = Wire::open(port).with_patience(3 * PATIENCE);
    let length = body.len();
    wire.send(
        format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        )
        .as_bytes(),
    );
    wire.answer(false)
}
