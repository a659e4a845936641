//! Keys of `io.l5d.consul` (`ConsulDtabStoreInitializer.scala:14-60`).

use std::sync::Arc;
use std::time::Duration;

use super::{ConsulStorage, Layout, probe};
use crate::config::{Fields, Kind, Millis};
use crate::consul::{AgentConfig, Agents, Consistency, Delays, read_consistency};
use crate::name::Path;
use crate::runtime::Probe;
use crate::storage::{Storage, StorageConfig, StorageParts};

/// The `io.l5d.consul` storage: one entry of Consul's key-value store for each namespace.
#[derive(Clone, Debug, PartialEq)]
pub struct ConsulConfig {
    /// `host`, `port`, `token`, `maxPolls`.
    pub agent: AgentConfig,
    /// `pathPrefix`: the folder of the dtabs.
    pub path_prefix: Path,
    /// `datacenter`: whose store; none = the agent's own.
    pub datacenter: Option<String>,
    /// `readConsistencyMode`: of what is watched and read.
    pub read: Consistency,
    /// `writeConsistencyMode`: sent with writes, as namerd sends it; Consul writes in one way only.
    pub write: Consistency,
    /// `backoff`: how long a watch rests after failures.
    pub delays: Delays,
}

/// No delay is shorter, whatever is configured: a lost agent is not asked in a tight loop.
const LEAST_DELAY: Duration = Duration::from_millis(10);

/// What `backoff` may be (`BackoffConfig.scala:8-35`).
const BACKOFFS: &[Kind<Delays>] = &[Kind::built("constant", constant), Kind::built("jittered", jittered)];

fn constant(fields: &mut Fields<'_>) -> Option<Delays> {
    let delay = fields.millis_or("ms", Duration::ZERO).max(LEAST_DELAY);
    Some(Delays { floor: delay, cap: delay })
}

fn jittered(fields: &mut Fields<'_>) -> Option<Delays> {
    let least = fields.req_or("minMs", "'minMs' must be specified");
    let most = fields.req_or("maxMs", "'maxMs' must be specified");
    let (Millis(least), Millis(most)) = (least?, most?);
    if least > most {
        fields.report().problem(fields.span_of("minMs"), "'minMs' is more than 'maxMs'");
        return None;
    }
    let floor = least.max(LEAST_DELAY);
    Some(Delays { floor, cap: most.max(floor) })
}

impl ConsulConfig {
    /// Reads the keys. None only if a problem was reported.
    #[must_use]
    pub fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let agent = AgentConfig::read(fields);
        let path_prefix = fields.or("pathPrefix", Path::from_elems(["namerd", "dtabs"]).ok()?);
        let datacenter = fields.opt("datacenter");
        let read = read_consistency(fields, "readConsistencyMode");
        let write = read_consistency(fields, "writeConsistencyMode");
        let delays = fields.section("backoff", "the backoff", |fields| {
            let kind = Kind::choose(fields, "backoff", BACKOFFS)?;
            kind.reader(fields)?(fields)
        });
        Some(Self { agent: agent?, path_prefix, datacenter, read, write, delays: delays.unwrap_or_default() })
    }
}

impl StorageConfig for ConsulConfig {
    fn build(&self, parts: &StorageParts) -> Result<Arc<dyn Storage>, String> {
        let agent = parts.agents.agent(&self.agent)?;
        let layout = Layout::new(&self.path_prefix, self.datacenter.as_deref());
        Ok(Arc::new(ConsulStorage::new(agent, layout, self, parts.names)))
    }

    fn probes(&self, agents: &Agents) -> Result<Vec<Probe>, String> {
        let layout = Layout::new(&self.path_prefix, self.datacenter.as_deref());
        Ok(probe::probes(&agents.agent(&self.agent)?, &layout, self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Secret, read_text};

    fn read(text: &str) -> Result<ConsulConfig, String> {
        read_text("f", text, "the io.l5d.consul storage", ConsulConfig::read)
            .map(|(config, _)| config)
            .map_err(|problems| problems.to_string())
    }

    #[test]
    fn the_defaults_are_namerds() {
        let config = read("{}").expect("valid");
        assert_eq!(config.agent.address.to_string(), "localhost:8500");
        assert_eq!(config.path_prefix.to_string(), "/namerd/dtabs");
        assert_eq!((config.read, config.write), (Consistency::Default, Consistency::Default));
        assert_eq!((config.agent.token, config.datacenter, config.agent.max_polls), (None, None, None));
        assert_eq!(config.delays, Delays::default());
    }

    #[test]
    fn every_key_is_read() {
        let config = read(
            "host: consul.test
port: 80
pathPrefix: /a/b
token: s3cr3t
datacenter: dc2
readConsistencyMode: stale
writeConsistencyMode: consistent
failFast: true
backoff: {kind: jittered, minMs: 50, maxMs: 2000}
tls: {enabled: false}
maxPolls: 20",
        )
        .expect("valid");
        assert_eq!(config.agent.address.to_string(), "consul.test:80");
        assert_eq!(config.agent.token, Some(Secret::new("s3cr3t")));
        assert_eq!((config.path_prefix.to_string().as_str(), config.datacenter.as_deref()), ("/a/b", Some("dc2")));
        assert_eq!((config.read, config.write), (Consistency::Stale, Consistency::Consistent));
        let (floor, cap) = (Duration::from_millis(50), Duration::from_secs(2));
        assert_eq!((config.delays, config.agent.max_polls), (Delays { floor, cap }, Some(20)));
    }

    #[test]
    fn both_kinds_of_backoff_are_namerds() {
        let delays = |backoff: &str| read(&format!("backoff: {backoff}")).map(|config| config.delays);
        let both = |millis| Delays { floor: Duration::from_millis(millis), cap: Duration::from_millis(millis) };
        assert_eq!(delays("{kind: constant, ms: 300}"), Ok(both(300)));
        assert_eq!(delays("{kind: constant}"), Ok(both(10)));
        assert_eq!(delays("{kind: jittered, minMs: 0, maxMs: 0}"), Ok(both(10)));
        for (backoff, problem) in [
            ("{kind: jittered, maxMs: 3}", "'minMs' must be specified"),
            ("{kind: jittered, minMs: 3}", "'maxMs' must be specified"),
            ("{kind: jittered, minMs: 3, maxMs: 2}", "'minMs' is more than 'maxMs'"),
            ("{kind: linear}", "Could not resolve type id 'linear' as a backoff"),
            ("{ms: 3}", "missing type id property 'kind'"),
            ("{kind: constant, minMs: 3}", "Unrecognized field \"minMs\""),
        ] {
            let refused = delays(backoff).expect_err(backoff);
            assert!(refused.contains(problem), "{refused}");
        }
    }

    #[test]
    fn wrong_values_are_refused_with_namerds_words_where_it_has_some() {
        for (text, problem) in [
            ("readConsistencyMode: eventual", "Illegal Consul consistency mode level: eventual"),
            ("writeConsistencyMode: Stale", "Illegal Consul consistency mode level: Stale"),
            ("port: 70000", "70000 outside valid range for ports"),
            ("pathPrefix: namerd", "'/' expected but 'n' found"),
            ("maxPolls: 0", "0 is not between 1 and 100000"),
            ("prefix: /x", "Unrecognized field \"prefix\""),
        ] {
            let refused = read(text).expect_err(text);
            assert!(refused.contains(problem), "{refused}");
        }
    }
}
