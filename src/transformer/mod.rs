//! Transformers: address set to address set, or tree to tree, on the answers of a namer.

mod config;
mod daemonset;
mod keep;
mod local_node;
mod port;
mod stand_in;
mod subnet;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use crate::config::IpFamilies;
use crate::k8s::ApiServers;
use crate::name::{Addr, AddrSet, Path};
use crate::store::{Reading, Run};

pub use config::{
    ConstConfig, DaemonSetConfig, KINDS, LocalNodeConfig, LocalhostConfig, PortConfig, ReplaceConfig,
    SpecificHostConfig, TransformerBlock,
};
pub use subnet::same_network;

/// A transformer, ready to be applied.
#[derive(Clone)]
pub struct Transformer {
    /// What is put before the ids of leaves, `/%/…`.
    pub id_prefix: Path,
    /// What it does.
    pub effect: Effect,
}

/// What a transformer does with a tree all of whose leaves are bound.
#[derive(Clone)]
pub enum Effect {
    /// Changes the address set of each leaf.
    Addresses(Arc<dyn MapAddresses>),
    /// Every leaf becomes the binding of this path, looked up among the `/$/` namers only.
    Replace(Path),
    /// The whole tree, even a negative one, becomes the binding of this path, likewise.
    Const(Path),
}

/// Changes address sets.
pub trait MapAddresses: fmt::Debug + Send + Sync {
    /// The address set that takes the place of `set`. A filter that leaves nothing says `Addr::Neg`.
    fn map(&self, run: &mut Run<'_>, set: &AddrSet) -> Reading<Addr>;

    /// Until when bindings have to wait: one whose addresses cannot be told yet is not known.
    fn ready(&self, run: &mut Run<'_>) -> Reading<()> {
        let _ = run;
        Reading::Ready(())
    }
}

/// What a transformer is built from besides its own keys.
#[derive(Clone, Debug)]
pub struct TransformerParts {
    /// The Kubernetes API servers of the process.
    pub servers: ApiServers,
    /// `ipFamilies`.
    pub ip_families: IpFamilies,
}

/// The `kind`-specific part of a block under `transformers:`.
pub trait TransformerConfig: fmt::Debug + Send + Sync {
    /// Builds the transformer; `prefix` is the block's own `prefix:`, without `/%`. Nothing is contacted.
    ///
    /// # Errors
    /// One line that names the key and the remedy, for what only shows at start.
    fn build(&self, prefix: Option<&Path>, parts: &TransformerParts) -> Result<Transformer, String>;
}

/// `/%` and the block's own prefix, or else that of its kind.
fn id_prefix(own: Option<&Path>, of_kind: &[&str]) -> Path {
    let root = Path::from_elems(["%"]).expect("the element is not empty");
    match own {
        Some(own) => root.concat(own),
        None => root.concat(&Path::from_elems(of_kind).expect("no kind has an empty element in its prefix")),
    }
}

impl fmt::Debug for Transformer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transformer").field("id_prefix", &self.id_prefix.to_string()).finish_non_exhaustive()
    }
}
