//! Stories of names from Consul.

mod broken;
mod changes;
mod cluster;
mod denied;
mod many;
mod replays;
mod silent;

use serde_json::{Value, json};

use crate::support::{Follow, Rosterd, is_neg, shown};

/// A rosterd whose namer asks the agent at `port`; `keys` are more keys of the namer.
fn rosterd(port: u16, keys: &str) -> Rosterd {
    Rosterd::start(&format!(
        "storage: {{kind: io.l5d.inMemory, namespaces: {{default: /svc => /#/io.l5d.consul/dc1}}}}\n\
         namers: [{{kind: io.l5d.consul, host: 127.0.0.1, port: {port}{keys}}}]\n\
         interfaces: [{{kind: io.l5d.httpController, port: 0}}]\n"
    ))
}

/// A service as `/v1/agent/service/register` takes it, with a check that passes until told otherwise.
fn service(name: &str, id: &str, ip: &str, port: u16) -> Value {
    json!({ "Name": name, "ID": id, "Address": ip, "Port": port,
            "Check": { "TTL": "1h", "Status": "passing", "CheckID": format!("check-{id}") } })
}
