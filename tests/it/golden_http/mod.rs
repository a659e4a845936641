//! The recordings of namerd's HTTP controller (`tests/data/golden/http`), replayed: what is not listed in
//! `tests/conform/differences.yaml` must come back as recorded, what is listed there must come back as listed.

mod compare;
mod differences;
mod recording;
mod upstream;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use crate::support::{Action, Chunk, Configuration, PlayedConsul, Rosterd, Wire, folder, not_built};
use compare::{Exchange, Inflated};
use differences::Differences;
use recording::{Entry, Events, Recording, Step};

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
    _consul: PlayedConsul,
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
        let consul = PlayedConsul::start();
        let config = Configuration::of(&recording.namerd_config, &disco, consul.port(), &lacking);
        let replay = Self {
            rosterd: Rosterd::start_in(folder, &config.text),
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
        action.act(&self.rosterd, &self.disco);
    }
}
