//! Interpreters: names in, live trees and address sets out. One trait, two answers: [`Local`] computes from dtabs and
//! namers, [`remote::Remote`] asks another name server (relay mode).

mod addr;
mod bind;
mod bound;
mod delegate;
mod interner;
mod local;
mod namers;
pub mod remote;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

pub use addr::strip_transformers;
pub use bound::{AddrSource, Bound, BoundId, BoundTree};
pub use delegate::{Delegation, DelegationLeaf};
pub use interner::LocalDtab;
pub use local::{Local, Settings};
pub use namers::{ConfiguredNamer, Namers};

use crate::name::{Addr, Dtab, NameTree, Path};
use crate::storage::VersionedDtab;
use crate::store::{Client, OverBudget, Unanswered, Watch};

/// What interfaces ask. They don't know which interpreter they serve.
///
/// Every live answer is a handle: a snapshot now, a subscription for later, and a guard that keeps it going.
#[async_trait]
pub trait Interpreter: Send + Sync + 'static {
    /// The bound tree of `path` in a namespace, under the namespace's dtab followed by the request's own (`local`).
    /// A missing namespace is an empty dtab.
    ///
    /// # Errors
    /// [`OverBudget`] when this client holds too many bindings.
    fn bind(
        &self,
        client: Client,
        namespace: &str,
        local: &LocalDtab,
        path: &Path,
        hold: Hold,
    ) -> Result<Watch<BoundTree>, OverBudget>;

    /// Interns a request's own dtab, so that equal ones share their bindings.
    ///
    /// # Errors
    /// [`OverBudget`] when this client uses too many different ones.
    fn local_dtab(&self, client: Client, dtab: Dtab) -> Result<LocalDtab, OverBudget>;

    /// The addresses of a bound id, found without any dtab. A transformer prefix (`/%/…`) only helps to find the
    /// namer; unknown ids are `Neg`.
    ///
    /// # Errors
    /// [`OverBudget`] when this client holds too many address sets.
    fn addr(&self, client: Client, id: &Path) -> Result<Watch<Addr>, OverBudget>;

    /// Like [`Interpreter::addr`] without removing a transformer prefix: what HTTP `resolve` does.
    ///
    /// # Errors
    /// As [`Interpreter::addr`].
    fn addr_verbatim(&self, client: Client, id: &Path) -> Result<Watch<Addr>, OverBudget>;

    /// The addresses behind a leaf of a bound tree, exactly as the tree means them.
    ///
    /// # Errors
    /// As [`Interpreter::addr`].
    fn leaf_addr(&self, client: Client, source: &AddrSource) -> Result<Watch<Addr>, OverBudget>;

    /// Explains a tree: every alternative, with the dentry that led to each step. One-shot; addresses of leaves are
    /// waited for if `with_addresses`.
    ///
    /// # Errors
    /// [`Unanswered`] when a namer does not answer within `limit`, or the delegation fails as a whole.
    async fn delegate(&self, request: DelegateRequest, limit: Duration) -> Result<Arc<Delegation>, Unanswered>;

    /// The dtab of a namespace; `None` when there is no such namespace.
    ///
    /// # Errors
    /// [`OverBudget`] when this client watches too many namespaces.
    fn dtab(&self, client: Client, namespace: &str) -> Result<Watch<Option<VersionedDtab>>, OverBudget>;

    /// All names of the namers that can list theirs.
    fn bound_names(&self) -> Watch<BTreeSet<Path>>;
}

/// How long a client will care for a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// It reads once.
    Once,
    /// It watches.
    Watch,
}

/// What to explain.
#[derive(Clone, Debug)]
pub struct DelegateRequest {
    /// On whose behalf.
    pub client: Client,
    /// Whose dtab to use; `None` for the request's own alone.
    pub namespace: Option<String>,
    /// The request's own dtab.
    pub local: Dtab,
    /// What to look up; usually one leaf.
    pub tree: NameTree<Path>,
    /// Wait for and include the addresses of leaves.
    pub with_addresses: bool,
    /// Use the configured namers; without them only `/$/…` names bind.
    pub with_namers: bool,
}
