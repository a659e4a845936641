use super::*;
use crate::iface::http::json as written;
use crate::interpreter::{AddrSource, Bound, BoundId, BoundTree, DelegationLeaf};

fn bind() -> Ask {
    Ask::Bind { ns: "default".into(), dtab: "".into(), path: Path::empty() }
}

fn addr_ask() -> Ask {
    Ask::Addr { id: Path::empty() }
}

fn p(text: &str) -> Path {
    Path::parse(text).expect("a path")
}

fn tree_of(text: &str) -> Result<Said, Bad> {
    said(&bind(), text.as_bytes())
}

fn set(texts: &[&str]) -> AddrSet {
    let address = |text: &&str| text.parse::<std::net::SocketAddr>().expect("an address").into();
    AddrSet::new(texts.iter().map(address).collect(), Meta::default())
}

#[test]
fn a_bound_tree_comes_back_as_it_was_written_with_the_weights_of_its_leaves() {
    let bound = |id: &str, residual: &str, weight| Bound {
        id: BoundId::Path(p(id)),
        residual: p(residual),
        source: AddrSource::None,
        weight,
    };
    let leaf = |id, residual, weight| NameTree::Leaf(bound(id, residual, weight));
    let tree: BoundTree = NameTree::Union(vec![
        Weighted::new(0.7, leaf("/#/io.l5d.fs/web", "/", Some(0.7))),
        Weighted::new(0.3, NameTree::Alt(vec![NameTree::Fail, leaf("/#/io.l5d.fs/\\x2f", "/rest", None)])),
        Weighted::new(1e-5, NameTree::Empty),
    ]);
    let text = written::bound_tree(&tree, &[Addr::Bound(set(&["127.0.0.1:80", "[::1]:81"])), Addr::Neg], usize::MAX);
    let expected = tree.map(|bound| Named {
        id: bound.id.path().expect("a path").clone(),
        residual: bound.residual.clone(),
        weight: bound.weight,
    });
    assert_eq!(tree_of(&text.expect("small")), Ok(Said::Answer(Answer::Tree(expected))));
}

#[test]
fn what_led_to_a_node_is_passed_over_and_a_failed_one_fails_the_tree() {
    let leaf = r#"{"type":"leaf","bound":{"addr":{"type":"neg"},"id":"/#/a","path":"/"}}"#;
    let tree =
        format!(r#"{{"type":"delegate","path":"/a","delegate":{{"type":"transformation","name":"x","tree":{leaf}}}}}"#);
    let named = Named { id: p("/#/a"), residual: Path::empty(), weight: None };
    assert_eq!(tree_of(&tree), Ok(Said::Answer(Answer::Tree(NameTree::Leaf(named)))));
    let failed = r#"{"type":"exception","message":"too deep"}"#;
    assert_eq!(tree_of(failed), Ok(Said::Declared("too deep".to_owned())));
    let opaque = r#"{"type":"leaf","bound":{"addr":{"type":"bound","addrs":[]},"path":"/"}}"#;
    assert_eq!(tree_of(opaque), Ok(Said::Answer(Answer::Tree(NameTree::Neg))));
}

#[test]
fn the_states_of_an_address_set_are_told_apart() {
    let read = |text: &str| said(&addr_ask(), text.as_bytes());
    let meta = Meta::default().with("authority", "web.service.consul");
    let heavy = Meta::default().with(meta_keys::ENDPOINT_ADDR_WEIGHT, 2.0).with("more", Value::Bool(true));
    let address = Address { ip: [10, 0, 0, 9].into(), port: 8080, meta: heavy };
    let state = Addr::Bound(AddrSet::new(vec![address], meta));
    assert_eq!(read(&written::addr(&state)), Ok(Said::Answer(Answer::Addr(state))));
    assert_eq!(read(r#"{"type":"neg"}"#), Ok(Said::Answer(Answer::Addr(Addr::Neg))));
    assert_eq!(read(r#"{"type":"pending"}"#), Ok(Said::Pending));
    assert_eq!(read(r#"{"type":"failed","cause":"no backend"}"#), Ok(Said::Declared("no backend".to_owned())));
    let v6 = r#"{"type":"bound","addrs":[{"ip":"fe80:0:0:0:0:0:0:1%eth0","port":1}],"meta":{},"more":1}"#;
    assert_eq!(read(v6), Ok(Said::Answer(Answer::Addr(Addr::Bound(set(&["[fe80::1]:1"]))))));
}

#[test]
fn the_line_with_which_namerd_ends_a_stream_is_a_reason_and_broken_json_is_none() {
    let line = "Max recursion level: 100 reached in Namer lookup";
    assert_eq!(tree_of(line), Ok(Said::Declared(line.to_owned())));
    for nonsense in [
        r#"{"type":"leaf"#,
        r#"{"type":"leaf"}"#,
        r#"{"type":"leaf","bound":{"id":"no path"}}"#,
        r#"{"type":"leaf","bound":{"id":"/","path":"/"}}"#,
        r#"{"type":"union","union":[{"weight":"x","tree":{"type":"neg"}}]}"#,
        r#"{"type":"whatever"}"#,
        "{}",
        "[]",
    ] {
        assert!(tree_of(nonsense).is_err(), "{nonsense}");
    }
    for nonsense in [
        r#"{"type":"bound","addrs":[{"ip":"1.2.3","port":80}]}"#,
        r#"{"type":"bound","addrs":[{"ip":"1.2.3.4","port":70000}]}"#,
        r#"{"type":"bound"}"#,
    ] {
        assert!(said(&addr_ask(), nonsense.as_bytes()).is_err(), "{nonsense}");
    }
    let deep = r#"{"type":"delegate","delegate":"#.repeat(10_000);
    assert!(tree_of(&deep).is_err());
}

#[test]
fn lists_and_dtabs_are_read() {
    let names = said(&Ask::Names, br#"["/#/io.l5d.fs/web","/#/io.l5d.fs/\\x2f"]"#);
    assert_eq!(names, Ok(Said::Answer(Answer::Names([p("/#/io.l5d.fs/web"), p("/#/io.l5d.fs/\\x2f")].into()))));
    assert_eq!(said(&Ask::Names, br#"[""]"#), Ok(Said::Answer(Answer::Names(BTreeSet::new()))));
    let namespaces = said(&Ask::Namespaces, br#"["b","a"]"#);
    assert_eq!(namespaces, Ok(Said::Answer(Answer::Namespaces(["a".to_owned(), "b".to_owned()].into()))));
    assert!(said(&Ask::Namespaces, b"[1]").is_err());
    let text = br#"[{"prefix":"/svc","dst":"/#/io.l5d.fs | /b"},{"prefix":"/*/x","dst":"~"}]"#;
    let expected = Dtab::parse("/svc=>/#/io.l5d.fs | /b;/*/x=>~").expect("a dtab");
    assert_eq!(dtab(text, &Limits::DEFAULT), Ok(expected));
    assert!(dtab(b"[{\"prefix\":\"/a\"}]", &Limits::DEFAULT).is_err());
    assert!(dtab(br#"[{"prefix":"a","dst":"/b"}]"#, &Limits::DEFAULT).is_err());
}

#[test]
fn an_explanation_comes_back_as_it_was_written() {
    let dentry = |text: &str| Arc::new(Dentry::parse(text).expect("an entry"));
    let leaf = DelegationLeaf {
        id: BoundId::Path(p("/#/io.l5d.fs/web")),
        residual: p("/rest"),
        source: AddrSource::None,
        addr: Some(Addr::Bound(set(&["127.0.0.1:80"]))),
    };
    let tree = DelegateTree::Delegate {
        path: p("/svc/web"),
        dentry: Arc::new(Dentry::nop()),
        tree: Box::new(DelegateTree::Alt {
            path: p("/host/web"),
            dentry: dentry("/svc=>/host"),
            trees: vec![
                DelegateTree::Leaf {
                    path: p("/#/io.l5d.fs/web/rest"),
                    dentry: dentry("/host=>/#/io.l5d.fs"),
                    value: leaf,
                },
                DelegateTree::Neg { path: Path::empty(), dentry: dentry("/host=>~") },
                DelegateTree::Fail { path: Path::empty(), dentry: dentry("/host=>!") },
                DelegateTree::Exception { path: p("/x"), dentry: dentry("/a=>/b"), message: Some("why".to_owned()) },
                DelegateTree::Union {
                    path: p("/x"),
                    dentry: dentry("/a=>0.5*/b & /c"),
                    trees: vec![WeightedDelegate {
                        weight: 0.5,
                        tree: DelegateTree::Empty { path: p("/x"), dentry: dentry("/a=>$") },
                    }],
                },
            ],
        }),
    };
    let text = written::delegation(&tree, usize::MAX).expect("small");
    let expected = tree.map(|leaf| Explained {
        name: BoundName { id: leaf.id.path().expect("a path").clone(), residual: leaf.residual },
        addr: leaf.addr,
    });
    assert_eq!(explained(text.as_bytes()), Ok(expected));
    assert!(explained(b"Request timed out.").is_err());
}
