//! Properties of the plain values: what is shown reads back, an index answers as the plain table does, and no text that
//! is within the limits is too deep for a small stack.

use std::collections::HashSet;

use proptest::prelude::*;
use rosterd::name::{
    DelegateTree, Dentry, Dtab, Elem, IndexedDtab, Layers, Limit, Limits, NameTree, Path, Prefix, Weighted,
};

/// Elements of few letters meet often; those of any bytes test the escaping.
fn label() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![3 => "[ab]{1,2}".prop_map(String::into_bytes), 1 => prop::collection::vec(any::<u8>(), 1..4)]
}

fn path() -> impl Strategy<Value = Path> {
    prop::collection::vec(label(), 0..5).prop_map(|elems| Path::from_elems(elems).expect("no element is empty"))
}

fn prefix() -> impl Strategy<Value = Prefix> {
    prop::collection::vec(prop_oneof![3 => label(), 1 => Just(Vec::new())], 0..4).prop_map(|elems| {
        let elems = elems.iter().map(|elem| if elem.is_empty() { Elem::Any } else { Elem::Label(elem) });
        Prefix::from_elems(elems).expect("no label is empty")
    })
}

/// Weights that two decimals say exactly.
fn weight() -> impl Strategy<Value = f64> {
    prop_oneof![Just(1.0), (0..100_000u32).prop_map(|hundredths| f64::from(hundredths) / 100.0)]
}

/// Trees as a text can say them: alts and unions have two branches at least.
fn tree() -> impl Strategy<Value = NameTree<Path>> {
    let leaf = prop_oneof![
        4 => path().prop_map(NameTree::Leaf),
        1 => Just(NameTree::Neg),
        1 => Just(NameTree::Fail),
        1 => Just(NameTree::Empty),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let branch = (weight(), inner.clone()).prop_map(|(weight, tree)| Weighted::new(weight, tree));
        prop_oneof![
            prop::collection::vec(inner, 2..4).prop_map(NameTree::Alt),
            prop::collection::vec(branch, 2..4).prop_map(NameTree::Union),
        ]
    })
}

fn dtab() -> impl Strategy<Value = Dtab> {
    let dentry = (prefix(), tree()).prop_map(|(prefix, dst)| Dentry { prefix, dst });
    prop::collection::vec(dentry, 0..12).prop_map(Dtab::from)
}

proptest! {
    #[test]
    fn a_shown_path_reads_back_byte_for_byte(elems in prop::collection::vec(label(), 0..6)) {
        let path = Path::from_elems(&elems).expect("no element is empty");
        prop_assert!(path.elems().eq(elems.iter().map(|elem| &elem[..])));
        prop_assert_eq!(path.to_string().parse::<Path>(), Ok(path));
    }

    #[test]
    fn cutting_and_joining_paths_agree_with_lists_of_elements(left in path(), right in path(), n in 0usize..7) {
        let list = |path: &Path| path.elems().map(<[u8]>::to_vec).collect::<Vec<_>>();
        let both = left.concat(&right);
        prop_assert_eq!(list(&both), [list(&left), list(&right)].concat());
        prop_assert_eq!(both.strip_prefix(&left), Some(right.clone()));
        prop_assert_eq!(list(&both.take(n)), list(&both).into_iter().take(n).collect::<Vec<_>>());
        prop_assert_eq!(list(&both.drop(n)), list(&both).into_iter().skip(n).collect::<Vec<_>>());
        prop_assert_eq!(left.starts_with(&right), list(&left).starts_with(&list(&right)));
        prop_assert_eq!(left.cmp(&right), list(&left).cmp(&list(&right)));
    }

    #[test]
    fn a_shown_prefix_reads_back(prefix in prefix()) {
        prop_assert_eq!(prefix.to_string().parse::<Prefix>(), Ok(prefix));
    }

    #[test]
    fn a_shown_tree_reads_back(tree in tree()) {
        prop_assert_eq!(tree.to_string().parse::<NameTree<Path>>(), Ok(tree));
    }

    #[test]
    fn a_shown_dtab_reads_back(dtab in dtab()) {
        prop_assert_eq!(dtab.to_string().parse::<Dtab>(), Ok(dtab));
    }

    #[test]
    fn simplifying_changes_no_answer_and_leaves_nothing_to_simplify(tree in tree()) {
        let simple = tree.simplify();
        let set = |leaves: Option<Vec<&Path>>| leaves.map(|leaves| leaves.into_iter().cloned().collect::<HashSet<_>>());
        prop_assert_eq!(set(simple.eval()), set(tree.eval()));
        prop_assert_eq!(simple.simplify(), simple);
    }

    #[test]
    fn an_indexed_dtab_under_a_request_answers_as_the_two_joined(
        namespace in dtab(), local in dtab(), paths in prop::collection::vec(path(), 1..8),
    ) {
        let joined = namespace.concat(&local);
        let (namespace, local) = (IndexedDtab::new(namespace), IndexedDtab::new(local));
        let layers = Layers { namespace: &namespace, local: &local };
        for path in paths {
            prop_assert_eq!(layers.lookup(&path), joined.lookup(&path), "{}", path);
        }
    }

    #[test]
    fn any_text_is_read_or_refused_with_a_place_inside_it(text in r"[ab/*|&!~$().0-9=>;#\\x \n\x{ffff}é😀]{0,40}") {
        let errors = [text.parse::<Dtab>().err(), text.parse::<NameTree<Path>>().err(), text.parse::<Path>().err()];
        for error in errors.iter().flatten() {
            prop_assert!(error.position() <= text.chars().count());
            prop_assert!(error.limit().is_none());
        }
    }
}

/// Texts that use up every limit: levels of parentheses, levels of trees, elements of a path.
fn texts_at_the_limits() -> [String; 3] {
    let levels = Limits::DEFAULT.depth;
    let parentheses = format!("{}/a{}", "(".repeat(levels), ")".repeat(levels));
    // Two levels of tree for each parenthesis.
    let trees = format!("{}/a{}", "/a & (/b | ".repeat(levels / 2), ")".repeat(levels / 2));
    [parentheses, trees, "/x".repeat(Limits::DEFAULT.path_segments)]
}

#[test]
fn what_the_limits_allow_fits_a_small_stack() {
    let work = || {
        for text in texts_at_the_limits() {
            let tree = NameTree::parse(&text).expect("within the limits");
            assert!(tree.depth() <= Limits::DEFAULT.depth);
            assert_eq!(NameTree::parse(&tree.to_string()), Ok(tree.clone()));
            assert_eq!(tree.eval().map(|leaves| leaves.is_empty()), Some(false));
            assert_eq!(tree.simplify().depth(), tree.depth());
            assert_eq!(HashSet::from([tree.clone(), tree.map(Clone::clone)]).len(), 1);
            let nop = std::sync::Arc::new(Dentry::nop());
            let delegate = DelegateTree::from_name_tree(&Path::empty(), &nop, &tree, &mut Clone::clone);
            assert!(delegate.clone().simplify().path().is_empty());
        }
    };
    let small = std::thread::Builder::new().stack_size(256 << 10).spawn(work).expect("a thread");
    small.join().expect("the work fits");
}

#[test]
fn one_step_over_a_limit_is_refused_by_its_name() {
    let [parentheses, trees, path] = texts_at_the_limits();
    let over = [
        (format!("({parentheses})"), Limit::Depth, "name tree nests deeper than 64 levels (limits.depth) at '"),
        (format!("/a | ({trees})"), Limit::Depth, "name tree nests deeper than 64 levels (limits.depth) at '"),
        (format!("{path}/y"), Limit::PathSegments, "path has more than 1000 elements (limits.pathSegments) at '"),
    ];
    for (text, limit, message) in over {
        let error = NameTree::parse(&text).expect_err("over the limit");
        assert_eq!(error.limit(), Some(limit));
        assert!(error.to_string().starts_with(message), "{error}");
        assert_eq!(Dtab::parse(&format!("/svc => {text}")).map_err(|error| error.limit()), Err(Some(limit)));
    }
    let small = Limits { dtab_bytes: 10, ..Limits::DEFAULT };
    assert!(Dtab::parse_with("/svc => /a", &small).is_ok());
    let error = Dtab::parse_with("/svc => /ab", &small).expect_err("over the limit");
    assert_eq!(error.limit(), Some(Limit::DtabBytes));
    assert_eq!(error.to_string(), "text of 11 bytes is longer than 10 (limits.dtabBytes)");
}

#[test]
fn a_body_of_nothing_but_parentheses_is_refused_at_once() {
    let error = Dtab::parse(&format!("/a => {}", "(".repeat(10 << 20))).expect_err("far too deep");
    assert_eq!(error.limit(), Some(Limit::Depth));
    assert_eq!(error.position(), 6 + 64);
    assert!(error.to_string().len() < 1_000, "the answer is short: {} bytes", error.to_string().len());
}
