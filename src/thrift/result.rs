//! Results: what follows the head of a reply. They do not depend on the caller, so one is made per version and shared.

use std::cell::RefCell;
use std::net::IpAddr;
use std::ops::Range;

use bytes::{BufMut, Bytes};
use serde_json::Value;
use smallvec::SmallVec;

use crate::interpreter::{BoundTree, Delegation, DelegationLeaf};
use crate::name::{AddrSet, Address, DelegateTree, Meta, NameTree, Path, meta_keys};

use super::ask::NameRef;
use super::encode::Encode;
use super::nodes::{Branches, Numbered, number};
use super::read::Type;

/// The field of a result that holds the value.
const SUCCESS: i16 = 0;
/// The field of a result that holds the declared failure.
const FAILURE: i16 = 1;

/// What has grown larger for one answer is not kept for others.
const MOST_WORK: usize = 64 << 10;

thread_local! {
    /// Where a body is made. It is kept for as long as its value is, so in a copy without room to spare.
    static WORK: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The stamp of every explanation (ThriftNamerInterface.scala:568-599).
const DELEGATION_STAMP: u64 = 1;

/// A bound tree. The stamp is the version of what is shown, in eight bytes.
pub fn bound(stamp: u64, tree: &BoundTree, ns: &str) -> Bytes {
    success(stamp, |out| node_tree(out, &number(tree, bound_branches), ns, bound_node))
}

/// An address set; `None` says that the name does not exist.
///
/// namerd sends the metadata of an address only if it has an authority or a node name, so a weight alone is lost
/// (ThriftNamerInterface.scala:453-469); with `lone_weights` it is sent.
pub fn addr(stamp: u64, set: Option<&AddrSet>, lone_weights: bool) -> Bytes {
    success(stamp, |out| {
        out.field(Type::Struct, 2);
        match set {
            Some(set) => {
                out.field(Type::Struct, 1);
                addresses(out, set.addrs(), lone_weights);
                addr_meta(out, 2, set.meta(), lone_weights);
                out.stop();
            }
            None => out.void(2),
        }
        out.stop();
    })
}

/// The text of a dtab.
pub fn dtab(stamp: u64, text: &str) -> Bytes {
    success(stamp, |out| out.string(2, text))
}

/// An explanation.
pub fn delegation(delegation: &Delegation, ns: &str) -> Bytes {
    let numbered = number(&delegation.tree, delegate_branches);
    success(DELEGATION_STAMP, |out| node_tree(out, &numbered, ns, delegate_node))
}

/// The declared failure of `bind`.
pub fn bind_failure(reason: &str, name: &NameRef) -> Bytes {
    failure(|out| {
        out.string(1, reason);
        // Deprecated: namerd says 0, whatever the failure.
        out.number(2, 0);
        name_ref(out, 3, name);
        out.string(4, &name.ns);
    })
}

/// The declared failure of `addr`.
pub fn addr_failure(reason: &str, name: &NameRef) -> Bytes {
    failure(|out| {
        out.string(1, reason);
        out.number(2, 0);
        name_ref(out, 3, name);
    })
}

/// The declared failure of `delegate`.
pub fn delegation_failure(reason: &str) -> Bytes {
    failure(|out| out.string(1, reason))
}

/// The declared failure of `dtab`.
pub fn dtab_failure(reason: &str) -> Bytes {
    failure(|out| out.string(1, reason))
}

/// A result whose value begins with a stamp, as all of them do.
fn success(stamp: u64, rest: impl FnOnce(&mut Vec<u8>)) -> Bytes {
    result(SUCCESS, |out| {
        out.string(1, stamp.to_be_bytes());
        rest(out);
    })
}

fn failure(fields: impl FnOnce(&mut Vec<u8>)) -> Bytes {
    result(FAILURE, fields)
}

fn result(id: i16, fields: impl FnOnce(&mut Vec<u8>)) -> Bytes {
    WORK.with_borrow_mut(|out| {
        out.clear();
        out.field(Type::Struct, id);
        fields(out);
        out.stop();
        out.stop();
        let body = Bytes::copy_from_slice(out);
        if out.capacity() > MOST_WORK {
            *out = Vec::new();
        }
        body
    })
}

/// Fields 2 and 3 of a bound tree or an explanation.
fn node_tree<N>(out: &mut Vec<u8>, nodes: &[Numbered<'_, N>], ns: &str, write: fn(&mut Vec<u8>, &Numbered<'_, N>)) {
    let Some((root, others)) = nodes.split_first() else { return };
    out.field(Type::Struct, 2);
    out.field(Type::Struct, 1);
    write(out, root);
    out.nodes(2, others.len());
    for node in others {
        out.put_i32(node.id);
        write(out, node);
    }
    out.stop();
    out.string(3, ns);
}

fn bound_branches(tree: &BoundTree) -> Branches<'_, BoundTree> {
    match tree {
        NameTree::Alt(trees) => Branches::before(trees),
        NameTree::Union(trees) => Branches::before(trees.iter().map(|branch| &branch.tree)),
        NameTree::Leaf(_) | NameTree::Neg | NameTree::Fail | NameTree::Empty => Branches::before([]),
    }
}

/// The union `BoundNode`.
fn bound_node(out: &mut Vec<u8>, Numbered { node, children, .. }: &Numbered<'_, BoundTree>) {
    match node {
        NameTree::Neg => out.void(1),
        NameTree::Empty => out.void(2),
        NameTree::Fail => out.void(3),
        NameTree::Leaf(bound) => match bound.id.path() {
            Some(id) => bound_name(out, 4, id, &bound.residual),
            None => out.void(1),
        },
        NameTree::Alt(_) => out.ids(5, children),
        NameTree::Union(trees) => out.weighted(6, trees.iter().map(|branch| branch.weight), children),
    }
    out.stop();
}

fn delegate_branches(tree: &DelegateTree<DelegationLeaf>) -> Branches<'_, DelegateTree<DelegationLeaf>> {
    match tree {
        DelegateTree::Delegate { tree, .. } | DelegateTree::Transformation { tree, .. } => Branches::after(&**tree),
        DelegateTree::Alt { trees, .. } => Branches::before(trees),
        DelegateTree::Union { trees, .. } => Branches::before(trees.iter().map(|branch| &branch.tree)),
        DelegateTree::Exception { .. }
        | DelegateTree::Empty { .. }
        | DelegateTree::Fail { .. }
        | DelegateTree::Neg { .. }
        | DelegateTree::Leaf { .. } => Branches::before([]),
    }
}

/// The struct `DelegateNode`.
fn delegate_node(out: &mut Vec<u8>, Numbered { node, children, .. }: &Numbered<'_, DelegateTree<DelegationLeaf>>) {
    out.path(1, node.path());
    match node {
        // The name of the transformer takes the place of the entry.
        DelegateTree::Transformation { name, .. } => out.string(2, name),
        _ => out.string(2, node.dentry().map(ToString::to_string).unwrap_or_default()),
    }
    out.field(Type::Struct, 3);
    match node {
        DelegateTree::Exception { message, .. } => out.string(1, message.as_deref().unwrap_or_default()),
        DelegateTree::Empty { .. } => out.void(2),
        DelegateTree::Fail { .. } => out.void(3),
        DelegateTree::Neg { .. } => out.void(4),
        DelegateTree::Delegate { .. } => out.number(5, child(children)),
        DelegateTree::Leaf { value, .. } => match value.id.path() {
            Some(id) => bound_name(out, 6, id, &value.residual),
            None => out.void(4),
        },
        DelegateTree::Alt { .. } => out.ids(8, children),
        DelegateTree::Union { trees, .. } => {
            out.weighted(9, trees.iter().map(|branch| branch.weight), children);
        }
        DelegateTree::Transformation { value, .. } => {
            out.field(Type::Struct, 10);
            bound_name(out, 1, value.id.path().unwrap_or(&Path::empty()), &Path::empty());
            out.number(2, child(children));
            out.stop();
        }
    }
    out.stop();
    out.stop();
}

/// The id of the child of a node that has exactly one.
fn child(children: &[i32]) -> i32 {
    children.first().copied().unwrap_or_default()
}

/// A field that is a `BoundName`.
fn bound_name(out: &mut Vec<u8>, id: i16, name: &Path, residual: &Path) {
    out.field(Type::Struct, id);
    out.path(1, name);
    out.path(2, residual);
    out.stop();
}

/// A field that is the `NameRef` of a request, as it came.
fn name_ref(out: &mut Vec<u8>, id: i16, name: &NameRef) {
    out.field(Type::Struct, id);
    out.string(1, &name.stamp);
    out.list(2, Type::String, name.elems().count());
    out.put_slice(&name.elems);
    out.string(3, &name.ns);
    out.stop();
}

/// Field 1 of a `BoundAddr`: a set, so that addresses whose difference is not sent are one.
fn addresses(out: &mut Vec<u8>, addrs: &[Address], lone_weights: bool) {
    out.field(Type::Set, 1);
    out.put_u8(Type::Struct as u8);
    let size = out.len();
    out.size(0);
    let mut count: u32 = 0;
    for same_place in addrs.chunk_by(|one, other| (one.ip, one.port) == (other.ip, other.port)) {
        let mut written: SmallVec<[Range<usize>; 1]> = SmallVec::new();
        for address in same_place {
            let begin = out.len();
            transport_address(out, address, lone_weights);
            if written.iter().any(|earlier| out[earlier.clone()] == out[begin..]) {
                out.truncate(begin);
            } else {
                written.push(begin..out.len());
                count += 1;
            }
        }
    }
    out[size..size + 4].copy_from_slice(&count.to_be_bytes());
}

/// The struct `TransportAddress`.
fn transport_address(out: &mut Vec<u8>, address: &Address, lone_weights: bool) {
    match address.ip {
        IpAddr::V4(ip) => out.string(1, ip.octets()),
        IpAddr::V6(ip) => out.string(1, ip.octets()),
    }
    out.number(2, address.port.into());
    addr_meta(out, 3, &address.meta, lone_weights);
    out.stop();
}

/// A field that is an `AddrMeta`, if there is anything to say.
fn addr_meta(out: &mut Vec<u8>, id: i16, meta: &Meta, lone_weights: bool) {
    let (authority, node) = (meta.get(meta_keys::AUTHORITY), meta.get(meta_keys::NODE_NAME));
    let weight = meta.get(meta_keys::ENDPOINT_ADDR_WEIGHT).and_then(Value::as_f64);
    if authority.is_none() && node.is_none() && !(lone_weights && weight.is_some()) {
        return;
    }
    out.field(Type::Struct, id);
    for (id, value) in [(1, authority), (2, node)] {
        if let Some(value) = value {
            out.string(id, value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        }
    }
    if let Some(weight) = weight {
        out.double(3, weight);
    }
    out.stop();
}
