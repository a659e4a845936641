//! Messages from clients, read under the limits of the configuration.

use crate::mesh::proto::dtab::dentry::prefix;
use crate::mesh::proto::{self, path_name_tree};
use crate::name::{Dentry, Dtab, Elem, Limit, Limits, NameTree, Path, Prefix, Weighted};

/// Why a message has no meaning, in one line for its sender.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Invalid {
    reason: String,
    /// The limit that was exceeded, if that is the reason.
    pub limit: Option<Limit>,
}

// === impl Invalid ===

impl Invalid {
    fn shape(reason: &str) -> Self {
        Self { reason: reason.to_owned(), limit: None }
    }

    fn over(limit: Limit, most: usize) -> Self {
        Self { reason: format!("more than {most} ({limit})"), limit: Some(limit) }
    }
}

/// A path.
///
/// # Errors
/// An element is empty, or there are too many.
pub fn path(message: &proto::Path, limits: &Limits) -> Result<Path, Invalid> {
    if message.elems.len() > limits.path_segments {
        return Err(Invalid::over(Limit::PathSegments, limits.path_segments));
    }
    Path::from_elems(&message.elems).map_err(|_| Invalid::shape("a path has an empty element"))
}

/// A dtab.
///
/// # Errors
/// An entry lacks its prefix or destination, or something in it is not valid.
pub fn dtab(message: &proto::Dtab, limits: &Limits) -> Result<Dtab, Invalid> {
    message.dentries.iter().map(|entry| dentry(entry, limits)).collect()
}

fn dentry(message: &proto::dtab::Dentry, limits: &Limits) -> Result<Dentry, Invalid> {
    let (Some(prefix), Some(dst)) = (&message.prefix, &message.dst) else {
        return Err(Invalid::shape("an entry of the dtab lacks its prefix or its destination"));
    };
    if prefix.elems.len() > limits.path_segments {
        return Err(Invalid::over(Limit::PathSegments, limits.path_segments));
    }
    let elems = prefix.elems.iter().map(|elem| match &elem.value {
        Some(prefix::elem::Value::Label(label)) => Ok(Elem::Label(label)),
        Some(prefix::elem::Value::Wildcard(_)) => Ok(Elem::Any),
        None => Err(Invalid::shape("an element of a prefix is neither a label nor a wildcard")),
    });
    let elems = elems.collect::<Result<Vec<_>, _>>()?;
    let prefix = Prefix::from_elems(elems).map_err(|_| Invalid::shape("a prefix has an empty label"))?;
    Ok(Dentry { prefix, dst: tree(dst, limits)? })
}

/// A name tree. As namerd reads it: a branch of a union without a weight or a tree is passed over.
///
/// # Errors
/// A node is of no kind, a leaf has no id, or the tree is too deep.
pub fn tree(message: &proto::PathNameTree, limits: &Limits) -> Result<NameTree<Path>, Invalid> {
    subtree(message, limits, 0)
}

fn subtree(message: &proto::PathNameTree, limits: &Limits, depth: usize) -> Result<NameTree<Path>, Invalid> {
    use path_name_tree::Node;
    if depth > limits.depth {
        return Err(Invalid::over(Limit::Depth, limits.depth));
    }
    Ok(match &message.node {
        None => return Err(Invalid::shape("a node of the name tree is of no kind")),
        Some(Node::Neg(_)) => NameTree::Neg,
        Some(Node::Fail(_)) => NameTree::Fail,
        Some(Node::Empty(_)) => NameTree::Empty,
        Some(Node::Leaf(leaf)) => match &leaf.id {
            Some(id) => NameTree::Leaf(path(id, limits)?),
            None => return Err(Invalid::shape("a leaf of the name tree has no id")),
        },
        Some(Node::Alt(alt)) => {
            let trees = alt.trees.iter().map(|tree| subtree(tree, limits, depth + 1));
            NameTree::Alt(trees.collect::<Result<_, _>>()?)
        }
        Some(Node::Union(union)) => {
            let whole = union.trees.iter().filter_map(|branch| Some((branch.weight?, branch.tree.as_ref()?)));
            let trees = whole.map(|(weight, tree)| Ok(Weighted::new(weight, subtree(tree, limits, depth + 1)?)));
            NameTree::Union(trees.collect::<Result<_, _>>()?)
        }
    })
}
