//! Resolve: one concrete name out of a tree.

use rand::{Rng, RngExt};

use crate::interpreter::BoundTree;
use crate::name::{NameTree, Path, Weighted};

/// The id of one leaf: the first alternative that has one, one branch of a union at random by weight. None for trees
/// without a name, and for a leaf whose id is no path (ResolveHandler.scala:24-42).
pub(super) fn id(tree: &BoundTree, rng: &mut impl Rng) -> Option<Path> {
    match tree {
        NameTree::Leaf(bound) => bound.id.path().cloned(),
        NameTree::Neg | NameTree::Fail | NameTree::Empty => None,
        NameTree::Alt(branches) => branches.iter().find_map(|branch| id(branch, rng)),
        NameTree::Union(branches) => id(&drawn(branches, rng)?.tree, rng),
    }
}

/// Whether chance decides.
pub(super) fn is_drawn(tree: &BoundTree) -> bool {
    match tree {
        NameTree::Leaf(_) | NameTree::Neg | NameTree::Fail | NameTree::Empty => false,
        NameTree::Alt(branches) => branches.iter().any(is_drawn),
        NameTree::Union(branches) => branches.len() > 1 || branches.iter().any(|branch| is_drawn(&branch.tree)),
    }
}

/// One branch, by weight; if no weight counts for anything all count the same.
fn drawn<'t, T>(branches: &'t [Weighted<T>], rng: &mut impl Rng) -> Option<&'t Weighted<T>> {
    let share = |branch: &Weighted<T>| if branch.weight.is_finite() { branch.weight.max(0.0) } else { 0.0 };
    let total: f64 = branches.iter().map(share).sum();
    if total <= 0.0 || !total.is_finite() {
        return branches.get(rng.random_range(0..branches.len().max(1)));
    }
    let mut left = rng.random_range(0.0..total);
    for branch in branches {
        left -= share(branch);
        if left < 0.0 {
            return Some(branch);
        }
    }
    branches.iter().rev().find(|branch| share(branch) > 0.0)
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;
    use crate::interpreter::{AddrSource, Bound, BoundId};

    fn leaf(id: &str) -> BoundTree {
        let id = BoundId::Path(Path::parse(id).expect("path"));
        NameTree::Leaf(Bound { id, residual: Path::empty(), source: AddrSource::None, weight: None })
    }

    fn union(weights: &[f64]) -> BoundTree {
        let branches = weights.iter().enumerate();
        NameTree::Union(branches.map(|(at, weight)| Weighted::new(*weight, leaf(&format!("/{at}")))).collect())
    }

    /// How often each branch is drawn in a thousand draws.
    fn draws(weights: &[f64]) -> Vec<usize> {
        let (tree, mut rng) = (union(weights), StdRng::seed_from_u64(7));
        let mut counts = vec![0; weights.len()];
        for _ in 0..1000 {
            let id = id(&tree, &mut rng).expect("a branch").to_string();
            counts[id[1..].parse::<usize>().expect("number")] += 1;
        }
        counts
    }

    #[test]
    fn branches_are_drawn_by_weight() {
        let counts = draws(&[0.7, 0.3, 0.0]);
        assert!((650..750).contains(&counts[0]) && counts[2] == 0, "{counts:?}");
    }

    #[test]
    fn weights_that_say_nothing_are_all_the_same() {
        for weights in [[0.0, 0.0], [f64::NAN, -1.0], [f64::INFINITY, f64::INFINITY]] {
            let counts = draws(&weights);
            assert!(counts.iter().all(|count| *count > 400), "{weights:?}: {counts:?}");
        }
    }

    #[test]
    fn trees_without_a_name_have_no_id() {
        let mut rng = StdRng::seed_from_u64(7);
        let opaque = NameTree::Leaf(Bound {
            id: BoundId::Opaque,
            residual: Path::empty(),
            source: AddrSource::None,
            weight: None,
        });
        for tree in [NameTree::Neg, NameTree::Fail, NameTree::Empty, NameTree::Alt(Vec::new()), opaque] {
            assert_eq!(id(&tree, &mut rng), None);
            assert!(!is_drawn(&tree));
        }
        assert_eq!(id(&NameTree::Union(Vec::new()), &mut rng), None);
        let alt = NameTree::Alt(vec![NameTree::Neg, leaf("/a"), leaf("/b")]);
        assert_eq!(id(&alt, &mut rng).map(|id| id.to_string()).as_deref(), Some("/a"));
    }
}
