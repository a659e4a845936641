//! Trees and addresses for people.

use serde_json::{Map, Value};

use super::answer::{Addr, Address, Bound, Branch, Kind, Node, Outcome};
use crate::cli::dtab::Entry;
use crate::name::show_weight;

/// Steps longer than this do not move the column of the entries.
const WIDEST: usize = 72;
/// Characters of an entry that are shown.
const LONGEST: usize = 120;

/// One line of a drawing.
struct Row {
    /// Whether this is what a router gets.
    primary: bool,
    /// The step, behind the lines of the tree.
    step: String,
    /// The entry that led to it.
    entry: Option<String>,
}

/// The tree of a delegation: one step a line with the entry that led to it, and `>` before what a router gets.
pub(super) fn delegation(root: &Node) -> Vec<String> {
    let rows = rows(root);
    let steps = rows.iter().filter(|row| row.entry.is_some()).map(|row| row.step.chars().count());
    let width = steps.filter(|length| *length <= WIDEST).max().unwrap_or_default();
    let line = |row: &Row| {
        let mark = if row.primary { '>' } else { ' ' };
        let Row { step, entry, .. } = row;
        let line = match entry {
            Some(entry) => format!("{mark} {step:width$}   {entry}"),
            None => format!("{mark} {step}"),
        };
        line.trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// The tree that a name is bound to.
pub(super) fn binding(root: &Node) -> Vec<String> {
    rows(root).into_iter().map(|row| row.step).collect()
}

/// The addresses of a set, one a line, or one line that says why there are none.
pub(super) fn addresses(addr: &Addr) -> Vec<String> {
    match addr {
        Addr::Bound { addrs, meta } => {
            let mut lines: Vec<String> = addrs.iter().map(address).collect();
            if lines.is_empty() {
                lines.push("no addresses".to_owned());
            }
            // What a set says about itself concerns all its addresses.
            if !meta.is_empty() {
                lines.iter_mut().for_each(|line| line.push_str(&metadata(meta)));
            }
            lines
        }
        Addr::Neg => vec!["neg".to_owned()],
        Addr::Pending => vec!["pending".to_owned()],
        Addr::Failed { cause: Some(cause) } => vec![format!("failed: {cause}")],
        Addr::Failed { cause: None } => vec!["failed".to_owned()],
    }
}

/// `ip:port` with the metadata behind it.
pub(super) fn address(address: &Address) -> String {
    let Address { ip, port, meta } = address;
    let place = if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") };
    place + &metadata(meta)
}

fn metadata(meta: &Map<String, Value>) -> String {
    meta.iter().fold(String::new(), |text, (name, value)| match value {
        Value::String(value) => format!("{text} {name}={value}"),
        value => format!("{text} {name}={value}"),
    })
}

/// A bound name in one word, with what is left of the path.
pub(super) fn name(bound: &Bound) -> String {
    let id = bound.id.as_deref().unwrap_or("(a name without path)");
    if bound.path == "/" { id.to_owned() } else { format!("{id} (residual {})", bound.path) }
}

/// A bound tree in one line: one word if it has no leaf, otherwise in the notation of dtabs.
pub(super) fn one_line(root: &Node) -> String {
    match root.kind {
        Kind::Neg => "neg".to_owned(),
        Kind::Fail => "fail".to_owned(),
        Kind::Empty => "empty".to_owned(),
        _ => expression(root),
    }
}

fn expression(node: &Node) -> String {
    match &node.kind {
        Kind::Leaf { bound } => name(bound),
        Kind::Neg => "~".to_owned(),
        Kind::Fail => "!".to_owned(),
        Kind::Empty => "$".to_owned(),
        Kind::Exception { message } => format!("({})", error(message.as_deref())),
        Kind::Delegate { delegate: tree } | Kind::Transformation { tree, .. } => expression(tree),
        Kind::Alt { alt } => alt.iter().map(operand).collect::<Vec<_>>().join(" | "),
        Kind::Union { union } => {
            let branch = |branch: &Branch| format!("{}*{}", show_weight(branch.weight), operand(&branch.tree));
            union.iter().map(branch).collect::<Vec<_>>().join(" & ")
        }
    }
}

fn operand(node: &Node) -> String {
    match node.kind {
        Kind::Alt { .. } | Kind::Union { .. } => format!("({})", expression(node)),
        _ => expression(node),
    }
}

fn rows(root: &Node) -> Vec<Row> {
    let mut rows = Vec::new();
    draw(root, "", "", "", true, &mut rows);
    rows
}

/// Draws a node behind `first`, and what is below it behind `rest`.
fn draw(node: &Node, first: &str, rest: &str, weight: &str, primary: bool, rows: &mut Vec<Row>) {
    let step = format!("{first}{weight}{}", label(node));
    rows.push(Row { primary, step, entry: node.dentry.as_ref().map(entry) });
    let mut below = |lines: Vec<String>| {
        rows.extend(lines.into_iter().map(|line| Row { primary, step: format!("{rest}  {line}"), entry: None }));
    };
    match &node.kind {
        Kind::Leaf { bound } => {
            if node.path.is_some() && node.path != bound.id {
                below(vec![format!("bound to {}", name(bound))]);
            }
            below(addresses(&bound.addr));
        }
        Kind::Delegate { delegate: tree } | Kind::Transformation { tree, .. } => {
            children(&[(String::new(), tree, primary)], rest, rows);
        }
        Kind::Alt { alt } => {
            let taken = alt.iter().position(|tree| tree.outcome() != Outcome::Neg);
            let branch = |(index, tree)| (String::new(), tree, primary && taken == Some(index));
            children(&alt.iter().enumerate().map(branch).collect::<Vec<_>>(), rest, rows);
        }
        Kind::Union { union } => {
            let whole = node.outcome();
            let branches: Vec<(String, &Node, bool)> = union
                .iter()
                .map(|Branch { weight, tree }| {
                    let taken = whole != Outcome::Neg && tree.outcome() == whole;
                    (format!("{} * ", show_weight(*weight)), tree, primary && taken)
                })
                .collect();
            children(&branches, rest, rows);
        }
        Kind::Neg | Kind::Fail | Kind::Empty | Kind::Exception { .. } => {}
    }
}

fn children(trees: &[(String, &Node, bool)], rest: &str, rows: &mut Vec<Row>) {
    for (index, (weight, tree, primary)) in trees.iter().enumerate() {
        let (first, below) = if index + 1 == trees.len() { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        draw(tree, &format!("{rest}{first}"), &format!("{rest}{below}"), weight, *primary, rows);
    }
}

fn label(node: &Node) -> String {
    let path = node.path.as_deref();
    let with_path = |what: &str| match path {
        Some(path) => format!("{path}  {what}"),
        None => what.to_owned(),
    };
    match &node.kind {
        Kind::Delegate { .. } => path.unwrap_or("delegate").to_owned(),
        Kind::Leaf { bound } => path.map_or_else(|| name(bound), str::to_owned),
        Kind::Alt { .. } => with_path("alt"),
        Kind::Union { .. } => with_path("union"),
        Kind::Neg => with_path("neg"),
        Kind::Fail => with_path("fail"),
        Kind::Empty => with_path("empty"),
        Kind::Exception { message } => with_path(&error(message.as_deref())),
        Kind::Transformation { name, .. } => with_path(&format!("transformed by {name}")),
    }
}

fn error(message: Option<&str>) -> String {
    message.map_or_else(|| "error".to_owned(), |message| format!("error: {message}"))
}

fn entry(entry: &Entry) -> String {
    let text = format!("{} => {}", entry.prefix, entry.dst);
    if text.chars().count() <= LONGEST {
        return text;
    }
    text.chars().take(LONGEST - 1).chain(['…']).collect()
}
