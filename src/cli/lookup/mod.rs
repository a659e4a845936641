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
    let lines = match question {
        Question::Bind => draw::binding(&tree(&answer)?),
        Question::Resolve => {
            let addr: Addr = answer.json("an address set")?;
            if addr == Addr::Neg {
                let dtab = lookup.dtab.as_ref().map(|dtab| format!(" --dtab {}", quoted(dtab))).unwrap_or_default();
                output.say(format_args!(
                    "{} has no addresses; `rosterd delegate {} {}{dtab}` shows why",
                    lookup.path,
                    quoted(&lookup.namespace),
                    quoted(&lookup.path)
                ));
            }
            draw::addresses(&addr)
        }
        Question::Delegate => {
            let tree = tree(&answer)?;
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
    Ok(())
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
