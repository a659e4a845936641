//! The recordings of namerd's HTTP controller (`tests/data/golden/http`), replayed: what is not listed in
//! `tests/conform/differences.yaml` must come back as recorded, what is listed there must come back as listed.

mod compare;
mod consul;
mod differences;
mod recording;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_yaml::Value;

use crate::support::{Chunk, Rosterd, Wire, folder, request};
use compare::{Exchange, Inflated};
use consul::Consul;
use differences::{Differences, not_built};
use recording::{Action, Entry, Events, Recording, Step};

/// How long silence must last to count.
const SILENCE: Duration = Duration::from_millis(300);
/// How long something announced may take.
const SOON: Duration = Duration::from_secs(5);

#[test]
fn addr_answers_as_recorded() {
    replay("addr");
}

#[test]
fn bind_answers_as_recorded() {
    replay("bind");
}

#[test]
fn bound_names_answers_as_recorded() {
    replay("bound-names");
}

#[test]
fn delegate_answers_as_recorded() {
    replay("delegate");
}

#[test]
fn dtabs_answers_as_recorded() {
    replay("dtabs");
}

#[test]
fn resolve_answers_as_recorded() {
    replay("resolve");
}

#[test]
fn watches_stream_as_recorded() {
    replay("watch");
}

fn replay(file: &str) {
    let recording = Recording::load(file);
    let replay = Replay::start(&recording);
    let differences = Differences::load();
    let lacks_kind = recording::needs_one_of(&replay.lacking);
    let mut failures = Vec::new();
    for entry in recording.entries.iter().filter(|entry| !lacks_kind(entry)) {
        let id = format!("{file}/{}", entry.name);
        if replay.lacking.contains(&id) {
            continue;
        }
        // A union is resolved by drawing one of its branches.
        let draws = if file == "resolve" && entry.name.contains("union") { 25 } else { 1 };
        let outcome = (0..draws).map(|_| replay.entry(entry, differences.get(&id))).reduce(Result::or);
        if let Some(Err(failure)) = outcome {
            failures.push(format!("{id}: {failure}"));
        }
    }
    assert!(failures.is_empty(), "{} entries differ:\n{}\n", failures.len(), failures.join("\n"));
}

/// A rosterd with the configuration and the files of one recording.
struct Replay {
    rosterd: Rosterd,
    disco: PathBuf,
    events: Events,
    lacking: BTreeSet<String>,
    _consul: Consul,
}

impl Replay {
    fn start(recording: &Recording) -> Self {
        let lacking = not_built();
        let folder = folder();
        let disco = folder.path().join("disco");
        std::fs::create_dir(&disco).expect("the folder is empty");
        for (name, text) in &recording.fs_disco {
            std::fs::write(disco.join(name), text).expect("the folder is writable");
        }
        let consul = Consul::start();
        let config = configuration(&recording.namerd_config, &disco, consul.port(), &lacking);
        let replay = Self {
            rosterd: Rosterd::start_in(folder, &config),
            disco,
            events: Events::load(),
            lacking,
            _consul: consul,
        };
        if recording.uses("alts") {
            replay.act(&Action::Put { put: "alts".to_owned(), dtab: recording.dtabs["alts"].clone() });
        }
        replay
    }

    fn entry(&self, entry: &Entry, expect: Option<&differences::Expect>) -> Result<(), String> {
        for action in self.events.before(&entry.name) {
            self.act(action);
            if matches!(action, Action::Write { .. }) {
                std::thread::sleep(SILENCE);
            }
        }
        let mut wire = Wire::open(self.rosterd.http());
        wire.send(entry.whole_request().as_bytes());
        let head = wire.head();
        let Some(recorded) = entry.steps() else {
            let exchange = Exchange::read(&mut wire, head, entry);
            return compare::answer(entry, &exchange, expect);
        };
        compare::head(&entry.response, &head)?;
        let steps = match expect {
            None => recorded,
            Some(expect) => expect.steps_instead_of(&recorded)?,
        };
        self.steps(&mut wire, &entry.name, &steps, Inflated::of(&head))
    }

    fn steps(&self, wire: &mut Wire, entry: &str, steps: &[Step], mut inflated: Inflated) -> Result<(), String> {
        let mut ended = false;
        for (at, step) in steps.iter().enumerate() {
            let (want, got) = match step {
                // After its end nothing can come; the outside goes on.
                Step::Event(event) => {
                    let got = if ended { Chunk::Silence } else { wire.chunk(SILENCE) };
                    self.act(&self.events.at(entry, event));
                    (Chunk::Silence, got)
                }
                Step::Line(line) => (Chunk::Data(line.clone()), inflated.chunk(wire.chunk(SOON))),
                Step::End => {
                    ended = true;
                    (Chunk::End, wire.chunk(SOON))
                }
                Step::Open if ended => continue,
                Step::Open => (Chunk::Silence, wire.chunk(SILENCE)),
            };
            compare::chunks(&want, &got).map_err(|why| format!("step {at}: {why}"))?;
        }
        Ok(())
    }

    /// Does what the outside did while the recording was made.
    fn act(&self, action: &Action) {
        match action {
            Action::Put { put, dtab } => {
                let length = dtab.len();
                let head = format!("Host: x\r\nContent-Type: application/dtab\r\nContent-Length: {length}\r\n\r\n");
                self.controller(&format!("PUT /api/1/dtabs/{put} HTTP/1.1\r\n{head}{dtab}"));
            }
            Action::Delete { delete } => {
                self.controller(&format!("DELETE /api/1/dtabs/{delete} HTTP/1.1\r\nHost: x\r\n\r\n"));
            }
            Action::Write { write, text } => write_file(&self.disco, write, text),
            Action::Remove { remove } => std::fs::remove_file(self.disco.join(remove)).expect("the file is there"),
        }
    }

    fn controller(&self, raw: &str) {
        let answer = request(self.rosterd.http(), raw);
        assert_eq!(answer.head.status(), 204, "{raw:?} was answered with {answer:?}");
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

/// The recorded configuration, moved to this machine's ports and files, without what is not built.
fn configuration(recorded: &str, disco: &Path, consul: u16, lacking: &BTreeSet<String>) -> String {
    let text = recorded.replace("DISCO", &disco.to_string_lossy());
    let mut config: BTreeMap<String, Value> = serde_yaml::from_str(&text).expect("a recorded configuration is YAML");
    for key in ["namers", "interfaces", "telemetry"] {
        let blocks = config.remove(key).and_then(|blocks| blocks.as_sequence().cloned()).unwrap_or_default();
        let mut blocks: Vec<Value> = blocks.into_iter().filter(|block| !lacks(block, lacking)).collect();
        for block in &mut blocks {
            match key {
                "interfaces" => block["port"] = 0.into(),
                _ if block.get("port") == Some(&8500.into()) => block["port"] = consul.into(),
                _ => {}
            }
        }
        if !blocks.is_empty() {
            config.insert(key.to_owned(), blocks.into());
        }
    }
    if let Some(admin) = config.get_mut("admin") {
        admin["port"] = 0.into();
    }
    serde_yaml::to_string(&config).expect("what was YAML is YAML")
}

/// Whether a block, or a transformer in it, is of a kind that is not built.
fn lacks(block: &Value, lacking: &BTreeSet<String>) -> bool {
    let transformers = block.get("transformers").and_then(Value::as_sequence).into_iter().flatten();
    block.get("kind").and_then(Value::as_str).is_some_and(|kind| lacking.contains(kind))
        || transformers.into_iter().any(|transformer| lacks(transformer, lacking))
}
