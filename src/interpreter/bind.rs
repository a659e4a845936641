//! Binding: from a path to a bound tree, by repeated lookups (finagle's Namer.scala:176-266).

use std::time::Duration;

use smallvec::SmallVec;

use super::namers::Name;
use super::{Bound, BoundTree};
use crate::name::{Dentry, NameTree, Path, Weighted};
use crate::store::{Reading, Reason, Run, Wait};

/// How many lookups a chain may have; the result of one more is an error, whatever it is.
const MAX_LOOKUPS: usize = 100;

/// How many nodes one binding may visit, which is what stops loops through unions.
const MAX_NODES: usize = 10_000;

/// How many bytes of paths one binding may look up: a rewrite may add to the path each time.
pub(super) const MAX_BYTES: usize = 16 << 20;

/// How deep lookups and the trees inside them may nest together, which bounds what is recursed here and in encoders.
/// 100 lookups of trees of three levels each stay below it.
const MAX_NESTING: usize = 400;

/// The failure of a name that loops, or is too deep: upstream's text, which clients show.
const TOO_DEEP: &str = "Max recursion level: 100 reached in Namer lookup";

/// Runs one level of a recursion over a caller's input, on more stack where the thread's own is used up.
pub(super) fn deep<T>(level: impl FnOnce() -> T) -> T {
    const RED_ZONE: usize = 128 << 10;
    const SEGMENT: usize = 2 << 20;
    stacker::maybe_grow(RED_ZONE, SEGMENT, level)
}

/// One lookup step: what a path stands for.
pub(super) trait Lookup {
    /// The dentries that match, highest priority first. Only where there is none, or a bare `~` alone, is
    /// [`Lookup::lookup`] asked.
    fn dentries(&self, path: &Path) -> SmallVec<[&Dentry; 4]> {
        let _ = path;
        SmallVec::new()
    }

    /// What the namers say.
    fn lookup(&self, run: &mut Run<'_>, path: &Path) -> Reading<NameTree<Name>>;
}

/// How long the known branches of a union wait for one whose source was asked only now. namerd's sources answer at once
/// or much later, so branches that exist appear together there; here they would appear one by one, and routers would
/// send everything to the first for a moment.
const TOGETHER: Duration = Duration::from_millis(100);

/// Binds a tree of paths: every leaf is looked up until it is bound.
pub(super) fn bind(names: &dyn Lookup, run: &mut Run<'_>, tree: &NameTree<Path>) -> Reading<BoundTree> {
    let mut binder = Binder { names, run, nodes: 0, bytes: 0, nesting: 0 };
    let reading = binder.bind(tree, &|path| Name::Path(path.clone()), 0, None);
    // What a union has by then is not the union: without this, routers would get any part of it.
    if binder.is_exhausted() { Reading::Failed(TOO_DEEP.into()) } else { reading }
}

struct Binder<'l, 'r, 'c> {
    names: &'l dyn Lookup,
    run: &'r mut Run<'c>,
    nodes: usize,
    bytes: usize,
    nesting: usize,
}

impl Binder<'_, '_, '_> {
    /// `name` makes the names of leaves, when their turn comes: a tree may be far wider than what is ever visited of it.
    /// `lookups` counts those above on this chain; `weight` is that of the innermost union branch above.
    fn bind<T>(
        &mut self,
        tree: &NameTree<T>,
        name: &dyn Fn(&T) -> Name,
        lookups: usize,
        weight: Option<f64>,
    ) -> Reading<BoundTree> {
        self.node(lookups, |binder| match tree {
            NameTree::Leaf(leaf) => binder.leaf(name(leaf), lookups, weight),
            NameTree::Neg => Reading::Ready(NameTree::Neg),
            NameTree::Fail => Reading::Ready(NameTree::Fail),
            NameTree::Empty => Reading::Ready(NameTree::Empty),
            NameTree::Alt(trees) => binder.alt(trees, |binder, tree| binder.bind(tree, name, lookups, weight)),
            NameTree::Union(branches) => match &branches[..] {
                [] => Reading::Ready(NameTree::Neg),
                [only] => binder.bind(&only.tree, name, lookups, Some(only.weight)),
                _ => binder.union(branches, name, lookups),
            },
        })
    }

    /// One node of what is bound, within the bounds.
    fn node(&mut self, lookups: usize, below: impl FnOnce(&mut Self) -> Reading<BoundTree>) -> Reading<BoundTree> {
        self.nodes += 1;
        if lookups > MAX_LOOKUPS || self.is_exhausted() || self.nesting >= MAX_NESTING {
            return Reading::Failed(TOO_DEEP.into());
        }
        self.nesting += 1;
        let reading = deep(|| below(self));
        self.nesting -= 1;
        reading
    }

    fn is_exhausted(&self) -> bool {
        self.nodes > MAX_NODES || self.bytes > MAX_BYTES
    }

    fn leaf(&mut self, name: Name, lookups: usize, weight: Option<f64>) -> Reading<BoundTree> {
        let path = match name {
            Name::Path(path) => path,
            Name::Bound(bound) => return Reading::Ready(NameTree::Leaf(Bound { weight, ..bound })),
        };
        let (names, next) = (self.names, lookups + 1);
        if next > MAX_LOOKUPS {
            return Reading::Failed(TOO_DEEP.into()); // it would be an error whatever it gave
        }
        let dentries = names.dentries(&path);
        self.bytes += path.bytes() + size_of_val(&dentries[..]);
        if self.is_exhausted() {
            return Reading::Failed(TOO_DEEP.into());
        }
        match &dentries[..] {
            // A bare `~` counts as no match (ConfiguredDtabNamer.scala:20-43).
            [] | [Dentry { dst: NameTree::Neg, .. }] => match names.lookup(self.run, &path) {
                Reading::Ready(found) => self.bind(&found, &Name::clone, next, weight),
                Reading::Pending(wait) => Reading::Pending(wait),
                Reading::Failed(reason) => Reading::Failed(reason),
            },
            [only] => self.rewritten(only, &path, next, weight),
            _ => self.node(next, |binder| {
                binder.alt(&dentries, |binder, dentry| binder.rewritten(dentry, &path, next, weight))
            }),
        }
    }

    /// Binds what a dentry makes of a path that it matches.
    fn rewritten(&mut self, dentry: &Dentry, path: &Path, lookups: usize, weight: Option<f64>) -> Reading<BoundTree> {
        let rest = path.drop(dentry.prefix.len());
        self.bind(&dentry.dst, &|leaf: &Path| Name::Path(leaf.concat(&rest)), lookups, weight)
    }

    /// The first branch that is not neg decides; a failed one fails the alt, a pending one holds it.
    ///
    /// With one exception: a branch whose source never had any value is passed over once its time has come, in favour
    /// of a later branch with something to serve, and counts again as soon as it answers.
    fn alt<B>(
        &mut self,
        branches: &[B],
        mut bind: impl FnMut(&mut Self, &B) -> Reading<BoundTree>,
    ) -> Reading<BoundTree> {
        let mut passed_over: Option<Wait> = None;
        for (place, branch) in branches.iter().enumerate() {
            let reading = bind(self, branch);
            match (reading, passed_over.take()) {
                (Reading::Ready(NameTree::Neg), passed) => passed_over = passed,
                (Reading::Ready(tree), None) => return Reading::Ready(tree),
                (Reading::Ready(tree), Some(_)) if has_leaf(&tree) => return Reading::Ready(tree),
                (Reading::Failed(reason), None) => return Reading::Failed(reason),
                (Reading::Ready(_) | Reading::Failed(_), Some(wait)) => return Reading::Pending(wait),
                (Reading::Pending(wait), passed) => match wait.pass_over_at {
                    Some(when) if when <= self.run.now() => passed_over = passed.or(Some(wait)),
                    when => {
                        if let Some(when) = when
                            && place + 1 < branches.len()
                        {
                            self.run.again_at(when);
                        }
                        return Reading::Pending(passed.unwrap_or(wait));
                    }
                },
            }
        }
        passed_over.map_or(Reading::Ready(NameTree::Neg), Reading::Pending)
    }

    /// Branches that are known make the union; it is published early and grows later.
    fn union<T>(&mut self, branches: &[Weighted<T>], name: &dyn Fn(&T) -> Name, lookups: usize) -> Reading<BoundTree> {
        let mut known = Vec::with_capacity(branches.len());
        let mut failure: Option<Reason> = None;
        let mut pending: Option<Wait> = None;
        for branch in branches {
            match self.bind(&branch.tree, name, lookups, Some(branch.weight)) {
                Reading::Ready(tree) => known.push(Weighted::new(branch.weight, tree)),
                Reading::Failed(reason) => failure = failure.or(Some(reason)),
                Reading::Pending(wait) => pending = Some(pending.map_or(wait.clone(), |first| both(first, wait))),
            }
            if self.is_exhausted() {
                break; // the rest would fail, and there may be millions
            }
        }
        if let Some(asked) = pending.as_ref().and_then(|wait| wait.asked)
            && asked + TOGETHER > self.run.now()
            && !known.is_empty()
        {
            self.run.again_at(asked + TOGETHER);
            // There is something to serve, so an alt above has no reason to pass this union over.
            return Reading::Pending(Wait { pass_over_at: None, ..pending.unwrap_or_default() });
        }
        match (known.len(), failure, pending) {
            (0, Some(reason), _) => return Reading::Failed(reason),
            (0, None, wait) => return Reading::Pending(wait.unwrap_or_default()),
            // One branch alone is the answer even if it says that there is nothing.
            (1, ..) => return Reading::Ready(known.swap_remove(0).tree),
            _ => {}
        }
        known.retain(|branch| !matches!(branch.tree, NameTree::Neg | NameTree::Fail));
        Reading::Ready(match known.len() {
            0 => NameTree::Neg,
            1 => known.swap_remove(0).tree,
            _ => NameTree::Union(known),
        })
    }
}

/// A union is passed over when all its branches may be, and as fresh as its freshest one.
fn both(first: Wait, second: Wait) -> Wait {
    Wait {
        asked: first.asked.max(second.asked),
        pass_over_at: first.pass_over_at.zip(second.pass_over_at).map(|(a, b)| a.max(b)),
        reason: first.reason.or(second.reason),
    }
}

fn has_leaf(tree: &BoundTree) -> bool {
    match tree {
        NameTree::Leaf(_) => true,
        NameTree::Neg | NameTree::Fail | NameTree::Empty => false,
        NameTree::Alt(branches) => branches.iter().any(has_leaf),
        NameTree::Union(branches) => branches.iter().any(|branch| has_leaf(&branch.tree)),
    }
}
