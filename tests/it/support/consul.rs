//! A real Consul.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use serde_json::Value;

use super::backends::Backends;
use super::line::Line;
use super::wire::{Answer, Wire};

/// The agents there can be. [`Agent::Acl`] is on its own, those of [`Agent::THREE`] belong together, and so do the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agent {
    /// A server of `dc1`.
    Server,
    /// A client agent of that server.
    Client,
    /// A server of a `dc1` of its own that denies what no token allows; see [`Consul::token`].
    Acl,
    /// A server of `dc2`, joined to the one of `dc1`.
    Dc2,
    /// One of three servers.
    First,
    /// Another one.
    Second,
    /// The last one.
    Third,
}

/// Consul agents of this test's own, ended when it goes out of scope.
///
/// The calls block: a test that shares its thread with what it tests makes them in `spawn_blocking`.
pub struct Consul {
    backends: Mutex<Backends>,
    ports: [u16; Agent::ALL.len()],
    management_token: String,
    line: Option<Line>,
}

impl Consul {
    /// A server of `dc1`, empty, in about 3 s. Stories that neither break it nor count what is in it use
    /// [`Consul::shared`].
    pub async fn start() -> Self {
        tokio::task::spawn_blocking(|| Self::start_with(&[Agent::Server])).await.expect("consul can be had")
    }

    /// These agents, started in this order.
    pub fn start_with(agents: &[Agent]) -> Self {
        let backends = Backends::new();
        let port = |variable: &str| -> u16 {
            let (_, port) = backends.variable(variable).rsplit_once(':').expect("host:port");
            port.parse().expect("a port")
        };
        let ports = Agent::ALL.map(|agent| port(agent.variable()));
        let (server, gossip) = (port("CONSUL_DC2_SERVER"), port("CONSUL_DC2_WAN"));
        let line = agents.contains(&Agent::Dc2).then(|| Line::start(&[server, gossip], &[gossip]));
        let management_token = backends.variable("CONSUL_ACL_TOKEN").to_owned();
        let consul = Self { backends: Mutex::new(backends), ports, management_token, line };
        agents.iter().for_each(|agent| consul.restart(*agent));
        consul
    }

    /// One server for all stories of this program that leave it running; they keep apart by [`unique`] names.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Consul> = OnceLock::new();
        SHARED.get_or_init(|| Self::start_with(&[Agent::Server]))
    }

    /// The line that leads from `dc1` to `dc2`, for those who have [`Agent::Dc2`].
    pub fn line(&self) -> &Line {
        self.line.as_ref().expect("dc2 was asked for")
    }

    /// The HTTP port of the server.
    pub fn port(&self) -> u16 {
        self.port_of(Agent::Server)
    }

    /// The HTTP port of an agent; the same for as long as this lives.
    pub fn port_of(&self, agent: Agent) -> u16 {
        self.ports[agent as usize]
    }

    /// The token of [`Agent::Acl`] that may do anything.
    pub fn management_token(&self) -> &str {
        &self.management_token
    }

    /// SIGKILL: connections end without an answer, the data stay.
    pub fn kill(&self, agent: Agent) {
        self.command("kill", agent);
    }

    /// SIGTERM: held polls get an error.
    pub fn stop(&self, agent: Agent) {
        self.command("stop", agent);
    }

    /// Starts an agent that does not run, on the data it has, and waits until it answers.
    pub fn restart(&self, agent: Agent) {
        self.command("start", agent);
    }

    /// SIGSTOP: connections stay open and silent, new ones are accepted by the kernel.
    pub fn pause(&self, agent: Agent) {
        self.command("pause", agent);
    }

    /// SIGCONT.
    pub fn resume(&self, agent: Agent) {
        self.command("resume", agent);
    }

    /// Removes the data of an agent that does not run: its index starts anew.
    pub fn wipe(&self, agent: Agent) {
        self.command("wipe", agent);
    }

    fn command(&self, what: &str, agent: Agent) {
        self.backends.lock().command(&format!("{what} {}", agent.name()));
    }

    /// Which of [`Agent::THREE`] leads, as `asked` knows it.
    pub fn leader(&self, asked: Agent) -> Option<Agent> {
        let answer = self.ask(asked, "GET", "/v1/operator/raft/configuration?stale", "", b"");
        let known: Value = serde_json::from_slice(&answer.body).ok()?;
        let leads = known["Servers"].as_array()?.iter().find(|server| server["Leader"] == true)?;
        Agent::THREE.into_iter().find(|agent| leads["Node"] == agent.name())
    }

    /// The state of the server, for [`Consul::restore`].
    pub fn snapshot(&self) -> Vec<u8> {
        self.expect("GET", "/v1/snapshot", b"").body
    }

    /// Puts the server back to a state.
    pub fn restore(&self, snapshot: &[u8]) {
        self.expect("PUT", "/v1/snapshot", snapshot);
    }

    /// Stores a value under a key.
    pub fn kv_put(&self, key: &str, value: &str) {
        let answer = self.expect("PUT", &format!("/v1/kv/{key}"), value.as_bytes());
        assert_eq!(answer.text(), "true", "PUT {key}");
    }

    /// The value of a key and its `ModifyIndex`.
    pub fn kv_get(&self, key: &str) -> Option<(String, u64)> {
        let answer = self.ask(Agent::Server, "GET", &format!("/v1/kv/{key}?consistent=true&raw=true"), "", b"");
        match answer.head.status() {
            200 => {
                let index = answer.head.header("x-consul-index").and_then(|index| index.parse().ok());
                Some((answer.text().to_owned(), index.expect("an index")))
            }
            404 => None,
            _ => panic!("GET {key}: {answer:?}"),
        }
    }

    /// Deletes a key; `recurse` with all that start with it.
    pub fn kv_delete(&self, key: &str, recurse: bool) {
        let recurse = if recurse { "?recurse=true" } else { "" };
        self.expect("DELETE", &format!("/v1/kv/{key}{recurse}"), b"");
    }

    /// Registers a service at the server's agent; `service` is what `/v1/agent/service/register` takes.
    pub fn register(&self, service: &Value) {
        self.expect("PUT", "/v1/agent/service/register", service.to_string().as_bytes());
    }

    /// Takes back [`Consul::register`], by the service's id.
    pub fn deregister(&self, id: &str) {
        self.expect("PUT", &format!("/v1/agent/service/deregister/{id}"), b"");
    }

    /// Makes an ACL token at [`Agent::Acl`] with these rules; what it may do follows [`Consul::set_rules`].
    pub fn token(&self, name: &str, rules: &str) -> String {
        self.set_rules(name, rules);
        let token = serde_json::json!({ "Policies": [{ "Name": name }] });
        let answer = self.manage("/v1/acl/token", &token);
        answer["SecretID"].as_str().expect("a secret").to_owned()
    }

    /// Takes a token of [`Consul::token`] away.
    pub fn delete_token(&self, token: &str) {
        let own = self.ask(Agent::Acl, "GET", "/v1/acl/token/self", token, b"");
        let own: Value = serde_json::from_slice(&own.body).expect("JSON");
        let path = format!("/v1/acl/token/{}", own["AccessorID"].as_str().expect("an id"));
        let answer = self.ask(Agent::Acl, "DELETE", &path, &self.management_token, b"");
        assert_eq!(answer.head.status(), 200, "{answer:?}");
    }

    /// Makes or changes the rules of the tokens that [`Consul::token`] made under this name.
    pub fn set_rules(&self, name: &str, rules: &str) {
        let token = &self.management_token;
        let policy = self.ask(Agent::Acl, "GET", &format!("/v1/acl/policy/name/{name}"), token, b"");
        let mut changed = serde_json::json!({ "Name": name, "Rules": rules });
        let mut path = "/v1/acl/policy".to_owned();
        if policy.head.status() == 200 {
            let policy: Value = serde_json::from_slice(&policy.body).expect("JSON");
            let id = policy["ID"].as_str().expect("an id");
            path = format!("/v1/acl/policy/{id}");
            changed["ID"] = id.into();
        }
        self.manage(&path, &changed);
    }

    fn manage(&self, path: &str, body: &Value) -> Value {
        let answer = self.ask(Agent::Acl, "PUT", path, &self.management_token, body.to_string().as_bytes());
        assert_eq!(answer.head.status(), 200, "PUT {path}: {answer:?}");
        serde_json::from_slice(&answer.body).expect("JSON")
    }

    /// Asks the server for what must be there.
    pub fn expect(&self, method: &str, path: &str, body: &[u8]) -> Answer {
        let answer = self.ask(Agent::Server, method, path, "", body);
        assert_eq!(answer.head.status(), 200, "{method} {path}: {answer:?}");
        answer
    }

    /// One request; `path` with its parameters, `token` may be empty.
    pub fn ask(&self, agent: Agent, method: &str, path: &str, token: &str, body: &[u8]) -> Answer {
        let token = if token.is_empty() { String::new() } else { format!("X-Consul-Token: {token}\r\n") };
        let length = body.len();
        let mut wire = Wire::open(self.port_of(agent));
        wire.send(
            format!("{method} {path} HTTP/1.1\r\nHost: consul\r\n{token}Content-Length: {length}\r\n\r\n").as_bytes(),
        );
        wire.send(body);
        wire.answer(false)
    }
}

impl Drop for Consul {
    #[expect(clippy::print_stderr, reason = "what the agents said explains a failure")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            let backends = self.backends.lock();
            for agent in Agent::ALL {
                let log = backends.log(agent.name());
                let tail = log.len().saturating_sub(4000);
                if !log.is_empty() {
                    eprintln!("-- {} said:\n{}", agent.name(), log.get(tail..).unwrap_or(&log));
                }
            }
        }
    }
}

impl Agent {
    const ALL: [Self; 7] = [Self::Server, Self::Client, Self::Acl, Self::Dc2, Self::First, Self::Second, Self::Third];

    /// The servers of one cluster, which can lose one of them.
    pub const THREE: [Self; 3] = [Self::First, Self::Second, Self::Third];

    fn name(self) -> &'static str {
        match self {
            Self::Server => "consul",
            Self::Client => "consul-client",
            Self::Acl => "consul-acl",
            Self::Dc2 => "consul-dc2",
            Self::First => "consul-first",
            Self::Second => "consul-second",
            Self::Third => "consul-third",
        }
    }

    fn variable(self) -> &'static str {
        match self {
            Self::Server => "CONSUL",
            Self::Client => "CONSUL_CLIENT",
            Self::Acl => "CONSUL_ACL",
            Self::Dc2 => "CONSUL_DC2",
            Self::First => "CONSUL_FIRST",
            Self::Second => "CONSUL_SECOND",
            Self::Third => "CONSUL_THIRD",
        }
    }
}

/// A name that no other story of this program uses.
pub fn unique(what: &str) -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("{what}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}
