//! `tests/conform/differences.yaml`, as far as it concerns recordings.

use std::collections::BTreeMap;

use regex::Regex;
use serde::Deserialize;
use serde_yaml::Value;

use super::recording::Step;
use crate::support::in_project;

/// Where rosterd answers otherwise than recorded, by `file/entry`.
pub struct Differences(BTreeMap<String, Expect>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    id: String,
    #[serde(rename = "decision")]
    _decision: String,
    expect: Value,
}

/// What to expect instead of a recorded answer; what is not named is free.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    pub status: Option<u16>,
    /// A header's value, or none for one that must be absent.
    #[serde(default)]
    pub headers: BTreeMap<String, Option<String>>,
    pub body: Option<Text>,
    pub extra_bytes: Option<Text>,
    lines: Option<Vec<Line>>,
}

#[derive(Deserialize, Debug)]
#[serde(untagged)]
pub enum Text {
    Exactly(String),
    Contains { contains: String },
    Matches { matches: String },
}

/// One of: a line of the server, what the outside does, silence on an open stream, the end.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct Line {
    line: Option<String>,
    event: Option<String>,
    #[serde(default)]
    open: bool,
    #[serde(default)]
    end: bool,
}

impl Differences {
    pub fn load() -> Self {
        let rows: Vec<Row> =
            serde_yaml::from_str(&read("differences.yaml")).expect("differences.yaml is a list of rows");
        // The others are ids of cases, whose expectations have other shapes.
        let of_recordings = rows.into_iter().filter(|row| row.id.contains('/'));
        let typed = of_recordings.map(|row| {
            let expect = serde_yaml::from_value(row.expect);
            let expect = expect.unwrap_or_else(|error| panic!("differences.yaml, {}: {error}", row.id));
            (row.id, expect)
        });
        Self(typed.collect())
    }

    pub fn get(&self, id: &str) -> Option<&Expect> {
        self.0.get(id)
    }
}

impl Expect {
    /// The listed steps of a stream, which must not be the recorded ones.
    pub fn steps_instead_of(&self, recorded: &[Step]) -> Result<Vec<Step>, String> {
        let lines = self.lines.as_ref().ok_or("the list has no lines for this stream")?;
        let step = |line: &Line| match line {
            Line { line: Some(line), .. } => Step::Line(format!("{line}\n").into_bytes()),
            Line { event: Some(event), .. } => Step::Event(event.clone()),
            Line { open: true, .. } => Step::Open,
            Line { end: true, .. } => Step::End,
            nothing => panic!("differences.yaml: {nothing:?} is no step"),
        };
        let listed: Vec<Step> = lines.iter().map(step).collect();
        if listed.iter().filter(seen).eq(recorded.iter().filter(seen)) {
            return Err("the listed difference is none: these are the recorded lines".to_owned());
        }
        Ok(listed)
    }
}

/// What a client, or the outside, has a part in.
fn seen(step: &&Step) -> bool {
    **step != Step::Open
}

impl Text {
    pub fn fits(&self, text: &str) -> bool {
        match self {
            Self::Exactly(whole) => whole == text,
            Self::Contains { contains } => text.contains(contains),
            Self::Matches { matches } => {
                let whole = Regex::new(&format!("^(?:{matches})$"));
                whole.unwrap_or_else(|error| panic!("differences.yaml: {error}")).is_match(text)
            }
        }
    }
}

fn read(file: &str) -> String {
    let path = in_project("tests/conform").join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
