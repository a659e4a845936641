//! Messages made to hurt.

use super::*;
use crate::name::Limits;

/// The head of a call of `method`, and of its argument.
fn head(method: &str) -> Vec<u8> {
    let mut message = hex("80010001");
    message.extend_from_slice(&u32::try_from(method.len()).unwrap().to_be_bytes());
    message.extend_from_slice(method.as_bytes());
    message.extend_from_slice(&hex("00000000 0c0001"));
    message
}

fn bind(fields: &str) -> Vec<u8> {
    [head("bind"), hex(fields), hex("00 00")].concat()
}

#[track_caller]
fn assert_refused(message: &[u8], part: &str) {
    match read_call(message) {
        Err(BadCall::Exception { kind, message, .. }) => {
            assert_eq!(kind, kind::PROTOCOL_ERROR);
            assert!(message.contains(part), "{message}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_message_may_end_anywhere() {
    let whole = bind("0b0001 00000000 0c0002 0b0001 00000000 0f0002 0b 00000001 00000001 61 0b0003 00000001 61 00");
    assert!(read_call(&whole).is_ok());
    for end in 0..whole.len() {
        assert!(matches!(read_call(&whole[..end]), Err(BadCall::Header(_))), "{end}");
    }
}

#[test]
fn announced_sizes_reserve_nothing() {
    // Two billion elements, two billion bytes, in every place that has a size.
    for fields in [
        "0b0001 7fffffff",
        "0c0002 0b0001 7fffffff",
        "0c0002 0f0002 0b 0000ffff",
        "0c0002 0f0002 0b 00000001 7fffffff",
        "0b0063 7fffffff",
        "0f0063 0c 7fffffff",
        "0f0063 0a 7fffffff",
        "0d0063 0a0a 7fffffff",
        "0e0063 0f 7fffffff",
    ] {
        assert!(matches!(read_call(&bind(fields)), Err(BadCall::Header(_))), "{fields}");
    }
    assert_refused(&bind("0c0002 0f0002 0b 7fffffff"), "more than 65536");
    assert_refused(&bind("0f0003 0b 00010001"), "more than 65536");
}

#[test]
fn negative_sizes_are_refused() {
    for fields in [
        "0b0001 ffffffff",
        "0c0002 0b0001 80000000",
        "0c0002 0f0002 0b ffffffff",
        "0c0002 0f0002 0b 00000001 ffffffff",
        "0b0063 ffffffff",
        "0f0063 0c ffffffff",
        "0d0063 0c0c ffffffff",
    ] {
        assert_refused(&bind(fields), "Negative length: -");
    }
    for header in ["ffffffff", "80010001 ffffffff", "80000001 00000000", "80020001 00000000 00000000"] {
        assert!(matches!(read_call(&hex(header)), Err(BadCall::Header(_))), "{header}");
    }
}

#[test]
fn a_field_of_another_type_is_refused_and_an_unknown_field_passed_over() {
    let wrong = "Received wrong type for field";
    for fields in ["080001 00000001", "0b0002 00000000", "0c0002 080001 00000000", "0c0002 0b0002 00000000"] {
        assert_refused(&bind(fields), wrong);
    }
    assert_refused(&bind("0c0002 0f0002 08 00000001 00000000"), wrong);
    assert_refused(&bind("0f0003 0c 00000001 00"), wrong);
    assert_refused(&bind("0c0002 0f0002 01 00000001 00000000"), "unrecognized type code 1");
    for unknown in [
        "020063 01",
        "030063 01",
        "040063 0000000000000000",
        "060063 0000",
        "080063 00000000",
        "0a0063 0000000000000000",
        "0b0063 00000001 61",
        "0c0063 0b0001 00000000 00",
        "0d0063 080b 00000001 00000000 00000000",
        "0d0063 0000 00000000",
        "0e0063 02 00000002 0001",
        "0f0063 0f 00000001 0c 00000001 00",
    ] {
        let message = bind(&format!("0c0002 0b0001 00000000 {unknown} 00 {unknown}"));
        assert!(matches!(read_call(&message), Ok(Call { ask: Ask::Bind { .. }, .. })), "{unknown}");
    }
    // The type of no elements says nothing.
    assert!(read_call(&bind("0c0002 0f0002 00 00000000 00")).is_ok());
}

#[test]
fn what_nobody_asked_for_nests_only_so_deep() {
    let nested = |levels: usize| {
        let mut message = [head("bind"), hex("0c0002 00")].concat();
        message.extend_from_slice(&[0x0f, 0, 99]);
        message.extend_from_slice(&hex("0f 00000001").repeat(levels - 1));
        message.extend_from_slice(&hex("02 00000000 00 00"));
        message
    };
    assert!(read_call(&nested(64)).is_ok());
    assert_refused(&nested(65), "nests deeper than 64 levels");
    assert_refused(&nested(3_000_000), "nests deeper than 64 levels");
    let structs = [head("bind"), hex("0c0063").repeat(3_000_000)].concat();
    assert_refused(&structs, "nests deeper than 64 levels");
}

#[test]
fn a_dtab_may_be_long_and_other_text_not() {
    let text = |field: &str, length: usize| {
        let mut message = [head("bind"), hex(field)].concat();
        message.extend_from_slice(&u32::try_from(length).unwrap().to_be_bytes());
        message.extend_from_slice(&vec![b'#'; length]);
        message
    };
    let long = [text("0b0001", 15 << 20), hex("0c0002 00 00 00")].concat();
    assert!(matches!(read_call(&long), Ok(Call { ask: Ask::Bind { dtab, .. }, .. }) if dtab.len() == 15 << 20));
    assert_refused(&text("0c0002 0b0003", (1 << 20) + 1), "field 'ns' has 1048577 bytes");
}

#[test]
fn a_path_of_too_many_elements_is_the_declared_failure_and_an_empty_element_an_exception() {
    let name = |count: u32, elem: &str| {
        let message = [
            head("addr"),
            hex("0c0001 0f0002 0b"),
            count.to_be_bytes().to_vec(),
            hex(elem).repeat(usize::try_from(count).unwrap()),
            hex("00 00 00"),
        ];
        let call = read_call(&message.concat()).unwrap();
        call.ask.name().unwrap().path(&Limits::DEFAULT)
    };
    assert!(name(1_000, "00000001 61").is_ok());
    let Err(Refusal::Failure(reason)) = name(1_001, "00000001 61") else { panic!() };
    assert!(reason.contains("limits.pathSegments"), "{reason}");
    assert_eq!(name(2, "00000000"), Err(Refusal::Internal("requirement failed".to_owned())));
}

/// A request to explain `contents`, with other nodes by number.
fn explain(contents: &str, nodes: &[(i32, String)]) -> Result<Result<NameTree<Path>, Refusal>, BadCall> {
    let node = |contents: &str| hex(&format!("0c0003 {contents} 00 00"));
    let mut message = [head("delegate"), hex("0c0002 0c0002 0c0001"), node(contents), hex("0d0002 08 0c")].concat();
    message.extend_from_slice(&u32::try_from(nodes.len()).unwrap().to_be_bytes());
    for (id, contents) in nodes {
        message.extend_from_slice(&id.to_be_bytes());
        message.extend_from_slice(&node(contents));
    }
    message.extend_from_slice(&hex("00 00 00 00"));
    read_call(&message).map(|call| match call.ask {
        Ask::Delegate(ask) => ask.tree(&Limits::DEFAULT),
        other => panic!("{other:?}"),
    })
}

#[test]
fn a_tree_to_explain_ends_although_it_contains_itself() {
    let internal = |contents: &str, nodes: &[(i32, String)]| match explain(contents, nodes) {
        Ok(Err(Refusal::Internal(text))) => text,
        other => panic!("{other:?}"),
    };
    let to_itself = [(0, "080005 00000000".to_owned())];
    assert!(internal("080005 00000000", &to_itself).contains("limits.depth"));
    // Each level names the next one ten times.
    let many: Vec<_> =
        (0..60).map(|id| (id, format!("0f0008 08 0000000a {}", format!("{:08x}", id + 1).repeat(10)))).collect();
    let many = [many, vec![(60, "0c0004 00".to_owned())]].concat();
    assert!(internal("080005 00000000", &many).contains("more than 10000 nodes"));
    assert_eq!(internal("080005 00000009", &[]), "key not found: 9");
    assert_eq!(internal("0c0006 00", &[]), "delegation cannot accept bound names");
    assert_eq!(internal("0c000a 00", &[]), "delegation cannot accept transformations");
    assert_eq!(internal("0b0001 00000003 626f6f", &[]), "boo");
    assert_eq!(internal("080063 00000000", &[]), "unknown union field");
}

#[test]
fn a_union_has_exactly_one_member() {
    for contents in ["", "0c0004 00 0c0003 00"] {
        assert!(
            matches!(explain(contents, &[]), Err(BadCall::Exception { kind: kind::PROTOCOL_ERROR, .. })),
            "{contents}"
        );
    }
}

#[test]
fn a_missing_struct_is_the_declared_failure() {
    let reason = |method: &str, fields: &str| {
        let message = [head(method), hex(fields), hex("00")].concat();
        let Err(bad @ BadCall::Failure { .. }) = read_call(&message) else { panic!("{method} {fields}") };
        let reply = answer(&bad).unwrap();
        // The head, the field of the failure, and the head of its reason.
        let at = 12 + method.len() + 3 + 3;
        let length = usize::try_from(u32::from_be_bytes(reply[at..at + 4].try_into().unwrap())).unwrap();
        String::from_utf8(reply[at + 4..at + 4 + length].to_vec()).unwrap()
    };
    assert_eq!(reason("bind", "00"), "the request has no name");
    assert_eq!(reason("addr", "00"), "the request has no name");
    assert_eq!(reason("delegate", "00"), "the request has no delegation");
    assert_eq!(reason("delegate", "0c0002 00 00"), "the request has no tree");
    assert_eq!(reason("delegate", "0c0002 0c0002 00 00 00"), "the request has no root");
    assert_eq!(reason("delegate", "0c0002 0c0002 0c0001 00 00 00 00"), "the request has no contents");
    // Strings and lists that are missing are empty.
    let message = [head("dtab"), hex("00 00")].concat();
    assert_eq!(read_call(&message).unwrap().ask, Ask::Dtab { stamp: Stamp::new(), ns: String::new() });
}

#[test]
fn a_deep_explanation_is_written_without_recursion() {
    use crate::interpreter::{Delegation, DelegationLeaf};
    use crate::name::{DelegateTree, Dentry};
    let dentry = std::sync::Arc::new(Dentry::nop());
    let mut tree: DelegateTree<DelegationLeaf> = DelegateTree::Neg { path: Path::empty(), dentry: dentry.clone() };
    for _ in 0..400 {
        tree = DelegateTree::Delegate { path: Path::empty(), dentry: dentry.clone(), tree: Box::new(tree) };
    }
    let delegation = Delegation { tree };
    let body = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(16 << 10);
        thread.spawn_scoped(scope, || result::delegation(&delegation, "")).unwrap().join().unwrap()
    });
    assert!(body.len() > 400 * 30, "{}", body.len());
}
