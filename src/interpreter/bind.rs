//! Binding: from a path to a bound tree, by repeated lookups (finagle's Namer.scala:176-266).

use std::borrow::Cow;
use std::time::Duration;

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
    fn dentries(&self, path: &Path) -> Vec<&Dentry> {
        let _ = path;
        Vec::new()
    }

    fn lookup(&self, run: &mut Run<'_>, path: &Path) -> Reading<NameTree<Name>>;
}

/// How long the known branches of a union wait for one whose source was asked only now. namerd's sources answer at once
/// or much later, so branches that exist appear together there; here they would appear one by one, and routers would
/// send everything to the first for a moment.
const TOGETHER: Duration = Duration::from_millis(100);

/// Binds a tree of paths: every leaf is looked up until it is bound.
pub(super) fn bind(names: &dyn Lookup, run: &mut Run<'_>, tree: &NameTree<Path>) -> Reading<BoundTree> {
    let tree = tree.map(|path| Name::Path(path.clone()));
    Binder { names, run, nodes: 0, bytes: 0, nesting: 0 }.bind(&tree, 0, None)
}

struct Binder<'l, 'r, 'c> {
    names: &'l dyn Lookup,
    run: &'r mut Run<'c>,
    nodes: usize,
    bytes: usize,
    nesting: usize,
}

impl Binder<'_, '_, '_> {
    /// `lookups` counts those above on this chain; `weight` is that of the innermost union branch above.
    fn bind(&mut self, tree: &NameTree<Name>, lookups: usize, weight: Option<f64>) -> Reading<BoundTree> {
        self.nodes += 1;
        if lookups > MAX_LOOKUPS || self.nodes > MAX_NODES || self.nesting >= MAX_NESTING {
            return Reading::Failed(TOO_DEEP.into());
        }
        self.nesting += 1;
        let reading = deep(|| self.bind_node(tree, lookups, weight));
        self.nesting -= 1;
        reading
    }

    fn bind_node(&mut self, tree: &NameTree<Name>, lookups: usize, weight: Option<f64>) -> Reading<BoundTree> {
        match tree {
            NameTree::Leaf(Name::Path(path)) => self.follow(path, lookups + 1, weight),
            NameTree::Leaf(Name::Bound(bound)) => Reading::Ready(NameTree::Leaf(Bound { weight, ..bound.clone() })),
            NameTree::Neg => Reading::Ready(NameTree::Neg),
            NameTree::Fail => Reading::Ready(NameTree::Fail),
            NameTree::Empty => Reading::Ready(NameTree::Empty),
            NameTree::Alt(branches) => self.alt(branches.len(), |at| Cow::Borrowed(&branches[at]), lookups, weight),
            NameTree::Union(branches) => match &branches[..] {
                [] => Reading::Ready(NameTree::Neg),
                [only] => self.bind(&only.tree, lookups, Some(only.weight)),
                _ => self.union(branches, lookups),
            },
        }
    }

    /// One lookup, and the binding of what it gives. Destinations of dentries are made only when it is their turn: a path
    /// may match many, and the first one is usually enough.
    fn follow(&mut self, path: &Path, lookups: usize, weight: Option<f64>) -> Reading<BoundTree> {
        self.bytes += path.bytes();
        if self.bytes > MAX_BYTES || lookups > MAX_LOOKUPS {
            // A 101st lookup would be an error whatever it gave, so it is not made.
            return Reading::Failed(TOO_DEEP.into());
        }
        match &self.names.dentries(path)[..] {
            [] => {}
            [only] => match destination(only, path) {
                NameTree::Neg => {} // counts as no match (ConfiguredDtabNamer.scala:20-43)
                tree => return self.bind(&tree, lookups, weight),
            },
            several => {
                return self.alt(several.len(), |at| Cow::Owned(destination(several[at], path)), lookups, weight);
            }
        }
        match self.names.lookup(self.run, path) {
            Reading::Ready(found) => self.bind(&found, lookups, weight),
            Reading::Pending(wait) => Reading::Pending(wait),
            Reading::Failed(reason) => Reading::Failed(reason),
        }
    }

    /// The first branch that is not neg decides; a failed one fails the alt, a pending one holds it.
    ///
    /// With one exception: a branch whose source never had any value is passed over once its time has come, in favour
    /// of a later branch with something to serve, and counts again as soon as it answers.
    fn alt<'t>(
        &mut self,
        count: usize,
        branch: impl Fn(usize) -> Cow<'t, NameTree<Name>>,
        lookups: usize,
        weight: Option<f64>,
    ) -> Reading<BoundTree> {
        let mut passed_over: Option<Wait> = None;
        for place in 0..count {
            let reading = self.bind(&branch(place), lookups, weight);
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
                            && place + 1 < count
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
    fn union(&mut self, branches: &[Weighted<Name>], lookups: usize) -> Reading<BoundTree> {
        let mut known = Vec::with_capacity(branches.len());
        let mut failure: Option<Reason> = None;
        let mut pending: Option<Wait> = None;
        for branch in branches {
            match self.bind(&branch.tree, lookups, Some(branch.weight)) {
                Reading::Ready(tree) => known.push(Weighted::new(branch.weight, tree)),
                Reading::Failed(reason) => failure = failure.or(Some(reason)),
                Reading::Pending(wait) => pending = Some(pending.map_or(wait.clone(), |first| both(first, wait))),
            }
        }
        if let Some(asked) = pending.as_ref().and_then(|wait| wait.asked)
            && asked + TOGETHER > self.run.now()
            && !known.is_empty()
        {
            self.run.again_at(asked + TOGETHER);
            return Reading::Pending(pending.unwrap_or_default());
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

/// Where a dentry sends a path.
fn destination(dentry: &Dentry, path: &Path) -> NameTree<Name> {
    let rest = path.drop(dentry.prefix.len());
    dentry.dst.map(|leaf| Name::Path(leaf.concat(&rest)))
}

fn has_leaf(tree: &BoundTree) -> bool {
    match tree {
        NameTree::Leaf(_) => true,
        NameTree::Neg | NameTree::Fail | NameTree::Empty => false,
        NameTree::Alt(branches) => branches.iter().any(has_leaf),
        NameTree::Union(branches) => branches.iter().any(|branch| has_leaf(&branch.tree)),
    }
}
