//! Whatever the values: what we write Apache's code reads, and would write in the same bytes; what it writes we read.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::net::IpAddr;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use thrift::protocol::TSerializable;

use super::apache::{
    addr_set, argument, bound_tree, decode, delegate_tree, field_of_result, message, meta, name, result_of,
};
use super::generated as wire;
use super::*;
use crate::interpreter::{BoundTree, Delegation, DelegationLeaf};
use crate::name::{AddrSet, Address, DelegateTree, Dentry, Limits, Meta, Weighted, WeightedDelegate};

pub(super) fn elems() -> impl Strategy<Value = Vec<Vec<u8>>> + Clone {
    vec(vec(any::<u8>(), 1..20), 0..5)
}

pub(super) fn paths() -> impl Strategy<Value = Path> + Clone {
    elems().prop_map(|elems| name(&elems))
}

fn weights() -> impl Strategy<Value = f64> {
    prop_oneof![Just(1.0), 0.0..1.0e9]
}

pub(super) fn bound_trees() -> impl Strategy<Value = BoundTree> {
    let leaf = (paths(), paths()).prop_map(|(id, residual)| {
        NameTree::Leaf(Bound { id: BoundId::Path(id), residual, source: AddrSource::None, weight: None })
    });
    let node = prop_oneof![4 => leaf, 1 => Just(NameTree::Neg), 1 => Just(NameTree::Fail), 1 => Just(NameTree::Empty)];
    node.prop_recursive(5, 40, 4, |inner| {
        let branch = (weights(), inner.clone()).prop_map(|(weight, tree)| Weighted::new(weight, tree));
        prop_oneof![vec(inner, 0..5).prop_map(NameTree::Alt), vec(branch, 0..5).prop_map(NameTree::Union)]
    })
}

pub(super) fn delegate_trees() -> impl Strategy<Value = DelegateTree<DelegationLeaf>> {
    let dentries = prop::sample::select(vec!["/svc=>/host", r"/\x2f=>~", "/*/x=>0.50*/a & /b | $"])
        .prop_map(|text| Arc::new(Dentry::parse(text).unwrap()));
    let at = (paths(), dentries);
    let bound =
        |(id, residual)| DelegationLeaf { id: BoundId::Path(id), residual, source: AddrSource::None, addr: None };
    let node = prop_oneof![
        (at.clone(), paths(), paths()).prop_map(move |((path, dentry), id, residual)| DelegateTree::Leaf {
            path,
            dentry,
            value: bound((id, residual))
        }),
        at.clone().prop_map(|(path, dentry)| DelegateTree::Neg { path, dentry }),
        at.clone().prop_map(|(path, dentry)| DelegateTree::Fail { path, dentry }),
        at.clone().prop_map(|(path, dentry)| DelegateTree::Empty { path, dentry }),
        (at.clone(), option::of(".+")).prop_map(|((path, dentry), message)| DelegateTree::Exception {
            path,
            dentry,
            message
        }),
    ];
    node.prop_recursive(6, 40, 4, move |inner| {
        let branch = (weights(), inner.clone()).prop_map(|(weight, tree)| WeightedDelegate { weight, tree });
        prop_oneof![
            (at.clone(), inner.clone()).prop_map(|((path, dentry), tree)| DelegateTree::Delegate {
                path,
                dentry,
                tree: Box::new(tree)
            }),
            (at.clone(), vec(inner.clone(), 0..5)).prop_map(|((path, dentry), trees)| DelegateTree::Alt {
                path,
                dentry,
                trees
            }),
            (at.clone(), vec(branch, 0..5)).prop_map(|((path, dentry), trees)| DelegateTree::Union {
                path,
                dentry,
                trees
            }),
            (paths(), ".*", paths(), inner).prop_map(move |(path, name, id, tree)| DelegateTree::Transformation {
                path,
                name,
                value: bound((id, Path::empty())),
                tree: Box::new(tree),
            }),
        ]
    })
}

fn metas() -> impl Strategy<Value = Meta> {
    (option::of(".*"), option::of(".*"), option::of(weights())).prop_map(|(authority, node, weight)| {
        meta(Some(&wire::AddrMeta { authority, node_name: node, endpoint_addr_weight: weight.map(Into::into) }))
    })
}

pub(super) fn addr_sets() -> impl Strategy<Value = AddrSet> {
    let address = (any::<IpAddr>(), any::<u16>(), metas())
        .prop_map(|(ip, port, meta)| Address { meta, ..Address::new(ip, port) });
    (vec(address, 0..20), metas()).prop_map(|(addrs, meta)| AddrSet::new(addrs, meta))
}

fn name_refs() -> impl Strategy<Value = wire::NameRef> {
    (vec(any::<u8>(), 0..12), elems(), ".*").prop_map(|(stamp, name, ns)| wire::NameRef {
        stamp: Some(stamp),
        name: Some(name),
        ns: Some(ns),
    })
}

#[track_caller]
fn assert_same_name(read: &NameRef, sent: &wire::NameRef) {
    assert_eq!(read.stamp[..], sent.stamp.as_ref().unwrap()[..]);
    let elems: Vec<Vec<u8>> = read.elems().map(<[u8]>::to_vec).collect();
    assert_eq!(Some(&elems), sent.name.as_ref());
    assert_eq!(Some(&read.ns), sent.ns.as_ref());
}

/// Apache reads the value that was meant, and writes it in the same bytes.
fn assert_apache_agrees<T: TSerializable + PartialEq + Debug>(body: &[u8], field: i16) -> T {
    let (id, bytes) = field_of_result(body);
    assert_eq!(id, field);
    let value: T = decode(bytes);
    assert_bytes(body, &result_of(field, &value));
    value
}

proptest! {
    #[test]
    fn bound_trees_arrive_as_they_were(tree in bound_trees(), stamp: u64, ns in ".*") {
        let value: wire::Bound = assert_apache_agrees(&result::bound(stamp, &tree, &ns), 0);
        prop_assert_eq!(value.stamp.unwrap(), stamp.to_be_bytes());
        prop_assert_eq!(value.ns.unwrap(), ns);
        prop_assert_eq!(bound_tree(&value.tree.unwrap()), tree);
    }

    #[test]
    fn explanations_arrive_as_they_were(tree in delegate_trees(), ns in ".*") {
        let body = result::delegation(&Delegation { tree: tree.clone() }, &ns);
        let value: wire::Delegation = assert_apache_agrees(&body, 0);
        prop_assert_eq!(value.stamp.unwrap(), 1u64.to_be_bytes());
        prop_assert_eq!(value.ns.unwrap(), ns);
        prop_assert_eq!(delegate_tree(&value.tree.unwrap()), tree);
    }

    #[test]
    fn address_sets_arrive_as_they_were(set in addr_sets(), stamp: u64) {
        let body = result::addr(stamp, Some(&set), true);
        let (_, bytes) = field_of_result(&body);
        let value: wire::Addr = decode(bytes);
        prop_assert_eq!(value.stamp.clone().unwrap(), stamp.to_be_bytes());
        // Apache's set has another order than ours once both families are in it.
        prop_assert_eq!(result_of(0, &value).len(), body.len());
        prop_assert_eq!(addr_set(&value.value.unwrap()), Some(set));
    }

    #[test]
    fn failures_arrive_as_they_were(reason in ".*", name in name_refs()) {
        let sent = message("bind", 0, true, &wire::BindReq { dtab: None, name: Some(name.clone()), client_id: None });
        let call = read_call(&sent).unwrap();
        let read = call.ask.name().unwrap();
        assert_same_name(read, &name);
        let value: wire::BindFailure = assert_apache_agrees(&result::bind_failure(&reason, read), 1);
        let expected = wire::BindFailure {
            reason: Some(reason.clone()),
            retry_in_seconds: Some(0),
            name: Some(name.clone()),
            ns: name.ns.clone(),
        };
        prop_assert_eq!(value, expected);
        let value: wire::AddrFailure = assert_apache_agrees(&result::addr_failure(&reason, read), 1);
        let expected =
            wire::AddrFailure { reason: Some(reason.clone()), retry_in_seconds: Some(0), name: Some(name) };
        prop_assert_eq!(value, expected);
        let value: wire::DtabFailure = assert_apache_agrees(&result::dtab_failure(&reason), 1);
        prop_assert_eq!(value.reason.as_ref(), Some(&reason));
        let value: wire::DelegationFailure = assert_apache_agrees(&result::delegation_failure(&reason), 1);
        prop_assert_eq!(value.reason, Some(reason));
    }

    #[test]
    fn calls_are_read_as_apache_writes_them(
        name in name_refs(), dtab in ".*", client in option::of(elems()), seqid: i32, strict: bool,
    ) {
        let bind = wire::BindReq { dtab: Some(dtab.clone()), name: Some(name.clone()), client_id: client.clone() };
        let call = read_call(&message("bind", seqid, strict, &bind)).unwrap();
        prop_assert_eq!(call.seqid, seqid);
        assert_same_name(call.ask.name().unwrap(), &name);
        let Ask::Bind { dtab: read, .. } = call.ask else { panic!("not a bind") };
        prop_assert_eq!(read, dtab);

        let addr = wire::AddrReq { name: Some(name.clone()), client_id: client.clone() };
        let call = read_call(&message("addr", seqid, strict, &addr)).unwrap();
        prop_assert_eq!(call.ask.method(), Method::Addr);
        assert_same_name(call.ask.name().unwrap(), &name);

        let wire::NameRef { stamp, ns, .. } = name;
        let ask = Ask::Dtab { stamp: stamp.clone().unwrap()[..].into(), ns: ns.clone().unwrap() };
        let dtab = wire::DtabReq { stamp, ns, client_id: client };
        prop_assert_eq!(read_call(&message("dtab", seqid, strict, &dtab)).unwrap().ask, ask);
    }

    #[test]
    fn trees_to_explain_are_read_as_apache_writes_them(tree in bound_trees(), strict: bool, dtab in ".*") {
        // Leaves are names here; a residual has no place in them.
        let mut nodes = BTreeMap::new();
        let root = delegate_request(&tree, &mut nodes);
        let request = wire::DelegateReq {
            dtab: Some(dtab.clone()),
            delegation: Some(wire::Delegation {
                stamp: None,
                tree: Some(wire::DelegateTree { root: Some(root), nodes: Some(nodes) }),
                ns: Some("ns".to_owned()),
            }),
            client_id: None,
        };
        let call = read_call(&message("delegate", 3, strict, &request)).unwrap();
        let Ask::Delegate(ask) = call.ask else { panic!("not a delegate") };
        prop_assert_eq!((&ask.dtab, ask.ns.as_str(), ask.stamp.len()), (&dtab, "ns", 0));
        let expected = tree.map(|bound| bound.id.path().unwrap().clone());
        prop_assert_eq!(ask.tree(&Limits::DEFAULT), Ok(expected));
    }

    /// Whatever is wrong with a message, one that we accept is one that Apache accepts, with the same meaning.
    #[test]
    fn a_damaged_call_is_refused_or_read_as_apache_reads_it(
        name in name_refs(), dtab in ".*", at: prop::sample::Index, byte: u8,
    ) {
        let bind = wire::BindReq { dtab: Some(dtab), name: Some(name), client_id: Some(vec![]) };
        let mut sent = message("bind", 7, true, &bind);
        // Behind the head: Apache looks at the kind of a message, namerd and we do not.
        let at = 16 + at.index(sent.len() - 16);
        sent[at] = byte;
        let Ok(Call { ask: Ask::Bind { name, dtab }, .. }) = read_call(&sent) else { return Ok(()) };
        // Apache refuses what is not UTF-8.
        if dtab.contains('\u{fffd}') || name.ns.contains('\u{fffd}') {
            return Ok(());
        }
        let argument = match argument::<wire::BindReq>(&sent) {
            Ok((_, _, argument)) => argument.unwrap(),
            // The type of the elements of an empty list.
            Err(error) if format!("{error:?}").contains("TType") => return Ok(()),
            Err(error) => panic!("{error}"),
        };
        prop_assert_eq!(argument.dtab.unwrap_or_default(), dtab);
        let expected = argument.name.unwrap();
        prop_assert_eq!(&expected.stamp.unwrap_or_default()[..], &name.stamp[..]);
        prop_assert_eq!(&expected.ns.unwrap_or_default(), &name.ns);
        let elems: Vec<Vec<u8>> = name.elems().map(<[u8]>::to_vec).collect();
        prop_assert_eq!(expected.name.unwrap_or_default(), elems);
    }
}

/// A tree as a request has it, numbered in any order.
pub(super) fn delegate_request(tree: &BoundTree, nodes: &mut BTreeMap<i32, wire::DelegateNode>) -> wire::DelegateNode {
    let void = || wire::Void {};
    let mut below = |tree: &BoundTree| {
        let node = delegate_request(tree, nodes);
        let id = 7 * i32::try_from(nodes.len()).unwrap() - 20;
        nodes.insert(id, node);
        id
    };
    let contents = match tree {
        NameTree::Neg => wire::DelegateContents::Neg(void()),
        NameTree::Fail => wire::DelegateContents::Fail(void()),
        NameTree::Empty => wire::DelegateContents::Empty(void()),
        NameTree::Leaf(bound) => {
            let elems = bound.id.path().unwrap().elems().map(<[u8]>::to_vec).collect();
            // A step that a delegation passes over.
            let leaf = wire::DelegateNode {
                path: None,
                dentry: None,
                contents: Some(wire::DelegateContents::PathLeaf(elems)),
            };
            let id = 7 * i32::try_from(nodes.len()).unwrap() - 20;
            nodes.insert(id, leaf);
            wire::DelegateContents::Delegate(id)
        }
        NameTree::Alt(trees) => wire::DelegateContents::Alt(trees.iter().map(&mut below).collect()),
        NameTree::Union(branches) => {
            let branch = |branch: &Weighted<Bound>| wire::WeightedNodeId {
                weight: Some(branch.weight.into()),
                id: Some(below(&branch.tree)),
            };
            wire::DelegateContents::Weighted(branches.iter().map(branch).collect())
        }
    };
    wire::DelegateNode { path: Some(vec![]), dentry: Some("/a=>/b".to_owned()), contents: Some(contents) }
}
