//! The files of `tests/data/golden`, as they are.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;
use serde::Deserialize;

use crate::support::{Action, in_project};

/// One file of recorded exchanges.
#[derive(Deserialize)]
pub struct Recording {
    pub namerd_config: String,
    pub fs_disco: BTreeMap<String, String>,
    pub dtabs: BTreeMap<String, String>,
    pub entries: Vec<Entry>,
}

#[derive(Deserialize)]
pub struct Entry {
    pub name: String,
    request: String,
    pub response: Response,
}

#[derive(Deserialize)]
pub struct Response {
    pub status_line: String,
    pub headers: Vec<(String, String)>,
    pub body: Option<Bytes>,
    chunks: Option<Vec<RecordedStep>>,
    pub extra_bytes: Option<Bytes>,
    pub connection_closed_by_server: bool,
}

#[derive(Deserialize)]
#[serde(untagged)]
pub enum Bytes {
    Text(String),
    Hex { hex: String },
}

#[derive(Deserialize)]
struct RecordedStep {
    event: Option<String>,
    chunk: Option<Bytes>,
    #[serde(default)]
    end: bool,
}

/// One thing that happens to a stream.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// The outside does something.
    Event(String),
    /// The server sends one chunk.
    Line(Vec<u8>),
    /// The stream is open and nothing comes.
    Open,
    /// The server ends the stream.
    End,
}

/// `http-events.yaml`: the meaning of the events.
#[derive(Deserialize)]
pub struct Events {
    before: BTreeMap<String, Vec<Action>>,
    events: BTreeMap<String, BTreeMap<String, Action>>,
}

impl Recording {
    pub fn load(file: &str) -> Self {
        load(&format!("tests/data/golden/http/{file}.yaml"))
    }

    /// Whether a request asks for this namespace, or an answer names it.
    pub fn uses(&self, namespace: &str) -> bool {
        let path = format!("/{namespace}");
        let named = format!("\"{namespace}\"");
        let body = |entry: &Entry| entry.response.body.as_ref().map(Bytes::to_vec).unwrap_or_default();
        self.entries
            .iter()
            .any(|entry| entry.request.contains(&path) || String::from_utf8_lossy(&body(entry)).contains(&named))
    }
}

impl Entry {
    /// The request; one that the recording cut short goes on with its last character up to its real length.
    pub fn whole_request(&self) -> String {
        let Some((head, size)) = self.request.strip_suffix(" bytes in all>").and_then(|cut| cut.split_once("...<"))
        else {
            return self.request.clone();
        };
        let size: usize = size.parse().expect("the real length is a number");
        let tail = if head.contains("\r\n") { "\r\n\r\n" } else { " HTTP/1.1\r\nHost: x\r\n\r\n" };
        let last = head.chars().next_back().expect("a cut request has a beginning").to_string();
        format!("{head}{}{tail}", last.repeat(size - head.len() - tail.len()))
    }

    pub fn is_head(&self) -> bool {
        self.request.starts_with("HEAD ")
    }

    /// What happened to the stream, if the answer is one; the pieces of a compressed one are decompressed.
    pub fn steps(&self) -> Option<Vec<Step>> {
        let mut inflated = super::Inflated::of_headers(&self.response.headers);
        let step = |step: &RecordedStep| match step {
            RecordedStep { event: Some(event), .. } => Step::Event(event.clone()),
            RecordedStep { chunk: Some(chunk), .. } => Step::Line(inflated.bytes(chunk.to_vec())),
            RecordedStep { end: true, .. } => Step::End,
            RecordedStep { .. } => Step::Open,
        };
        Some(self.response.chunks.as_ref()?.iter().map(step).collect())
    }
}

impl Bytes {
    pub fn to_vec(&self) -> Vec<u8> {
        match self {
            Self::Text(text) => text.clone().into_bytes(),
            Self::Hex { hex } => {
                let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex digits");
                (0..hex.len()).step_by(2).map(digit).collect()
            }
        }
    }
}

impl Events {
    pub fn load() -> Self {
        load("tests/data/golden/http-events.yaml")
    }

    /// What the outside did before this entry.
    pub fn before(&self, entry: &str) -> &[Action] {
        self.before.get(entry).map_or(&[], Vec::as_slice)
    }

    /// What the outside did at this event of an entry; some events say it themselves.
    pub fn at(&self, entry: &str, event: &str) -> Action {
        if let Some(action) = self.events.get(entry).and_then(|events| events.get(event)) {
            return action.clone();
        }
        match event.split(' ').collect::<Vec<_>>()[..] {
            ["DELETE", delete] => Action::Delete { delete: delete.to_owned() },
            ["PUT", put, dtab] if dtab.starts_with('/') => Action::Put { put: put.to_owned(), dtab: dtab.to_owned() },
            _ => panic!("http-events.yaml does not say what '{event}' of {entry} did"),
        }
    }
}

/// Which entries cannot be asked of a server that lacks these kinds.
pub fn needs_one_of(lacking: &BTreeSet<String>) -> impl Fn(&Entry) -> bool {
    let marks = [("io.l5d.consul", r"io\.l5d\.consul|/con/"), ("io.l5d.port", r"ported|/pt/")];
    let marks = marks.iter().filter(|(kind, _)| lacking.contains(*kind));
    let marks: Vec<Regex> = marks.map(|(_, mark)| Regex::new(mark).expect("a literal pattern")).collect();
    move |entry| marks.iter().any(|mark| mark.is_match(&entry.request))
}

fn load<T: serde::de::DeserializeOwned>(path: &str) -> T {
    let text = std::fs::read_to_string(in_project(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_yaml::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"))
}
