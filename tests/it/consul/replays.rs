//! What a real Consul was recorded to answer, played to rosterd: it shows the addresses of each good answer, and keeps them
//! through each that is none.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use super::{Follow, shown};
use crate::support::{Reply, Rosterd, StandIn, consul_recording};

/// One recorded exchange about instances of a service.
struct Exchange {
    health: bool,
    note: String,
    reply: Reply,
    /// The addresses in it; none for a refusal, or a connection that ended.
    addrs: Option<Vec<String>>,
}

fn load(file: &str) -> Vec<Exchange> {
    consul_recording(file).iter().filter_map(exchange).collect()
}

fn exchange(recorded: &Value) -> Option<Exchange> {
    let line = recorded["request"]["line"].as_str()?;
    let health = line.starts_with("GET /v1/health/service/");
    if !health && !line.starts_with("GET /v1/catalog/service/") {
        return None;
    }
    let reply = Reply::recorded(recorded)?;
    let note = recorded["note"].as_str().unwrap_or(line).to_owned();
    let good = recorded["response"]["status"].as_u64() == Some(200);
    let list = recorded["response"]["body"].as_str().filter(|_| good);
    let addrs = list.map(|list| addrs(health, &serde_json::from_str(list).expect("JSON")));
    Some(Exchange { health, note, reply, addrs })
}

impl Reply {
    /// The same with an index that was not played before: answers to questions about different tags are played as if
    /// the service had changed.
    fn after(&self, used: &mut BTreeSet<u64>) -> Self {
        let Some(index) = self.index else { return self.clone() };
        let other = (index..).find(|index| used.insert(*index)).expect("there are many");
        let end = self.bytes.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("a head");
        let (head, body) = self.bytes.split_at(end);
        let head = String::from_utf8_lossy(head);
        let head = head.replace(&format!("X-Consul-Index: {index}\r\n"), &format!("X-Consul-Index: {other}\r\n"));
        Self { bytes: [head.as_bytes(), body].concat(), index: Some(other) }
    }
}

/// The addresses that namerd makes of a list: every instance with a port and an ip address, each once.
fn addrs(health: bool, list: &Value) -> Vec<String> {
    let mut all: Vec<(std::net::IpAddr, u64)> = Vec::new();
    for entry in list.as_array().expect("a list") {
        let (node, service, port) = if health {
            (&entry["Node"]["Address"], &entry["Service"]["Address"], &entry["Service"]["Port"])
        } else {
            (&entry["Address"], &entry["ServiceAddress"], &entry["ServicePort"])
        };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let host = if text(service).is_empty() { text(node) } else { text(service) };
        if let (Ok(ip), Some(port)) = (host.parse(), port.as_u64()) {
            all.push((ip, port));
        }
    }
    all.sort_unstable();
    all.dedup();
    all.iter().map(|(ip, port)| format!("{ip}:{port}")).collect()
}

/// Plays a file to a namer that asks the catalog and one that asks for health, of whatever status.
fn play(file: &str) -> usize {
    let agent = StandIn::start();
    let port = agent.port();
    let namer = |prefix: &str, keys: &str| {
        format!("- {{kind: io.l5d.consul, prefix: /{prefix}, host: 127.0.0.1, port: {port}{keys}}}\n")
    };
    let health = ", useHealthCheck: true, healthStatuses: [passing, warning, critical, maintenance]";
    let rosterd = Rosterd::start(&format!(
        "storage: {{kind: io.l5d.inMemory}}\nnamers:\n{}{}interfaces: [{{kind: io.l5d.httpController, port: 0}}]\n",
        namer("catalog", ""),
        namer("health", health),
    ));
    let exchanges = load(file);
    let mut played = 0;
    for kind in [false, true] {
        let mut followed: Option<(Follow, Vec<String>)> = None;
        let mut used = BTreeSet::new();
        for Exchange { note, reply, addrs, .. } in exchanges.iter().filter(|exchange| exchange.health == kind) {
            let name = if kind { "health" } else { "catalog" };
            agent.set(&format!("/v1/{name}/service/web"), reply.after(&mut used));
            played += 1;
            match (&mut followed, addrs) {
                (None, None) => {} // before anything is known
                (None, Some(addrs)) => {
                    let mut follow = Follow::addr(&rosterd, &format!("/#/{name}/dc1/web"));
                    follow.until(note, |value| shown(value) == *addrs && value["type"] != "failed");
                    followed = Some((follow, addrs.clone()));
                }
                (Some((follow, last)), Some(addrs)) if last == addrs => follow.stays(Duration::from_millis(50)),
                (Some((follow, last)), Some(addrs)) => {
                    follow.until(note, |value| shown(value) == *addrs);
                    last.clone_from(addrs);
                }
                (Some((follow, _)), None) => follow.stays(Duration::from_millis(500)),
            }
        }
    }
    played
}

#[test]
fn every_recorded_answer_about_instances_is_understood() {
    let files = [
        "acl",
        "blocking",
        "catalog-health",
        "client-agent",
        "consistency",
        "index-reset",
        "large-catalog",
        "large-health",
        "maintenance",
        "names-addresses",
        "no-leader",
        "quorum-lost",
        "restart",
        "snapshot-restore",
    ];
    let played: Vec<(&str, usize)> = std::thread::scope(|scope| {
        let all: Vec<_> = files.iter().map(|file| (file, scope.spawn(|| play(file)))).collect();
        all.into_iter().map(|(file, played)| (*file, played.join().unwrap_or_else(|_| panic!("{file}")))).collect()
    });
    let sum: usize = played.iter().map(|(_, played)| played).sum();
    assert!(played.iter().all(|(_, played)| *played > 0) && sum > 80, "{played:?}");
}

#[test]
fn an_agent_describes_itself_as_recorded() {
    let exchange = &consul_recording("agent-self")[0];
    let mut own: Value = serde_json::from_str(exchange["response"]["body"].as_str().expect("text")).expect("JSON");
    own["DebugConfig"] = serde_json::json!({ "DNSDomain": exchange["debug_config_DNSDomain"] });
    let agent = StandIn::start();
    let own = own.to_string();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", own.len());
    agent.set("/v1/agent/self", Reply { bytes: format!("{head}{own}").into_bytes(), index: None });
    let web = r#"[{"Node":"n","ServiceID":"s","Address":"10.0.0.1","ServicePort":80}]"#;
    agent.set("/v1/catalog/service/web", Reply::ok(7, web));
    let rosterd = super::rosterd(agent.port(), ", setHost: true");
    let mut addrs = Follow::addr(&rosterd, "/#/io.l5d.consul/.local/web");
    addrs.until("the authority", |value| value["meta"]["authority"] == "web.service.dc1.consul");
    assert!(agent.asked().iter().any(|target| target.contains("dc=dc1")), "{:?}", agent.asked());
}
