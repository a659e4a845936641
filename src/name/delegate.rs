//! Delegate trees: how a name was looked up, step by step.

use std::sync::Arc;

use super::dtab::Dentry;
use super::path::Path;
use super::tree::NameTree;

/// What became of a name, over leaves of `L`.
///
/// Every node but a transformation has the path that was looked up there and the entry that produced the node, or
/// [`Dentry::nop`]. Entries are shared: one with many leaves stands in many nodes. As with name trees, operations
/// recurse once per level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DelegateTree<L> {
    /// The lookup failed.
    Exception {
        /// What was looked up.
        path: Path,
        /// Where it came from.
        dentry: Arc<Dentry>,
        /// Why, if the failure says so.
        message: Option<String>,
    },
    /// It exists and has no addresses.
    Empty {
        /// What was looked up.
        path: Path,
        /// Where it came from.
        dentry: Arc<Dentry>,
    },
    /// Nothing here, and do not try elsewhere.
    Fail {
        /// What was looked up.
        path: Path,
        /// Where it came from.
        dentry: Arc<Dentry>,
    },
    /// Nothing here.
    Neg {
        /// What was looked up; empty for a `~` written in a dtab.
        path: Path,
        /// Where it came from.
        dentry: Arc<Dentry>,
    },
    /// A name.
    Leaf {
        /// What was looked up.
        path: Path,
        /// Where it came from.
        dentry: Arc<Dentry>,
        /// The name.
        value: L,
    },
    /// One rewriting step.
    Delegate {
        /// What was looked up.
        path: Path,
        /// Where it came from.
        dentry: Arc<Dentry>,
        /// What it was rewritten to.
        tree: Box<DelegateTree<L>>,
    },
    /// Alternatives, all of them, also those never needed.
    Alt {
        /// What was looked up.
        path: Path,
        /// Where it came from.
        dentry: Arc<Dentry>,
        /// The branches, highest priority first.
        trees: Vec<DelegateTree<L>>,
    },
    /// A weighted union.
    Union {
        /// What was looked up.
        path: Path,
        /// Where it came from.
        dentry: Arc<Dentry>,
        /// The branches.
        trees: Vec<WeightedDelegate<L>>,
    },
    /// A transformer at work. Linkerd 1 makes these, a name server never does.
    Transformation {
        /// What was looked up.
        path: Path,
        /// The transformer.
        name: String,
        /// The name before the transformation.
        value: L,
        /// What it was transformed to.
        tree: Box<DelegateTree<L>>,
    },
}

/// One branch of a [`DelegateTree::Union`]; weights are equal when their bits are.
#[derive(Clone, Debug)]
pub struct WeightedDelegate<L> {
    /// The share.
    pub weight: f64,
    /// The branch.
    pub tree: DelegateTree<L>,
}

impl<L: PartialEq> PartialEq for WeightedDelegate<L> {
    fn eq(&self, other: &Self) -> bool {
        self.weight.to_bits() == other.weight.to_bits() && self.tree == other.tree
    }
}

impl<L: Eq> Eq for WeightedDelegate<L> {}

impl<L> DelegateTree<L> {
    /// Gives every node of a name tree the same path and entry, except that a `~` gets the empty path.
    pub fn from_name_tree<T>(
        path: &Path,
        dentry: &Arc<Dentry>,
        tree: &NameTree<T>,
        leaf: &mut impl FnMut(&T) -> L,
    ) -> Self {
        let (here, entry) = (path.clone(), dentry.clone());
        match tree {
            NameTree::Leaf(value) => Self::Leaf { path: here, dentry: entry, value: leaf(value) },
            NameTree::Neg => Self::Neg { path: Path::empty(), dentry: entry },
            NameTree::Fail => Self::Fail { path: here, dentry: entry },
            NameTree::Empty => Self::Empty { path: here, dentry: entry },
            NameTree::Alt(trees) => {
                let trees = trees.iter().map(|tree| Self::from_name_tree(path, dentry, tree, leaf)).collect();
                Self::Alt { path: here, dentry: entry, trees }
            }
            NameTree::Union(branches) => {
                let branch = branches.iter().map(|branch| WeightedDelegate {
                    weight: branch.weight,
                    tree: Self::from_name_tree(path, dentry, &branch.tree, leaf),
                });
                let trees = branch.collect();
                Self::Union { path: here, dentry: entry, trees }
            }
        }
    }

    /// The same tree over other leaves.
    pub fn map<U>(self, mut leaf: impl FnMut(L) -> U) -> DelegateTree<U> {
        self.map_with(&mut leaf)
    }

    fn map_with<U>(self, leaf: &mut impl FnMut(L) -> U) -> DelegateTree<U> {
        match self {
            Self::Exception { path, dentry, message } => DelegateTree::Exception { path, dentry, message },
            Self::Empty { path, dentry } => DelegateTree::Empty { path, dentry },
            Self::Fail { path, dentry } => DelegateTree::Fail { path, dentry },
            Self::Neg { path, dentry } => DelegateTree::Neg { path, dentry },
            Self::Leaf { path, dentry, value } => DelegateTree::Leaf { path, dentry, value: leaf(value) },
            Self::Delegate { path, dentry, tree } => {
                DelegateTree::Delegate { path, dentry, tree: Box::new(tree.map_with(leaf)) }
            }
            Self::Alt { path, dentry, trees } => {
                let trees = trees.into_iter().map(|tree| tree.map_with(leaf)).collect();
                DelegateTree::Alt { path, dentry, trees }
            }
            Self::Union { path, dentry, trees } => {
                let branch = |branch: WeightedDelegate<L>| WeightedDelegate {
                    weight: branch.weight,
                    tree: branch.tree.map_with(leaf),
                };
                let trees = trees.into_iter().map(branch).collect();
                DelegateTree::Union { path, dentry, trees }
            }
            Self::Transformation { path, name, value, tree } => {
                let value = leaf(value);
                DelegateTree::Transformation { path, name, value, tree: Box::new(tree.map_with(leaf)) }
            }
        }
    }

    /// What was looked up at this node.
    pub fn path(&self) -> &Path {
        match self {
            Self::Exception { path, .. }
            | Self::Empty { path, .. }
            | Self::Fail { path, .. }
            | Self::Neg { path, .. }
            | Self::Leaf { path, .. }
            | Self::Delegate { path, .. }
            | Self::Alt { path, .. }
            | Self::Union { path, .. }
            | Self::Transformation { path, .. } => path,
        }
    }

    /// The entry this node came from; a transformation has none.
    pub fn dentry(&self) -> Option<&Arc<Dentry>> {
        match self {
            Self::Exception { dentry, .. }
            | Self::Empty { dentry, .. }
            | Self::Fail { dentry, .. }
            | Self::Neg { dentry, .. }
            | Self::Leaf { dentry, .. }
            | Self::Delegate { dentry, .. }
            | Self::Alt { dentry, .. }
            | Self::Union { dentry, .. } => Some(dentry),
            Self::Transformation { .. } => None,
        }
    }

    fn set_dentry(&mut self, entry: Arc<Dentry>) {
        match self {
            Self::Exception { dentry, .. }
            | Self::Empty { dentry, .. }
            | Self::Fail { dentry, .. }
            | Self::Neg { dentry, .. }
            | Self::Leaf { dentry, .. }
            | Self::Delegate { dentry, .. }
            | Self::Alt { dentry, .. }
            | Self::Union { dentry, .. } => *dentry = entry,
            Self::Transformation { .. } => {}
        }
    }

    /// Drops steps that say nothing: a rewriting to a node of the same path becomes that node, an alt inside an alt of
    /// the same path is spliced in, alts and unions of one branch become rewriting steps, those of none `~`.
    #[must_use]
    pub fn simplify(mut self) -> Self {
        self.simplify_below();
        self
    }

    /// In place, since nodes are large and a recursion that moves them needs much stack.
    fn simplify_below(&mut self) {
        match self {
            Self::Delegate { tree, .. } => tree.simplify_below(),
            Self::Alt { trees, .. } => trees.iter_mut().for_each(Self::simplify_below),
            Self::Union { trees, .. } => trees.iter_mut().for_each(|branch| branch.tree.simplify_below()),
            _ => return,
        }
        self.simplify_here();
    }

    /// Simplifies this node, whose branches are simple.
    #[inline(never)]
    fn simplify_here(&mut self) {
        let Some(dentry) = self.dentry().cloned() else { return };
        let hole = Self::Neg { path: Path::empty(), dentry };
        *self = match std::mem::replace(self, hole) {
            Self::Delegate { path, dentry, tree } => tree.reached_from(path, dentry),
            Self::Alt { path, dentry, trees } => match <[Self; 1]>::try_from(trees) {
                Ok([only]) => only.reached_from(path, dentry),
                Err(trees) if trees.is_empty() => Self::Neg { path, dentry },
                Err(trees) => {
                    let mut spliced = Vec::with_capacity(trees.len());
                    for tree in trees {
                        match tree {
                            Self::Alt { path: inner, trees, .. } if inner == path => spliced.extend(trees),
                            tree => spliced.push(tree),
                        }
                    }
                    Self::Alt { path, dentry, trees: spliced }
                }
            },
            Self::Union { path, dentry, trees } => match <[WeightedDelegate<L>; 1]>::try_from(trees) {
                Ok([only]) => only.tree.reached_from(path, dentry),
                Err(trees) if trees.is_empty() => Self::Neg { path, dentry },
                Err(trees) => Self::Union { path, dentry, trees },
            },
            other => other,
        };
    }

    /// This simple node as the result of one step from `path`; no step is left when the paths are the same.
    fn reached_from(mut self, path: Path, dentry: Arc<Dentry>) -> Self {
        // A step into nothing is kept, since it tells which entry led there.
        let nothing = matches!(self, Self::Neg { .. } | Self::Fail { .. } | Self::Empty { .. });
        if !nothing && *self.path() == path {
            self.set_dentry(dentry);
            return self;
        }
        Self::Delegate { path, dentry, tree: Box::new(self) }
    }

    /// The nodes from this one down to the first leaf that holds `wanted`.
    pub fn find(&self, wanted: &L) -> Option<Vec<&Self>>
    where
        L: PartialEq,
    {
        let mut trail = Vec::new();
        self.search(wanted, &mut trail).then_some(trail)
    }

    fn search<'a>(&'a self, wanted: &L, trail: &mut Vec<&'a Self>) -> bool
    where
        L: PartialEq,
    {
        trail.push(self);
        let found = match self {
            Self::Leaf { value, .. } => value == wanted,
            Self::Delegate { tree, .. } | Self::Transformation { tree, .. } => tree.search(wanted, trail),
            Self::Alt { trees, .. } => trees.iter().any(|tree| tree.search(wanted, trail)),
            Self::Union { trees, .. } => trees.iter().any(|branch| branch.tree.search(wanted, trail)),
            Self::Exception { .. } | Self::Empty { .. } | Self::Fail { .. } | Self::Neg { .. } => false,
        };
        if !found {
            trail.pop();
        }
        found
    }
}
