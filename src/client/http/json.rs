//! What the HTTP controller says, as values (`DelegateApiHandler.scala:44-142`).
//!
//! Keys that are not known are passed over. Nesting is bounded by the reader of JSON.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::client::{Answer, Ask, BoundName, Explained, Named};
use crate::name::{
    Addr, AddrSet, Address, DelegateTree, Dentry, Dtab, Limits, Meta, NameTree, Path, Weighted, WeightedDelegate,
    meta_keys,
};

/// What one value says.
#[derive(Debug, PartialEq)]
pub(super) enum Said {
    /// An answer.
    Answer(Answer),
    /// That there is none, for this reason.
    Declared(String),
    /// That there is none yet.
    Pending,
}

/// Why a value makes no sense.
type Bad = String;

/// The path of a `~` that a dtab holds, and of the empty path.
const NEG: &str = "~";
/// The path of a `!` that no name led to.
const FAIL: &str = "!";

/// Reads one value of a stream.
pub(super) fn said(ask: &Ask, text: &[u8]) -> Result<Said, Bad> {
    let value: Value = match serde_json::from_slice(text) {
        Ok(value) => value,
        // namerd ends a stream whose value fails with the reason in plain text (HttpControlService.scala:72-110).
        Err(_) if !text.starts_with(b"{") && !text.starts_with(b"[") => {
            return Ok(Said::Declared(String::from_utf8_lossy(text).into_owned()));
        }
        Err(error) => return Err(format!("no JSON: {error}")),
    };
    match ask {
        Ask::Bind { .. } => tree(&value),
        Ask::Addr { .. } => Ok(match addr(&value)? {
            Some(Addr::Failed(cause)) => {
                let cause = cause.as_deref().unwrap_or("the addresses have failed");
                Said::Declared(cause.to_owned())
            }
            Some(addr) => Said::Answer(Answer::Addr(addr)),
            None => Said::Pending,
        }),
        Ask::Namespaces => Ok(Said::Answer(Answer::Namespaces(strings(&value)?.map(str::to_owned).collect()))),
        Ask::Names => {
            // Without any names namerd lists one that is empty (BoundNamesHandler.scala:35).
            let names = strings(&value)?.filter(|name| !name.is_empty()).map(path);
            Ok(Said::Answer(Answer::Names(names.collect::<Result<BTreeSet<_>, _>>()?)))
        }
        Ask::Dtab { .. } => Err("a dtab is read with its version".to_owned()),
    }
}

fn tree(value: &Value) -> Result<Said, Bad> {
    match bound(value) {
        Ok(tree) => Ok(Said::Answer(Answer::Tree(tree))),
        Err(Stop::Declared(message)) => Ok(Said::Declared(message)),
        Err(Stop::Bad(bad)) => Err(bad),
    }
}

enum Stop {
    Declared(String),
    Bad(Bad),
}

impl From<Bad> for Stop {
    fn from(bad: Bad) -> Self {
        Self::Bad(bad)
    }
}

/// A bound tree. Steps that led to a node are passed over.
fn bound(value: &Value) -> Result<NameTree<Named>, Stop> {
    let node = object(value)?;
    Ok(match text(node, "type")? {
        "neg" => NameTree::Neg,
        "fail" => NameTree::Fail,
        "empty" => NameTree::Empty,
        "leaf" => named(there(node, "bound")?)?.map_or(NameTree::Neg, |(named, _)| NameTree::Leaf(named)),
        "alt" => NameTree::Alt(array(node, "alt")?.iter().map(bound).collect::<Result<_, _>>()?),
        "union" => {
            let branch = |value: &Value| {
                let (weight, tree) = branch(value)?;
                Ok::<_, Stop>(Weighted::new(weight, bound(tree)?))
            };
            NameTree::Union(array(node, "union")?.iter().map(branch).collect::<Result<_, _>>()?)
        }
        "delegate" => return bound(there(node, "delegate")?),
        "transformation" => return bound(there(node, "tree")?),
        "exception" => return Err(Stop::Declared(message(node).unwrap_or_default())),
        other => return Err(format!("a node of type {other}").into()),
    })
}

/// `{"addr":…,"id":…,"path":…}`: the name and its addresses. None if it has no id, which no protocol has a word for.
fn named(value: &Value) -> Result<Option<(Named, Option<Addr>)>, Bad> {
    let bound = object(value)?;
    let Some(id) = bound.get("id").and_then(Value::as_str) else { return Ok(None) };
    let residual = path(bound.get("path").and_then(Value::as_str).unwrap_or("/"))?;
    let addr = match bound.get("addr") {
        Some(value) => addr(value)?,
        None => None,
    };
    let weight = match &addr {
        Some(Addr::Bound(set)) => set.meta().get(meta_keys::NAMER_NAMETREE_WEIGHT).and_then(Value::as_f64),
        _ => None,
    };
    let id = path(id)?;
    if id.is_empty() {
        return Err("a leaf has an empty id".to_owned());
    }
    Ok(Some((Named { id, residual, weight }, addr)))
}

/// An address set; none while it is not known.
fn addr(value: &Value) -> Result<Option<Addr>, Bad> {
    let node = object(value)?;
    Ok(Some(match text(node, "type")? {
        "bound" => {
            let addrs = array(node, "addrs")?.iter().map(address).collect::<Result<Vec<_>, _>>()?;
            Addr::Bound(AddrSet::new(addrs, meta(node)?))
        }
        "neg" => Addr::Neg,
        "pending" => return Ok(None),
        "failed" => Addr::Failed(node.get("cause").and_then(Value::as_str).map(Into::into)),
        other => return Err(format!("an address set of type {other}")),
    }))
}

fn address(value: &Value) -> Result<Address, Bad> {
    let node = object(value)?;
    let text = text(node, "ip")?;
    // The JVM adds the zone of a link-local address.
    let plain = text.split_once('%').map_or(text, |(ip, _)| ip);
    let ip: IpAddr = plain.parse().map_err(|_| format!("{text:?} is no address"))?;
    let port = there(node, "port")?;
    let number = port.as_u64().and_then(|port| u16::try_from(port).ok());
    Ok(Address { ip, port: number.ok_or_else(|| format!("{port} is no port"))?, meta: meta(node)? })
}

fn meta(node: &Map<String, Value>) -> Result<Meta, Bad> {
    match node.get("meta") {
        None | Some(Value::Null) => Ok(Meta::default()),
        Some(meta) => Ok(object(meta)?.iter().map(|(key, value)| (key.clone(), value.clone())).collect()),
    }
}

/// A dtab: `[{"prefix":…,"dst":…}]`.
pub(super) fn dtab(text: &[u8], limits: &Limits) -> Result<Dtab, Bad> {
    let value: Value = serde_json::from_slice(text).map_err(|error| format!("no JSON: {error}"))?;
    let entries = value.as_array().ok_or("a dtab that is no list")?;
    let mut shown = String::new();
    for entry in entries {
        let (prefix, dst) = entry_texts(object(entry)?)?;
        shown.push_str(&format!("{prefix}=>{dst};"));
    }
    Dtab::parse_with(&shown, limits).map_err(|error| format!("no dtab: {error}"))
}

fn entry_texts(entry: &Map<String, Value>) -> Result<(&str, &str), Bad> {
    Ok((text(entry, "prefix")?, text(entry, "dst")?))
}

/// An explanation.
pub(super) fn explained(bytes: &[u8]) -> Result<DelegateTree<Explained>, Bad> {
    let value: Value = serde_json::from_slice(bytes).map_err(|error| format!("no JSON: {error}"))?;
    step(&value)
}

fn step(value: &Value) -> Result<DelegateTree<Explained>, Bad> {
    let node = object(value)?;
    let here = match node.get("path").and_then(Value::as_str) {
        None | Some(NEG | FAIL) => Path::empty(),
        Some(text) => path(text)?,
    };
    let dentry = match node.get("dentry") {
        None | Some(Value::Null) => Dentry::nop(),
        Some(entry) => {
            let (prefix, dst) = entry_texts(object(entry)?)?;
            Dentry::parse(&format!("{prefix}=>{dst}")).map_err(|error| format!("no entry: {error}"))?
        }
    };
    let (path, dentry) = (here, Arc::new(dentry));
    let leaf = |value: &Value| {
        named(value).map(|found| {
            found.map(|(Named { id, residual, .. }, addr)| Explained { name: BoundName { id, residual }, addr })
        })
    };
    Ok(match text(node, "type")? {
        "neg" => DelegateTree::Neg { path, dentry },
        "fail" => DelegateTree::Fail { path, dentry },
        "empty" => DelegateTree::Empty { path, dentry },
        "exception" => DelegateTree::Exception { path, dentry, message: message(node) },
        "leaf" => match leaf(there(node, "bound")?)? {
            Some(value) => DelegateTree::Leaf { path, dentry, value },
            None => DelegateTree::Neg { path, dentry },
        },
        "delegate" => DelegateTree::Delegate { path, dentry, tree: Box::new(step(there(node, "delegate")?)?) },
        "alt" => {
            let trees = array(node, "alt")?.iter().map(step).collect::<Result<_, _>>()?;
            DelegateTree::Alt { path, dentry, trees }
        }
        "union" => {
            let branch = |value: &Value| {
                let (weight, tree) = branch(value)?;
                Ok(WeightedDelegate { weight, tree: step(tree)? })
            };
            let trees = array(node, "union")?.iter().map(branch).collect::<Result<_, Bad>>()?;
            DelegateTree::Union { path, dentry, trees }
        }
        "transformation" => {
            let tree = Box::new(step(there(node, "tree")?)?);
            match leaf(there(node, "bound")?)? {
                Some(value) => DelegateTree::Transformation { path, name: text(node, "name")?.to_owned(), value, tree },
                None => *tree,
            }
        }
        other => return Err(format!("a step of type {other}")),
    })
}

fn branch(value: &Value) -> Result<(f64, &Value), Bad> {
    let branch = object(value)?;
    let weight = there(branch, "weight")?;
    Ok((weight.as_f64().ok_or_else(|| format!("{weight} is no weight"))?, there(branch, "tree")?))
}

fn message(node: &Map<String, Value>) -> Option<String> {
    node.get("message").and_then(Value::as_str).map(str::to_owned)
}

fn path(text: &str) -> Result<Path, Bad> {
    Path::parse(text).map_err(|error| format!("no path: {error}"))
}

fn strings(value: &Value) -> Result<impl Iterator<Item = &str>, Bad> {
    let list = value.as_array().ok_or("no list")?;
    if list.iter().any(|item| !item.is_string()) {
        return Err("a list of something else than texts".to_owned());
    }
    Ok(list.iter().filter_map(Value::as_str))
}

fn object(value: &Value) -> Result<&Map<String, Value>, Bad> {
    value.as_object().ok_or_else(|| "no object".to_owned())
}

fn there<'v>(node: &'v Map<String, Value>, key: &str) -> Result<&'v Value, Bad> {
    node.get(key).ok_or_else(|| format!("there is no \"{key}\""))
}

fn text<'v>(node: &'v Map<String, Value>, key: &str) -> Result<&'v str, Bad> {
    there(node, key)?.as_str().ok_or_else(|| format!("\"{key}\" is no text"))
}

fn array<'v>(node: &'v Map<String, Value>, key: &str) -> Result<&'v [Value], Bad> {
    there(node, key)?.as_array().map(Vec::as_slice).ok_or_else(|| format!("\"{key}\" is no list"))
}

#[cfg(test)]
mod tests;
