//! The areas of the configuration: prefixes of namers and what is refused as a whole.

use rosterd::app::Config;
use rosterd::name::Path;
use rosterd::namer;
use serde_json::{Value, json};

use super::{Answer, Area, Case, check};

pub(super) const AREAS: &[Area] = &[
    Area { name: "config.namer_prefix", run: namer_prefix },
    Area { name: "config.namers_conflict", run: namers_conflict },
    Area { name: "config.namerd", run: whole_file },
];

#[test]
fn configurations_are_judged_as_in_namerd() {
    check(AREAS);
}

/// Loads a configuration that has the given keys besides a storage and an interface; one message if it is refused.
fn load(keys: &Value) -> Result<Config, String> {
    let mut file = json!({"storage": {"kind": "io.l5d.inMemory"}, "interfaces": [{"kind": "io.l5d.httpController"}]});
    let file_keys = file.as_object_mut().expect("an object");
    file_keys.extend(keys.as_object().expect("an object").clone());
    let loaded = Config::load("namerd.json", &file.to_string(), None);
    loaded.map(|(config, _)| config).map_err(|problems| problems.list()[0].message.clone())
}

fn namer_prefix(case: &Case) -> Answer {
    let mut namer = case.input.clone();
    if namer["kind"] == "io.l5d.k8s.ns" {
        // A variable that cargo sets: namerd looks at it only when it starts, rosterd when the file is read.
        namer["envVar"] = "CARGO_MANIFEST_DIR".into();
    }
    match load(&json!({"namers": [namer]})) {
        Ok(config) => Ok(json!(config.namers[0].prefix.to_string())),
        // Of a kind that is not built yet only the prefix is known.
        Err(message) if message.ends_with("not built yet") => {
            let kind = case.input["kind"].as_str().expect("a kind");
            let prefix = Path::from_elems(["#"]).map_err(|error| error.to_string())?.concat(&namer::own_prefix(kind));
            Ok(json!(prefix.to_string()))
        }
        Err(message) => Err(message),
    }
}

fn namers_conflict(case: &Case) -> Answer {
    let prefixes = case.input.as_array().expect("a list of prefixes");
    let namer = |prefix| json!({"kind": "io.l5d.rewrite", "pattern": "/a", "name": "/b", "prefix": prefix});
    let namers: Vec<Value> = prefixes.iter().map(namer).collect();
    match load(&json!({"namers": namers})) {
        Ok(_) => Ok(json!("ok")),
        // Behind namerd's words stands where the other namer is.
        Err(message) => Err(message.split(';').next().unwrap_or_default().to_owned()),
    }
}

fn whole_file(case: &Case) -> Answer {
    let keys = match case.input.get("missing").and_then(Value::as_str) {
        Some(key) => json!({key: null}),
        None => case.input.clone(),
    };
    load(&keys).map(|_| json!("ok"))
}
