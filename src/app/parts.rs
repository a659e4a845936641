//! From the configuration to the parts that answer: storage, namers, interpreter. Nothing is contacted.

use std::sync::Arc;
use std::thread::available_parallelism;

use super::Config;
use crate::consul::Agents;
use crate::interpreter::{ConfiguredNamer, Local, Namers, Settings};
use crate::namer::NamerParts;
use crate::namer::hosts::Hosts;
use crate::storage::{Storage, StorageParts};
use crate::store::Evaluators;
use crate::telemetry::Legacy;

/// What interfaces are served from.
pub struct Parts {
    /// The home of dtabs.
    pub storage: Arc<dyn Storage>,
    /// The interpreter over it.
    pub interpreter: Local,
    /// What keeps its answers current.
    pub evaluators: Evaluators,
    /// The Consul agents that storage and namers ask.
    pub agents: Agents,
}

impl Parts {
    /// Builds the parts, whose metrics under namerd's names are in `legacy`. Must be called within a runtime.
    ///
    /// # Errors
    /// One line: which block cannot be built, and why.
    pub fn build(config: &Config, legacy: &Legacy) -> Result<Self, String> {
        let agents = Agents::new();
        let parts = StorageParts { agents: agents.clone(), names: config.own.limits.names };
        let storage = config.storage.config.build(&parts);
        let storage = storage.map_err(|problem| format!("storage {}: {problem}", config.storage.kind))?;
        let hosts = Hosts::new(config.own.ip_families);
        let mut namers = Vec::with_capacity(config.namers.len());
        for block in &config.namers {
            let named = |problem: String| format!("namer {} ({}): {problem}", block.prefix, block.kind);
            let parts = NamerParts {
                prefix: block.prefix.clone(),
                fall_through_after: block.fall_through_after,
                hosts: hosts.clone(),
                agents: agents.clone(),
                scope: legacy.scope("namer").scope(block.prefix.to_string().trim_start_matches('/')),
            };
            let namer = block.config.build(&parts).map_err(named)?;
            let transformers = block.transformers.iter().map(|transformer| {
                let kind = transformer.kind;
                transformer.config.build(transformer.prefix.as_ref()).map_err(|problem| format!("{kind}: {problem}"))
            });
            let transformers = transformers.collect::<Result<Vec<_>, _>>().map_err(named)?;
            namers.push(ConfiguredNamer { prefix: block.prefix.clone(), namer, transformers });
        }
        let evaluators = Evaluators::start(available_parallelism().map_or(1, usize::from));
        let namers = Namers::new(namers, hosts)?;
        let interpreter = Local::new(storage.clone(), namers, evaluators.clone(), Settings::default());
        Ok(Self { storage, interpreter, evaluators, agents })
    }
}
