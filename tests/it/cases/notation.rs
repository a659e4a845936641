//! The notations of the cases: name trees and delegate trees as values, and trees written as calls.

use std::sync::Arc;

use rosterd::name::{Addr, Address, DelegateTree, Dentry, Meta, NameTree, Path, Weighted, WeightedDelegate};
use serde_json::{Value, json};

/// A name tree as the file writes it.
pub(crate) fn tree_value(tree: &NameTree<Path>) -> Value {
    match tree {
        NameTree::Leaf(path) => json!({ "leaf": path.to_string() }),
        NameTree::Neg => json!("neg"),
        NameTree::Fail => json!("fail"),
        NameTree::Empty => json!("empty"),
        NameTree::Alt(trees) => json!({ "alt": trees.iter().map(tree_value).collect::<Vec<_>>() }),
        NameTree::Union(trees) => {
            let branch = |branch: &Weighted<Path>| json!({ "weight": branch.weight, "tree": tree_value(&branch.tree) });
            json!({ "union": trees.iter().map(branch).collect::<Vec<_>>() })
        }
    }
}

/// Addresses as the file writes them, which is how the HTTP interface does.
pub(crate) fn addr_value(addr: &Addr) -> Value {
    let meta = |meta: &Meta| meta.iter().map(|(key, value)| (key.to_owned(), value.clone())).collect::<Value>();
    match addr {
        Addr::Bound(set) => {
            let address =
                |address: &Address| json!({ "ip": address.ip, "port": address.port, "meta": meta(&address.meta) });
            let addrs: Vec<_> = set.addrs().iter().map(address).collect();
            json!({ "type": "bound", "addrs": addrs, "meta": meta(set.meta()) })
        }
        Addr::Neg => json!({ "type": "neg" }),
        Addr::Failed(Some(cause)) => json!({ "type": "failed", "cause": **cause }),
        Addr::Failed(None) => json!({ "type": "failed" }),
    }
}

/// `name(one, two(three))` as its name and its arguments.
pub(crate) fn call(text: &str) -> Option<(&str, Vec<&str>)> {
    let (name, arguments) = text.strip_suffix(')')?.split_once('(')?;
    let mut found = Vec::new();
    let (mut start, mut open) = (0, 0);
    for (at, c) in arguments.char_indices() {
        match c {
            '(' => open += 1,
            ')' => open -= 1,
            ',' if open == 0 => {
                found.push(arguments[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    if !arguments.trim().is_empty() {
        found.push(arguments[start..].trim());
    }
    Some((name, found))
}

/// `Alt(..)`, `Union(2.0*..)`, or a leaf read by `leaf`.
pub(crate) fn called_tree(text: &str, leaf: &dyn Fn(&str) -> NameTree<Path>) -> NameTree<Path> {
    match call(text) {
        Some((name, branches)) if name.eq_ignore_ascii_case("alt") => {
            NameTree::Alt(branches.into_iter().map(|branch| called_tree(branch, leaf)).collect())
        }
        Some((name, branches)) if name.eq_ignore_ascii_case("union") => {
            let branch = |text: &str| {
                let (weight, tree) = text.split_once('*').expect("a branch has a weight");
                Weighted::new(weight.parse().expect("a weight is a number"), called_tree(tree, leaf))
            };
            NameTree::Union(branches.into_iter().map(branch).collect())
        }
        _ => leaf(text),
    }
}

fn dentry(text: &str) -> Arc<Dentry> {
    Arc::new(if text == "nop" { Dentry::nop() } else { text.parse().expect("a dentry") })
}

/// `delegate(path, entry, tree)`, `alt(path, entry, trees..)`, `leaf(path, entry)`.
pub(crate) fn called_delegate(text: &str) -> DelegateTree<Path> {
    let (name, arguments) = call(text).expect("a call");
    let [path, entry, rest @ ..] = &arguments[..] else { panic!("{text}: a path and an entry come first") };
    let (path, dentry) = (path.parse::<Path>().expect("a path"), dentry(entry));
    let mut trees: Vec<_> = rest.iter().map(|text| called_delegate(text)).collect();
    match name {
        "delegate" => DelegateTree::Delegate { path, dentry, tree: Box::new(trees.remove(0)) },
        "alt" => DelegateTree::Alt { path, dentry, trees },
        "leaf" => DelegateTree::Leaf { value: path.clone(), path, dentry },
        other => panic!("{other}: unknown kind of delegate tree"),
    }
}

/// A delegate tree as the file writes it: one key for the kind, the node below it.
pub(crate) fn read_delegate(value: &Value) -> DelegateTree<Path> {
    let (kind, node) = value.as_object().and_then(|map| map.iter().next()).expect("a map of one key");
    let text = |key: &str| node[key].as_str().unwrap_or_else(|| panic!("{kind} has no {key}"));
    let (path, dentry) = (text("path").parse::<Path>().expect("a path"), dentry(text("dentry")));
    let list = || node["trees"].as_array().expect("a list of trees").iter();
    match kind.as_str() {
        "leaf" => DelegateTree::Leaf { path, dentry, value: text("value").parse().expect("a path") },
        "neg" => DelegateTree::Neg { path, dentry },
        "fail" => DelegateTree::Fail { path, dentry },
        "empty" => DelegateTree::Empty { path, dentry },
        "delegate" => DelegateTree::Delegate { path, dentry, tree: Box::new(read_delegate(&node["tree"])) },
        "alt" => DelegateTree::Alt { path, dentry, trees: list().map(read_delegate).collect() },
        "union" => {
            let branch = |branch: &Value| WeightedDelegate {
                weight: branch["weight"].as_f64().expect("a weight"),
                tree: read_delegate(&branch["tree"]),
            };
            DelegateTree::Union { path, dentry, trees: list().map(branch).collect() }
        }
        other => panic!("{other}: unknown kind of delegate tree"),
    }
}

/// The reverse of [`read_delegate`].
pub(crate) fn delegate_value(tree: &DelegateTree<Path>) -> Value {
    let (kind, field, content) = match tree {
        DelegateTree::Leaf { value, .. } => ("leaf", "value", json!(value.to_string())),
        DelegateTree::Neg { .. } => ("neg", "", Value::Null),
        DelegateTree::Fail { .. } => ("fail", "", Value::Null),
        DelegateTree::Empty { .. } => ("empty", "", Value::Null),
        DelegateTree::Delegate { tree, .. } => ("delegate", "tree", delegate_value(tree)),
        DelegateTree::Alt { trees, .. } => ("alt", "trees", trees.iter().map(delegate_value).collect()),
        DelegateTree::Union { trees, .. } => {
            let branch = |branch: &WeightedDelegate<Path>| json!({ "weight": branch.weight, "tree": delegate_value(&branch.tree) });
            ("union", "trees", trees.iter().map(branch).collect())
        }
        DelegateTree::Exception { .. } | DelegateTree::Transformation { .. } => panic!("the file has no {tree:?}"),
    };
    let entry = tree.dentry().expect("only a transformation has none");
    let mut node = json!({ "path": tree.path().to_string(), "dentry": entry.to_string() });
    if !field.is_empty() {
        node[field] = content;
    }
    json!({ kind: node })
}
