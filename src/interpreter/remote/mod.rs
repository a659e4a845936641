//! Remote: the interpreter that asks another name server. This is relay mode.
//!
//! Each distinct question is one feed, shared by all who ask it here. What is known stays while the other server cannot
//! be reached: answers then are the last good ones, and that they are shows in metrics, in `/ready` and on the state
//! page, never in the answer.

mod config;
mod dtabs;
mod keeper;
mod snapshot;
mod source;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::interner::Interner;
use super::local::BindingKey;
use super::{
    AddrSource, Bound, BoundId, BoundTree, DelegateRequest, Delegation, DelegationLeaf, Hold, Interpreter, Local,
    LocalDtab,
};
use crate::client::http::Controller;
use crate::client::{Answer, Ask, Explain, Explained, Feed, NO_NAMESPACE, Named, Upstream};
use crate::name::{Addr, Dtab, NameTree, Path, Weighted};
use crate::storage::VersionedDtab;
use crate::store::{Client, OverBudget, Policy, Table, Unanswered, Usage, Watch};

use keeper::Begun;

pub use config::{ControllerUrl, InterpreterBlock, KINDS, Relay, RelayConfig, RelayParts};
pub use dtabs::RemoteDtabs;

/// How many questions of a kind may be followed at once: each is a task here and a poll there.
const FOLLOWED_MAX: usize = 100_000;

/// Passes questions on to another name server. Cloning shares it.
#[derive(Clone)]
pub struct Remote {
    upstream: Upstream,
    bindings: Table<BindingKey, Feed<BoundTree>>,
    addresses: Table<Path, Feed<Addr>>,
    dtabs: Table<Arc<str>, Feed<Option<VersionedDtab>>>,
    names: Option<Table<(), Feed<BTreeSet<Path>>>>,
    interner: Interner,
    /// For what needs no name server: the `/$/` names.
    local: Local,
}

// === impl Remote ===

impl Remote {
    /// Asks `upstream`, and `controller` for what only that tells. `begun` is told of what is followed. Must be called
    /// within a runtime.
    fn new(upstream: Upstream, controller: Option<Controller>, local: Local, begun: Option<Arc<Begun>>) -> Self {
        let tell = move |ask: &Ask, key: Option<&BindingKey>| {
            if let Some(begun) = &begun {
                begun.begins(ask, key);
            }
        };
        let policy = Policy { budget: FOLLOWED_MAX, ..Policy::default() };
        let runtime = Handle::current();
        let (at, on, begins) = (upstream.clone(), runtime.clone(), tell.clone());
        // What is the last good value cannot be had anew: it stays through the outage, however seldom it is asked for.
        let bindings =
            Table::keeping("bindings", policy, BindingKey::weight, Feed::is_stale, move |key: &BindingKey, _| {
                let BindingKey { namespace, local, path } = key.clone();
                let ask = Ask::Bind { ns: namespace, dtab: local.text().clone(), path };
                begins(&ask, Some(key));
                at.feed(&on, ask, tree).begun()
            });
        let (at, on, begins) = (upstream.clone(), runtime.clone(), tell.clone());
        let weigh = |id: &Path| 1 + id.bytes() / 512;
        let addresses = Table::keeping("address sets", policy, weigh, Feed::is_stale, move |id: &Path, _| {
            let ask = Ask::Addr { id: id.clone() };
            begins(&ask, None);
            at.feed(&on, ask, addr).begun()
        });
        let (at, on, begins) = (upstream.clone(), runtime.clone(), tell);
        let weigh = |ns: &Arc<str>| 1 + ns.len() / 512;
        let dtabs = Table::keeping("dtabs", policy, weigh, Feed::is_stale, move |ns: &Arc<str>, _| {
            let ask = Ask::Dtab { ns: ns.clone() };
            begins(&ask, None);
            at.feed(&on, ask, dtabs::versioned).begun()
        });
        let names = controller.map(|controller| {
            let at = controller.upstream().clone();
            Table::new("lists of names", policy, move |(): &(), _| at.feed(&runtime, Ask::Names, names).begun())
        });
        Self { upstream, bindings, addresses, dtabs, names, interner: Interner::default(), local }
    }

    /// The name server that is asked.
    pub fn upstream(&self) -> &Upstream {
        &self.upstream
    }

    /// Figures of bindings and address sets.
    pub fn usage(&self) -> (Usage, Usage) {
        (self.bindings.usage(), self.addresses.usage())
    }

    /// The addresses of leaves whose addresses did not come with the explanation.
    async fn addresses_of(
        &self,
        client: Client,
        ids: BTreeSet<Path>,
        deadline: Instant,
    ) -> Result<HashMap<Path, Addr>, Unanswered> {
        let mut watches = Vec::with_capacity(ids.len());
        for id in ids {
            let watch = self.addr(client, &id).map_err(|over| Unanswered::Failed(over.to_string().into()))?;
            watches.push((id, watch)); // all are asked for before any is waited for
        }
        let mut found = HashMap::with_capacity(watches.len());
        for (id, watch) in watches {
            let addr = match watch.answer(deadline.saturating_duration_since(Instant::now())).await {
                Ok((addr, _)) => (*addr).clone(),
                Err(Unanswered::Failed(reason)) => Addr::Failed(Some(reason)),
                Err(timed_out) => return Err(timed_out),
            };
            found.insert(id, addr);
        }
        Ok(found)
    }
}

#[async_trait]
impl Interpreter for Remote {
    fn bind(
        &self,
        client: Client,
        namespace: &str,
        local: &LocalDtab,
        path: &Path,
        hold: Hold,
    ) -> Result<Watch<BoundTree>, OverBudget> {
        Ok(BindingKey::new(namespace, local, path).observe(&self.bindings, client, hold)?.into())
    }

    fn local_dtab(&self, client: Client, dtab: Dtab) -> Result<LocalDtab, OverBudget> {
        self.interner.intern(client, dtab)
    }

    fn addr(&self, client: Client, id: &Path) -> Result<Watch<Addr>, OverBudget> {
        // Whatever transformers the id names, the other server knows what to do with them.
        Ok(self.addresses.observe(client, id)?.into())
    }

    fn addr_verbatim(&self, client: Client, id: &Path) -> Result<Watch<Addr>, OverBudget> {
        // No namer has such a prefix, so that nobody answers for the id as it stands.
        if id.first() == Some(b"%") { Ok(Watch::constant(Addr::Neg)) } else { self.addr(client, id) }
    }

    fn leaf_addr(&self, client: Client, source: &AddrSource) -> Result<Watch<Addr>, OverBudget> {
        match source {
            AddrSource::Upstream(id) => self.addr(client, id),
            // Trees of this interpreter have no others.
            _ => Ok(Watch::constant(Addr::Neg)),
        }
    }

    async fn delegate(&self, request: DelegateRequest, limit: Duration) -> Result<Arc<Delegation>, Unanswered> {
        if request.namespace.is_none() && !request.with_namers {
            return self.local.delegate(request, limit).await;
        }
        let deadline = Instant::now() + limit;
        let ask = Explain {
            ns: request.namespace.as_deref().unwrap_or(NO_NAMESPACE).into(),
            dtab: request.local.to_string().into(),
            tree: request.tree,
        };
        let mut tree = self.upstream.explain(&ask, limit).await?;
        if request.with_addresses {
            let mut missing = BTreeSet::new();
            tree = tree.map(|leaf: Explained| {
                if leaf.addr.is_none() && !leaf.name.id.is_empty() {
                    missing.insert(leaf.name.id.clone());
                }
                leaf
            });
            let found = self.addresses_of(request.client, missing, deadline).await?;
            tree = tree.map(|leaf| Explained { addr: leaf.addr.or_else(|| found.get(&leaf.name.id).cloned()), ..leaf });
        }
        let tree = tree.map(|Explained { name, addr }| DelegationLeaf {
            source: AddrSource::Upstream(name.id.clone()),
            id: BoundId::Path(name.id),
            residual: name.residual,
            addr,
        });
        Ok(Arc::new(Delegation { tree }))
    }

    fn dtab(&self, client: Client, namespace: &str) -> Result<Watch<Option<VersionedDtab>>, OverBudget> {
        Ok(self.dtabs.observe(client, &namespace.into())?.into())
    }

    fn bound_names(&self) -> Watch<BTreeSet<Path>> {
        match self.names.as_ref().map(|names| names.observe(Client::INTERNAL, &())) {
            Some(Ok(feed)) => feed.into(),
            Some(Err(over)) => Watch::failed(over.to_string()),
            None => Watch::failed(dtabs::no_controller(&self.upstream)),
        }
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("upstream", &self.upstream).finish_non_exhaustive()
    }
}

fn tree(answer: Answer) -> Result<BoundTree, String> {
    match answer {
        Answer::Tree(tree) => Ok(bound(&tree, None)),
        other => Err(format!("not a tree: {other:?}")),
    }
}

/// Each leaf with the weight of the innermost union branch above it. (thrift does not say what it was where the union
/// has fallen away.)
fn bound(tree: &NameTree<Named>, weight: Option<f64>) -> BoundTree {
    match tree {
        NameTree::Leaf(named) => NameTree::Leaf(Bound {
            id: BoundId::Path(named.id.clone()),
            residual: named.residual.clone(),
            source: AddrSource::Upstream(named.id.clone()),
            weight: named.weight.or(weight),
        }),
        NameTree::Neg => NameTree::Neg,
        NameTree::Fail => NameTree::Fail,
        NameTree::Empty => NameTree::Empty,
        NameTree::Alt(trees) => NameTree::Alt(trees.iter().map(|tree| bound(tree, weight)).collect()),
        NameTree::Union(branches) => {
            let branch =
                |branch: &Weighted<Named>| Weighted::new(branch.weight, bound(&branch.tree, Some(branch.weight)));
            NameTree::Union(branches.iter().map(branch).collect())
        }
    }
}

fn addr(answer: Answer) -> Result<Addr, String> {
    match answer {
        Answer::Addr(addr) => Ok(addr),
        other => Err(format!("no addresses: {other:?}")),
    }
}

fn names(answer: Answer) -> Result<BTreeSet<Path>, String> {
    match answer {
        Answer::Names(names) => Ok(names),
        other => Err(format!("no names: {other:?}")),
    }
}
