//! Exact bytes, as an independent implementation wrote them.

use super::*;
use crate::interpreter::{Delegation, DelegationLeaf};
use crate::name::{AddrSet, Address, DelegateTree, Dentry, Limits, Meta, Weighted, meta_keys};

const BIND: &str = "80010001 00000004 62696e64 00000000
    0c0001 0b0001 00000000 0c0002 0b0001 00000000 0f0002 0b 00000002 00000003 737663 00000001 61
    0b0003 00000007 64656661756c74 00 0f0003 0b 00000000 00 00";

const DELEGATE: &str = r"80010001 00000008 64656c6567617465 00000000 0c0001 0b0001 00000000
    0c0002 0b0001 00000000
    0c0002 0c0001 0f0001 0b 00000002 00000003 737663 00000001 61
    0b0002 00000008 2f5c7832663d3e7e
    0c0003 0f0007 0b 00000002 00000003 737663 00000001 61 00 00
    0d0002 08 0c 00000000 00
    0b0003 00000007 64656661756c74 00
    0f0003 0b 00000000 00 00";

fn call(text: &str) -> Call {
    read_call(&hex(text)).unwrap()
}

fn refused(text: &str) -> BadCall {
    read_call(&hex(text)).unwrap_err()
}

#[test]
fn a_bind_of_linkerd_is_read_and_answered() {
    let call = call(BIND);
    let Ask::Bind { dtab, name } = &call.ask else { panic!("{call:?}") };
    assert_eq!((call.seqid, dtab.as_str(), name.ns.as_str()), (0, "", "default"));
    assert!(name.stamp.is_empty());
    assert_eq!(name.path(&Limits::DEFAULT), Ok(path("/svc/a")));
    assert_bytes(
        &reply(&call, result::bound(1, &leaf("/#/io.l5d.fs/a", "/"), "default")),
        &hex("80010002 00000004 62696e64 00000000
            0c0000 0b0001 00000008 0000000000000001
            0c0002 0c0001 0c0004 0f0001 0b 00000003 00000001 23 00000009 696f2e6c35642e6673 00000001 61
            0f0002 0b 00000000 00 00 0d0002 08 0c 00000000 00
            0b0003 00000007 64656661756c74 00 00"),
    );
}

#[test]
fn the_old_form_of_a_message_is_read_and_its_number_echoed() {
    let strict = hex(BIND);
    let mut old = hex("00000004 62696e64 01 00000007");
    old.extend_from_slice(&strict[16..]);
    let call = read_call(&old).unwrap();
    assert_eq!(call.ask, read_call(&strict).unwrap().ask);
    assert_bytes(
        &reply(&call, result::dtab_failure("")),
        &hex("80010002 00000004 62696e64 00000007 0c0001 0b0001 00000000 00 00"),
    );
}

#[test]
fn a_union_names_its_branches_by_number() {
    let tree =
        NameTree::Union(vec![Weighted::new(0.9, leaf("/#/io.l5d.fs/a", "/")), Weighted::new(0.1, NameTree::Neg)]);
    let body = result::bound(1, &tree, "");
    let expected = hex("0c0002 0c0001
        0f0006 0c 00000002 040001 3feccccccccccccd 080002 00000000 00 040001 3fb999999999999a 080002 00000001 00 00
        0d0002 08 0c 00000002
        00000000 0c0004 0f0001 0b 00000003 00000001 23 00000009 696f2e6c35642e6673 00000001 61 0f0002 0b 00000000 00 00
        00000001 0c0001 00 00
        00 0b0003 00000000 00 00");
    assert_bytes(&body[3 + 7 + 8..], &expected);
}

#[test]
fn an_empty_path_is_the_declared_failure_with_the_name_as_it_came() {
    let call = call(
        "80010001 00000004 62696e64 00000000
        0c0001 0b0001 00000000 0c0002 0b0001 00000000 0f0002 0b 00000000 0b0003 00000007 64656661756c74 00
        0f0003 0b 00000000 00 00",
    );
    let name = call.ask.name().unwrap();
    assert_eq!(name.path(&Limits::DEFAULT), Err(Refusal::Failure("empty path".to_owned())));
    assert_bytes(
        &reply(&call, failure(Method::Bind, "empty path", name)),
        &hex("80010002 00000004 62696e64 00000000
            0c0001 0b0001 0000000a 656d7074792070617468 080002 00000000
            0c0003 0b0001 00000000 0f0002 0b 00000000 0b0003 00000007 64656661756c74 00
            0b0004 00000007 64656661756c74 00 00"),
    );
}

#[test]
fn addresses_and_their_absence_are_written() {
    let call = call(
        "80010001 00000004 61646472 00000000 0c0001 0c0001 0b0001 00000000
        0f0002 0b 00000003 00000001 23 00000009 696f2e6c35642e6673 00000001 61 0b0003 00000007 64656661756c74 00
        0f0002 0b 00000000 00 00",
    );
    assert!(matches!(&call.ask, Ask::Addr { name } if name.path(&Limits::DEFAULT) == Ok(path("/#/io.l5d.fs/a"))));
    let set = AddrSet::new(vec![Address::new([127, 0, 0, 1].into(), 8080)], Meta::default());
    assert_bytes(
        &reply(&call, result::addr(1, Some(&set), false)),
        &hex("80010002 00000004 61646472 00000000 0c0000 0b0001 00000008 0000000000000001
            0c0002 0c0001 0e0001 0c 00000001 0b0001 00000004 7f000001 080002 00001f90 00 00 00 00 00"),
    );
    assert_bytes(
        &reply(&call, result::addr(1, None, false)),
        &hex("80010002 00000004 61646472 00000000 0c0000 0b0001 00000008 0000000000000001 0c0002 0c0002 00 00 00 00"),
    );
}

#[test]
fn a_weight_travels_with_an_authority_or_a_node_and_alone_only_if_wanted() {
    let weight = Meta::default().with(meta_keys::ENDPOINT_ADDR_WEIGHT, 2.0);
    let all = weight.clone().with(meta_keys::AUTHORITY, "acme.co").with(meta_keys::NODE_NAME, "node1");
    let set = |meta: &Meta| {
        AddrSet::new(vec![Address { meta: meta.clone(), ..Address::new([127, 0, 0, 1].into(), 8080) }], meta.clone())
    };
    let body = |meta: &str, set_meta: &str| {
        hex(&format!(
            "0c0000 0b0001 00000008 0000000000000001 0c0002 0c0001 0e0001 0c 00000001
             0b0001 00000004 7f000001 080002 00001f90 {meta} 00 {set_meta} 00 00 00 00"
        ))
    };
    let sent = "0b0001 00000007 61636d652e636f 0b0002 00000005 6e6f646531 040003 4000000000000000 00";
    for lone_weights in [false, true] {
        let expected = body(&format!("0c0003 {sent}"), &format!("0c0002 {sent}"));
        assert_bytes(&result::addr(1, Some(&set(&all)), lone_weights), &expected);
    }
    assert_bytes(&result::addr(1, Some(&set(&weight)), false), &body("", ""));
    let sent = "040003 4000000000000000 00";
    let expected = body(&format!("0c0003 {sent}"), &format!("0c0002 {sent}"));
    assert_bytes(&result::addr(1, Some(&set(&weight)), true), &expected);
}

#[test]
fn addresses_whose_difference_is_not_sent_are_one() {
    let at = |port, weight: f64| Address {
        meta: Meta::default().with(meta_keys::ENDPOINT_ADDR_WEIGHT, weight),
        ..Address::new([127, 0, 0, 1].into(), port)
    };
    let set = AddrSet::new(vec![at(80, 1.0), at(80, 2.0), at(80, 3.0), at(81, 1.0)], Meta::default());
    let count = |body: Bytes| body[3 + 15 + 6 + 4..][..4].to_vec();
    assert_eq!(count(result::addr(1, Some(&set), false)), [0, 0, 0, 2]);
    assert_eq!(count(result::addr(1, Some(&set), true)), [0, 0, 0, 4]);
}

#[test]
fn a_delegate_of_linkerd_is_read_as_one_leaf() {
    let call = call(DELEGATE);
    let Ask::Delegate(ask) = &call.ask else { panic!("{call:?}") };
    assert!(ask.stamp.is_empty());
    assert_eq!((ask.dtab.as_str(), ask.ns.as_str()), ("", "default"));
    assert_eq!(ask.tree(&Limits::DEFAULT), Ok(NameTree::Leaf(path("/svc/a"))));
}

#[test]
fn a_dtab_is_asked_and_answered() {
    let call = call(
        "80010001 00000004 64746162 00000000
        0c0001 0b0001 00000000 0b0002 00000007 64656661756c74 0f0003 0b 00000000 00 00",
    );
    assert_eq!(call.ask, Ask::Dtab { stamp: Stamp::new(), ns: "default".to_owned() });
    assert_bytes(
        &reply(&call, result::dtab(1, "/svc=>/#/io.l5d.fs")),
        &hex("80010002 00000004 64746162 00000000 0c0000 0b0001 00000008 0000000000000001
            0b0002 00000012 2f7376633d3e2f232f696f2e6c35642e6673 00 00"),
    );
}

#[test]
fn an_unknown_method_is_an_exception_with_name_and_number_echoed() {
    let bad = refused("80010001 00000004 6e6f7065 00000007 00");
    assert_bytes(
        &answer(&bad).unwrap(),
        &hex(
            "80010003 00000004 6e6f7065 00000007 0b0001 0000001b 496e76616c6964206d6574686f64206e616d653a20276e6f706527
            080002 00000001 00",
        ),
    );
}

#[test]
fn below_a_delegate_children_are_numbered_first_and_below_an_alt_last() {
    let entry = |text: &str| std::sync::Arc::new(Dentry::parse(text).unwrap());
    let nop = std::sync::Arc::new(Dentry::nop());
    let bound = |name: &str, from: &str| DelegateTree::Leaf {
        path: path(name),
        dentry: entry(from),
        value: DelegationLeaf {
            id: BoundId::Path(path(name)),
            residual: Path::empty(),
            source: AddrSource::None,
            addr: None,
        },
    };
    let step = |name: &str, from: &str, tree| DelegateTree::Delegate {
        path: path(name),
        dentry: entry(from),
        tree: Box::new(tree),
    };
    let tree = DelegateTree::Delegate {
        path: path("/svc/a"),
        dentry: nop,
        tree: Box::new(DelegateTree::Alt {
            path: path("/host/a"),
            dentry: entry("/svc=>/host"),
            trees: vec![
                step("/srv/a", "/host=>/srv", bound("/#/fs/a", "/srv=>/#/fs")),
                DelegateTree::Neg { path: Path::empty(), dentry: entry("/host=>~") },
            ],
        }),
    };
    let body = result::delegation(&Delegation { tree }, "ns");
    let text = |text: &str| format!("{:08x} {}", text.len(), shown(text.as_bytes()));
    let node = |elems: &[&str], from: &str, contents: &str| {
        let elems: Vec<String> = elems.iter().map(|elem| text(elem)).collect();
        format!("0f0001 0b {:08x} {} 0b0002 {} 0c0003 {contents} 00 00", elems.len(), elems.join(" "), text(from))
    };
    let leaf = format!("0c0006 0f0001 0b 00000003 {} {} {} 0f0002 0b 00000000 00", text("#"), text("fs"), text("a"));
    let expected = format!(
        "0c0000 0b0001 00000008 0000000000000001 0c0002 0c0001 {} 0d0002 08 0c 00000004
         00000000 {} 00000001 {} 00000002 {} 00000003 {} 00 0b0003 00000002 6e73 00 00",
        // The alt is numbered after all below it, its branches before what is below them.
        node(&["svc", "a"], r"/\x2f=>~", "080005 00000003"),
        node(&["srv", "a"], "/host=>/srv", "080005 00000001"),
        node(&["#", "fs", "a"], "/srv=>/#/fs", &leaf),
        node(&[], "/host=>~", "0c0004 00"),
        node(&["host", "a"], "/svc=>/host", "0f0008 08 00000002 00000000 00000002"),
    );
    assert_bytes(&body, &hex(&expected));
}

#[test]
fn the_call_for_the_upgrade_is_recognised_by_its_name() {
    let bad = refused("80010001 0000001b 5f5f63616e5f5f66696e61676c655f5f74726163655f5f76335f5f 00000005 00");
    assert!(matches!(&bad, BadCall::Exception { name, .. } if name == UPGRADE), "{bad:?}");
    let mut out = BytesMut::new();
    reply_head(&mut out, UPGRADE.as_bytes(), 0);
    out.extend_from_slice(&[EMPTY_STRUCT]);
    assert_bytes(&out, &hex("80010002 0000001b 5f5f63616e5f5f66696e61676c655f5f74726163655f5f76335f5f 00000000 00"));
}

#[test]
fn an_upgraded_request_is_read_behind_its_header() {
    // Ids of a trace, a flag, a client id, a list of contexts.
    let header = hex("0a0001 0000000000000001 0a0002 0000000000000002 020005 01 0c0006 0b0001 00000001 61 00
        0f0008 0c 00000001 0b0001 00000001 61 0b0002 00000000 00 00");
    for header in [&[EMPTY_STRUCT][..], &header] {
        let frame = [header, &hex(BIND)].concat();
        assert_bytes(after_request_header(&frame).unwrap(), &hex(BIND));
    }
    assert_eq!(after_request_header(&header[..header.len() - 1]), None);
    assert_eq!(after_request_header(&hex("0b0001 7fffffff")), None);
}
