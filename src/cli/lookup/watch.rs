//! `rosterd watch`: what a name is bound to and its addresses, one line per change.

use std::collections::{BTreeSet, HashMap};

use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::{Addr, Node};
use super::{draw, target};
use crate::cli::args::Lookup;
use crate::cli::client::{Client, Follow, News, Target};
use crate::cli::dtab::changes;
use crate::cli::failure::Failure;
use crate::cli::output::{Output, now};

/// Names whose addresses are followed at a time.
const FOLLOWED: usize = 100;

/// What is watched.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Bind,
    Addr(String),
}

pub(super) async fn run(client: &Client, lookup: &Lookup, output: &mut Output<'_>) -> Result<(), Failure> {
    let json = lookup.asking.json;
    let mut follow = Follow::new(client);
    follow.start(Key::Bind, target("/api/1/bind", lookup).with("watch", "true"));
    let mut bound = None;
    let mut known: HashMap<String, Addr> = HashMap::new();
    loop {
        match follow.next().await? {
            News::Value(Key::Bind, value) => {
                let tree: Node = read(&value, "a tree")?;
                let ids: BTreeSet<&str> = tree.leaves().into_iter().filter_map(|leaf| leaf.id.as_deref()).collect();
                follow.keep(|key| matches!(key, Key::Addr(id) if ids.contains(id.as_str())) || *key == Key::Bind);
                known.retain(|id, _| ids.contains(id.as_str()));
                for id in ids.iter().take(FOLLOWED) {
                    let target = Target::namespace("/api/1/addr", &lookup.namespace).with("path", id);
                    follow.start(Key::Addr((*id).to_owned()), target.with("watch", "true"));
                }
                let shown = draw::one_line(&tree);
                // Addresses in the tree are not what this line is about.
                if bound.as_ref() == Some(&shown) {
                    continue;
                }
                if ids.len() > FOLLOWED {
                    output.say(format_args!("of {} names, the addresses of {FOLLOWED} are followed", ids.len()));
                }
                output.line(if json {
                    json!({ "time": now(), "bind": value }).to_string()
                } else {
                    format!("{} bind {shown}", now())
                })?;
                bound = Some(shown);
                output.flush()?;
            }
            News::Value(Key::Addr(id), value) => {
                let addr: Addr = read(&value, "an address set")?;
                if known.get(&id) == Some(&addr) {
                    continue;
                }
                output.line(if json {
                    json!({ "time": now(), "id": id, "addr": value }).to_string()
                } else {
                    format!("{} addr {id}: {}", now(), compare(known.get(&id), &addr))
                })?;
                known.insert(id, addr);
                output.flush()?;
            }
            News::Lost(reason) => output.say(format_args!("the watch was lost ({reason}); asking again")),
            News::Back => output.say("the watch goes on"),
        }
    }
}

fn read<T: for<'a> Deserialize<'a>>(value: &Value, what: &str) -> Result<T, Failure> {
    T::deserialize(value)
        .map_err(|error| Failure::other(format_args!("the watch has something else than {what}: {error}")))
}

/// How many addresses there are, and what changed.
fn compare(before: Option<&Addr>, after: &Addr) -> String {
    let Addr::Bound { addrs, .. } = after else {
        return draw::addresses(after).join(" ");
    };
    let list = |addr: &Addr| match addr {
        Addr::Bound { .. } => draw::addresses(addr),
        _ => Vec::new(),
    };
    let before = before.map(list).unwrap_or_default();
    let after = if addrs.is_empty() { Vec::new() } else { list(after) };
    let count = match addrs.len() {
        1 => "1 address".to_owned(),
        count => format!("{count} addresses"),
    };
    // Metadata stands behind an address; brackets keep them together in a line of many.
    let show = |line: &String| match line.split_once(' ') {
        Some((address, meta)) => format!("{address}[{meta}]"),
        None => line.clone(),
    };
    changes(&before, &after, show).into_iter().fold(count, |line, change| format!("{line} {change}"))
}
