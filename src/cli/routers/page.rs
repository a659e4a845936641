//! A page of interpreter_state (ThriftNamerClient.scala:394-450, PollState.scala).

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::text::calendar;

/// A router that was answered asks again within this time, in seconds.
const AT_ONCE: u64 = 30;

/// The page.
#[derive(Debug, Deserialize)]
pub(super) struct Page {
    /// By name, then by the router's own dtab.
    bind: Option<BTreeMap<String, BTreeMap<String, Loop>>>,
    /// By id.
    addr: Option<BTreeMap<String, Loop>>,
}

/// One loop of polls.
#[derive(Debug, Deserialize)]
pub(super) struct Loop {
    #[serde(default)]
    state: State,
    #[serde(default)]
    poll: Poll,
}

#[derive(Debug, Default, Deserialize)]
struct State {
    /// Somebody in the router wants it.
    #[serde(default)]
    running: bool,
    value: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Poll {
    last_request_at: Option<String>,
    last_response_at: Option<String>,
    error: Option<String>,
}

/// What is taken for too long, in seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// None: polls may take for ever.
    pub(super) max_poll_age: Option<u64>,
    pub(super) retry_max: u64,
}

/// How a loop is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Fine,
    /// Its last poll failed, and it will ask again.
    Waiting,
    Dead(String),
    Hung(String),
}

// === impl Page ===

impl Page {
    /// Whether this is such a page at all: both parts are there when they are empty, too.
    pub(super) fn is_one(&self) -> bool {
        self.bind.is_some() || self.addr.is_some()
    }

    /// All loops, with what they ask; [`Loop::NAMESPACE`] stands for the namespace.
    pub(super) fn loops(&self) -> impl Iterator<Item = (String, &Loop)> {
        let binds = self.bind.iter().flatten().flat_map(|(path, dtabs)| {
            dtabs.iter().map(move |(dtab, watched)| {
                let with = if dtab.is_empty() { String::new() } else { format!(" with {dtab}") };
                (format!("bind {} {path}{with}", Loop::NAMESPACE), watched)
            })
        });
        binds.chain(self.addr.iter().flatten().map(|(id, watched)| (format!("addr {id}"), watched)))
    }

    /// The addresses that the router goes by, by id; those that it wants and has.
    pub(super) fn addresses(&self) -> impl Iterator<Item = (&String, Vec<&str>)> {
        self.addr.iter().flatten().filter(|(_, watched)| watched.state.running).filter_map(|(id, watched)| {
            let value = watched.state.value.as_ref()?;
            let addrs = value.get("addrs").and_then(Value::as_array).into_iter().flatten();
            Some((id, addrs.filter_map(|addr| addr.get("addr")?.as_str()).collect()))
        })
    }
}

// === impl Loop ===

impl Loop {
    /// Stands for the namespace of a binding.
    pub(super) const NAMESPACE: &str = "\u{1}";

    /// How it is at `now`, in seconds since 1970.
    pub(super) fn verdict(&self, now: u64, rules: Rules) -> Verdict {
        let Poll { last_request_at, last_response_at, error } = &self.poll;
        let time = |text: &Option<String>| text.as_deref().and_then(calendar::read_java);
        let Some(asked) = time(last_request_at).filter(|_| self.state.running) else { return Verdict::Fine };
        let answered = time(last_response_at);
        match (answered, error) {
            // The loop takes a cancelled connect for its own end (ThriftNamerClient.scala:123-124,248-249).
            (Some(answered), Some(error)) if answered >= asked => {
                let ago = now.saturating_sub(answered);
                let reason = first_line(error);
                if error.contains("CancelledConnection") || error.contains("Interrupted") {
                    return Verdict::Dead(format!("ended by a cancelled connect {ago} s ago: {reason}"));
                }
                match ago > rules.retry_max.saturating_add(AT_ONCE) {
                    true => Verdict::Dead(format!("has not asked again since it failed {ago} s ago: {reason}")),
                    false => Verdict::Waiting,
                }
            }
            (Some(answered), None) if answered > asked => match now.saturating_sub(answered) {
                ago if ago > AT_ONCE => Verdict::Dead(format!("has not asked again since its answer {ago} s ago")),
                _ => Verdict::Fine,
            },
            _ => match (now.saturating_sub(asked), rules.max_poll_age) {
                (age, Some(most)) if age > most => Verdict::Hung(format!("has waited for an answer for {age} s")),
                _ => Verdict::Fine,
            },
        }
    }
}

/// The beginning of a text, which may be long.
fn first_line(text: &str) -> &str {
    let line = text.lines().next().unwrap_or_default();
    &line[..line.floor_char_boundary(200)]
}
