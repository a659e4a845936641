//! Can this namer's token do what it needs?

use std::collections::BTreeMap;
use std::time::Duration;

use serde::de::IgnoredAny;

use super::config::Rules;
use super::own::Own;
use crate::consul::{Agent, Answer, Consistency, ConsulError, Request, Undecoded};
use crate::runtime::Probe;

/// How long each question may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// What there is to try.
pub(super) fn probes(agent: &Agent, rules: &Rules) -> Vec<Probe> {
    let name = agent.name();
    let (asked, mode) = (agent.clone(), rules.consistency);
    let services = async move { list(&asked, "/v1/catalog/services", mode, "service", services).await };
    let (asked, mode) = (agent.clone(), rules.consistency);
    let nodes = async move { list(&asked, "/v1/catalog/nodes", mode, "node", nodes).await };
    let (asked, needed) = (agent.clone(), rules.set_host);
    let own = async move { own(&asked, needed).await };
    vec![
        Probe::new(format!("services of Consul at {name}"), services),
        Probe::new(format!("nodes of Consul at {name}"), nodes),
        Probe::new(format!("datacenter and domain of Consul at {name}"), own),
    ]
}

/// Lists what every cluster has some of. Nothing of it is refused: it is left out.
async fn list(
    agent: &Agent,
    path: &str,
    mode: Consistency,
    what: &str,
    count: impl FnOnce(&[u8]) -> Result<usize, Undecoded> + Send + 'static,
) -> Result<String, String> {
    let answer = agent.once(&Request::get(path).consistency(mode), PATIENCE).await.map_err(told)?;
    let denies = answer.denies_by_default;
    let count = read(answer, |answer, body| match count(body)? {
        0 if answer.filtered => Err(Undecoded::Filtered),
        count => Ok(count),
    });
    match count.await? {
        0 if denies => Err(format!("Consul shows no {what} at all, and its ACLs deny by default: set `token`")),
        count => Ok(format!("{count} can be read")),
    }
}

fn services(body: &[u8]) -> Result<usize, Undecoded> {
    json::<BTreeMap<String, IgnoredAny>>(body).map(|services| services.len())
}

fn nodes(body: &[u8]) -> Result<usize, Undecoded> {
    json::<Vec<IgnoredAny>>(body).map(|nodes| nodes.len())
}

async fn own(agent: &Agent, needed: bool) -> Result<String, String> {
    let answer = match agent.once(&Request::get("/v1/agent/self"), PATIENCE).await {
        Err(ConsulError::Forbidden { rule, .. }) if !needed => {
            return Ok(format!("denied; names with the datacenter .local would need {rule}"));
        }
        answer => answer.map_err(told)?,
    };
    let Own { datacenter, domain } = read(answer, Own::decode).await?;
    Ok(format!("{}, {domain}", datacenter.as_deref().unwrap_or("no datacenter")))
}

async fn read<T: Send + 'static>(
    answer: Answer,
    decode: impl FnOnce(&Answer, &[u8]) -> Result<T, Undecoded> + Send + 'static,
) -> Result<T, String> {
    answer.read(decode).await.map_err(told)?
}

fn json<'b, T: serde::Deserialize<'b>>(body: &'b [u8]) -> Result<T, Undecoded> {
    serde_json::from_slice(body).map_err(|error| Undecoded::Unreadable(error.to_string()))
}

fn told(error: ConsulError) -> String {
    error.to_string()
}
