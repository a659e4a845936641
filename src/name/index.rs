//! Dtabs ready for many lookups: a trie over prefix elements, so that a lookup costs what matches and not what exists.

use std::fmt;
use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};
use smallvec::SmallVec;

use super::dtab::{Dentry, Dtab, alternatives};
use super::flat;
use super::path::Path;
use super::tree::NameTree;

/// A dtab with its entries indexed by prefix. Built once per version of a dtab and shared by all lookups.
pub struct IndexedDtab {
    dtab: Dtab,
    nodes: Vec<Node>,
    /// All children by label, keyed by parent and label. One flat table: most nodes have few children, and an own map
    /// for each would cost more than the labels.
    children: HashTable<u32>,
    hasher: DefaultHashBuilder,
    /// By entry position: the previous entry with the same prefix.
    previous: Vec<Option<u32>>,
}

/// One prefix, known by the node it extends and its last element.
struct Node {
    parent: u32,
    /// An entry whose prefix runs through this node, and where in its encoded prefix the last element begins.
    entry: u32,
    at: usize,
    /// The child reached by any element.
    wildcard: Option<u32>,
    /// The last entry with exactly this prefix.
    last: Option<u32>,
}

const ROOT: u32 = 0;

impl IndexedDtab {
    /// Indexes a dtab.
    pub fn new(dtab: Dtab) -> Self {
        let mut index = Self {
            nodes: vec![Node { parent: ROOT, entry: 0, at: 0, wildcard: None, last: None }],
            children: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            previous: Vec::with_capacity(dtab.len()),
            dtab,
        };
        for position in 0..index.dtab.len() {
            index.add(position);
        }
        index
    }

    /// The dtab without entries.
    pub fn empty() -> Self {
        Self::new(Dtab::empty())
    }

    /// The dtab itself.
    pub fn dtab(&self) -> &Dtab {
        &self.dtab
    }

    /// The positions of all entries that match `path`, last to first.
    pub fn matches(&self, path: &Path) -> SmallVec<[usize; 8]> {
        let mut found = SmallVec::new();
        if self.dtab.is_empty() {
            return found; // most requests bring no dtab of their own
        }
        // Each wildcard met on the way down leaves one more branch to follow later.
        let mut open = Vec::new();
        let mut branch = Some((ROOT, flat::Elems::new(path.flat())));
        while let Some((mut node, mut elems)) = branch {
            loop {
                let mut entry = self.node(node).last;
                while let Some(position) = entry {
                    found.push(position as usize);
                    entry = self.previous[position as usize];
                }
                let Some(elem) = elems.next() else { break };
                if let Some(wildcard) = self.node(node).wildcard {
                    open.push((wildcard, elems.clone()));
                }
                let Some(child) = self.child(node, elem) else { break };
                node = child;
            }
            branch = open.pop();
        }
        found.sort_unstable_by(|left, right| right.cmp(left));
        found
    }

    fn add(&mut self, position: usize) {
        let prefix = self.dtab.entries()[position].prefix.flat().clone();
        let entry = id(position);
        let mut node = ROOT;
        let mut elems = flat::Elems::new(&prefix);
        loop {
            let at = prefix.len() - elems.rest().len();
            let Some(elem) = elems.next() else { break };
            let known = if elem.is_empty() { self.node(node).wildcard } else { self.child(node, elem) };
            node = known.unwrap_or_else(|| self.grow(node, entry, at, elem));
        }
        let last = &mut self.nodes[node as usize].last;
        self.previous.push(*last);
        *last = Some(entry);
    }

    fn grow(&mut self, parent: u32, entry: u32, at: usize, elem: &[u8]) -> u32 {
        let child = id(self.nodes.len());
        self.nodes.push(Node { parent, entry, at, wildcard: None, last: None });
        if elem.is_empty() {
            self.nodes[parent as usize].wildcard = Some(child);
        } else {
            let Self { dtab, nodes, children, hasher, .. } = self;
            let hash = hasher.hash_one((parent, elem));
            children.insert_unique(hash, child, |other| {
                let node = &nodes[*other as usize];
                hasher.hash_one((node.parent, label(dtab, node)))
            });
        }
        child
    }

    fn child(&self, parent: u32, elem: &[u8]) -> Option<u32> {
        let is_child = |other: &u32| {
            let node = self.node(*other);
            node.parent == parent && label(&self.dtab, node) == elem
        };
        self.children.find(self.hasher.hash_one((parent, elem)), is_child).copied()
    }

    fn node(&self, node: u32) -> &Node {
        &self.nodes[node as usize]
    }
}

fn label<'a>(dtab: &'a Dtab, node: &Node) -> &'a [u8] {
    let prefix = dtab.entries()[node.entry as usize].prefix.flat();
    flat::Elems::new(&prefix[node.at..]).next().unwrap_or_default()
}

fn id(count: usize) -> u32 {
    u32::try_from(count).expect("2^32 entries or prefixes do not fit in memory")
}

impl Default for IndexedDtab {
    fn default() -> Self {
        Self::empty()
    }
}

impl From<Dtab> for IndexedDtab {
    fn from(dtab: Dtab) -> Self {
        Self::new(dtab)
    }
}

impl PartialEq for IndexedDtab {
    fn eq(&self, other: &Self) -> bool {
        self.dtab == other.dtab
    }
}

impl Eq for IndexedDtab {}

impl fmt::Debug for IndexedDtab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IndexedDtab({})", self.dtab)
    }
}

/// A namespace's dtab with a request's on top: the same as looking up in both concatenated, without the copy.
#[derive(Clone, Copy, Debug)]
pub struct Layers<'a> {
    /// The dtab of the namespace.
    pub namespace: &'a IndexedDtab,
    /// The dtab of the request, whose entries come last and therefore win.
    pub local: &'a IndexedDtab,
}

impl<'a> Layers<'a> {
    /// All entries that match `path`, last to first: those of the request, then those of the namespace.
    pub fn matches(&self, path: &Path) -> impl Iterator<Item = &'a Dentry> + use<'a> {
        let matching =
            |layer: &'a IndexedDtab| layer.matches(path).into_iter().map(|position| &layer.dtab.entries()[position]);
        matching(self.local).chain(matching(self.namespace))
    }

    /// One rewriting step, as [`Dtab::lookup`].
    pub fn lookup(&self, path: &Path) -> NameTree<Path> {
        alternatives(self.matches(path).map(|entry| entry.delegate(path)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(dtab: &str, path: &str) -> Vec<usize> {
        IndexedDtab::new(Dtab::parse(dtab).unwrap()).matches(&Path::parse(path).unwrap()).into_vec()
    }

    #[test]
    fn matching_entries_come_last_to_first_whatever_their_length() {
        let dtab = "/a => /0; / => /1; /a/b => /2; /x => /3; /*/b => /4; /a/* => /5; /a => /6; /a/b/c => /7";
        assert_eq!(matches(dtab, "/a/b"), [6, 5, 4, 2, 1, 0]);
        assert_eq!(matches(dtab, "/a"), [6, 1, 0]);
        assert_eq!(matches(dtab, "/"), [1]);
        assert_eq!(matches(dtab, "/x/y/z"), [3, 1]);
    }

    #[test]
    fn labels_below_different_parents_are_kept_apart() {
        assert_eq!(matches("/a/x => /0; /b/x => /1", "/b/x"), [1]);
        assert_eq!(matches("/a/x => /0; /*/x => /1", "/b/x"), [1]);
        assert_eq!(matches("/ab => /0", "/a/b"), [0usize; 0]);
    }

    #[test]
    fn the_entries_of_a_request_come_before_those_of_the_namespace() {
        let [namespace, local] =
            ["/a => /ns1; /a => /ns2", "/a => /req"].map(|text| IndexedDtab::new(text.parse().unwrap()));
        let layers = Layers { namespace: &namespace, local: &local };
        assert_eq!(layers.lookup(&"/a/x".parse().unwrap()).to_string(), "/req/x | /ns2/x | /ns1/x");
        let nothing = Layers { namespace: &IndexedDtab::empty(), local: &IndexedDtab::empty() };
        assert_eq!(nothing.lookup(&"/a".parse().unwrap()), NameTree::Neg);
    }
}
