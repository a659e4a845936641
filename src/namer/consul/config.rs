//! Keys of `io.l5d.consul`.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::nodes::Health;
use super::{ConsulNamer, probe};
use crate::config::{Fields, FromNode};
use crate::consul::{AgentConfig, Agents, Consistency, read_consistency};
use crate::k8s::ApiServers;
use crate::namer::{Namer, NamerConfig, NamerParts};
use crate::runtime::Probe;

/// The `io.l5d.consul` namer: services of a Consul catalog.
#[derive(Clone, Debug, PartialEq)]
pub struct ConsulConfig {
    /// `host`, `port`, `token`, `tls`, `maxPolls`.
    pub agent: AgentConfig,
    /// What decides names and addresses.
    pub(super) rules: Rules,
}

/// What is asked for, and what becomes of the answers.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rules {
    /// `includeTag`: names have a tag between datacenter and service.
    pub(super) include_tag: bool,
    /// `useHealthCheck` and `healthStatuses`: only instances of these statuses; none: all of the catalog.
    pub(super) statuses: Option<BTreeSet<Health>>,
    /// `setHost`: the set says under which authority Consul's DNS knows the service.
    pub(super) set_host: bool,
    /// `consistencyMode`.
    pub(super) consistency: Consistency,
    /// `preferServiceAddress`: an instance's own address counts if it has one, not its node's.
    pub(super) prefer_service_address: bool,
    /// `weights`: by tag.
    pub(super) weights: HashMap<String, f64>,
    /// `transferMetadata`: metadata of nodes and services go along.
    pub(super) transfer_metadata: bool,
}

impl ConsulConfig {
    /// Reads the keys. None only if a problem was reported.
    #[must_use]
    pub fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let agent = AgentConfig::read(fields);
        let statuses = statuses(fields);
        // namerd decides with it when an answer is read in pieces; here every one is.
        let _: Option<u32> = fields.opt("fixedLengthStreamedAfterKB");
        let rules = Rules {
            include_tag: fields.or("includeTag", false),
            statuses: fields.or("useHealthCheck", false).then_some(statuses),
            set_host: fields.or("setHost", false),
            consistency: read_consistency(fields, "consistencyMode"),
            prefer_service_address: fields.or("preferServiceAddress", true),
            weights: weights(fields),
            transfer_metadata: fields.or("transferMetadata", false),
        };
        Some(Self { agent: agent?, rules })
    }
}

fn statuses(fields: &mut Fields<'_>) -> BTreeSet<Health> {
    let listed = fields.each("healthStatuses", |node, report| {
        let text = String::from_node(node, report)?;
        Health::parse(&text).map_err(|message| report.problem(node.span, message)).ok()
    });
    listed.map_or_else(|| BTreeSet::from([Health::Passing]), |listed| listed.into_iter().collect())
}

fn weights(fields: &mut Fields<'_>) -> HashMap<String, f64> {
    let listed = fields.each("weights", |node, report| {
        Fields::read(node, "a weight", report, |fields| {
            let (tag, weight) = (fields.req("tag"), fields.req("weight"));
            Some((tag?, weight?))
        })
    });
    listed.unwrap_or_default().into_iter().collect()
}

impl NamerConfig for ConsulConfig {
    fn build(&self, parts: &NamerParts) -> Result<Arc<dyn Namer>, String> {
        let agent = parts.agents.agent(&self.agent)?;
        Ok(Arc::new(ConsulNamer::new(agent, self.rules.clone(), parts)))
    }

    fn probes(&self, agents: &Agents, _: &ApiServers) -> Result<Vec<Probe>, String> {
        Ok(probe::probes(&agents.agent(&self.agent)?, &self.rules))
    }
}

// === impl Rules ===

#[cfg(test)]
impl Default for Rules {
    fn default() -> Self {
        Self {
            include_tag: false,
            statuses: None,
            set_host: false,
            consistency: Consistency::Default,
            prefer_service_address: true,
            weights: HashMap::new(),
            transfer_metadata: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Address;
    use crate::config::{Secret, read_text};

    fn read(text: &str) -> Result<(ConsulConfig, usize), String> {
        read_text("f", text, "the io.l5d.consul namer", ConsulConfig::read)
            .map(|(config, warnings)| (config, warnings.len()))
            .map_err(|problems| problems.list().iter().map(|p| p.message.clone()).collect::<Vec<_>>().join("\n"))
    }

    fn agent(host: &str, port: u16) -> AgentConfig {
        AgentConfig { address: Address { host: host.to_owned(), port }, token: None, tls: None, max_polls: None }
    }

    #[test]
    fn nothing_need_be_set() {
        let config = ConsulConfig { agent: agent("localhost", 8500), rules: Rules::default() };
        assert_eq!(read("{}"), Ok((config, 0)));
    }

    #[test]
    fn every_key_of_namerd_is_read() {
        let text = "
host: consul.site.biz
port: 8600
token: some-token
includeTag: true
useHealthCheck: true
fixedLengthStreamedAfterKB: 5192
healthStatuses: [warning]
setHost: true
consistencyMode: stale
failFast: true
preferServiceAddress: false
weights:
- tag: primary
  weight: 100
transferMetadata: true
maxPolls: 400
";
        let (config, warnings) = read(text).expect("valid");
        let agent = AgentConfig {
            token: Some(Secret::new("some-token")),
            max_polls: Some(400),
            ..agent("consul.site.biz", 8600)
        };
        let rules = Rules {
            include_tag: true,
            statuses: Some(BTreeSet::from([Health::Warning])),
            set_host: true,
            consistency: Consistency::Stale,
            prefer_service_address: false,
            weights: HashMap::from([("primary".to_owned(), 100.0)]),
            transfer_metadata: true,
        };
        assert_eq!(config, ConsulConfig { agent, rules });
        assert_eq!(warnings, 1, "failFast has no effect");
    }

    #[test]
    fn a_literal_host_may_have_brackets() {
        for host in ["'::1'", "'[::1]'"] {
            assert_eq!(read(&format!("host: {host}")).expect("valid").0.agent.address.host, "::1");
        }
    }

    #[test]
    fn wrong_words_are_refused_with_namerds_messages() {
        for (text, message) in [
            ("healthStatuses: [Passing]", "Illegal Consul health status: Passing"),
            ("consistencyMode: strong", "Illegal Consul consistency mode level: strong"),
            ("maxPolls: 0", "0 is not between 1 and 100000"),
            ("weights: [{tag: a}]", "'weight' is required for a weight"),
            ("port: '8500'", "is not numeric"),
        ] {
            let problems = read(text).expect_err(text);
            assert!(problems.contains(message), "{problems}");
        }
    }
}
