//! The configured namers, and the `/$/` names behind them: who answers for a path that no dentry rewrites.

use std::fmt;
use std::sync::Arc;

use super::bind::{self, Lookup};
use super::{AddrSource, Bound, BoundId, BoundTree};
use crate::name::{NameTree, Path};
use crate::namer::hosts::Hosts;
use crate::namer::system::{self, SystemAddr, SystemError, SystemName};
use crate::namer::{Found, Namer};
use crate::store::{Reading, Run};
use crate::transformer::{Effect, Transformer};

/// A namer under its prefix, with its transformers in the order of the configuration.
pub struct ConfiguredNamer {
    /// The full prefix, `/#/…`.
    pub prefix: Path,
    /// The namer.
    pub namer: Arc<dyn Namer>,
    /// What is applied to its answers, first to last.
    pub transformers: Vec<Transformer>,
}

/// All namers of the process. Prefixes do not overlap (the configuration is refused otherwise), so order is no matter.
pub struct Namers {
    list: Vec<ConfiguredNamer>,
    hosts: Hosts,
}

/// A leaf between lookups: still a path, or bound.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Name {
    Path(Path),
    Bound(Bound),
}

/// Only the `/$/` names.
pub(super) struct SystemOnly;

/// One namer, paths relative to its prefix: how an id is looked up again.
pub(super) struct Alone<'a> {
    pub(super) namers: &'a Namers,
    pub(super) at: u16,
}

// === impl Namers ===

impl Namers {
    /// The namers of a configuration; `hosts` resolves the host names of `/$/inet`.
    ///
    /// # Errors
    /// More than 65,535 namers.
    pub fn new(list: Vec<ConfiguredNamer>, hosts: Hosts) -> Result<Self, String> {
        match u16::try_from(list.len()) {
            Ok(_) => Ok(Self { list, hosts }),
            Err(_) => Err(format!("{} namers are configured; at most {} are possible", list.len(), u16::MAX)),
        }
    }

    /// The configured namers with their places.
    pub fn iter(&self) -> impl Iterator<Item = (u16, &ConfiguredNamer)> {
        (0u16..).zip(&self.list)
    }

    pub(super) fn get(&self, at: u16) -> Option<&ConfiguredNamer> {
        self.list.get(usize::from(at))
    }

    /// What looks host names up.
    pub fn hosts(&self) -> &Hosts {
        &self.hosts
    }

    /// The namer whose prefix `path` starts with.
    pub(super) fn owner(&self, path: &Path) -> Option<(u16, &ConfiguredNamer)> {
        self.iter().find(|(_, configured)| path.starts_with(&configured.prefix))
    }

    /// Asks one namer for the rest of a path and applies its transformers.
    fn ask(&self, run: &mut Run<'_>, at: u16, rest: &Path) -> Reading<NameTree<Name>> {
        let Some(configured) = self.get(at) else { return Reading::Ready(NameTree::Neg) };
        let reading = configured.namer.lookup(run, rest).map(|tree| {
            tree.map(|found| match found {
                Found::Path(path) => Name::Path(path.clone()),
                Found::Bound { id, residual } => Name::Bound(Bound {
                    id: BoundId::Path(configured.prefix.concat(id)),
                    residual: residual.clone(),
                    source: AddrSource::Namer { namer: at, id: id.clone() },
                    weight: None,
                }),
                Found::Whole { id, residual } => Name::Bound(Bound {
                    id: BoundId::Path(id.clone()),
                    residual: residual.clone(),
                    source: AddrSource::Namer { namer: at, id: id.clone() },
                    weight: None,
                }),
            })
        });
        if configured.transformers.is_empty() {
            return reading;
        }
        reading.and_then(|tree| transformed(run, at, &configured.transformers, tree))
    }
}

/// Applies transformers in order. A tree with a leaf that is still a path passes untouched
/// (namerd's NameTreeTransformer.scala:32-50).
fn transformed(
    run: &mut Run<'_>,
    at: u16,
    transformers: &[Transformer],
    tree: NameTree<Name>,
) -> Reading<NameTree<Name>> {
    let Some(bound) = all_bound(&tree) else { return Reading::Ready(tree) };
    let mut reading = Reading::Ready(bound);
    for (place, transformer) in (0u16..).zip(transformers) {
        reading = reading.and_then(|tree| match &transformer.effect {
            Effect::Addresses(map) => map.ready(run).map(|()| {
                tree.map(|leaf| Bound {
                    id: prefixed(&transformer.id_prefix, &leaf.id),
                    source: AddrSource::Transformed {
                        namer: at,
                        transformer: place,
                        inner: Box::new(leaf.source.clone()),
                    },
                    ..leaf.clone()
                })
            }),
            Effect::Replace(path) => {
                let mut replacement = None;
                replace_leaves(&tree, &mut || {
                    replacement.get_or_insert_with(|| stand_in(run, &transformer.id_prefix, path)).clone()
                })
            }
            Effect::Const(path) => stand_in(run, &transformer.id_prefix, path),
        });
    }
    reading.map(|tree| tree.map(|bound| Name::Bound(bound.clone())))
}

/// The binding of a transformer's own path, which knows no dtab and no configured namer.
fn stand_in(run: &mut Run<'_>, prefix: &Path, path: &Path) -> Reading<BoundTree> {
    let id = BoundId::Path(prefix.concat(path));
    bind::bind(&SystemOnly, run, &NameTree::Leaf(path.clone()))
        .map(|tree| tree.map(|bound| Bound { id: id.clone(), ..bound.clone() }))
}

fn prefixed(prefix: &Path, id: &BoundId) -> BoundId {
    match id {
        BoundId::Path(path) => BoundId::Path(prefix.concat(path)),
        BoundId::Opaque => BoundId::Opaque,
    }
}

fn all_bound(tree: &NameTree<Name>) -> Option<BoundTree> {
    let mut bound = true;
    let mapped = tree.map(|leaf| match leaf {
        Name::Bound(leaf) => Some(leaf.clone()),
        Name::Path(_) => {
            bound = false;
            None
        }
    });
    bound.then(|| flatten(&mapped))
}

/// Only called when every leaf is there; an absent one would be neg.
fn flatten(tree: &NameTree<Option<Bound>>) -> BoundTree {
    graft(tree, &mut |leaf| leaf.clone().map_or(NameTree::Neg, NameTree::Leaf))
}

/// Replaces each leaf by a tree.
fn graft<T, U>(tree: &NameTree<T>, leaf: &mut impl FnMut(&T) -> NameTree<U>) -> NameTree<U> {
    use crate::name::Weighted;
    match tree {
        NameTree::Leaf(value) => leaf(value),
        NameTree::Neg => NameTree::Neg,
        NameTree::Fail => NameTree::Fail,
        NameTree::Empty => NameTree::Empty,
        NameTree::Alt(trees) => NameTree::Alt(trees.iter().map(|tree| graft(tree, leaf)).collect()),
        NameTree::Union(branches) => NameTree::Union(
            branches.iter().map(|branch| Weighted::new(branch.weight, graft(&branch.tree, leaf))).collect(),
        ),
    }
}

fn replace_leaves(tree: &BoundTree, replacement: &mut impl FnMut() -> Reading<BoundTree>) -> Reading<BoundTree> {
    let mut missing = None;
    let replaced = graft(tree, &mut |_| match replacement() {
        Reading::Ready(tree) => tree,
        other => {
            missing = Some(other);
            NameTree::Neg
        }
    });
    missing.unwrap_or(Reading::Ready(replaced))
}

// === impl Lookup ===

impl Lookup for Namers {
    fn lookup(&self, run: &mut Run<'_>, path: &Path) -> Reading<NameTree<Name>> {
        if let Some((at, configured)) = self.owner(path) {
            return self.ask(run, at, &path.drop(configured.prefix.len()));
        }
        SystemOnly.lookup(run, path)
    }
}

impl Lookup for Alone<'_> {
    fn lookup(&self, run: &mut Run<'_>, path: &Path) -> Reading<NameTree<Name>> {
        self.namers.ask(run, self.at, path)
    }
}

impl Lookup for SystemOnly {
    fn lookup(&self, _run: &mut Run<'_>, path: &Path) -> Reading<NameTree<Name>> {
        match system::lookup(path) {
            Ok(tree) => Reading::Ready(tree.map(|name| match name {
                SystemName::Path(path) => Name::Path(path.clone()),
                SystemName::Bound { id, residual, addr } => Name::Bound(Bound {
                    id: id.clone().map_or(BoundId::Opaque, BoundId::Path),
                    residual: residual.clone(),
                    source: match addr {
                        SystemAddr::None => AddrSource::None,
                        SystemAddr::Inet(hosts) => AddrSource::Inet(hosts.clone()),
                        SystemAddr::Fixed(hosts) => AddrSource::Fixed(hosts.clone()),
                    },
                    weight: None,
                }),
            })),
            Err(SystemError::UnknownClass(class)) => Reading::Failed(class.into()),
            Err(SystemError::Failed(reason)) => Reading::Failed(reason.into()),
        }
    }
}

impl fmt::Debug for Namers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.list.iter().map(|configured| configured.prefix.to_string())).finish()
    }
}
