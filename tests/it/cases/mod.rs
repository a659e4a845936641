//! The conformance cases of `tests/data/dtab-cases.yaml`, whose head explains the notation.
//!
//! To run a further area: write `fn(&Case) -> Answer` for it in a module here, list it in that module's `AREAS`, add
//! the slice to `MODULES` and take the area off `AWAITED`.

mod config;
mod interpreter;
mod names;
mod notation;
mod system;
mod transformer;

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// One row of the file.
#[derive(Debug, Deserialize)]
pub(crate) struct Case {
    pub(crate) id: String,
    pub(crate) area: String,
    pub(crate) input: Value,
    /// What must come out. `null` is a value of its own.
    #[serde(default, deserialize_with = "present")]
    expect: Option<Value>,
    /// Or: the text of the failure.
    error: Option<String>,
    note: Option<String>,
}

fn present<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(value).map(Some)
}

/// What the program makes of a case: a value in the notation of the file, or the text of the failure.
pub(crate) type Answer = Result<Value, String>;

/// One kind of case and how to run it.
pub(crate) struct Area {
    pub(crate) name: &'static str,
    pub(crate) run: fn(&Case) -> Answer,
}

/// All areas that are run, by the module that runs them.
const MODULES: &[&[Area]] = &[config::AREAS, interpreter::AREAS, names::AREAS, system::AREAS, transformer::AREAS];

/// Areas that other tests answer for, and where.
const COVERED_ELSEWHERE: &[(&str, &str)] = &[
    (
        "namers_interpreter",
        "Linkerd's own list of namers, which may overlap; here they may not: config.namers_conflict",
    ),
    ("transformer.interpreter_delegate", "transformers of Linkerd's interpreter, which a name server does not have"),
    ("bind", BLACK_BOX),
    ("config.transformer_prefix", BLACK_BOX),
    ("delegate", BLACK_BOX),
    ("delegate.tree", BLACK_BOX),
    ("depth", BLACK_BOX),
    ("mesh.presence", "the unit tests of the messages: src/mesh/tests.rs"),
    ("http.addr", BLACK_BOX),
    ("http.addr_watch", BLACK_BOX),
    ("http.bind", BLACK_BOX),
    ("http.bind_watch", BLACK_BOX),
    ("http.delegate_error", BLACK_BOX),
    ("http.delegate_full", BLACK_BOX),
    ("http.dtab_json", BLACK_BOX),
    ("http.invalid_path", BLACK_BOX),
    ("namer.bound_id", BLACK_BOX),
    ("thrift.addr", BLACK_BOX),
    ("thrift.bind", BLACK_BOX),
    ("thrift.delegate", BLACK_BOX),
    ("thrift.dtab", BLACK_BOX),
    ("transformer.daemonset", BLACK_BOX),
    ("transformer.localnode", BLACK_BOX),
    ("transformer.namer_delegate", BLACK_BOX),
];

/// They are about a running server.
const BLACK_BOX: &str = "the runner in tests/conform, against the running server";

/// Areas whose part of the program is not built yet, and which part that is.
const AWAITED: &[(&str, &str)] = &[];

/// Cases whose answer differs on purpose, and the decision that says so.
const ALLOWED: &[(&str, &str)] = &[(
    "bind.dtab_change-005",
    "a storage that fails after a good dtab keeps it: watchers and readers go on with the last good one",
)];

fn all_cases() -> Vec<Case> {
    serde_yaml::from_str(include_str!("../../data/dtab-cases.yaml")).expect("the file is well-formed")
}

/// Runs every case of the given areas and fails with all disagreements at once.
pub(crate) fn check(areas: &[Area]) {
    let cases = all_cases();
    let mut report = String::new();
    let mut disagreements = 0;
    for area in areas {
        for case in cases.iter().filter(|case| case.area == area.name) {
            let got = (area.run)(case);
            let allowed = ALLOWED.iter().find(|(id, _)| *id == case.id);
            match (case.agrees(&got), allowed) {
                (true, None) | (false, Some(_)) => {}
                (true, Some((id, reason))) => {
                    disagreements += 1;
                    let _ = writeln!(report, "{id} agrees, so it is no longer a difference allowed by: {reason}");
                }
                (false, None) => {
                    disagreements += 1;
                    let _ = writeln!(report, "{}", case.disagreement(&got));
                }
            }
        }
    }
    assert!(disagreements == 0, "{disagreements} cases disagree\n{report}");
}

impl Case {
    pub(crate) fn text(&self) -> &str {
        self.input.as_str().unwrap_or_else(|| panic!("{}: the input is a text", self.id))
    }

    fn agrees(&self, got: &Answer) -> bool {
        let any_part = self.note.as_deref().is_some_and(|note| note.contains("substring"));
        match (got, &self.expect, &self.error) {
            (Ok(value), Some(expected), None) => in_order(value) == in_order(expected),
            (Err(message), None, Some(expected)) => message == expected || (any_part && message.contains(expected)),
            _ => false,
        }
    }

    fn disagreement(&self, got: &Answer) -> String {
        let show = |answer: Result<&Value, &String>| match answer {
            Ok(value) => value.to_string(),
            Err(message) => format!("error {message:?}"),
        };
        let expected = self.error.as_ref().map_or(Ok(self.expect.as_ref().unwrap_or(&Value::Null)), Err);
        format!(
            "{}\n    input    {}\n    expected {}\n    got      {}{}",
            self.id,
            self.input,
            show(expected),
            show(got.as_ref()),
            self.note.as_ref().map(|note| format!("\n    note     {note}")).unwrap_or_default(),
        )
    }
}

/// The value with every address set in one order: namerd's has none.
fn in_order(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(in_order).collect(),
        Value::Object(entries) => {
            let mut entries = entries.clone();
            for (key, value) in &mut entries {
                *value = in_order(value);
                if let (true, Value::Array(addrs)) = (key == "addrs", value) {
                    addrs.sort_by_key(Value::to_string);
                }
            }
            entries.into()
        }
        other => other.clone(),
    }
}

#[test]
fn every_area_is_run_or_has_a_known_home() {
    let mut homes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for area in MODULES.iter().copied().flatten() {
        homes.entry(area.name).or_default().push("run here");
    }
    for (area, home) in COVERED_ELSEWHERE.iter().chain(AWAITED) {
        homes.entry(area).or_default().push(home);
    }
    for (area, part) in AWAITED {
        println!("not run: {area}, awaits {part}");
    }
    let cases = all_cases();
    let mut wrong = Vec::new();
    for case in &cases {
        if !homes.contains_key(case.area.as_str()) {
            wrong.push(format!("{}: nothing runs area {}", case.id, case.area));
        }
    }
    for (area, homes) in &homes {
        if homes.len() > 1 {
            wrong.push(format!("area {area} is listed more than once: {homes:?}"));
        }
        if !cases.iter().any(|case| case.area == *area) {
            wrong.push(format!("area {area} is listed and has no case"));
        }
    }
    for (id, _) in ALLOWED {
        if !cases.iter().any(|case| case.id == *id) {
            wrong.push(format!("allowed difference {id} is no case"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
