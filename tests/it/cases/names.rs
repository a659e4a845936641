//! The areas of pure values: reading, showing, evaluating and simplifying, one lookup step.

use rosterd::name::{Dentry, Dtab, IndexedDtab, Layers, NameTree, Path, Prefix, Weighted};
use serde_json::{Value, json};

use super::notation::{call, called_delegate, called_tree, delegate_value, read_delegate, tree_value};
use super::{Answer, Area, Case, check};

pub(super) const AREAS: &[Area] = &[
    Area { name: "path.parse", run: |case| Ok(path_value(&case.text().parse().map_err(message)?)) },
    Area { name: "path.utf8_elem", run: |case| Ok(path_value(&Path::from_elems([case.text()]).map_err(message)?)) },
    Area { name: "path.eq", run: path_eq },
    Area { name: "prefix.parse", run: prefix_parse },
    Area { name: "dentry.parse", run: dentry_parse },
    Area { name: "dentry.nop", run: |_| Ok(json!(Dentry::nop().to_string())) },
    Area { name: "nametree.parse", run: |case| Ok(shown_tree(&case.text().parse().map_err(message)?)) },
    Area { name: "nametree.show", run: nametree_show },
    Area { name: "nametree.eval", run: nametree_eval },
    Area { name: "nametree.simplify", run: |case| Ok(shown_tree(&tree(case.text())?.simplify())) },
    Area { name: "weight.show", run: weight_show },
    Area { name: "dtab.parse", run: dtab_parse },
    Area { name: "dtab.concat", run: dtab_concat },
    Area { name: "dtab.lookup", run: dtab_lookup },
    Area { name: "bound.eq", run: bound_eq },
    Area { name: "delegate.simplify", run: |case| Ok(delegate_value(&read_delegate(&case.input).simplify())) },
    Area { name: "delegate.find", run: delegate_find },
];

#[test]
fn values_read_show_and_evaluate_as_in_namerd() {
    check(AREAS);
}

impl Case {
    fn texts(&self) -> Vec<&str> {
        let items = self.input.as_array().unwrap_or_else(|| panic!("{}: the input is a list", self.id));
        items.iter().filter_map(Value::as_str).collect()
    }
}

fn message(error: impl std::error::Error) -> String {
    error.to_string()
}

fn tree(text: &str) -> Result<NameTree<Path>, String> {
    text.parse().map_err(message)
}

fn path_value(path: &Path) -> Value {
    let hex = |elem: &[u8]| elem.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    json!({ "show": path.to_string(), "size": path.len(), "elems_hex": path.elems().map(hex).collect::<Vec<_>>() })
}

fn shown_tree(tree: &NameTree<Path>) -> Value {
    json!({ "show": tree.to_string(), "tree": tree_value(tree) })
}

fn path_eq(case: &Case) -> Answer {
    let paths: Vec<Path> = case.texts().iter().map(|text| text.parse().expect("a path")).collect();
    Ok(json!(paths[0] == paths[1]))
}

fn prefix_parse(case: &Case) -> Answer {
    let prefix: Prefix = case.text().parse().map_err(message)?;
    Ok(json!({ "show": prefix.to_string(), "size": prefix.len() }))
}

fn dentry_parse(case: &Case) -> Answer {
    let dentry: Dentry = case.text().parse().map_err(message)?;
    Ok(json!({ "show": dentry.to_string(), "prefix": dentry.prefix.to_string(), "dst": tree_value(&dentry.dst) }))
}

fn nametree_show(case: &Case) -> Answer {
    let leaf = |text: &str| tree(text).expect("a leaf");
    Ok(json!(called_tree(case.text(), &leaf).to_string()))
}

fn nametree_eval(case: &Case) -> Answer {
    let tree = tree(case.text())?;
    let mut leaves = tree.eval();
    // The file sorts the set; evaluation keeps the order of the tree.
    leaves.iter_mut().for_each(|leaves| leaves.sort());
    Ok(json!(leaves.map(|leaves| leaves.iter().map(ToString::to_string).collect::<Vec<_>>())))
}

fn weight_show(case: &Case) -> Answer {
    let weight = case.input.as_f64().expect("the input is a number");
    let leaf = NameTree::Leaf("/a".parse::<Path>().map_err(message)?);
    let tree = NameTree::Union(vec![Weighted::new(weight, leaf), Weighted::new(1.0, NameTree::Neg)]);
    Ok(json!(tree.to_string()))
}

fn dtab_parse(case: &Case) -> Answer {
    let dtab: Dtab = case.text().parse().map_err(message)?;
    Ok(json!({ "show": dtab.to_string(), "length": dtab.len(), "simplified": dtab.simplified().to_string() }))
}

fn dtab_concat(case: &Case) -> Answer {
    let tables: Vec<Dtab> = case.texts().iter().map(|text| text.parse().expect("a dtab")).collect();
    Ok(json!(tables[0].concat(&tables[1]).to_string()))
}

fn dtab_lookup(case: &Case) -> Answer {
    let text = |key: &str| case.input[key].as_str().expect("dtab and path are texts");
    let dtab: Dtab = text("dtab").parse().map_err(message)?;
    let path: Path = text("path").parse().map_err(message)?;
    let tree = dtab.lookup(&path);
    let (indexed, empty) = (IndexedDtab::new(dtab), IndexedDtab::empty());
    assert_eq!(Layers { namespace: &indexed, local: &empty }.lookup(&path), tree, "{}: as a namespace", case.id);
    assert_eq!(Layers { namespace: &empty, local: &indexed }.lookup(&path), tree, "{}: as a request", case.id);
    Ok(shown_tree(&tree))
}

/// Identity of bound names is that of the tree of their ids: the residual has no part in it.
fn bound_eq(case: &Case) -> Answer {
    fn by_id(text: &str) -> NameTree<Path> {
        let id = match call(text) {
            Some(("leaf", arguments)) => arguments[0].to_owned(),
            Some(("Name.Bound", arguments)) => format!("/{}", arguments[1]),
            _ => format!("/{text}"),
        };
        NameTree::Leaf(id.parse().expect("an id"))
    }
    let (left, right) = case.text().split_once(" vs ").expect("two bound names");
    Ok(json!(called_tree(left, &by_id) == called_tree(right, &by_id)))
}

fn delegate_find(case: &Case) -> Answer {
    let text = |key: &str| case.input[key].as_str().expect("tree and find are texts");
    let tree = called_delegate(text("tree"));
    let wanted: Path = text("find").parse().map_err(message)?;
    let step = |node: &rosterd::name::DelegateTree<Path>| {
        let entry = node.dentry().filter(|entry| ***entry != Dentry::nop());
        json!([node.path().to_string(), entry.map(ToString::to_string).unwrap_or_default()])
    };
    Ok(json!(tree.find(&wanted).map(|trail| trail.into_iter().map(step).collect::<Vec<_>>())))
}
