use std::net::SocketAddr;
use std::sync::Arc;

use super::*;
use crate::interpreter::{AddrSource, BoundId};
use crate::name::{AddrSet, Address, Weighted, WeightedDelegate};

fn path(text: &str) -> Path {
    Path::parse(text).expect("path")
}

fn bound(addrs: &[&str]) -> Addr {
    let addrs = addrs.iter().map(|text| text.parse::<SocketAddr>().expect("address").into()).collect();
    Addr::Bound(AddrSet::new(addrs, Meta::default()))
}

fn leaf(id: &str, residual: &str, weight: Option<f64>) -> BoundTree {
    NameTree::Leaf(Bound { id: BoundId::Path(path(id)), residual: path(residual), source: AddrSource::None, weight })
}

fn tree_text(tree: &BoundTree, addrs: &[Addr]) -> String {
    bound_tree(tree, addrs, MOST_BYTES).expect("short")
}

fn text(of: &str) -> String {
    let mut out = String::new();
    string(&mut out, of);
    out
}

#[test]
fn texts_are_escaped_so_that_any_reader_gets_them_back() {
    assert_eq!(text("/\\x66\\x20"), r#""/\\x66\\x20""#);
    assert_eq!(text("a\"b\\\n\r\t\u{8}\u{c}\u{1f}é"), r#""a\"b\\\n\r\t\b\f\u001Fé""#);
    for of in ["", "plain", "\u{0}\u{7f}\u{ffff}", "ends in \""] {
        assert_eq!(serde_json::from_str::<String>(&text(of)).expect("JSON"), of);
    }
}

#[test]
fn addresses_are_shown_in_javas_words() {
    let v6 = bound(&["[::1]:9000"]);
    assert_eq!(addr(&v6), r#"{"type":"bound","addrs":[{"ip":"0:0:0:0:0:0:0:1","port":9000,"meta":{}}],"meta":{}}"#);
    let mapped = bound(&["[::ffff:192.0.2.1]:1"]);
    assert!(addr(&mapped).contains(r#""ip":"192.0.2.1""#));
    let long = bound(&["[2001:db8:0:a0::1234]:1"]);
    assert!(addr(&long).contains(r#""ip":"2001:db8:0:a0:0:0:0:1234""#));
}

#[test]
fn every_state_of_an_address_set_has_its_form() {
    assert_eq!(addr(&bound(&[])), r#"{"type":"bound","addrs":[],"meta":{}}"#);
    assert_eq!(addr(&Addr::Neg), r#"{"type":"neg"}"#);
    assert_eq!(addr(&Addr::Failed(None)), r#"{"type":"failed"}"#);
    assert_eq!(addr(&Addr::Failed(Some("a \"b\"".into()))), r#"{"type":"failed","cause":"a \"b\""}"#);
}

#[test]
fn metadata_keeps_its_types_and_loses_nulls() {
    let meta = Meta::default()
        .with(meta_keys::ENDPOINT_ADDR_WEIGHT, 1.0)
        .with(meta_keys::NODE_NAME, "node-7")
        .with("nothing", Value::Null)
        .with("nested", serde_json::json!({"b": "x", "a": null, "n": [1, 0.00001, true]}));
    let address = Address { meta, ..Address::from(SocketAddr::from(([10, 0, 0, 9], 8080))) };
    let set = AddrSet::new(vec![address], Meta::default().with(meta_keys::AUTHORITY, "web.service.dc1.consul"));
    assert_eq!(
        addr(&Addr::Bound(set)),
        concat!(
            r#"{"type":"bound","addrs":[{"ip":"10.0.0.9","port":8080,"meta":{"endpoint_addr_weight":1.0,"#,
            r#""nested":{"b":"x","n":[1,1.0E-5,true]},"nodeName":"node-7"}}],"#,
            r#""meta":{"authority":"web.service.dc1.consul"}}"#
        )
    );
}

#[test]
fn a_bound_leaf_has_addr_id_and_residual() {
    assert_eq!(
        tree_text(&leaf("/#/io.l5d.fs/web", "/r/s", None), &[bound(&["127.0.0.1:8080"])]),
        concat!(
            r#"{"type":"leaf","bound":{"addr":{"type":"bound","addrs":[{"ip":"127.0.0.1","port":8080,"meta":{}}],"#,
            r#""meta":{}},"id":"/#/io.l5d.fs/web","path":"/r/s"}}"#
        )
    );
    let opaque =
        NameTree::Leaf(Bound { id: BoundId::Opaque, residual: Path::empty(), source: AddrSource::None, weight: None });
    assert_eq!(
        tree_text(&opaque, &[Addr::Neg]),
        r#"{"type":"leaf","bound":{"addr":{"type":"neg"},"path":"/"}}"#,
        "an id that is no path is left out"
    );
}

#[test]
fn a_union_shows_weights_twice_and_a_neg_inside_has_a_path() {
    let tree =
        NameTree::Union(vec![Weighted::new(0.7, leaf("/#/a", "/", Some(0.7))), Weighted::new(0.3, NameTree::Neg)]);
    assert_eq!(
        tree_text(&tree, &[bound(&[])]),
        concat!(
            r#"{"type":"union","union":[{"weight":0.7,"tree":{"type":"leaf","bound":{"addr":{"type":"bound","addrs":[],"#,
            r#""meta":{"namer_nametree_weight":0.7}},"id":"/#/a","path":"/"}}},"#,
            r#"{"weight":0.3,"tree":{"type":"neg","path":"~"}}]}"#
        )
    );
    assert_eq!(leaves(&tree).len(), 1);
    for (tree, json) in [
        (NameTree::Neg, r#"{"type":"neg"}"#),
        (NameTree::Fail, r#"{"type":"fail"}"#),
        (NameTree::Empty, r#"{"type":"empty"}"#),
    ] {
        assert_eq!(tree_text(&tree, &[]), json);
    }
}

#[test]
fn every_node_of_a_delegation_has_its_form() {
    let entry = Arc::new(Dentry::parse("/a=>! | ~ | $ | /svc/web").expect("dentry"));
    let nop = Arc::new(Dentry::nop());
    let (here, dentry) = (path("/a"), || entry.clone());
    let value = || DelegationLeaf {
        id: BoundId::Path(path("/#/fs/web")),
        residual: Path::empty(),
        source: AddrSource::None,
        addr: Some(Addr::Neg),
    };
    let shown_entry = r#""dentry":{"prefix":"/a","dst":"! | ~ | $ | /svc/web"}"#;
    let bound = r#""bound":{"addr":{"type":"neg"},"id":"/#/fs/web","path":"/"}"#;
    let neg = || DelegateTree::Neg { path: Path::empty(), dentry: dentry() };
    for (node, json) in [
        (neg(), format!(r#"{{"type":"neg","path":"~",{shown_entry}}}"#)),
        (DelegateTree::Neg { path: path("/b"), dentry: nop.clone() }, r#"{"type":"neg","path":"/b"}"#.to_owned()),
        (
            DelegateTree::Fail { path: here.clone(), dentry: dentry() },
            format!(r#"{{"type":"fail","path":"!",{shown_entry}}}"#),
        ),
        (
            DelegateTree::Fail { path: path("/$/fail/x"), dentry: nop.clone() },
            r#"{"type":"fail","path":"/$/fail/x"}"#.to_owned(),
        ),
        (
            DelegateTree::Empty { path: here.clone(), dentry: dentry() },
            format!(r#"{{"type":"empty","path":"/a",{shown_entry}}}"#),
        ),
        (
            DelegateTree::Exception { path: path("/#/error/x"), dentry: nop.clone(), message: Some("no".to_owned()) },
            r#"{"type":"exception","path":"/#/error/x","message":"no"}"#.to_owned(),
        ),
        (
            DelegateTree::Exception { path: path("/e"), dentry: nop.clone(), message: None },
            r#"{"type":"exception","path":"/e"}"#.to_owned(),
        ),
        (
            DelegateTree::Leaf { path: path("/#/fs/web"), dentry: dentry(), value: value() },
            format!(r#"{{"type":"leaf","path":"/#/fs/web",{shown_entry},{bound}}}"#),
        ),
        (
            DelegateTree::Delegate { path: here.clone(), dentry: nop.clone(), tree: Box::new(neg()) },
            format!(r#"{{"type":"delegate","path":"/a","delegate":{{"type":"neg","path":"~",{shown_entry}}}}}"#),
        ),
        (
            DelegateTree::Alt { path: here.clone(), dentry: nop.clone(), trees: vec![neg(), neg()] },
            format!(
                r#"{{"type":"alt","path":"/a","alt":[{{"type":"neg","path":"~",{shown_entry}}},{{"type":"neg","path":"~",{shown_entry}}}]}}"#
            ),
        ),
        (
            DelegateTree::Union {
                path: here.clone(),
                dentry: nop.clone(),
                trees: vec![WeightedDelegate { weight: 0.00001, tree: neg() }],
            },
            format!(
                r#"{{"type":"union","path":"/a","union":[{{"weight":1.0E-5,"tree":{{"type":"neg","path":"~",{shown_entry}}}}}]}}"#
            ),
        ),
        (
            DelegateTree::Transformation {
                path: path("/#/fs/web"),
                name: "SubnetLocalTransformer".to_owned(),
                value: value(),
                tree: Box::new(neg()),
            },
            format!(
                r#"{{"type":"transformation","path":"/#/fs/web","name":"SubnetLocalTransformer",{bound},"tree":{{"type":"neg","path":"~",{shown_entry}}}}}"#
            ),
        ),
    ] {
        assert_eq!(delegation(&node, MOST_BYTES).expect("short"), json);
    }
}

#[test]
fn dtabs_and_lists_have_no_blanks() {
    assert_eq!(dtab(&Dtab::empty()), "[]");
    assert_eq!(
        dtab(&Dtab::parse("/a/* => /f\\x20oo | 0.3*/w & /z;/b=>$").expect("dtab")),
        r#"[{"prefix":"/a/*","dst":"/\\x66\\x20\\x6f\\x6f | 0.30*/w & /z"},{"prefix":"/b","dst":"$"}]"#
    );
    assert_eq!(strings(["a", "x%20y"]), r#"["a","x%20y"]"#);
    assert_eq!(strings::<&str>([]), "[]");
}

#[test]
fn an_answer_that_would_be_too_long_is_given_up_and_not_cut() {
    let leaves: Vec<_> =
        (0..1000).map(|n| Weighted::new(1.0, leaf("/#/io.l5d.fs/web", &format!("/{n}"), None))).collect();
    let (tree, addrs) = (NameTree::Union(leaves), vec![bound(&["127.0.0.1:8080"]); 1000]);
    let whole = tree_text(&tree, &addrs);
    assert_eq!(bound_tree(&tree, &addrs, whole.len()), Ok(whole.clone()));
    assert_eq!(bound_tree(&tree, &addrs, whole.len() - 1), Err(TooLarge));
    let entry = Arc::new("/a=>/b".parse::<Dentry>().expect("dentry"));
    let neg = || DelegateTree::Neg { path: path("/b"), dentry: entry.clone() };
    let alt = DelegateTree::Alt { path: path("/a"), dentry: entry.clone(), trees: (0..1000).map(|_| neg()).collect() };
    let whole = delegation(&alt, MOST_BYTES).expect("short");
    assert_eq!(delegation(&alt, whole.len()), Ok(whole.clone()));
    assert_eq!(delegation(&alt, whole.len() - 1), Err(TooLarge));
}
