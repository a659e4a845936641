//! The recorded conversations, as they are, and the steps that they consist of.

use std::collections::BTreeMap;
use std::net::SocketAddrV4;

use regex::Regex;
use serde::Deserialize;

use crate::support::{Action, in_project};

/// One recorded conversation.
#[derive(Deserialize)]
pub struct Recording {
    #[serde(skip)]
    pub name: String,
    /// None where a script played the server.
    pub namerd_config: Option<String>,
    #[serde(default)]
    pub fs_disco: BTreeMap<String, String>,
    #[serde(default)]
    pub dtabs: BTreeMap<String, String>,
    pub frames: Vec<Frame>,
}

#[derive(Deserialize)]
pub struct Frame {
    pub from: From,
    conn: Option<serde_json::Value>,
    hex: Option<String>,
    #[serde(default)]
    pub note: String,
    /// What the recorder made of it.
    pub thrift: Option<serde_json::Value>,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "lowercase")]
pub enum From {
    Client,
    Server,
    Event,
}

/// What happens, in order.
#[derive(Clone, Debug)]
pub enum Step {
    /// The client connects.
    Open {
        conn: String,
    },
    /// The client sends these bytes.
    Send {
        conn: String,
        bytes: Vec<u8>,
    },
    /// The server sends a frame.
    Expect {
        conn: String,
        want: Want,
    },
    /// The server sends nothing and keeps the connection open.
    Silence {
        conn: String,
    },
    /// The server closes the connection and sends nothing before.
    ServerCloses {
        conn: String,
    },
    ClientCloses {
        conn: String,
    },
    /// The outside does something.
    Act(Deed),
}

/// What a frame must be.
#[derive(Clone, Debug)]
pub enum Want {
    /// These bytes, as far as bytes are comparable.
    Frame(Vec<u8>),
    /// The same but for the text in it, which is rosterd's own.
    OtherText(Vec<u8>),
    /// The method's declared failure, under this tag, with all its fields.
    DeclaredFailure { tag: u32, method: &'static str },
}

/// What the outside does: to the server's data, or to the server.
#[derive(Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(untagged)]
pub enum Deed {
    Data(Action),
    /// A service of Consul has these nodes.
    Consul {
        consul: String,
        nodes: Vec<SocketAddrV4>,
    },
    Connect {
        connect: String,
    },
    /// Nobody listens any more.
    Refused {
        refused: Nothing,
    },
    Signal {
        signal: Signal,
    },
    Restart {
        restart: Nothing,
    },
    Ended {
        ended: i32,
    },
}

#[derive(Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Signal {
    Term,
    Kill,
}

#[derive(Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

/// `thrift-events.yaml`: the meaning of the events.
#[derive(Deserialize)]
pub struct Events {
    start: BTreeMap<String, Vec<Action>>,
    before: BTreeMap<String, BTreeMap<usize, Vec<Deed>>>,
    events: BTreeMap<String, BTreeMap<String, Vec<Deed>>>,
}

impl Recording {
    pub fn load(folder: &str, name: &str) -> Self {
        let path = in_project("tests/data/golden").join(folder).join(format!("{name}.json"));
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let recording: Self = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        Self { name: name.to_owned(), ..recording }
    }

    /// All recordings of a folder whose names begin so.
    pub fn all(folder: &str, prefix: &str) -> Vec<Self> {
        let files = std::fs::read_dir(in_project("tests/data/golden").join(folder)).expect("the folder can be read");
        let names = files.filter_map(|file| file.ok()?.file_name().into_string().ok());
        let mut names: Vec<_> = names.filter_map(|name| name.strip_suffix(".json").map(str::to_owned)).collect();
        names.sort();
        names.iter().filter(|name| name.starts_with(prefix)).map(|name| Self::load(folder, name)).collect()
    }

    /// The bytes of a frame that has some.
    pub fn bytes(&self, frame: usize) -> Vec<u8> {
        self.frames[frame].bytes().expect("the frame has bytes")
    }

    /// The first event that begins so.
    pub fn event(&self, begins: &str) -> usize {
        let found = self.frames.iter().position(|frame| frame.from == From::Event && frame.note.starts_with(begins));
        found.expect("the recording has the event")
    }

    /// All that happens; the events have the meaning that the list gives them.
    pub fn steps(&self, events: &Events) -> Vec<(Option<usize>, Step)> {
        let mut steps = Vec::new();
        let mut open: Vec<String> = Vec::new();
        for (at, frame) in self.frames.iter().enumerate() {
            for deed in events.before(&self.name, at) {
                steps.push((None, Step::Act(deed.clone())));
            }
            let conn = frame.connection();
            for step in frame.steps(|| events.at(&self.name, &frame.note)) {
                // Connections that have no sign of their beginning begin with their first frame.
                let begins = match &step {
                    Step::Send { .. } | Step::Silence { .. } | Step::Open { .. } => !open.contains(&conn),
                    _ => false,
                };
                if begins {
                    open.push(conn.clone());
                    steps.push((Some(at), Step::Open { conn: conn.clone() }));
                }
                if !matches!(step, Step::Open { .. }) {
                    steps.push((Some(at), step));
                }
            }
        }
        steps
    }
}

impl Frame {
    pub fn bytes(&self) -> Option<Vec<u8>> {
        let hex = self.hex.as_ref()?;
        let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex digits");
        Some((0..hex.len()).step_by(2).map(digit).collect())
    }

    pub fn connection(&self) -> String {
        match &self.conn {
            Some(serde_json::Value::String(name)) => name.clone(),
            Some(other) => other.to_string(),
            None => String::new(),
        }
    }

    fn steps(&self, meaning: impl FnOnce() -> Vec<Deed>) -> Vec<Step> {
        let conn = self.connection();
        let note = self.note.as_str();
        match (self.from, self.bytes()) {
            (From::Client, Some(bytes)) => vec![Step::Send { conn, bytes }],
            (From::Server, Some(bytes)) => vec![Step::Expect { conn, want: Want::Frame(bytes) }],
            (From::Client, None) => vec![Step::ClientCloses { conn }],
            (From::Server, None) => vec![Step::ServerCloses { conn }],
            (From::Event, _) if note.starts_with("no frame from the server") => vec![Step::Silence { conn }],
            (From::Event, _) if note.starts_with("connection ") || note == "client connects" => {
                vec![Step::Open { conn }]
            }
            // A proxy stood between router and name server: it ends both sides.
            (From::Event, _) if note.starts_with("proxy sends") => vec![Step::ClientCloses { conn }],
            (From::Event, _) => meaning().into_iter().map(Step::Act).collect(),
        }
    }
}

impl Events {
    pub fn load() -> Self {
        let path = in_project("tests/data/golden/thrift-events.yaml");
        let text = std::fs::read_to_string(path).expect("the file is there");
        serde_yaml::from_str(&text).unwrap_or_else(|error| panic!("thrift-events.yaml: {error}"))
    }

    /// What was there before the first frame.
    pub fn start(&self, recording: &str) -> &[Action] {
        self.start.get(recording).map_or(&[], Vec::as_slice)
    }

    fn before(&self, recording: &str, frame: usize) -> &[Deed] {
        self.before.get(recording).and_then(|frames| frames.get(&frame)).map_or(&[], Vec::as_slice)
    }

    /// What the outside did at this event.
    pub fn at(&self, recording: &str, event: &str) -> Vec<Deed> {
        if let Some(deeds) = self.events.get(recording).and_then(|events| events.get(event)) {
            return deeds.clone();
        }
        // What the router was asked, and what became of the proxy, is nothing to the name server.
        const ELSEWHERE: &[&str] = &[
            "request through the router",
            "router reaches backend",
            "meanwhile the router",
            "idle for",
            "listener ",
            "stall ",
            "server ",
            "addr poll pending again",
            "addr answered",
            "bump addr",
            "pending addr polls",
            "waiting for process exit",
        ];
        if ELSEWHERE.iter().any(|start| event.starts_with(start)) {
            return Vec::new();
        }
        let pattern = |pattern: &str| Regex::new(pattern).expect("a literal pattern").captures(event);
        let data = if let Some(put) = pattern(r"^PUT (?:dtab )?(\S+): (\S+)") {
            Action::Put { put: put[1].to_owned(), dtab: put[2].to_owned() }
        } else if let Some(delete) = pattern(r"^DELETE dtab (\S+)$") {
            Action::Delete { delete: delete[1].to_owned() }
        } else if let Some(file) = pattern(r"^fs: (\S+) -> (\d+)$") {
            let (write, port) = (file[1].to_owned(), file[2].to_owned());
            Action::Write { write, text: format!("127.0.0.1 {port}\n"), shown: Some(port) }
        } else {
            panic!("thrift-events.yaml does not say what '{event}' of {recording} did")
        };
        vec![Deed::Data(data)]
    }
}
