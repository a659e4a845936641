//! Delegation: explains a name, every alternative and every step (DefaultInterpreterInitializer.scala:78-167).

use std::sync::Arc;

use super::addr;
use super::bind::{Lookup, MAX_BYTES, deep};
use super::local::{NamespaceDtab, Shared, indexed};
use super::namers::{Name, SystemOnly};
use super::{AddrSource, BoundId, DelegateRequest};
use crate::name::{Addr, DelegateTree, Dentry, IndexedDtab, Layers, NameTree, Path, WeightedDelegate};
use crate::namer::system::{self, SystemError};
use crate::store::{Formula, Reading, Reason, Run, Wait};

/// How many lookups a chain may have.
const MAX_LOOKUPS: usize = 100;

/// How many nodes one delegation may have: all alternatives are expanded, so loops would be exponential. They are
/// counted before they are made, since one entry may have millions.
const MAX_NODES: usize = 10_000;

/// How deep the tree may nest, which bounds the stack here and in the encoders.
const MAX_NESTING: usize = 400;

/// Upstream's text for a name that loops or is too deep; it differs from that of a binding.
const TOO_DEEP: &str = "Max recursion level reached.";

/// An explained name.
#[derive(Clone, Debug, PartialEq)]
pub struct Delegation {
    /// The simplified tree.
    pub tree: DelegateTree<DelegationLeaf>,
}

/// A bound name at the end of a branch.
#[derive(Clone, Debug, PartialEq)]
pub struct DelegationLeaf {
    /// What it is called.
    pub id: BoundId,
    /// What no namer consumed.
    pub residual: Path,
    /// Where its addresses come from.
    pub source: AddrSource,
    /// Its addresses, if they were asked for.
    pub addr: Option<Addr>,
}

/// One delegation, as a formula.
pub(super) struct Delegate {
    request: DelegateRequest,
    local: IndexedDtab,
    shared: Arc<Shared>,
    dtab: NamespaceDtab,
}

struct Delegator<'d, 'r, 'c> {
    layers: Layers<'d>,
    names: &'d dyn Lookup,
    shared: &'d Shared,
    with_addresses: bool,
    run: &'r mut Run<'c>,
    nodes: usize,
    bytes: usize,
    nesting: usize,
}

/// Why a node has no tree.
enum Stop {
    /// The whole delegation waits.
    Pending(Wait),
    /// The nearest alt or union above shows it as an exception; without one the delegation fails.
    Failed(Reason),
}

type Step = Result<DelegateTree<DelegationLeaf>, Stop>;

// === impl Delegate ===

impl Delegate {
    pub(super) fn new(request: DelegateRequest, shared: Arc<Shared>) -> Self {
        let local = IndexedDtab::new(request.local.clone());
        Self { request, local, shared, dtab: NamespaceDtab::default() }
    }
}

impl Formula for Delegate {
    type Value = Delegation;

    fn compute(&self, run: &mut Run<'_>) -> Reading<Delegation> {
        let stored = match &self.request.namespace {
            None => None,
            Some(namespace) => match self.dtab.read(self.shared.storage(), run, namespace) {
                Reading::Ready(dtab) => Some(dtab),
                Reading::Pending(wait) => return Reading::Pending(wait),
                Reading::Failed(reason) => return Reading::Failed(reason),
            },
        };
        let namespace = indexed(stored.as_deref().unwrap_or(&None));
        let mut delegator = Delegator {
            layers: Layers { namespace, local: &self.local },
            names: if self.request.with_namers { self.shared.namers() } else { &SystemOnly },
            shared: &self.shared,
            with_addresses: self.request.with_addresses,
            run,
            nodes: 0,
            bytes: 0,
            nesting: 0,
        };
        let nop = Arc::new(Dentry::nop());
        let start = DelegateTree::from_name_tree(&Path::empty(), &nop, &self.request.tree, &mut |path: &Path| {
            Name::Path(path.clone())
        });
        match delegator.expand(start, 0) {
            Ok(tree) => Reading::Ready(Delegation { tree: tree.simplify() }),
            Err(Stop::Pending(wait)) => Reading::Pending(wait),
            Err(Stop::Failed(reason)) => Reading::Failed(reason),
        }
    }
}

// === impl Delegator ===

impl Delegator<'_, '_, '_> {
    fn expand(&mut self, node: DelegateTree<Name>, lookups: usize) -> Step {
        if lookups > MAX_LOOKUPS || self.nesting >= MAX_NESTING {
            return Err(Stop::Failed(TOO_DEEP.into()));
        }
        self.nesting += 1;
        let step = deep(|| self.expand_node(node, lookups));
        self.nesting -= 1;
        step
    }

    fn expand_node(&mut self, node: DelegateTree<Name>, lookups: usize) -> Step {
        Ok(match node {
            DelegateTree::Exception { path, dentry, message } => DelegateTree::Exception { path, dentry, message },
            DelegateTree::Empty { path, dentry } => DelegateTree::Empty { path, dentry },
            DelegateTree::Fail { path, dentry } => DelegateTree::Fail { path, dentry },
            DelegateTree::Neg { path, dentry } => DelegateTree::Neg { path, dentry },
            // The leaf is replaced by what its path stands for, and keeps its dentry.
            DelegateTree::Leaf { dentry, value: Name::Path(path), .. } => {
                let found = self.look(&dentry, &path)?;
                return self.expand(found, lookups + 1);
            }
            DelegateTree::Leaf { path, dentry, value: Name::Bound(bound) } => {
                let addr = if self.with_addresses { Some(self.addr(&bound.source)?) } else { None };
                let value = DelegationLeaf { id: bound.id, residual: bound.residual, source: bound.source, addr };
                DelegateTree::Leaf { path, dentry, value }
            }
            DelegateTree::Delegate { path, dentry, tree } => {
                let tree = Box::new(self.expand(*tree, lookups)?);
                DelegateTree::Delegate { path, dentry, tree }
            }
            DelegateTree::Alt { path, dentry, mut trees } => match trees.len() {
                0 => DelegateTree::Neg { path, dentry },
                1 => {
                    let tree = Box::new(self.expand(trees.swap_remove(0), lookups)?);
                    DelegateTree::Delegate { path, dentry, tree }
                }
                _ => {
                    let branches = trees.into_iter().map(|tree| self.branch(&path, &dentry, tree, lookups));
                    let trees = branches.collect::<Result<_, Stop>>()?;
                    DelegateTree::Alt { path, dentry, trees }
                }
            },
            DelegateTree::Union { path, dentry, mut trees } => match trees.len() {
                0 => DelegateTree::Neg { path, dentry },
                1 => {
                    let tree = Box::new(self.expand(trees.swap_remove(0).tree, lookups)?);
                    DelegateTree::Delegate { path, dentry, tree }
                }
                _ => {
                    let branches = trees.into_iter().map(|branch| {
                        let tree = self.branch(&path, &dentry, branch.tree, lookups)?;
                        Ok(WeightedDelegate { weight: branch.weight, tree })
                    });
                    let trees = branches.collect::<Result<_, Stop>>()?;
                    DelegateTree::Union { path, dentry, trees }
                }
            },
            // Neither dtabs nor namers make these, and what clients send is refused at the interface.
            DelegateTree::Transformation { path, .. } => DelegateTree::Neg { path, dentry: Arc::new(Dentry::nop()) },
        })
    }

    /// A failing branch of an alt or union is shown, under the path and dentry of that alt or union.
    fn branch(&mut self, path: &Path, dentry: &Arc<Dentry>, tree: DelegateTree<Name>, lookups: usize) -> Step {
        match self.expand(tree, lookups) {
            Err(Stop::Failed(reason)) => Ok(DelegateTree::Exception {
                path: path.clone(),
                dentry: dentry.clone(),
                message: Some(reason.to_string()),
            }),
            step => step,
        }
    }

    /// One lookup: the matching dentries, else the namers. Unlike in a binding a bare `~` is shown, not passed over.
    fn look(&mut self, dentry: &Arc<Dentry>, path: &Path) -> Result<DelegateTree<Name>, Stop> {
        let entries: Vec<_> = self.layers.matches(path).collect();
        if entries.is_empty() {
            return self.ask_namers(path.clone(), dentry.clone());
        }
        self.bytes += size_of_val(&entries[..]);
        self.grow(entries.iter().map(|entry| &entry.dst))?;
        let mut matching: Vec<_> = entries
            .into_iter()
            .map(|entry| {
                let (rest, entry) = (path.drop(entry.prefix.len()), Arc::new(entry.clone()));
                DelegateTree::from_name_tree(path, &entry, &entry.dst, &mut |leaf| {
                    self.bytes += leaf.bytes() + rest.bytes();
                    // Once there are too many bytes the tree is not used.
                    Name::Path(if self.bytes > MAX_BYTES { Path::empty() } else { leaf.concat(&rest) })
                })
            })
            .collect();
        if self.bytes > MAX_BYTES {
            return Err(Stop::Failed(TOO_DEEP.into()));
        }
        let (path, dentry) = (path.clone(), dentry.clone());
        Ok(match matching.len() {
            1 => DelegateTree::Delegate { path, dentry, tree: Box::new(matching.swap_remove(0)) },
            _ => DelegateTree::Alt { path, dentry, trees: matching },
        })
    }

    /// Makes room for these trees and the node above them.
    fn grow<'t, T: 't>(&mut self, trees: impl IntoIterator<Item = &'t NameTree<T>>) -> Result<(), Stop> {
        let mut nodes = self.nodes + 1;
        for tree in trees {
            if nodes > MAX_NODES {
                break;
            }
            nodes += tree.nodes(MAX_NODES - nodes);
        }
        if nodes > MAX_NODES {
            return Err(Stop::Failed(TOO_DEEP.into()));
        }
        self.nodes = nodes;
        Ok(())
    }

    fn ask_namers(&mut self, path: Path, dentry: Arc<Dentry>) -> Result<DelegateTree<Name>, Stop> {
        match self.names.lookup(self.run, &path) {
            Reading::Ready(NameTree::Neg) => Ok(DelegateTree::Neg { path, dentry }),
            Reading::Ready(tree) => {
                self.grow([&tree])?;
                Ok(DelegateTree::from_name_tree(&path, &dentry, &tree, &mut Name::clone))
            }
            Reading::Pending(wait) => Err(Stop::Pending(wait)),
            Reading::Failed(reason) => {
                let message = match system::lookup(&path) {
                    Err(SystemError::UnknownClass(class)) => format!("Unknown namer: {class} for path: {path}"),
                    _ => reason.to_string(),
                };
                Ok(DelegateTree::Exception { path, dentry, message: Some(message) })
            }
        }
    }

    fn addr(&mut self, source: &AddrSource) -> Result<Addr, Stop> {
        match addr::of_source(self.shared.namers(), self.run, source) {
            Reading::Ready(addr) => Ok(addr),
            Reading::Pending(wait) => Err(Stop::Pending(wait)),
            Reading::Failed(reason) => Ok(Addr::Failed(Some(reason))),
        }
    }
}
