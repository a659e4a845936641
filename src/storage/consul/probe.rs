//! Can this storage's token do what it needs?

use std::time::Duration;

use super::config::ConsulConfig;
use super::layout::Layout;
use crate::consul::Agent;
use crate::runtime::Probe;

/// How long each question may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The namespace whose key is tried. Nothing is written there.
const TRIED: &str = "rosterd-check";

/// What there is to try.
pub(super) fn probes(agent: &Agent, layout: &Layout, config: &ConsulConfig) -> Vec<Probe> {
    let name = agent.name();
    let (asked, request) = (agent.clone(), layout.read(TRIED, config.read));
    let reads = Probe::new(format!("dtabs in Consul at {name}"), async move {
        asked.once(&request, PATIENCE).await.map(|_| "can be read".to_owned()).map_err(|error| error.to_string())
    });
    // No key ever has this index, so that nothing is written.
    let (asked, request) = (agent.clone(), layout.write(TRIED, config.write, u64::MAX, Default::default()));
    let writes = Probe::new(format!("writing dtabs to Consul at {name}"), async move {
        asked.once(&request, PATIENCE).await.map(|_| "is allowed".to_owned()).map_err(|error| error.to_string())
    });
    vec![reads, writes]
}
