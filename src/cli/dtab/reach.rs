//! `rosterd dtab put --wait`: until everybody has it, or it is known who has not.

use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep};

use super::fetch;
use crate::cli::client::{Client, Port, Target};
use crate::cli::failure::Failure;
use crate::cli::output::Output;
use crate::ledger::{Behind, Reach};

/// Between two questions.
const EVERY: Duration = Duration::from_millis(500);
/// The exit status when time is up.
const NOT_ALL: u8 = 3;

/// Waits until all watches of a namespace have the dtab that the server has now; the exit status.
pub(super) async fn wait(
    client: &Client,
    namespace: &str,
    admin: &str,
    limit: Duration,
    json: bool,
    output: &mut Output<'_>,
) -> Result<u8, Failure> {
    let until = Instant::now() + limit;
    let version = fetch(client, namespace).await?.version;
    let admin = Client::new(admin, Port::ADMIN)?;
    let target = Target::route("/admin/watches/dtab.json").with("namespace", namespace);
    loop {
        let replicas: Vec<Reach> = admin.get(&target).await?.json("who has a dtab")?;
        let (all, having) = replicas
            .iter()
            .map(|replica| replica.having(version.as_deref()))
            .fold((0, 0), |sum, replica| (sum.0 + replica.0, sum.1 + replica.1));
        let is_sure = replicas.iter().all(|replica| replica.problem.is_none() && replica.silent == 0);
        let is_everywhere = replicas.iter().all(|replica| replica.version == version);
        if having == all && is_sure && is_everywhere {
            tell(namespace, (all, having), &replicas, json, output)?;
            return Ok(0);
        }
        if Instant::now() + EVERY > until {
            tell(namespace, (all, having), &replicas, json, output)?;
            return Ok(NOT_ALL);
        }
        sleep(EVERY).await;
    }
}

fn tell(
    namespace: &str,
    (all, having): (usize, usize),
    replicas: &[Reach],
    json: bool,
    output: &mut Output<'_>,
) -> Result<(), Failure> {
    if json {
        return Ok(
            output.line(json!({ "namespace": namespace, "watches": all, "having": having, "replicas": replicas }))?
        );
    }
    output.line(format_args!("{having}/{all}"))?;
    for Reach { replica, version, behind, left_out, silent, problem, .. } in replicas {
        let replica = if replica.is_empty() { "this replica" } else { replica };
        if let Some(problem) = problem {
            output.say(format_args!("{replica} cannot be asked: {problem}"));
            continue;
        }
        for Behind { client, key, versions_behind, standing } in behind {
            let why = match (versions_behind, standing) {
                (Some(1), _) => "1 version behind".to_owned(),
                (Some(count), _) => format!("{count} versions behind"),
                (None, Some(standing)) => standing.name().to_owned(),
                (None, None) => "missing".to_owned(),
            };
            output.line(format_args!("{client}\t{key}\t{why}"))?;
        }
        if *left_out > 0 {
            output.say(format_args!("and {left_out} more at {replica}"));
        }
        if *silent > 0 {
            output.say(format_args!("{silent} sessions at {replica} read too slowly to say what they have"));
        }
        let version = version.as_deref().unwrap_or("none");
        output.say(format_args!("{replica} has version {version}"));
    }
    Ok(())
}
