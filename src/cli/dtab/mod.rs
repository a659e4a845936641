//! `rosterd dtab`: the dtabs of a running server. Commands, files and output follow the habits of namerctl.

mod edit;
mod reach;
mod text;
mod watch;

use std::path::Path as FilePath;

use http::StatusCode;
use serde_json::json;

use super::args::{DtabArgs, DtabCommand};
use super::client::{Client, ClientError, Port, Target};
use super::failure::Failure;
use super::output::Output;
use super::shell::quoted;

pub(super) use text::{Entry, changes, pretty};

const ROUTE: &str = "/api/1/dtabs";

/// A stored dtab.
struct Stored {
    version: Option<String>,
    entries: Vec<Entry>,
}

/// Runs one of the commands; the exit status.
pub(super) async fn run(args: DtabArgs, output: &mut Output<'_>) -> Result<u8, Failure> {
    let client = Client::new(&args.asking.server, Port::CONTROLLER)?;
    let json = args.asking.json;
    let done = match args.command {
        DtabCommand::List => list(&client, json, output).await,
        DtabCommand::Get { namespace } => get(&client, &namespace, json, output).await,
        DtabCommand::Put { namespace, file, if_match, wait, admin } => {
            let given = given(&file, output)?;
            let version = if_match.or(given.version);
            client
                .put(&target(&namespace), given.text, version.as_deref())
                .await
                .map_err(|error| refused(&client, &namespace, &file, version.as_deref(), error))?;
            done(&namespace, "updated", json, output)?;
            match wait {
                Some(limit) => return reach::wait(&client, &namespace, &admin, limit, json, output).await,
                None => Ok(()),
            }
        }
        DtabCommand::Create { namespace, file } => {
            let given = given(&file, output)?;
            client
                .post(&target(&namespace), given.text)
                .await
                .map_err(|error| refused(&client, &namespace, &file, None, error))?;
            done(&namespace, "created", json, output)
        }
        DtabCommand::Delete { namespace } => {
            client.delete(&target(&namespace)).await.map_err(|error| missing(&client, &namespace, error))?;
            done(&namespace, "deleted", json, output)
        }
        DtabCommand::Edit { namespace } => edit::run(&client, &namespace, json, output).await,
        DtabCommand::Watch { namespace } => watch::run(&client, namespace.as_deref(), json, output).await,
    };
    done.map(|()| 0)
}

fn target(namespace: &str) -> Target {
    Target::namespace(ROUTE, namespace)
}

async fn list(client: &Client, json: bool, output: &mut Output<'_>) -> Result<(), Failure> {
    let answer = client.get(&Target::route(ROUTE)).await?;
    let names: Vec<String> = answer.json("a list of namespaces")?;
    if json {
        return Ok(output.body(&answer.body)?);
    }
    for name in names {
        output.line(name)?;
    }
    Ok(())
}

async fn get(client: &Client, namespace: &str, json: bool, output: &mut Output<'_>) -> Result<(), Failure> {
    let Stored { version, entries } = fetch(client, namespace).await?;
    if json {
        return Ok(output.line(json!({ "version": version, "dtab": entries }))?);
    }
    // A comment, so that the output is a dtab file.
    if let Some(version) = version {
        output.line(format_args!("# version {version}"))?;
    }
    for line in pretty(&entries).lines() {
        output.line(line)?;
    }
    Ok(())
}

async fn fetch(client: &Client, namespace: &str) -> Result<Stored, Failure> {
    let answer = client.get(&target(namespace)).await.map_err(|error| missing(client, namespace, error))?;
    Ok(Stored { entries: answer.json("a dtab")?, version: answer.version })
}

/// The dtab in a file, with a word about what looks wrong in it.
fn given(file: &FilePath, output: &mut Output<'_>) -> Result<text::Given, Failure> {
    let given = text::read(file)?;
    if let Some(doubt) = &given.doubt {
        output.say(format_args!("{}: {doubt}", text::name(file)));
    }
    Ok(given)
}

fn done(namespace: &str, what: &'static str, json: bool, output: &mut Output<'_>) -> Result<(), Failure> {
    if json {
        output.line(json!({ "namespace": namespace, "result": what }))?;
    } else {
        output.say(format_args!("{what} {namespace}"));
    }
    Ok(())
}

/// A 404 in words.
fn missing(client: &Client, namespace: &str, error: ClientError) -> Failure {
    if error.status() != Some(StatusCode::NOT_FOUND) {
        return error.into();
    }
    Failure::other(format_args!(
        "there is no namespace {namespace} on {}; `rosterd dtab list` shows those there are, `rosterd dtab create \
         {} FILE` makes it",
        client.address(),
        quoted(namespace)
    ))
}

/// What refuses a write, in words.
fn refused(client: &Client, namespace: &str, file: &FilePath, version: Option<&str>, error: ClientError) -> Failure {
    let (server, name) = (client.address(), quoted(namespace));
    match &error {
        ClientError::Refused { status: StatusCode::CONFLICT, .. } => Failure::other(format_args!(
            "the namespace {namespace} is already on {server}; `rosterd dtab put {name} {}` replaces its dtab",
            quoted(&file.display().to_string())
        )),
        ClientError::Refused { status: StatusCode::PRECONDITION_FAILED, version: current, .. } => {
            let now = current.as_ref().map_or(String::new(), |current| format!("; it is at {current} now"));
            Failure::other(format_args!(
                "the dtab of {namespace} on {server} is no longer at version {}{now}: nothing was changed. Look at it \
                 with `rosterd dtab get {name}`, then put again with its version",
                version.unwrap_or("(none)")
            ))
        }
        _ => missing(client, namespace, error),
    }
}

#[cfg(test)]
mod tests;
