//! The other side: calls are those that Apache's code would write, and replies arrive as they were meant, or not at all.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::agree::{addr_sets, bound_trees, delegate_trees, elems, paths};
use super::apache::{argument, message, name};
use super::generated as wire;
use super::*;
use crate::interpreter::{BoundTree, Delegation};
use crate::name::{Addr, Limits};
use crate::thrift::reply::{BoundName, Reply};

fn name_ref(stamp: &[u8], path: &Path, ns: &str) -> wire::NameRef {
    let name = path.elems().map(<[u8]>::to_vec).collect();
    wire::NameRef { stamp: Some(stamp.to_vec()), name: Some(name), ns: Some(ns.to_owned()) }
}

/// A reply as it comes, head and all.
fn replied(method: &str, body: &[u8]) -> Vec<u8> {
    let mut out = BytesMut::new();
    reply_head(&mut out, method.as_bytes(), 0);
    out.extend_from_slice(body);
    out.to_vec()
}

fn names_of(tree: &BoundTree) -> NameTree<BoundName> {
    tree.map(|bound| BoundName { id: bound.id.path().unwrap().clone(), residual: bound.residual.clone() })
}

/// The wire has no word for an id without elements.
fn has_empty_id(tree: &BoundTree) -> bool {
    let mut empty = false;
    tree.map(|bound| empty |= bound.id.path().unwrap().is_empty());
    empty
}

proptest! {
    #[test]
    fn calls_are_written_as_apache_writes_them(
        stamp in vec(any::<u8>(), 0..12), dtab in ".*", path in paths(), ns in ".*",
    ) {
        let bind = wire::BindReq {
            dtab: Some(dtab.clone()),
            name: Some(name_ref(&stamp, &path, &ns)),
            client_id: Some(Vec::new()),
        };
        assert_bytes(&request::bind(&stamp, &dtab, &path, &ns), &message("bind", 0, true, &bind));
        let addr = wire::AddrReq { name: Some(name_ref(&stamp, &path, &ns)), client_id: Some(Vec::new()) };
        assert_bytes(&request::addr(&stamp, &path, &ns), &message("addr", 0, true, &addr));
        let dtab = wire::DtabReq { stamp: Some(stamp.clone()), ns: Some(ns.clone()), client_id: Some(Vec::new()) };
        assert_bytes(&request::dtab(&stamp, &ns), &message("dtab", 0, true, &dtab));
    }

    #[test]
    fn trees_to_explain_are_understood(tree in bound_trees(), dtab in ".*", ns in ".*") {
        let tree = tree.map(|bound| bound.id.path().unwrap().clone());
        let sent = request::delegate(&dtab, &tree, &ns);
        let Ask::Delegate(ask) = read_call(&sent).unwrap().ask else { panic!("not a delegate") };
        prop_assert_eq!((&ask.dtab, &ask.ns, ask.stamp.len()), (&dtab, &ns, 0));
        prop_assert_eq!(ask.tree(&Limits::DEFAULT), Ok(tree));
        // Apache's code reads it, and would write it in the same bytes but for the order of a map.
        let (_, _, read) = argument::<wire::DelegateReq>(&sent).unwrap();
        let read = read.unwrap();
        prop_assert_eq!(read.client_id.as_deref(), Some(&[][..]));
        prop_assert_eq!(message("delegate", 0, true, &read), sent);
    }

    #[test]
    fn bound_trees_come_back_as_they_were(tree in bound_trees(), stamp: u64, ns in ".*") {
        let read = reply::bind(&replied("bind", &result::bound(stamp, &tree, &ns)));
        if has_empty_id(&tree) {
            prop_assert!(read.unwrap_err().to_string().contains("empty id"));
        } else {
            let stamp = Stamp::from_slice(&stamp.to_be_bytes());
            prop_assert_eq!(read, Ok(Reply::Value { stamp, value: names_of(&tree) }));
        }
    }

    #[test]
    fn address_sets_come_back_as_they_were(set in addr_sets(), stamp: u64) {
        let read = reply::addr(&replied("addr", &result::addr(stamp, Some(&set), true)));
        let stamp = Stamp::from_slice(&stamp.to_be_bytes());
        prop_assert_eq!(read, Ok(Reply::Value { stamp, value: Addr::Bound(set) }));
    }

    #[test]
    fn explanations_come_back_as_they_were(tree in delegate_trees(), ns in ".*") {
        let read = reply::delegate(&replied("delegate", &result::delegation(&Delegation { tree: tree.clone() }, &ns)));
        let Ok(Reply::Value { value, .. }) = read else { panic!("{read:?}") };
        // Written again they are the same bytes.
        let named = |name: BoundName| crate::interpreter::DelegationLeaf {
            id: BoundId::Path(name.id),
            residual: name.residual,
            source: AddrSource::None,
            addr: None,
        };
        prop_assert_eq!(value.map(named), tree);
    }

    #[test]
    fn dtabs_and_failures_come_back_as_they_were(text in ".*", elems in elems(), stamp: u64) {
        let read = reply::dtab(&replied("dtab", &result::dtab(stamp, &text)));
        let stamp = Stamp::from_slice(&stamp.to_be_bytes());
        prop_assert_eq!(read, Ok(Reply::Value { stamp, value: text.clone() }));
        let sent = request::bind(b"", "", &name(&elems), "ns");
        let call = read_call(&sent).unwrap();
        let body = result::bind_failure(&text, call.ask.name().unwrap());
        prop_assert_eq!(reply::bind(&replied("bind", &body)), Ok(Reply::Failure(text.clone())));
        let body = result::dtab_failure(&text);
        prop_assert_eq!(reply::dtab(&replied("dtab", &body)), Ok(Reply::Failure(text.clone())));
        let mut out = BytesMut::new();
        exception(&mut out, b"addr", 0, kind::INTERNAL_ERROR, &text);
        prop_assert_eq!(reply::addr(&out), Ok(Reply::Exception(text)));
    }

    #[test]
    fn a_damaged_reply_is_read_or_refused(
        tree in bound_trees(), set in addr_sets(), at: prop::sample::Index, byte: u8, cut: prop::sample::Index,
    ) {
        let replies = [
            replied("bind", &result::bound(7, &tree, "ns")),
            replied("addr", &result::addr(7, Some(&set), true)),
        ];
        for (mut sent, whole) in replies.map(|sent| (sent.clone(), sent)) {
            let at = at.index(sent.len());
            sent[at] = byte;
            let _ = (reply::bind(&sent), reply::addr(&sent), reply::delegate(&sent), reply::dtab(&sent));
            let short = &whole[..cut.index(whole.len())];
            prop_assert!(reply::bind(short).is_err() && reply::addr(short).is_err());
        }
    }
}

fn node(contents: wire::BoundNode) -> wire::BoundNode {
    contents
}

/// A reply to `bind` with this tree, from a server that does not check what it sends.
fn bound(root: Option<wire::BoundNode>, nodes: &[(i32, wire::BoundNode)]) -> Vec<u8> {
    let tree = wire::BoundTree { root, nodes: Some(nodes.iter().cloned().collect::<BTreeMap<_, _>>()) };
    let value = wire::Bound { stamp: Some(b"stamp".to_vec()), tree: Some(tree), ns: Some("ns".to_owned()) };
    replied("bind", &super::apache::result_of(0, &value))
}

fn addr(ip: &[u8], port: i32, weight: f64) -> Vec<u8> {
    let meta = wire::AddrMeta { authority: None, node_name: None, endpoint_addr_weight: Some(weight.into()) };
    let address = wire::TransportAddress { ip: Some(ip.to_vec()), port: Some(port), meta: Some(meta) };
    let set = wire::BoundAddr { addresses: Some([address].into()), meta: None };
    let value = wire::Addr { stamp: Some(b"stamp".to_vec()), value: Some(wire::AddrVal::Bound(set)) };
    replied("addr", &super::apache::result_of(0, &value))
}

#[track_caller]
fn refused<T: std::fmt::Debug>(read: Result<Reply<T>, reply::BadReply>, why: &str) {
    let error = read.expect_err("nonsense").to_string();
    assert!(error.contains(why), "{error}");
}

#[test]
fn nonsense_is_refused_with_what_is_wrong() {
    let leaf = |elems: &[&[u8]]| {
        let id = elems.iter().map(|elem| elem.to_vec()).collect();
        wire::BoundNode::Leaf(wire::BoundName { id: Some(id), residual: Some(Vec::new()) })
    };
    let weighted = |weight: f64| {
        wire::BoundNode::Weighted(vec![wire::WeightedNodeId { weight: Some(weight.into()), id: Some(0) }])
    };
    refused(reply::bind(&bound(None, &[])), "no 'root'");
    refused(reply::bind(&bound(Some(leaf(&[])), &[])), "empty id");
    refused(reply::bind(&bound(Some(leaf(&[b"a", b""])), &[])), "empty element");
    refused(reply::bind(&bound(Some(wire::BoundNode::Alt(vec![4])), &[])), "no node 4");
    refused(reply::bind(&bound(Some(weighted(f64::NAN)), &[(0, leaf(&[b"a"]))])), "weight NaN");
    // A tree that contains itself, and one that would fill the memory.
    refused(reply::bind(&bound(Some(wire::BoundNode::Alt(vec![0])), &[(0, wire::BoundNode::Alt(vec![0]))])), "levels");
    let doubling: Vec<_> = (0..64).map(|id| (id, wire::BoundNode::Alt(vec![id + 1, id + 1]))).collect();
    refused(reply::bind(&bound(Some(wire::BoundNode::Alt(vec![0])), &doubling)), "no node 64");
    let mut doubling = doubling;
    doubling.push((64, node(leaf(&[b"a"]))));
    refused(reply::bind(&bound(Some(wire::BoundNode::Alt(vec![0])), &doubling)), "nodes");

    refused(reply::addr(&addr(&[1, 2, 3], 80, 1.0)), "an address of 3 bytes");
    refused(reply::addr(&addr(&[], 80, 1.0)), "an address of 0 bytes");
    refused(reply::addr(&addr(&[127, 0, 0, 1], 70_000, 1.0)), "70000 is no port");
    refused(reply::addr(&addr(&[127, 0, 0, 1], 80, f64::INFINITY)), "weight inf");
    assert!(matches!(reply::addr(&addr(&[127, 0, 0, 1], 80, 1.0)), Ok(Reply::Value { .. })));
}

/// What ended a loop of Linkerd's for good: an address set that is neither bound nor neg (field 9).
#[test]
fn a_union_with_an_unknown_member_is_refused() {
    let stamp = "0b 0001 00000001 78";
    let body = hex(&format!("0c 0000 {stamp} 0c 0002 0c 0009 00 00 00 00"));
    refused(reply::addr(&replied("addr", &body)), "member 9");
    let body = hex(&format!("0c 0000 {stamp} 0c 0002 00 00 00"));
    refused(reply::addr(&replied("addr", &body)), "no 'bound or neg'");
    let both = hex(&format!("0c 0000 {stamp} 0c 0002 0c 0002 00 0c 0002 00 00 00 00"));
    refused(reply::addr(&replied("addr", &both)), "more than one member");
    let body = hex(&format!("0c 0000 {stamp} 0c 0002 0c 0001 0c 0007 00 00 00 0c 0003 00 00"));
    refused(reply::bind(&replied("bind", &body)), "member 7");
}

#[test]
fn the_reply_to_another_call_is_no_reply() {
    let sent = replied("addr", &result::addr(7, None, false));
    assert_eq!(
        reply::addr(&sent),
        Ok(Reply::Value { stamp: Stamp::from_slice(&7u64.to_be_bytes()), value: Addr::Neg })
    );
    refused(reply::bind(&sent), "a message of kind 2 called 'addr' answers bind");
    refused(reply::addr(&request::addr(b"", &path("/a"), "ns")), "a message of kind 1");
    refused(reply::addr(&[]), "ends early");
    refused(reply::addr(b"GET / HTTP/1.1\r\n"), "ends early");
    refused(reply::addr(&replied("addr", &[0])), "no 'success'");
}

/// What a router of Linkerd 1.7.5 sent (recorded).
#[test]
fn calls_are_those_of_a_router() {
    let bind =
        hex("80010001 00000004 62696e64 00000000 0c0001 0b0001 00000000 0c0002 0b0001 00000000 0f0002 0b 00000002 \
         00000003 737663 00000002 6230 0b0003 00000007 64656661756c74 00 0f0003 0b 00000000 00 00");
    assert_bytes(&request::bind(b"", "", &path("/svc/b0"), "default"), &bind);
}
