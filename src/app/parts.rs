//! From the configuration to the parts that answer: storage, namers, interpreter. Nothing is contacted.

use std::sync::Arc;
use std::thread::available_parallelism;

use super::Config;
use crate::client::ClientMetrics;
use crate::consul::Agents;
use crate::interpreter::remote::{Relay, RelayParts};
use crate::interpreter::{ConfiguredNamer, Interpreter, Local, Namers, Settings};
use crate::k8s::ApiServers;
use crate::namer::NamerParts;
use crate::namer::hosts::Hosts;
use crate::runtime::StateDir;
use crate::runtime::handover::Files;
use crate::storage::memory::MemoryStorage;
use crate::storage::{Storage, StorageParts};
use crate::store::Evaluators;
use crate::telemetry::Legacy;
use crate::transformer::TransformerParts;

/// What interfaces are served from.
pub struct Parts {
    /// The home of dtabs.
    pub storage: Arc<dyn Storage>,
    /// Answers names.
    pub interpreter: Arc<dyn Interpreter>,
    /// The interpreter over this process's own namers. In a relay it only finds the servers.
    pub local: Local,
    /// What keeps its answers current.
    pub evaluators: Evaluators,
    /// The Consul agents that storage and namers ask.
    pub agents: Agents,
    /// The Kubernetes API servers that namers ask.
    pub servers: ApiServers,
    /// Counts what is asked of other name servers.
    pub client: ClientMetrics,
    /// What makes this process a relay, if it is one, and its kind.
    pub relay: Option<(&'static str, Relay)>,
    /// `stateDir`, if it is given.
    pub state_dir: Option<StateDir>,
}

impl Parts {
    /// Builds the parts, whose metrics under namerd's names are in `legacy`; `files` are those of `stateDir`. Must be called
    /// within a runtime.
    ///
    /// # Errors
    /// One line: which block cannot be built, and why.
    pub fn build(config: &Config, legacy: &Legacy, files: Option<&Files>) -> Result<Self, String> {
        let (agents, client, names) = (Agents::new(), ClientMetrics::default(), config.own.limits.names);
        let storage: Arc<dyn Storage> = match &config.storage {
            Some(block) => {
                let storage = block.config.build(&StorageParts { agents: agents.clone(), names });
                storage.map_err(|problem| format!("storage {}: {problem}", block.kind))?
            }
            None => Arc::new(MemoryStorage::new([])),
        };
        let hosts = Hosts::new(config.own.ip_families);
        let evaluators = Evaluators::start(available_parallelism().map_or(1, usize::from));
        let servers = ApiServers::new();
        let transformer_parts = TransformerParts { servers: servers.clone(), ip_families: config.own.ip_families };
        let mut namers = Vec::with_capacity(config.namers.len());
        for block in &config.namers {
            let named = |problem: String| format!("namer {} ({}): {problem}", block.prefix, block.kind);
            let parts = NamerParts {
                prefix: block.prefix.clone(),
                fall_through_after: block.fall_through_after,
                hosts: hosts.clone(),
                agents: agents.clone(),
                servers: servers.clone(),
                ip_families: config.own.ip_families,
                evaluators: evaluators.clone(),
                names,
                client: client.clone(),
                scope: legacy.scope("namer").scope(block.prefix.to_string().trim_start_matches('/')),
            };
            let namer = block.config.build(&parts).map_err(named)?;
            let transformers = block.transformers.iter().map(|transformer| {
                let kind = transformer.kind;
                let built = transformer.config.build(transformer.prefix.as_ref(), &transformer_parts);
                built.map_err(|problem| format!("{kind}: {problem}"))
            });
            let transformers = transformers.collect::<Result<Vec<_>, _>>().map_err(named)?;
            namers.push(ConfiguredNamer { prefix: block.prefix.clone(), namer, transformers });
        }
        let namers = Namers::new(namers, hosts)?;
        let local = Local::new(storage.clone(), namers, evaluators.clone(), Settings::default());
        let state_dir = files.map(|files| files.directory().clone());
        let relay = match &config.interpreter {
            Some(block) => {
                let parts = RelayParts { local: local.clone(), names, metrics: client.clone(), files: files.cloned() };
                let relay = block.config.build(&parts);
                Some((block.kind, relay.map_err(|problem| format!("interpreter {}: {problem}", block.kind))?))
            }
            None => None,
        };
        let (storage, interpreter): (_, Arc<dyn Interpreter>) = match &relay {
            Some((_, relay)) => (relay.storage.clone(), Arc::new(relay.interpreter.clone())),
            None => (storage, Arc::new(local.clone())),
        };
        Ok(Self { storage, interpreter, local, evaluators, agents, servers, client, relay, state_dir })
    }
}
