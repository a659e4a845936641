//! JSON as namerd prints it: key order, omissions and the spelling of numbers are data that clients and scripts see.
//! Absent means left out, never `null`.

use std::fmt::{self, Write};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::LazyLock;

use serde_json::Value;

use crate::interpreter::{Bound, BoundTree, DelegationLeaf};
use crate::name::{Addr, DelegateTree, Dentry, Dtab, Meta, NameTree, Path, meta_keys};
use crate::text::java;

/// Longest answer about a name. Each step of a delegation repeats the text of its entry, and each leaf of a tree its
/// addresses, so that small questions could fill the memory.
pub const MOST_BYTES: usize = 64 << 20;

/// The answer is longer than wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the answer is larger than {} MiB: too many branches, or too many addresses behind them; ask for one of the branches",
    MOST_BYTES >> 20
)]
pub struct TooLarge;

/// The entry of a node that no entry led to; it is not shown.
static NOP: LazyLock<Dentry> = LazyLock::new(Dentry::nop);

/// A text in quotes.
pub fn string(out: &mut String, text: &str) {
    out.push('"');
    let mut plain = 0;
    for (at, byte) in text.bytes().enumerate() {
        if byte >= b' ' && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.push_str(&text[plain..at]);
        plain = at + 1;
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            0x08 => out.push_str("\\b"),
            0x0c => out.push_str("\\f"),
            control => put(out, format_args!("\\u{control:04X}")),
        }
    }
    out.push_str(&text[plain..]);
    out.push('"');
}

/// Something that is shown as text, in quotes.
fn shown(out: &mut String, value: &impl fmt::Display) {
    string(out, &value.to_string());
}

/// A path in quotes: its shown form has nothing but backslashes to escape.
fn path(out: &mut String, path: &Path) {
    shown(out, path);
}

fn put(out: &mut String, text: fmt::Arguments<'_>) {
    let _ = out.write_fmt(text); // a String takes everything
}

/// A list of texts.
pub fn strings<T: fmt::Display>(texts: impl IntoIterator<Item = T>) -> String {
    let mut out = String::from("[");
    for (position, text) in texts.into_iter().enumerate() {
        if position > 0 {
            out.push(',');
        }
        shown(&mut out, &text);
    }
    out.push(']');
    out
}

/// A dtab: `[{"prefix":…,"dst":…},…]`.
pub fn dtab(table: &Dtab) -> String {
    let mut out = String::with_capacity(table.len() * 64 + 2);
    out.push('[');
    for (position, entry) in table.entries().iter().enumerate() {
        if position > 0 {
            out.push(',');
        }
        dentry(&mut out, entry);
    }
    out.push(']');
    out
}

fn dentry(out: &mut String, entry: &Dentry) {
    out.push_str("{\"prefix\":");
    shown(out, &entry.prefix);
    out.push_str(",\"dst\":");
    shown(out, &entry.dst);
    out.push('}');
}

/// The state of an address set.
pub fn addr(state: &Addr) -> String {
    let mut out = String::new();
    write_addr(&mut out, state, None);
    out
}

fn write_addr(out: &mut String, state: &Addr, weight: Option<f64>) {
    match state {
        Addr::Neg => out.push_str("{\"type\":\"neg\"}"),
        Addr::Failed(None) => out.push_str("{\"type\":\"failed\"}"),
        Addr::Failed(Some(cause)) => {
            out.push_str("{\"type\":\"failed\",\"cause\":");
            string(out, cause);
            out.push('}');
        }
        Addr::Bound(set) => {
            out.reserve(set.len() * 48 + 64);
            out.push_str("{\"type\":\"bound\",\"addrs\":[");
            for (position, address) in set.addrs().iter().enumerate() {
                out.push_str(if position > 0 { ",{\"ip\":\"" } else { "{\"ip\":\"" });
                ip(out, address.ip);
                put(out, format_args!("\",\"port\":{},\"meta\":", address.port));
                meta(out, &address.meta);
                out.push('}');
            }
            out.push_str("],\"meta\":");
            match weight {
                // Only bind answers show from which branch of a union a leaf came.
                Some(weight) => meta(out, &set.meta().clone().with(meta_keys::NAMER_NAMETREE_WEIGHT, weight)),
                None => meta(out, set.meta()),
            }
            out.push('}');
        }
    }
}

/// An address in Java's words: IPv6 without zeros left out (`0:0:0:0:0:0:0:1`).
fn ip(out: &mut String, ip: IpAddr) {
    match ip.to_canonical() {
        IpAddr::V4(ip) => put(out, format_args!("{ip}")),
        IpAddr::V6(ip) => v6(out, ip),
    }
}

fn v6(out: &mut String, ip: Ipv6Addr) {
    for (position, segment) in ip.segments().iter().enumerate() {
        if position > 0 {
            out.push(':');
        }
        put(out, format_args!("{segment:x}"));
    }
}

fn meta(out: &mut String, meta: &Meta) {
    object(out, meta.iter());
}

/// Keys with null are left out.
fn object<'v>(out: &mut String, entries: impl Iterator<Item = (&'v str, &'v Value)>) {
    out.push('{');
    for (position, (key, entry)) in entries.filter(|(_, entry)| !entry.is_null()).enumerate() {
        if position > 0 {
            out.push(',');
        }
        string(out, key);
        out.push(':');
        value(out, entry);
    }
    out.push('}');
}

fn value(out: &mut String, of: &Value) {
    match of {
        Value::Number(number) => match (number.is_f64(), number.as_f64()) {
            (true, Some(double)) => out.push_str(&java::double(double)),
            _ => put(out, format_args!("{number}")),
        },
        Value::String(text) => string(out, text),
        Value::Array(items) => {
            out.push('[');
            for (position, item) in items.iter().enumerate() {
                if position > 0 {
                    out.push(',');
                }
                value(out, item);
            }
            out.push(']');
        }
        Value::Object(entries) => object(out, entries.iter().map(|(key, entry)| (key.as_str(), entry))),
        Value::Bool(_) | Value::Null => put(out, format_args!("{of}")),
    }
}

fn at_most(most: usize, out: String) -> Result<String, TooLarge> {
    if out.len() > most { Err(TooLarge) } else { Ok(out) }
}

/// A bound tree; `addrs` has the state of each leaf, in the order in which [`leaves`] lists them.
///
/// # Errors
/// It is longer than `most` bytes.
pub fn bound_tree(tree: &BoundTree, addrs: &[Addr], most: usize) -> Result<String, TooLarge> {
    let mut out = String::new();
    write_tree(&mut out, tree, &mut addrs.iter(), most, false);
    at_most(most, out)
}

/// The leaves of a tree, in the order in which they are shown.
pub fn leaves(tree: &BoundTree) -> Vec<&Bound> {
    fn collect<'t>(tree: &'t BoundTree, into: &mut Vec<&'t Bound>) {
        match tree {
            NameTree::Leaf(bound) => into.push(bound),
            NameTree::Alt(branches) => branches.iter().for_each(|branch| collect(branch, into)),
            NameTree::Union(branches) => branches.iter().for_each(|branch| collect(&branch.tree, into)),
            NameTree::Neg | NameTree::Fail | NameTree::Empty => {}
        }
    }
    let mut all = Vec::new();
    collect(tree, &mut all);
    all
}

/// Stops soon after `most` bytes.
fn write_tree<'a>(
    out: &mut String,
    tree: &BoundTree,
    addrs: &mut impl Iterator<Item = &'a Addr>,
    most: usize,
    inside: bool,
) {
    if out.len() > most {
        return;
    }
    match tree {
        NameTree::Leaf(bound) => {
            out.push_str("{\"type\":\"leaf\",\"bound\":{\"addr\":");
            write_addr(out, addrs.next().unwrap_or(&Addr::Neg), bound.weight);
            if let Some(id) = bound.id.path() {
                out.push_str(",\"id\":");
                path(out, id);
            }
            out.push_str(",\"path\":");
            path(out, &bound.residual);
            out.push_str("}}");
        }
        // namerd gives it a path inside of a node, and none at the top.
        NameTree::Neg if inside => out.push_str("{\"type\":\"neg\",\"path\":\"~\"}"),
        NameTree::Neg => out.push_str("{\"type\":\"neg\"}"),
        NameTree::Fail => out.push_str("{\"type\":\"fail\"}"),
        NameTree::Empty => out.push_str("{\"type\":\"empty\"}"),
        NameTree::Alt(branches) => {
            out.push_str("{\"type\":\"alt\",\"alt\":[");
            for (position, branch) in branches.iter().enumerate() {
                if position > 0 {
                    out.push(',');
                }
                write_tree(out, branch, addrs, most, true);
            }
            out.push_str("]}");
        }
        NameTree::Union(branches) => {
            out.push_str("{\"type\":\"union\",\"union\":[");
            for (position, branch) in branches.iter().enumerate() {
                out.push_str(if position > 0 { ",{\"weight\":" } else { "{\"weight\":" });
                out.push_str(&java::double(branch.weight));
                out.push_str(",\"tree\":");
                write_tree(out, &branch.tree, addrs, most, true);
                out.push('}');
            }
            out.push_str("]}");
        }
    }
}

/// An explained name.
///
/// # Errors
/// It is longer than `most` bytes.
pub fn delegation(tree: &DelegateTree<DelegationLeaf>, most: usize) -> Result<String, TooLarge> {
    let mut out = String::new();
    write_delegation(&mut out, tree, most);
    at_most(most, out)
}

/// Stops soon after `most` bytes.
fn write_delegation(out: &mut String, node: &DelegateTree<DelegationLeaf>, most: usize) {
    if out.len() > most {
        return;
    }
    let kind = match node {
        DelegateTree::Exception { .. } => "exception",
        DelegateTree::Empty { .. } => "empty",
        DelegateTree::Fail { .. } => "fail",
        DelegateTree::Neg { .. } => "neg",
        DelegateTree::Leaf { .. } => "leaf",
        DelegateTree::Delegate { .. } => "delegate",
        DelegateTree::Alt { .. } => "alt",
        DelegateTree::Union { .. } => "union",
        DelegateTree::Transformation { .. } => "transformation",
    };
    put(out, format_args!("{{\"type\":\"{kind}\",\"path\":"));
    match node {
        DelegateTree::Neg { path: at, .. } if at.is_empty() => out.push_str("\"~\""),
        DelegateTree::Fail { path: at, .. } if !is_fail_path(at) => out.push_str("\"!\""),
        _ => path(out, node.path()),
    }
    if let Some(entry) = node.dentry().filter(|entry| ***entry != *NOP) {
        out.push_str(",\"dentry\":");
        dentry(out, entry);
    }
    match node {
        DelegateTree::Exception { message, .. } => {
            if let Some(message) = message {
                out.push_str(",\"message\":");
                string(out, message);
            }
        }
        DelegateTree::Empty { .. } | DelegateTree::Fail { .. } | DelegateTree::Neg { .. } => {}
        DelegateTree::Leaf { path: at, value, .. } => {
            out.push_str(",\"bound\":");
            bound_leaf(out, at, value);
        }
        DelegateTree::Delegate { tree, .. } => {
            out.push_str(",\"delegate\":");
            write_delegation(out, tree, most);
        }
        DelegateTree::Alt { trees, .. } => {
            out.push_str(",\"alt\":[");
            for (position, tree) in trees.iter().enumerate() {
                if position > 0 {
                    out.push(',');
                }
                write_delegation(out, tree, most);
            }
            out.push(']');
        }
        DelegateTree::Union { trees, .. } => {
            out.push_str(",\"union\":[");
            for (position, branch) in trees.iter().enumerate() {
                out.push_str(if position > 0 { ",{\"weight\":" } else { "{\"weight\":" });
                out.push_str(&java::double(branch.weight));
                out.push_str(",\"tree\":");
                write_delegation(out, &branch.tree, most);
                out.push('}');
            }
            out.push(']');
        }
        DelegateTree::Transformation { path: at, name, value, tree } => {
            out.push_str(",\"name\":");
            string(out, name);
            out.push_str(",\"bound\":");
            bound_leaf(out, at, value);
            out.push_str(",\"tree\":");
            write_delegation(out, tree, most);
        }
    }
    out.push('}');
}

fn bound_leaf(out: &mut String, at: &Path, leaf: &DelegationLeaf) {
    out.push_str("{\"addr\":");
    match &leaf.addr {
        Some(state) => write_addr(out, state, None),
        None => out.push_str("{\"type\":\"pending\"}"),
    }
    out.push_str(",\"id\":");
    path(out, leaf.id.path().unwrap_or(at)); // namerd shows the node's path where the id is none
    out.push_str(",\"path\":");
    path(out, &leaf.residual);
    out.push('}');
}

/// `/$/fail` and what is below it, the only paths of failures that are shown.
fn is_fail_path(path: &Path) -> bool {
    path.first() == Some(b"$") && path.nth(1) == Some(b"fail")
}

#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;
