//! Namers: where addresses come from. One folder per source, each with its own config struct.

mod config;
pub mod consul;
pub mod fs;
pub mod hosts;
pub mod k8s;
pub mod namerd;
pub mod rewrite;
pub mod system;
#[cfg(test)]
mod testing;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::client::ClientMetrics;
use crate::config::IpFamilies;
use crate::consul::Agents;
use crate::k8s::ApiServers;
use crate::name::{Addr, Limits, NameTree, Path};
use crate::runtime::Probe;
use crate::store::{Evaluators, Reading, Run, Staleness};
use crate::telemetry::Scope;

pub use config::{KINDS, NamerBlock, OWN_KEYS, check_overlaps, own_prefix};
use hosts::Hosts;

/// A source of addresses, configured under a prefix such as `/#/io.l5d.fs`.
///
/// All methods are pure functions over the cells of the namer's own tables, read through `run`: they never block and
/// never do I/O. The writers of those cells are the namer's tasks, owned by the tables' entries.
pub trait Namer: Send + Sync + 'static {
    /// What `path`, the rest of a name after the namer's prefix, stands for now.
    ///
    /// A backend that never answered gives `Pending` (with [`crate::store::Wait::pass_over_at`] set), a name that
    /// does not exist `Neg`. The tree changes with presence only, never with addresses.
    fn lookup(&self, run: &mut Run<'_>, path: &Path) -> Reading<NameTree<Found>>;

    /// The addresses of `id`, which an earlier [`Namer::lookup`] returned, as it returned it; `Neg` when there is no such name.
    fn addresses(&self, run: &mut Run<'_>, id: &Path) -> Reading<Addr>;

    /// Can this namer list its names (`/api/1/bound-names`)?
    fn enumerates(&self) -> bool {
        false
    }

    /// The names it knows now, without the prefix.
    fn names(&self, run: &mut Run<'_>) -> Reading<BTreeSet<Path>> {
        let _ = run;
        Reading::Ready(BTreeSet::new())
    }

    /// How many of its values are the last good ones because its backend fails.
    fn staleness(&self) -> Staleness {
        Staleness::default()
    }

    /// What `/namer_state/<prefix>.json` shows; `None` for a namer without such a page.
    fn state(&self) -> Option<serde_json::Value> {
        None
    }
}

/// A leaf of what a namer answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// A name that has to be looked up again, through the dtab first.
    Path(Path),
    /// A concrete name.
    Bound {
        /// The part of the looked-up path that names it; the full id is the namer's prefix and this.
        id: Path,
        /// What the namer did not consume.
        residual: Path,
    },
    /// A concrete name whose id is whole, as another name server gave it.
    Whole {
        /// The id.
        id: Path,
        /// What that name server did not consume.
        residual: Path,
    },
}

/// The `kind`-specific part of a block under `namers:`.
pub trait NamerConfig: fmt::Debug + Send + Sync {
    /// Builds the namer. It must not contact its backend: rosterd starts while every backend is down.
    ///
    /// # Errors
    /// One line that names the key and the remedy, for what only shows at start.
    fn build(&self, parts: &NamerParts) -> Result<Arc<dyn Namer>, String>;

    /// What `rosterd check --connect` tries.
    ///
    /// # Errors
    /// As [`NamerConfig::build`].
    fn probes(&self, agents: &Agents, servers: &ApiServers) -> Result<Vec<Probe>, String> {
        let _ = (agents, servers);
        Ok(Vec::new())
    }
}

/// What a namer is built from besides its own keys.
#[derive(Clone, Debug)]
pub struct NamerParts {
    /// The full prefix, `/#/…`.
    pub prefix: Path,
    /// After this time without any answer an alt may pass the namer over (`fallThroughAfterMs`).
    pub fall_through_after: Duration,
    /// Looks up host names; shared by everything in the process.
    pub hosts: Hosts,
    /// The Consul agents of the process.
    pub agents: Agents,
    /// The Kubernetes API servers of the process.
    pub servers: ApiServers,
    /// `ipFamilies`.
    pub ip_families: IpFamilies,
    /// Evaluates what it computes outside of evaluations that read it.
    pub evaluators: Evaluators,
    /// What is read of dtabs.
    pub names: Limits,
    /// Counts what is asked of other name servers.
    pub client: ClientMetrics,
    /// Where its metrics are in namerd's tree: `namer/#/…`.
    pub scope: Scope,
}
