//! Stories of names from Kubernetes.

mod changes;
mod outages;
mod replays;
mod rights;

use serde_json::{Value, json};

use crate::support::Rosterd;

const ENDPOINTS: &str = "/api/v1/namespaces/srv/endpoints";
const SERVICES: &str = "/api/v1/namespaces/srv/services";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/srv/endpointslices";

/// A rosterd with this namer; `keys` are those of its block but the kind.
fn rosterd(kind: &str, keys: &str) -> Rosterd {
    Rosterd::start(&config(kind, keys))
}

fn config(kind: &str, keys: &str) -> String {
    format!(
        "storage: {{kind: io.l5d.inMemory, namespaces: {{default: /svc => /#/io.l5d.k8s/srv/http}}}}\n\
         namers: [{{kind: {kind}, {keys}}}]\n\
         interfaces: [{{kind: io.l5d.httpController, port: 0}}]\n"
    )
}

/// A namer that asks a proxy at this port.
fn proxied(port: u16) -> String {
    format!("host: 127.0.0.1, port: {port}")
}

fn endpoints(ips: &[&str]) -> Value {
    let addresses: Value = ips.iter().map(|ip| json!({ "ip": ip })).collect();
    let ports = json!([{ "name": "http", "port": 8080, "protocol": "TCP" }]);
    if ips.is_empty() { json!({}) } else { json!({ "subsets": [{ "addresses": addresses, "ports": ports }] }) }
}

fn slice(service: &str, ips: &[&str]) -> Value {
    let endpoint = |ip: &&str| json!({ "addresses": [ip], "conditions": { "ready": true } });
    json!({
        "metadata": { "labels": { "kubernetes.io/service-name": service } },
        "addressType": "IPv4",
        "endpoints": ips.iter().map(endpoint).collect::<Value>(),
        "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }],
    })
}
