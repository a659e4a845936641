//! Name trees: what a name may mean, and in which order to try.

use std::collections::HashSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use super::error::ParseError;
use super::limits::Limits;
use super::parse::Reader;
use super::path::Path;
use super::show::show_weight;

/// Alternatives, weighted unions and leaves of `T`.
///
/// Its operations recurse once per level. Whoever builds a tree keeps it shallow: the reader refuses more than
/// [`Limits::depth`] levels, and what arrives over a wire is checked with [`NameTree::depth`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NameTree<T> {
    /// A name.
    Leaf(T),
    /// Nothing here, try elsewhere; shown as `~`.
    Neg,
    /// Nothing here, and do not try elsewhere; shown as `!`.
    Fail,
    /// It exists and has no addresses; shown as `$`.
    Empty,
    /// The first branch that is not [`NameTree::Neg`] decides; shown as `a | b`.
    Alt(Vec<NameTree<T>>),
    /// All branches at once, in proportion to their weights; shown as `w*a & b`.
    Union(Vec<Weighted<T>>),
}

/// One branch of a union.
///
/// Weights are equal when their bits are, so that trees can be keys of a map.
#[derive(Clone, Debug)]
pub struct Weighted<T> {
    /// The share; 1.0 when the text gave none.
    pub weight: f64,
    /// The branch.
    pub tree: NameTree<T>,
}

impl<T> Weighted<T> {
    /// The weight of a branch that states none.
    pub const DEFAULT_WEIGHT: f64 = 1.0;

    /// A branch with a weight.
    pub fn new(weight: f64, tree: NameTree<T>) -> Self {
        Self { weight, tree }
    }
}

impl<T: PartialEq> PartialEq for Weighted<T> {
    fn eq(&self, other: &Self) -> bool {
        self.weight.to_bits() == other.weight.to_bits() && self.tree == other.tree
    }
}

impl<T: Eq> Eq for Weighted<T> {}

impl<T: Hash> Hash for Weighted<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.weight.to_bits().hash(state);
        self.tree.hash(state);
    }
}

impl<T> NameTree<T> {
    /// The same tree over other leaves.
    pub fn map<U>(&self, mut leaf: impl FnMut(&T) -> U) -> NameTree<U> {
        self.map_with(&mut leaf)
    }

    fn map_with<U>(&self, leaf: &mut impl FnMut(&T) -> U) -> NameTree<U> {
        match self {
            Self::Leaf(value) => NameTree::Leaf(leaf(value)),
            Self::Neg => NameTree::Neg,
            Self::Fail => NameTree::Fail,
            Self::Empty => NameTree::Empty,
            Self::Alt(trees) => NameTree::Alt(trees.iter().map(|tree| tree.map_with(leaf)).collect()),
            Self::Union(trees) => NameTree::Union(
                trees.iter().map(|branch| Weighted::new(branch.weight, branch.tree.map_with(leaf))).collect(),
            ),
        }
    }

    /// Levels of alts and unions inside each other; 0 for a leaf. Does not recurse, so any tree may be asked.
    pub fn depth(&self) -> usize {
        let mut deepest = 0;
        let mut open = vec![(self, 0)];
        while let Some((tree, level)) = open.pop() {
            deepest = deepest.max(level);
            match tree {
                Self::Alt(trees) => {
                    deepest = deepest.max(level + 1);
                    open.extend(trees.iter().map(|tree| (tree, level + 1)));
                }
                Self::Union(trees) => {
                    deepest = deepest.max(level + 1);
                    open.extend(trees.iter().map(|branch| (&branch.tree, level + 1)));
                }
                _ => {}
            }
        }
        deepest
    }

    /// The number of nodes, leaves included. Stops counting behind `most`, so that a huge tree costs no more.
    pub fn nodes(&self, most: usize) -> usize {
        let mut count = 1;
        let mut add = |tree: &Self| {
            let goes_on = count <= most;
            if goes_on {
                count += tree.nodes(most - count);
            }
            goes_on
        };
        match self {
            Self::Alt(trees) => trees.iter().all(&mut add),
            Self::Union(branches) => branches.iter().all(|branch| add(&branch.tree)),
            Self::Leaf(_) | Self::Neg | Self::Fail | Self::Empty => true,
        };
        count
    }

    /// A smaller tree that evaluates to the same.
    ///
    /// An alt loses `~` branches and what follows its first `!`; a union loses `~` and `!` branches; a branch left
    /// alone replaces its node, without its weight. Branches of the same kind are not merged.
    #[must_use]
    pub fn simplify(&self) -> Self
    where
        T: Clone,
    {
        match self {
            Self::Alt(trees) => match &trees[..] {
                [only] => only.simplify(),
                _ => simplify_alt(trees),
            },
            Self::Union(trees) => match &trees[..] {
                // Alone from the start it stays whatever it is, even `!`.
                [only] => only.tree.simplify(),
                _ => simplify_union(trees),
            },
            other => other.clone(),
        }
    }

    /// The leaves this tree stands for, each once and in order: `None` when there is nothing (`~` or `!`), an empty
    /// list when it exists without leaves (`$`).
    pub fn eval(&self) -> Option<Vec<&T>>
    where
        T: Eq + Hash,
    {
        let mut seen = HashSet::new();
        match self.evaluate() {
            Evaluated::Neg | Evaluated::Fail => None,
            Evaluated::Leaves(leaves) => Some(leaves.into_iter().filter(|leaf| seen.insert(*leaf)).collect()),
        }
    }

    fn evaluate(&self) -> Evaluated<'_, T> {
        match self {
            Self::Leaf(value) => Evaluated::Leaves(vec![value]),
            Self::Neg => Evaluated::Neg,
            Self::Fail => Evaluated::Fail,
            Self::Empty => Evaluated::Leaves(Vec::new()),
            Self::Alt(trees) => trees
                .iter()
                .map(Self::evaluate)
                .find(|answer| !matches!(answer, Evaluated::Neg))
                .unwrap_or(Evaluated::Neg),
            Self::Union(trees) => match &trees[..] {
                [only] => only.tree.evaluate(),
                _ => trees.iter().fold(Evaluated::Neg, |all, branch| all.joined(branch.tree.evaluate())),
            },
        }
    }
}

/// What a tree comes to; a `!` is kept apart from a `~` until the end, since it stops an alt.
enum Evaluated<'a, T> {
    Neg,
    Fail,
    Leaves(Vec<&'a T>),
}

impl<T> Evaluated<'_, T> {
    /// Adds the answer of a further union branch; those without leaves count for nothing.
    fn joined(self, branch: Self) -> Self {
        match (self, branch) {
            (Self::Leaves(mut all), Self::Leaves(more)) => {
                all.extend(more);
                Self::Leaves(all)
            }
            (all, Self::Neg | Self::Fail) => all,
            (_, leaves) => leaves,
        }
    }
}

fn simplify_alt<T: Clone>(trees: &[NameTree<T>]) -> NameTree<T> {
    let mut kept = Vec::new();
    for tree in trees {
        match tree.simplify() {
            NameTree::Neg => {}
            NameTree::Fail => {
                kept.push(NameTree::Fail);
                break;
            }
            tree => kept.push(tree),
        }
    }
    match kept.len() {
        0 | 1 => kept.pop().unwrap_or(NameTree::Neg),
        _ => NameTree::Alt(kept),
    }
}

fn simplify_union<T: Clone>(trees: &[Weighted<T>]) -> NameTree<T> {
    let mut kept = Vec::new();
    for branch in trees {
        match branch.tree.simplify() {
            NameTree::Neg | NameTree::Fail => {}
            tree => kept.push(Weighted::new(branch.weight, tree)),
        }
    }
    match kept.len() {
        0 | 1 => kept.pop().map_or(NameTree::Neg, |only| only.tree),
        _ => NameTree::Union(kept),
    }
}

impl NameTree<Path> {
    /// Reads the shown form; blanks and comments around it are allowed.
    ///
    /// # Errors
    /// The text is not a name tree, or exceeds the default [`Limits`].
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        Self::parse_with(text, &Limits::DEFAULT)
    }

    /// [`NameTree::parse`] under other limits.
    ///
    /// # Errors
    /// The text is not a name tree, or exceeds `limits`.
    pub fn parse_with(text: &str, limits: &Limits) -> Result<Self, ParseError> {
        Reader::new(text, limits)?.whole(Reader::tree)
    }
}

impl FromStr for NameTree<Path> {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        Self::parse(text)
    }
}

/// Where a tree stands, which decides about parentheses.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Top,
    InAlt,
    InUnion,
}

impl<T: fmt::Display> fmt::Display for NameTree<T> {
    /// The text that reads back as this tree, up to rounded weights. A branch that is alone shows as itself. An alt or
    /// union without branches, which only a wire can deliver, shows as nothing and does not read back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.show(Place::Top, f)
    }
}

impl<T: fmt::Display> NameTree<T> {
    fn show(&self, place: Place, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Leaf(value) => value.fmt(f),
            Self::Neg => f.write_str("~"),
            Self::Fail => f.write_str("!"),
            Self::Empty => f.write_str("$"),
            Self::Alt(trees) => match &trees[..] {
                [only] => only.show(place, f),
                _ if place == Place::Top => {
                    separated(trees, " | ", f, |tree, f: &mut fmt::Formatter<'_>| tree.show(Place::InAlt, f))
                }
                _ => parenthesised(self, f),
            },
            Self::Union(trees) => match &trees[..] {
                [only] => only.tree.show(place, f),
                _ if place == Place::InUnion => parenthesised(self, f),
                _ => separated(trees, " & ", f, |branch, f: &mut fmt::Formatter<'_>| {
                    if branch.weight != Weighted::<T>::DEFAULT_WEIGHT {
                        write!(f, "{}*", show_weight(branch.weight))?;
                    }
                    branch.tree.show(Place::InUnion, f)
                }),
            },
        }
    }
}

fn parenthesised<T: fmt::Display>(tree: &NameTree<T>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("(")?;
    tree.show(Place::Top, f)?;
    f.write_str(")")
}

fn separated<I>(
    items: &[I],
    separator: &str,
    f: &mut fmt::Formatter<'_>,
    show: impl Fn(&I, &mut fmt::Formatter<'_>) -> fmt::Result,
) -> fmt::Result {
    items.iter().enumerate().try_for_each(|(position, item)| {
        if position > 0 {
            f.write_str(separator)?;
        }
        show(item, f)
    })
}
