//! What Linkerd 1 insists on.

use prost::Message;

use super::{proto, read, show};
use crate::name::{Addr, AddrSet, Address, Dtab, Limit, Limits, Meta};

#[test]
fn zeros_are_on_the_wire_since_linkerd_drops_an_endpoint_without_them() {
    let set = AddrSet::new(vec![Address::new([1, 2, 3, 4].into(), 7777)], Meta::default());
    let bytes = show::addresses(Some(&Addr::Bound(set))).encode_to_vec();
    // bound { endpoints { inet_af: 0, address, port, meta {} } }
    assert_eq!(bytes, b"\x22\x0f\x0a\x0d\x08\x00\x12\x04\x01\x02\x03\x04\x18\xe1\x3c\x22\x00");
}

#[test]
fn a_weight_of_zero_is_on_the_wire_since_linkerd_drops_the_branch_without_it() {
    let dtab = Dtab::parse("/a=>0*/b & 1*/c").expect("a dtab");
    let bytes = show::dtab(&dtab).encode_to_vec();
    assert!(bytes.windows(9).any(|nine| nine == b"\x09\0\0\0\0\0\0\0\0"), "{bytes:x?}");
}

#[test]
fn a_dtab_comes_back_as_it_was_sent() {
    let dtab = Dtab::parse("/a/*=>/b | 0.3*/c & 0.7*$ | ~ | !;/x=>/y").expect("a dtab");
    assert_eq!(read::dtab(&show::dtab(&dtab), &Limits::DEFAULT), Ok(dtab));
}

#[test]
fn what_has_no_meaning_is_refused_with_the_reason() {
    let (path, elem) =
        (|elems: &[&'static str]| proto::Path { elems: elems.iter().map(|e| (*e).into()).collect() }, "a");
    let limits = Limits { path_segments: 2, depth: 1, ..Limits::DEFAULT };
    assert!(read::path(&path(&[elem, elem]), &limits).is_ok());
    assert_eq!(read::path(&path(&[elem, elem, elem]), &limits).expect_err("long").limit, Some(Limit::PathSegments));
    assert_eq!(read::path(&path(&[""]), &limits).expect_err("empty").to_string(), "a path has an empty element");
    assert!(read::tree(&proto::PathNameTree { node: None }, &limits).is_err());
    let entry = proto::dtab::Dentry { prefix: None, dst: None };
    assert!(read::dtab(&proto::Dtab { dentries: vec![entry] }, &limits).is_err());
    let mut tree = proto::PathNameTree { node: Some(proto::path_name_tree::Node::Neg(proto::path_name_tree::Neg {})) };
    for _ in 0..2 {
        let alt = proto::path_name_tree::Alt { trees: vec![tree] };
        tree = proto::PathNameTree { node: Some(proto::path_name_tree::Node::Alt(alt)) };
    }
    assert_eq!(read::tree(&tree, &limits).expect_err("deep").limit, Some(Limit::Depth));
}
