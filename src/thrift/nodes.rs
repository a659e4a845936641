//! Trees as the wire has them: the root in its place, all other nodes in a map, and children named by their ids.

use smallvec::SmallVec;

/// A node that has its number.
pub(super) struct Numbered<'t, N> {
    /// Its key in the map; [`ROOT`] has none.
    pub id: i32,
    /// The node.
    pub node: &'t N,
    /// The ids of its children.
    pub children: Vec<i32>,
}

/// What is below a node.
pub(super) struct Branches<'t, N> {
    /// The children, first to last.
    pub nodes: SmallVec<[&'t N; 2]>,
    /// Whether a child gets its id after everything below it, instead of before.
    pub numbered_after: bool,
}

/// The id of the root, which is written without one.
const ROOT: i32 = -1;

/// A node whose children are being numbered.
struct Open<'t, N> {
    id: Option<i32>,
    node: &'t N,
    branches: Branches<'t, N>,
    children: Vec<i32>,
}

/// Numbers a tree from 0 as namerd does. The root comes first, then all other nodes in the order of their ids.
///
/// Does not recurse: a delegation nests hundreds of levels.
pub(super) fn number<'t, N>(root: &'t N, branches: impl Fn(&'t N) -> Branches<'t, N>) -> Vec<Numbered<'t, N>> {
    let begin = |id, node: &'t N| Open { id, node, branches: branches(node), children: Vec::new() };
    let mut numbered = Vec::with_capacity(1);
    let mut next_id = 0;
    let mut take_id = || {
        next_id += 1;
        next_id - 1
    };
    let mut above: Vec<Open<'t, N>> = Vec::new();
    let mut here = begin(Some(ROOT), root);
    loop {
        if let Some(child) = here.branches.nodes.get(here.children.len()).copied() {
            // The place is kept; a child that is numbered afterwards corrects it.
            let id = if here.branches.numbered_after { None } else { Some(take_id()) };
            here.children.push(id.unwrap_or(ROOT));
            let child = begin(id, child);
            above.push(std::mem::replace(&mut here, child));
            continue;
        }
        let Some(parent) = above.pop() else {
            numbered.push(Numbered { id: ROOT, node: here.node, children: here.children });
            break;
        };
        let done = std::mem::replace(&mut here, parent);
        let id = done.id.unwrap_or_else(|| {
            let id = take_id();
            if let Some(place) = here.children.last_mut() {
                *place = id;
            }
            id
        });
        numbered.push(Numbered { id, node: done.node, children: done.children });
    }
    numbered.sort_unstable_by_key(|node| node.id);
    numbered
}

// === impl Branches ===

impl<'t, N> Branches<'t, N> {
    /// Children that get their ids before what is below them.
    pub(super) fn before(nodes: impl IntoIterator<Item = &'t N>) -> Self {
        Self { nodes: nodes.into_iter().collect(), numbered_after: false }
    }

    /// One child, which gets its id after what is below it.
    pub(super) fn after(node: &'t N) -> Self {
        Self { nodes: SmallVec::from_iter([node]), numbered_after: true }
    }
}
