//! What the replays of recordings share: the recorded configuration without what is not built, and what the outside did.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_yaml::Value;

use super::{PATIENCE, Rosterd, get, in_project, request};

/// What the outside did.
#[derive(Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(untagged)]
pub enum Action {
    /// Stores a dtab in a namespace.
    Put { put: String, dtab: String },
    /// Deletes a namespace.
    Delete { delete: String },
    /// Writes a file of the fs namer and, if told so, waits until the controller shows this text among its addresses.
    Write { write: String, text: String, shown: Option<String> },
    /// Removes a file of the fs namer.
    Remove { remove: String },
}

impl Action {
    /// Does it to a running rosterd whose fs namer reads this folder.
    pub fn act(&self, rosterd: &Rosterd, disco: &Path) {
        match self {
            Self::Put { put, dtab } => {
                let length = dtab.len();
                let head = format!("Host: x\r\nContent-Type: application/dtab\r\nContent-Length: {length}\r\n\r\n");
                controller(rosterd, &format!("PUT /api/1/dtabs/{put} HTTP/1.1\r\n{head}{dtab}"));
            }
            Self::Delete { delete } => {
                controller(rosterd, &format!("DELETE /api/1/dtabs/{delete} HTTP/1.1\r\nHost: x\r\n\r\n"));
            }
            Self::Write { write, text, shown } => {
                write_file(disco, write, text);
                if let Some(shown) = shown {
                    wait_until_shown(rosterd, write, shown);
                }
            }
            Self::Remove { remove } => std::fs::remove_file(disco.join(remove)).expect("the file is there"),
        }
    }
}

fn controller(rosterd: &Rosterd, raw: &str) {
    let answer = request(rosterd.http(), raw);
    assert_eq!(answer.head.status(), 204, "{raw:?} was answered with {answer:?}");
}

fn wait_until_shown(rosterd: &Rosterd, file: &str, text: &str) {
    let deadline = Instant::now() + PATIENCE;
    let target = format!("/api/1/addr/default?path=/%23/io.l5d.fs/{file}");
    while !get(rosterd.http(), &target).text().contains(text) {
        assert!(Instant::now() < deadline, "{file} never showed {text}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// In place and with one write where the file exists, so that no reader sees half of it; renamed into place otherwise.
fn write_file(disco: &Path, name: &str, text: &str) {
    let file = disco.join(name);
    if file.exists() {
        let open = std::fs::OpenOptions::new().write(true).open(&file);
        let mut open = open.expect("the file is ours");
        std::io::Write::write_all(&mut open, text.as_bytes()).expect("the file is writable");
        open.set_len(text.len() as u64).expect("the file is writable");
    } else {
        let spare = disco.with_extension("spare");
        std::fs::write(&spare, text).expect("the folder is writable");
        std::fs::rename(&spare, &file).expect("the folder is writable");
    }
}

/// `tests/conform/not-built.txt`: what rosterd does not have yet: kinds, and what certain entries of recordings ask for.
pub fn not_built() -> BTreeSet<String> {
    let path = in_project("tests/conform/not-built.txt");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let kinds = text.lines().filter_map(|line| line.split('#').next()).map(str::trim);
    kinds.filter(|kind| !kind.is_empty()).map(str::to_owned).collect()
}

/// A recorded configuration, moved to this machine's ports and files, without what is not built.
pub struct Configuration {
    pub text: String,
    /// The kinds that were left out.
    pub dropped: BTreeSet<String>,
}

impl Configuration {
    pub fn of(recorded: &str, disco: &Path, consul: u16, lacking: &BTreeSet<String>) -> Self {
        let text = recorded.replace("DISCO", &disco.to_string_lossy());
        let mut config: BTreeMap<String, Value> =
            serde_yaml::from_str(&text).expect("a recorded configuration is YAML");
        let mut dropped = BTreeSet::new();
        for key in ["namers", "interfaces", "telemetry"] {
            let blocks = config.remove(key).and_then(|blocks| blocks.as_sequence().cloned()).unwrap_or_default();
            let mut kept: Vec<Value> = Vec::new();
            for mut block in blocks {
                if let Some(kind) = lacking_kind(&block, lacking) {
                    dropped.insert(kind);
                    continue;
                }
                match key {
                    "interfaces" => block["port"] = 0.into(),
                    _ if block.get("port") == Some(&8500.into()) => block["port"] = consul.into(),
                    _ => {}
                }
                kept.push(block);
            }
            if !kept.is_empty() {
                config.insert(key.to_owned(), kept.into());
            }
        }
        if let Some(admin) = config.get_mut("admin") {
            admin["port"] = 0.into();
        }
        Self { text: serde_yaml::to_string(&config).expect("what was YAML is YAML"), dropped }
    }
}

/// The kind of a block, or of a transformer in it, that is not built.
fn lacking_kind(block: &Value, lacking: &BTreeSet<String>) -> Option<String> {
    let kind = block.get("kind").and_then(Value::as_str).filter(|kind| lacking.contains(*kind)).map(str::to_owned);
    let mut transformers = block.get("transformers").and_then(Value::as_sequence).into_iter().flatten();
    kind.or_else(|| transformers.find_map(|transformer| lacking_kind(transformer, lacking)))
}
