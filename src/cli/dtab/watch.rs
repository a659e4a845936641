//! `rosterd dtab watch`: one line per change of a dtab, or of the list of namespaces.

use std::hash::Hash;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Entry, ROUTE, changes, target};
use crate::cli::client::{Client, Follow, News, Target};
use crate::cli::failure::Failure;
use crate::cli::output::{Output, now};

/// Changes shown in one line.
const SHOWN: usize = 20;

/// Follows until standard output is closed.
pub(super) async fn run(
    client: &Client,
    namespace: Option<&str>,
    json: bool,
    output: &mut Output<'_>,
) -> Result<(), Failure> {
    let what = namespace.unwrap_or("the list of namespaces");
    let target = namespace.map_or(Target::route(ROUTE), target).with("watch", "true");
    let mut follow = Follow::new(client);
    follow.start((), target);
    let mut last = Value::Null;
    loop {
        match follow.next().await? {
            News::Value((), value) => {
                // A PUT of the same text, or a new connection.
                if value == last {
                    continue;
                }
                if json {
                    output.line(match namespace {
                        Some(name) => json!({ "time": now(), "namespace": name, "dtab": value }),
                        None => json!({ "time": now(), "namespaces": value }),
                    })?;
                } else {
                    let shown = match namespace {
                        Some(_) => compare::<Entry>(&last, &value, ["entry", "entries"], |entry| {
                            format!("{}=>{}", entry.prefix, entry.dst)
                        }),
                        None => compare::<String>(&last, &value, ["namespace", "namespaces"], Clone::clone),
                    };
                    output.line(format_args!("{} {what}: {}", now(), shown?))?;
                }
                output.flush()?;
                last = value;
            }
            News::Lost(reason) => output.say(format_args!("the watch was lost ({reason}); asking again")),
            News::Back => output.say("the watch goes on"),
        }
    }
}

/// How many there are, and what changed.
fn compare<T: DeserializeOwned + Eq + Hash>(
    before: &Value,
    after: &Value,
    [one, many]: [&str; 2],
    show: impl Fn(&T) -> String,
) -> Result<String, Failure> {
    let list = |value: &Value| match value {
        Value::Null => Ok(Vec::new()),
        value => serde_json::from_value::<Vec<T>>(value.clone())
            .map_err(|error| Failure::other(format_args!("the watch has something else than {many}: {error}"))),
    };
    let (before, after) = (list(before)?, list(after)?);
    let mut line = format!("{} {}", after.len(), if after.len() == 1 { one } else { many });
    let changes = changes(&before, &after, show);
    if changes.is_empty() && !after.is_empty() {
        line.push_str(" in another order");
    }
    for change in changes.iter().take(SHOWN) {
        line.push(' ');
        line.push_str(change);
    }
    if changes.len() > SHOWN {
        line.push_str(&format!(" and {} more changes", changes.len() - SHOWN));
    }
    Ok(line)
}
