//! Apache's own code on the other side of the wire, and what a client makes of our answers.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::net::IpAddr;
use std::sync::Arc;

use thrift::protocol::{
    TBinaryInputProtocol, TBinaryOutputProtocol, TFieldIdentifier, TInputProtocol, TMessageIdentifier, TMessageType,
    TOutputProtocol, TSerializable, TStructIdentifier, TType,
};

use super::generated as wire;
use super::*;
use crate::interpreter::{BoundTree, DelegationLeaf};
use crate::name::{AddrSet, Address, DelegateTree, Dentry, Meta, Weighted, WeightedDelegate, meta_keys};

/// Reads one struct.
pub(super) fn decode<T: TSerializable>(bytes: &[u8]) -> T {
    T::read_from_in_protocol(&mut TBinaryInputProtocol::new(Cursor::new(bytes), true)).unwrap()
}

fn encode<T: TSerializable>(value: &T) -> Vec<u8> {
    let mut out = Vec::new();
    value.write_to_out_protocol(&mut TBinaryOutputProtocol::new(&mut out, true)).unwrap();
    out
}

/// The only field of a result that is set, without the struct around it.
pub(super) fn field_of_result(body: &[u8]) -> (i16, &[u8]) {
    assert_eq!((body[0], body.last()), (12, Some(&0)), "{}", shown(body));
    (i16::from_be_bytes([body[1], body[2]]), &body[3..body.len() - 1])
}

/// A result as Apache's writer has it: maps and sets in order.
pub(super) fn result_of<T: TSerializable>(field: i16, value: &T) -> Vec<u8> {
    let head = [&[12][..], &field.to_be_bytes()].concat();
    [&head[..], &encode(value), &[0]].concat()
}

/// A call of `method` as Apache's client writes it.
pub(super) fn message(method: &str, seqid: i32, strict: bool, argument: &impl TSerializable) -> Vec<u8> {
    let mut out = Vec::new();
    let mut to = TBinaryOutputProtocol::new(&mut out, strict);
    to.write_message_begin(&TMessageIdentifier::new(method, TMessageType::Call, seqid)).unwrap();
    to.write_struct_begin(&TStructIdentifier::new("args")).unwrap();
    to.write_field_begin(&TFieldIdentifier::new("req", TType::Struct, 1)).unwrap();
    argument.write_to_out_protocol(&mut to).unwrap();
    to.write_field_end().unwrap();
    to.write_field_stop().unwrap();
    to.write_struct_end().unwrap();
    to.write_message_end().unwrap();
    out
}

/// A call as Apache's server reads it: name, number and the only argument.
pub(super) fn argument<T: TSerializable>(message: &[u8]) -> thrift::Result<(String, i32, Option<T>)> {
    let mut from = TBinaryInputProtocol::new(Cursor::new(message), false);
    let head = from.read_message_begin()?;
    from.read_struct_begin()?;
    let mut argument = None;
    loop {
        let field = from.read_field_begin()?;
        match (field.field_type, field.id) {
            (TType::Stop, _) => return Ok((head.name, head.sequence_number, argument)),
            (TType::Struct, Some(1)) => argument = Some(T::read_from_in_protocol(&mut from)?),
            (kind, _) => from.skip(kind)?,
        }
    }
}

pub(super) fn name(elems: &[Vec<u8>]) -> Path {
    Path::from_elems(elems).unwrap()
}

fn bound_of(name_of: &wire::BoundName) -> (BoundId, Path) {
    let id = BoundId::Path(name(name_of.id.as_ref().unwrap()));
    (id, name(name_of.residual.as_ref().unwrap()))
}

/// The tree that a client makes of a bound tree.
pub(super) fn bound_tree(tree: &wire::BoundTree) -> BoundTree {
    let nodes = tree.nodes.as_ref().unwrap();
    bound_node(tree.root.as_ref().unwrap(), nodes)
}

fn bound_node(node: &wire::BoundNode, nodes: &BTreeMap<i32, wire::BoundNode>) -> BoundTree {
    match node {
        wire::BoundNode::Neg(_) => NameTree::Neg,
        wire::BoundNode::Empty(_) => NameTree::Empty,
        wire::BoundNode::Fail(_) => NameTree::Fail,
        wire::BoundNode::Leaf(leaf) => {
            let (id, residual) = bound_of(leaf);
            NameTree::Leaf(Bound { id, residual, source: AddrSource::None, weight: None })
        }
        wire::BoundNode::Alt(ids) => NameTree::Alt(ids.iter().map(|id| bound_node(&nodes[id], nodes)).collect()),
        wire::BoundNode::Weighted(ids) => {
            let branch = |node: &wire::WeightedNodeId| {
                Weighted::new(node.weight.unwrap().into(), bound_node(&nodes[&node.id.unwrap()], nodes))
            };
            NameTree::Union(ids.iter().map(branch).collect())
        }
    }
}

/// The explanation that a client makes of a delegation.
pub(super) fn delegate_tree(tree: &wire::DelegateTree) -> DelegateTree<DelegationLeaf> {
    delegate_node(tree.root.as_ref().unwrap(), tree.nodes.as_ref().unwrap())
}

fn delegate_node(node: &wire::DelegateNode, nodes: &BTreeMap<i32, wire::DelegateNode>) -> DelegateTree<DelegationLeaf> {
    let path = name(node.path.as_ref().unwrap());
    let text = node.dentry.as_ref().unwrap();
    let at = |id: &i32| delegate_node(&nodes[id], nodes);
    let contents = node.contents.as_ref().unwrap();
    if let wire::DelegateContents::Transformation(wire::Transformation { value, tree }) = contents {
        let (id, residual) = bound_of(value.as_ref().unwrap());
        let value = DelegationLeaf { id, residual, source: AddrSource::None, addr: None };
        return DelegateTree::Transformation { path, name: text.clone(), value, tree: Box::new(at(&tree.unwrap())) };
    }
    let dentry = Arc::new(Dentry::parse(text).unwrap());
    match contents {
        wire::DelegateContents::Error(text) => {
            DelegateTree::Exception { path, dentry, message: (!text.is_empty()).then(|| text.clone()) }
        }
        wire::DelegateContents::Empty(_) => DelegateTree::Empty { path, dentry },
        wire::DelegateContents::Fail(_) => DelegateTree::Fail { path, dentry },
        wire::DelegateContents::Neg(_) => DelegateTree::Neg { path, dentry },
        wire::DelegateContents::Delegate(id) => DelegateTree::Delegate { path, dentry, tree: Box::new(at(id)) },
        wire::DelegateContents::BoundLeaf(leaf) => {
            let (id, residual) = bound_of(leaf);
            let value = DelegationLeaf { id, residual, source: AddrSource::None, addr: None };
            DelegateTree::Leaf { path, dentry, value }
        }
        wire::DelegateContents::Alt(ids) => DelegateTree::Alt { path, dentry, trees: ids.iter().map(at).collect() },
        wire::DelegateContents::Weighted(ids) => {
            let branch = |node: &wire::WeightedNodeId| WeightedDelegate {
                weight: node.weight.unwrap().into(),
                tree: at(&node.id.unwrap()),
            };
            DelegateTree::Union { path, dentry, trees: ids.iter().map(branch).collect() }
        }
        wire::DelegateContents::PathLeaf(_) | wire::DelegateContents::Transformation(_) => {
            panic!("no answer has this: {contents:?}")
        }
    }
}

/// The address set that a client makes of an answer.
pub(super) fn addr_set(value: &wire::AddrVal) -> Option<AddrSet> {
    let wire::AddrVal::Bound(bound) = value else { return None };
    let address = |address: &wire::TransportAddress| {
        let ip: IpAddr = match &address.ip.as_ref().unwrap()[..] {
            [a, b, c, d] => [*a, *b, *c, *d].into(),
            long => <[u8; 16]>::try_from(long).unwrap().into(),
        };
        let port = address.port.unwrap().try_into().unwrap();
        Address { meta: meta(address.meta.as_ref()), ..Address::new(ip, port) }
    };
    let addresses = bound.addresses.as_ref().unwrap().iter().map(address).collect();
    Some(AddrSet::new(addresses, meta(bound.meta.as_ref())))
}

pub(super) fn meta(sent: Option<&wire::AddrMeta>) -> Meta {
    let Some(sent) = sent else { return Meta::default() };
    let mut meta = Meta::default();
    if let Some(authority) = &sent.authority {
        meta = meta.with(meta_keys::AUTHORITY, authority.clone());
    }
    if let Some(node) = &sent.node_name {
        meta = meta.with(meta_keys::NODE_NAME, node.clone());
    }
    if let Some(weight) = sent.endpoint_addr_weight {
        meta = meta.with(meta_keys::ENDPOINT_ADDR_WEIGHT, f64::from(weight));
    }
    meta
}
