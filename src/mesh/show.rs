//! Plain values as messages: the one place where what goes out is made.

use std::net::IpAddr;

use bytes::Bytes;
use serde_json::Value;

use crate::interpreter::{Bound, BoundTree, DelegationLeaf};
use crate::mesh::proto::dtab::dentry::prefix;
use crate::mesh::proto::{self, bound_delegate_tree, bound_name_tree, endpoint, path_name_tree, replicas};
use crate::name::{Addr, Address, DelegateTree, Dentry, Dtab, Elem, Meta, NameTree, Path, Prefix, meta_keys};
use crate::storage::VersionedDtab;

/// What a name is bound to. A leaf whose id is no path has no word here (`InterpreterService.scala:83-110`).
pub fn bound_tree(tree: &BoundTree) -> proto::BoundTreeRsp {
    proto::BoundTreeRsp { tree: Some(bound_node(tree)) }
}

fn bound_node(tree: &BoundTree) -> proto::BoundNameTree {
    use bound_name_tree::{Alt, Empty, Fail, Leaf, Neg, Node, Union, union};
    let node = match tree {
        NameTree::Neg => Node::Neg(Neg {}),
        NameTree::Fail => Node::Fail(Fail {}),
        NameTree::Empty => Node::Empty(Empty {}),
        NameTree::Leaf(Bound { id, residual, .. }) => match id.path() {
            Some(id) => Node::Leaf(Leaf { id: Some(path(id)), residual: Some(path(residual)) }),
            None => Node::Neg(Neg {}),
        },
        NameTree::Alt(trees) => Node::Alt(Alt { trees: trees.iter().map(bound_node).collect() }),
        NameTree::Union(branches) => {
            let branches = branches.iter();
            let branches = branches
                .map(|branch| union::Weighted { weight: Some(branch.weight), tree: Some(bound_node(&branch.tree)) });
            Node::Union(Union { trees: branches.collect() })
        }
    };
    proto::BoundNameTree { node: Some(node) }
}

/// The state of the addresses of an id; none = not known yet.
pub fn addresses(addr: Option<&Addr>) -> proto::Replicas {
    let result = match addr {
        None => replicas::Result::Pending(replicas::Pending {}),
        Some(Addr::Neg) => replicas::Result::Neg(replicas::Neg {}),
        Some(Addr::Failed(reason)) => return failed(reason.as_deref().unwrap_or_default()),
        Some(Addr::Bound(set)) => {
            let endpoints = set.addrs().iter().map(endpoint).collect();
            replicas::Result::Bound(replicas::Bound { endpoints, metadata: metadata(set.meta()) })
        }
    };
    proto::Replicas { result: Some(result) }
}

/// Why there are no addresses.
pub fn failed(reason: &str) -> proto::Replicas {
    let failed = replicas::Failed { message: Some(reason.to_owned()) };
    proto::Replicas { result: Some(replicas::Result::Failed(failed)) }
}

fn endpoint(address: &Address) -> proto::Endpoint {
    let (family, octets) = match address.ip {
        IpAddr::V4(ip) => (endpoint::AddressFamily::Inet4, Bytes::copy_from_slice(&ip.octets())),
        IpAddr::V6(ip) => (endpoint::AddressFamily::Inet6, Bytes::copy_from_slice(&ip.octets())),
    };
    let node_name = address.meta.get(meta_keys::NODE_NAME).map(text);
    proto::Endpoint {
        inet_af: Some(family.into()),
        address: Some(octets),
        port: Some(address.port.into()),
        meta: Some(endpoint::Meta { node_name }),
        metadata: metadata(&address.meta),
    }
}

/// Metadata as texts. Linkerd 1 drops an entry whose value is empty, since the library leaves that out of the message.
fn metadata(meta: &Meta) -> std::collections::BTreeMap<String, String> {
    let texts = meta.iter().map(|(key, value)| (key.to_owned(), text(value)));
    texts.filter(|(key, value)| !key.is_empty() && !value.is_empty()).collect()
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A stored dtab with its version.
pub fn versioned_dtab(stored: &VersionedDtab) -> proto::DtabRsp {
    let version = proto::versioned_dtab::Version { id: Some(stored.version().clone()) };
    proto::DtabRsp { dtab: Some(proto::VersionedDtab { version: Some(version), dtab: Some(dtab(stored.dtab())) }) }
}

/// A dtab.
pub fn dtab(dtab: &Dtab) -> proto::Dtab {
    proto::Dtab { dentries: dtab.entries().iter().map(dentry).collect() }
}

fn dentry(entry: &Dentry) -> proto::dtab::Dentry {
    proto::dtab::Dentry { prefix: Some(prefix_of(&entry.prefix)), dst: Some(path_tree(&entry.dst)) }
}

fn prefix_of(prefix: &Prefix) -> proto::dtab::dentry::Prefix {
    let elems = prefix.elems().map(|elem| match elem {
        Elem::Label(label) => prefix::elem::Value::Label(Bytes::copy_from_slice(label)),
        Elem::Any => prefix::elem::Value::Wildcard(prefix::elem::Wildcard {}),
    });
    let elems = elems.map(|value| prefix::Elem { value: Some(value) });
    proto::dtab::dentry::Prefix { elems: elems.collect() }
}

fn path_tree(tree: &NameTree<Path>) -> proto::PathNameTree {
    use path_name_tree::{Alt, Empty, Fail, Leaf, Neg, Node, Union, union};
    let node = match tree {
        NameTree::Neg => Node::Neg(Neg {}),
        NameTree::Fail => Node::Fail(Fail {}),
        NameTree::Empty => Node::Empty(Empty {}),
        NameTree::Leaf(id) => Node::Leaf(Leaf { id: Some(path(id)) }),
        NameTree::Alt(trees) => Node::Alt(Alt { trees: trees.iter().map(path_tree).collect() }),
        NameTree::Union(branches) => {
            let branches = branches.iter();
            let branches = branches
                .map(|branch| union::Weighted { weight: Some(branch.weight), tree: Some(path_tree(&branch.tree)) });
            Node::Union(Union { trees: branches.collect() })
        }
    };
    proto::PathNameTree { node: Some(node) }
}

/// How a name was looked up (`DelegatorService.scala:129-163`). Recurses once per level; whoever calls has the stack.
pub fn delegation(tree: &DelegateTree<DelegationLeaf>) -> proto::DelegateTreeRsp {
    proto::DelegateTreeRsp { tree: Some(delegate_node(tree)) }
}

fn delegate_node(tree: &DelegateTree<DelegationLeaf>) -> proto::BoundDelegateTree {
    use bound_delegate_tree::{Alt, Empty, Fail, Neg, Node, Transformation, Union, union};
    let node = match tree {
        DelegateTree::Neg { .. } => Node::Neg(Neg {}),
        DelegateTree::Fail { .. } => Node::Fail(Fail {}),
        DelegateTree::Empty { .. } => Node::Empty(Empty {}),
        DelegateTree::Exception { message, .. } => {
            let message = message.as_deref().unwrap_or("No underlying exception message");
            Node::Exception(format!("BoundDelegateTree Exception: {message}"))
        }
        DelegateTree::Leaf { value, .. } => delegate_leaf(value).map_or(Node::Neg(Neg {}), Node::Leaf),
        DelegateTree::Delegate { tree, .. } => Node::Delegate(Box::new(delegate_node(tree))),
        DelegateTree::Alt { trees, .. } => Node::Alt(Alt { trees: trees.iter().map(delegate_node).collect() }),
        DelegateTree::Union { trees, .. } => {
            let branches = trees
                .iter()
                .map(|branch| union::Weighted { weight: Some(branch.weight), tree: Some(delegate_node(&branch.tree)) });
            Node::Union(Union { trees: branches.collect() })
        }
        DelegateTree::Transformation { name, value, tree, .. } => Node::Transformation(Box::new(Transformation {
            name: Some(name.clone()),
            leaf: delegate_leaf(value),
            tree: Some(Box::new(delegate_node(tree))),
        })),
    };
    proto::BoundDelegateTree {
        path: Some(path(tree.path())),
        dentry: tree.dentry().map(|entry| dentry(entry)),
        node: Some(node),
    }
}

fn delegate_leaf(leaf: &DelegationLeaf) -> Option<bound_delegate_tree::Leaf> {
    let id = leaf.id.path()?;
    Some(bound_delegate_tree::Leaf { id: Some(path(id)), residual: Some(path(&leaf.residual)) })
}

/// A path.
pub fn path(path: &Path) -> proto::Path {
    proto::Path { elems: path.elems().map(Bytes::copy_from_slice).collect() }
}
