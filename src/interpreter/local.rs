//! Local: the interpreter that computes, from dtabs and namers.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use smallvec::SmallVec;

use super::bind::{self, Lookup};
use super::delegate::{Delegate, Delegation};
use super::interner::Interner;
use super::namers::{Name, Namers};
use super::{AddrSource, BoundTree, DelegateRequest, Hold, Interpreter, LocalDtab, addr};
use crate::name::{Addr, Dentry, Dtab, IndexedDtab, Layers, NameTree, Path};
use crate::runtime::heavy;
use crate::storage::{Storage, VersionedDtab};
use crate::store::{
    Client, Derived, Evaluators, Formula, Observer, OverBudget, Policy, Reading, Run, Table, Unanswered, Usage, Wait,
    Watch,
};

/// How long an entry of a one-shot request with a dtab of its own is kept: nobody is likely to ask again.
const IDLE_AFTER_ONCE: Duration = Duration::from_secs(10);

/// A request's dtab with more entries is not indexed on the runtime's own threads.
const HEAVY_FROM: usize = 4_096;

/// The dtab of a namespace that does not exist.
static NO_DTAB: LazyLock<IndexedDtab> = LazyLock::new(IndexedDtab::empty);

/// How many bindings, and how many address sets, there may be.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// Life time and budget of bindings.
    pub bindings: Policy,
    /// Life time and budget of address sets.
    pub addresses: Policy,
}

/// Computes answers from dtabs and namers: each distinct question is one derived cell, shared by all who ask it.
#[derive(Clone)]
pub struct Local {
    shared: Arc<Shared>,
    bindings: Table<BindingKey, Derived<Binding>>,
    addresses: Table<AddrKey, Derived<Address>>,
    names: Watch<BTreeSet<Path>>,
    interner: Interner,
}

pub(super) struct Shared {
    namers: Namers,
    storage: Arc<dyn Storage>,
    evaluators: Evaluators,
}

/// What a bound tree depends on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct BindingKey {
    pub(super) namespace: Arc<str>,
    pub(super) local: LocalDtab,
    pub(super) path: Path,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum AddrKey {
    Id(Path),
    Source(AddrSource),
}

/// The bound tree of one path under one namespace and request dtab.
struct Binding {
    shared: Arc<Shared>,
    key: BindingKey,
    dtab: NamespaceDtab,
}

/// One address set.
struct Address {
    shared: Arc<Shared>,
    key: AddrKey,
}

struct BoundNames {
    shared: Arc<Shared>,
}

/// All addresses behind a path.
struct Servers {
    shared: Arc<Shared>,
    path: Path,
}

/// The watched dtab of a namespace, looked up when it is first read.
#[derive(Default)]
pub(super) struct NamespaceDtab {
    watch: OnceLock<Watch<Option<VersionedDtab>>>,
}

/// What a path stands for in a namespace: its dentries, else a namer, else the `/$/` names.
pub(super) struct InNamespace<'a> {
    pub(super) layers: Layers<'a>,
    pub(super) namers: &'a Namers,
}

// === impl Local ===

impl Local {
    /// An interpreter over `storage` and `namers`. Must be called within a runtime.
    pub fn new(storage: Arc<dyn Storage>, namers: Namers, evaluators: Evaluators, settings: Settings) -> Self {
        let shared = Arc::new(Shared { namers, storage, evaluators });
        let (for_bindings, for_addresses) = (shared.clone(), shared.clone());
        let bindings =
            Table::weighed("bindings", settings.bindings, BindingKey::weight, move |key: &BindingKey, client| {
                let shared = for_bindings.clone();
                let formula = Binding { shared: shared.clone(), key: key.clone(), dtab: NamespaceDtab::default() };
                Derived::new(&shared.evaluators, client, formula)
            });
        let addresses =
            Table::weighed("address sets", settings.addresses, AddrKey::weight, move |key: &AddrKey, client| {
                let shared = for_addresses.clone();
                Derived::new(&shared.evaluators, client, Address { shared: shared.clone(), key: key.clone() })
            });
        let names = Derived::new(&shared.evaluators, Client::INTERNAL, BoundNames { shared: shared.clone() });
        Self { shared, bindings, addresses, names: names.into(), interner: Interner::default() }
    }

    /// Figures of the two tables: bindings, address sets.
    pub fn usage(&self) -> (Usage, Usage) {
        (self.bindings.usage(), self.addresses.usage())
    }

    /// The namers, for state pages.
    pub fn namers(&self) -> &Namers {
        &self.shared.namers
    }

    /// All addresses behind a path that is looked up without any dtab, whatever branch they are in: where the servers are
    /// that a relay asks.
    pub fn servers(&self, path: &Path) -> Watch<Addr> {
        let formula = Servers { shared: self.shared.clone(), path: path.clone() };
        Derived::new(&self.shared.evaluators, Client::INTERNAL, formula).into()
    }

    fn address(&self, client: Client, key: &AddrKey) -> Result<Watch<Addr>, OverBudget> {
        Ok(self.addresses.observe(client, key)?.into())
    }
}

#[async_trait]
impl Interpreter for Local {
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
        self.address(client, &AddrKey::Id(addr::strip_transformers(id)))
    }

    fn addr_verbatim(&self, client: Client, id: &Path) -> Result<Watch<Addr>, OverBudget> {
        self.address(client, &AddrKey::Id(id.clone()))
    }

    fn leaf_addr(&self, client: Client, source: &AddrSource) -> Result<Watch<Addr>, OverBudget> {
        self.address(client, &AddrKey::Source(source.clone()))
    }

    async fn delegate(&self, request: DelegateRequest, limit: Duration) -> Result<Arc<Delegation>, Unanswered> {
        let (client, shared) = (request.client, self.shared.clone());
        let formula = if request.local.len() < HEAVY_FROM {
            Delegate::new(request, shared)
        } else {
            let made = heavy(move || Delegate::new(request, shared)).await;
            made.ok_or_else(|| Unanswered::Failed("the dtab could not be indexed".into()))?
        };
        let watch: Watch<_> = Derived::new(&self.shared.evaluators, client, formula).into();
        watch.answer(limit).await.map(|(delegation, _)| delegation)
    }

    fn dtab(&self, client: Client, namespace: &str) -> Result<Watch<Option<VersionedDtab>>, OverBudget> {
        self.shared.storage.dtab(client, namespace)
    }

    fn bound_names(&self) -> Watch<BTreeSet<Path>> {
        self.names.clone()
    }
}

impl fmt::Debug for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Local").field("namers", &self.shared.namers).finish_non_exhaustive()
    }
}

// === impl BindingKey, AddrKey ===

/// So many bytes of keys, or a few nodes of a request's dtab, take about as much memory as an entry alone.
const BYTES_PER_ENTRY: usize = 512;
const NODES_PER_ENTRY: usize = 4;

impl BindingKey {
    pub(super) fn new(namespace: &str, local: &LocalDtab, path: &Path) -> Self {
        Self { namespace: namespace.into(), local: local.clone(), path: path.clone() }
    }

    /// Pins its entry for as long as whoever asks needs it.
    pub(super) fn observe<V: Send + Sync + 'static>(
        &self,
        bindings: &Table<Self, V>,
        client: Client,
        hold: Hold,
    ) -> Result<Observer<V>, OverBudget> {
        match hold {
            Hold::Once if !self.local.is_empty() => bindings.observe_for(client, self, IDLE_AFTER_ONCE),
            Hold::Once | Hold::Watch => bindings.observe(client, self),
        }
    }

    pub(super) fn weight(&self) -> usize {
        let bytes = self.namespace.len() + self.path.bytes();
        1 + bytes / BYTES_PER_ENTRY + self.local.nodes() / NODES_PER_ENTRY
    }
}

impl AddrKey {
    fn weight(&self) -> usize {
        let bytes = match self {
            Self::Id(path) => path.bytes(),
            Self::Source(source) => source.bytes(),
        };
        1 + bytes / BYTES_PER_ENTRY
    }
}

// === impl Shared ===

impl Shared {
    pub(super) fn namers(&self) -> &Namers {
        &self.namers
    }

    pub(super) fn storage(&self) -> &dyn Storage {
        &*self.storage
    }
}

// === impl NamespaceDtab ===

impl NamespaceDtab {
    /// The namespace's dtab of this moment; a missing namespace is an empty one.
    pub(super) fn read(
        &self,
        storage: &dyn Storage,
        run: &mut Run<'_>,
        namespace: &str,
    ) -> Reading<Arc<Option<VersionedDtab>>> {
        let watch = match self.watch.get() {
            Some(watch) => watch,
            // Said at once, where nothing could ever be waited for.
            None if let Err(error) = storage.accepts(namespace) => return Reading::Failed(error.to_string().into()),
            None => match storage.dtab(run.client(), namespace) {
                Ok(watch) => self.watch.get_or_init(|| watch),
                Err(over_budget) => return Reading::Failed(over_budget.to_string().into()),
            },
        };
        match run.read(watch.cell(), ()).reading(Duration::ZERO) {
            // An alt falls through for a namer that never answered, not for a dtab that is unknown.
            Reading::Pending(wait) => Reading::Pending(Wait { pass_over_at: None, ..wait }),
            reading => reading,
        }
    }
}

/// The table of a namespace, or the empty one.
pub(super) fn indexed(dtab: &Option<VersionedDtab>) -> &IndexedDtab {
    match dtab {
        Some(versioned) => versioned.indexed(),
        None => &NO_DTAB,
    }
}

// === impl Formula ===

impl Formula for Binding {
    type Value = BoundTree;

    fn compute(&self, run: &mut Run<'_>) -> Reading<BoundTree> {
        let dtab = self.dtab.read(&*self.shared.storage, run, &self.key.namespace);
        dtab.and_then(|dtab| {
            let layers = Layers { namespace: indexed(&dtab), local: self.key.local.indexed() };
            let names = InNamespace { layers, namers: &self.shared.namers };
            bind::bind(&names, run, &NameTree::Leaf(self.key.path.clone()))
        })
    }
}

impl Formula for Address {
    type Value = Addr;

    fn compute(&self, run: &mut Run<'_>) -> Reading<Addr> {
        match &self.key {
            AddrKey::Id(id) => addr::of_id(&self.shared.namers, run, id),
            AddrKey::Source(source) => addr::of_source(&self.shared.namers, run, source),
        }
    }
}

impl Formula for Servers {
    type Value = Addr;

    fn compute(&self, run: &mut Run<'_>) -> Reading<Addr> {
        let namers = &self.shared.namers;
        bind::bind(namers, run, &NameTree::Leaf(self.path.clone())).and_then(|tree| addr::of_all(namers, run, &tree))
    }
}

impl Formula for BoundNames {
    type Value = BTreeSet<Path>;

    fn compute(&self, run: &mut Run<'_>) -> Reading<BTreeSet<Path>> {
        let mut all = BTreeSet::new();
        for (_, configured) in self.shared.namers.iter() {
            // Transformers hide a namer's ability to list (BoundNamesHandler.scala:28-36).
            if !configured.namer.enumerates() || !configured.transformers.is_empty() {
                continue;
            }
            match configured.namer.names(run) {
                Reading::Ready(names) => all.extend(names.iter().map(|name| configured.prefix.concat(name))),
                Reading::Pending(wait) => return Reading::Pending(wait),
                Reading::Failed(reason) => return Reading::Failed(reason),
            }
        }
        Reading::Ready(all)
    }
}

// === impl InNamespace ===

impl Lookup for InNamespace<'_> {
    fn dentries(&self, path: &Path) -> SmallVec<[&Dentry; 4]> {
        self.layers.matches(path).collect()
    }

    fn lookup(&self, run: &mut Run<'_>, path: &Path) -> Reading<NameTree<Name>> {
        self.namers.lookup(run, path)
    }
}
