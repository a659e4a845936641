//! `rosterd bind`, `resolve`, `delegate` and `watch`: what becomes of a name.

pub(super) mod answer;
mod draw;
mod watch;

use answer::{Addr, Node, Outcome};

use super::args::Lookup;
use super::client::{Answer, Client, Port, Target};
use super::failure::Failure;
use super::output::Output;
use super::shell::quoted;

/// Which question to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// What it is bound to.
    Bind,
    /// Its addresses.
    Resolve,
    /// How it is looked up.
    Delegate,
}

/// Asks once.
pub(super) async fn ask(question: Question, lookup: Lookup, output: &mut Output<'_>) -> Result<(), Failure> {
    let client = Client::new(&lookup.asking.server, Port::CONTROLLER)?;
    let route = match question {
        Question::Bind => "/api/1/bind",
        Question::Resolve => "/api/1/resolve",
        Question::Delegate => "/api/1/delegate",
    };
    let answer = client.get(&target(route, &lookup)).await?;
    if lookup.asking.json {
        return Ok(output.body(&answer.body)?);
    }
    let dtab = lookup.dtab.as_ref().map(|dtab| format!(" --dtab {}", quoted(dtab))).unwrap_or_default();
    let (ns, path) = (quoted(&lookup.namespace), quoted(&lookup.path));
    let shows_why = format!("`rosterd delegate {ns} {path}{dtab}` shows why");
    let is_neg: bool;
    let mut has_failed = false;
    let lines = match question {
        Question::Bind => {
            let tree = tree(&answer)?;
            is_neg = tree.outcome() == Outcome::Neg;
            if is_neg {
                output.say(format_args!("{} is bound to nothing; {shows_why}", lookup.path));
            }
            draw::binding(&tree)
        }
        Question::Resolve => {
            let addr: Addr = answer.json("an address set")?;
            is_neg = addr == Addr::Neg;
            has_failed = matches!(addr, Addr::Failed { .. });
            if is_neg {
                output.say(format_args!("{} has no addresses; {shows_why}", lookup.path));
            }
            draw::addresses(&addr)
        }
        Question::Delegate => {
            let tree = tree(&answer)?;
            is_neg = tree.outcome() == Outcome::Neg;
            let what = match tree.outcome() {
                Outcome::Found => None,
                Outcome::Neg => Some("neg: no entry leads to a name that exists"),
                Outcome::Fail => Some("fail: a ! ends the lookup"),
                Outcome::Error => Some("an error, which ends the lookup"),
            };
            if let Some(what) = what {
                output.say(format_args!("{} comes to {what}", lookup.path));
            }
            draw::delegation(&tree)
        }
    };
    for line in lines {
        output.line(line)?;
    }
    if has_failed {
        return Err(Failure::other(format_args!("the addresses of {} are not known", lookup.path)));
    }
    if is_neg && is_missing(&client, &lookup.namespace).await {
        output.say(format_args!(
            "there is no namespace {}; `rosterd dtab list` shows those that exist",
            lookup.namespace
        ));
    }
    Ok(())
}

/// Whether there is no such namespace, which binds its names to nothing and says no word. A server that does not tell is
/// not asked twice.
async fn is_missing(client: &Client, namespace: &str) -> bool {
    let answer = client.get(&Target::namespace("/api/1/dtabs", namespace)).await;
    answer.is_err_and(|error| error.status() == Some(http::StatusCode::NOT_FOUND))
}

/// Follows a name until standard output is closed.
pub(super) async fn watch(lookup: Lookup, output: &mut Output<'_>) -> Result<(), Failure> {
    let client = Client::new(&lookup.asking.server, Port::CONTROLLER)?;
    watch::run(&client, &lookup, output).await
}

fn target(route: &str, lookup: &Lookup) -> Target {
    let target = Target::namespace(route, &lookup.namespace).with("path", &lookup.path);
    match &lookup.dtab {
        Some(dtab) => target.with("dtab", dtab),
        None => target,
    }
}

fn tree(answer: &Answer) -> Result<Node, Failure> {
    answer.json("a tree").map_err(|error| {
        if error.to_string().contains("recursion limit") {
            return Failure::other("the tree nests too deep to be drawn; --json prints it");
        }
        error.into()
    })
}

#[cfg(test)]
mod tests;
