//! Can this namer's token do what it needs?

use std::collections::BTreeMap;
use std::time::Duration;

use serde::de::IgnoredAny;

use super::config::Rules;
use super::own::Own;
use super::service::{ServiceKey, request};
use crate::consul::{Agent, Answer, ConsulError, Request, Undecoded};
use crate::runtime::Probe;

/// How long each question may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// What there is to try.
pub(super) fn probes(agent: &Agent, rules: &Rules) -> Vec<Probe> {
    let (asked, asked_rules) = (agent.clone(), rules.clone());
    let services =
        Probe::new(
            format!("services of Consul at {}", agent.name()),
            async move { services(&asked, &asked_rules).await },
        );
    let (asked, needed) = (agent.clone(), rules.set_host);
    let own =
        Probe::new(
            format!("datacenter and domain of Consul at {}", agent.name()),
            async move { own(&asked, needed).await },
        );
    vec![services, own]
}

/// Lists the services, and reads the instances of one, which needs the right to read their nodes, too.
async fn services(agent: &Agent, rules: &Rules) -> Result<String, String> {
    let list = Request::get("/v1/catalog/services").consistency(rules.consistency);
    let answer = agent.once(&list, PATIENCE).await.map_err(told)?;
    let denies = answer.denies_by_default;
    let names = read(answer, |answer, body| {
        let names: BTreeMap<String, IgnoredAny> = json(body)?;
        if names.is_empty() && answer.filtered { Err(Undecoded::Filtered) } else { Ok(names) }
    });
    let names = names.await?;
    // Every cluster has this one, and a policy may well leave it out.
    let Some(name) = names.keys().find(|name| *name != "consul").or_else(|| names.keys().next()) else {
        let denied = "Consul shows no service at all, and its ACLs deny by default: set `token`";
        return if denies { Err(denied.to_owned()) } else { Ok("there are none".to_owned()) };
    };
    let key = ServiceKey { datacenter: "".into(), tag: None, service: name.to_lowercase().into() };
    let answer = agent.once(&request(rules, &key), PATIENCE).await.map_err(told)?;
    let instances = read(answer, |answer, body| {
        let instances: Vec<IgnoredAny> = json(body)?;
        if instances.is_empty() && answer.filtered { Err(Undecoded::Filtered) } else { Ok(instances.len()) }
    });
    let count = instances.await?;
    Ok(format!("{} can be read, {name} with {count} instances", names.len()))
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
