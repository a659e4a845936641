//! The arguments of `delegate`: a tree whose nodes name each other by number.

use std::collections::HashMap;

use crate::name::{Limits, NameTree, Path, Weighted};

use super::arguments::{Read, missing};
use super::ask::{Refusal, Stamp, wire_path};
use super::read::{Fault, Reader, Type};

/// How many nodes a tree may come to. Nodes may be shared, so few of them can stand for very many.
const MAX_NODES: usize = 10_000;

/// The arguments of `delegate`.
#[derive(Clone, Debug, PartialEq)]
pub struct DelegateAsk {
    /// Text of the request's own dtab.
    pub dtab: String,
    /// namerd never answers a `delegate` that carries a stamp (ThriftNamerInterface.scala:568).
    pub stamp: Stamp,
    /// The namespace.
    pub ns: String,
    root: Contents,
    nodes: HashMap<i32, Contents>,
}

/// What a node says. The path and the entry beside it are not used: namerd drops them too.
#[derive(Clone, Debug, PartialEq)]
enum Contents {
    Error(String),
    Empty,
    Fail,
    Neg,
    Delegate(i32),
    BoundLeaf,
    /// Elements in wire form.
    PathLeaf(Box<[u8]>),
    Alt(Vec<i32>),
    Weighted(Vec<(f64, i32)>),
    Transformation,
    Unknown,
}

/// Builds the tree of a request.
struct Builder<'a> {
    nodes: &'a HashMap<i32, Contents>,
    limits: &'a Limits,
    left: usize,
}

/// Reads `DelegateReq`.
pub(super) fn read(reader: &mut Reader<'_>) -> Read<DelegateAsk> {
    let (mut dtab, mut delegation) = (String::new(), None);
    while let Some((id, kind)) = reader.field()? {
        match id {
            1 => dtab = reader.long_text("dtab", kind)?,
            2 => {
                reader.structure("delegation", kind)?;
                delegation = Some(read_delegation(reader)?);
            }
            3 => drop(super::arguments::elems(reader, "clientId", kind)?),
            _ => reader.skip(kind)?,
        }
    }
    let delegation = delegation.ok_or_else(|| missing("delegation"))?;
    Ok(DelegateAsk { dtab, ..delegation })
}

/// `Delegation`
fn read_delegation(reader: &mut Reader<'_>) -> Read<DelegateAsk> {
    let (mut stamp, mut ns, mut tree) = (Stamp::new(), String::new(), None);
    while let Some((id, kind)) = reader.field()? {
        match id {
            1 => stamp = reader.binary("stamp", kind)?.into(),
            2 => {
                reader.structure("tree", kind)?;
                tree = Some(read_tree(reader)?);
            }
            3 => ns = reader.text("ns", kind)?,
            _ => reader.skip(kind)?,
        }
    }
    let (root, nodes) = tree.ok_or_else(|| missing("tree"))?;
    Ok(DelegateAsk { dtab: String::new(), stamp, ns, root, nodes })
}

/// `DelegateTree`
fn read_tree(reader: &mut Reader<'_>) -> Read<(Contents, HashMap<i32, Contents>)> {
    let (mut root, mut nodes) = (None, HashMap::new());
    while let Some((id, kind)) = reader.field()? {
        match id {
            1 => {
                reader.structure("root", kind)?;
                root = Some(read_node(reader)?);
            }
            2 => {
                nodes.clear();
                for _ in 0..reader.map("nodes", kind, Type::I32, Type::Struct)? {
                    nodes.insert(reader.i32()?, read_node(reader)?);
                }
            }
            _ => reader.skip(kind)?,
        }
    }
    Ok((root.ok_or_else(|| missing("root"))?, nodes))
}

/// `DelegateNode`
fn read_node(reader: &mut Reader<'_>) -> Read<Contents> {
    let mut contents = None;
    while let Some((id, kind)) = reader.field()? {
        match id {
            3 => {
                reader.structure("contents", kind)?;
                contents = Some(read_contents(reader)?);
            }
            _ => reader.skip(kind)?,
        }
    }
    contents.ok_or_else(|| missing("contents"))
}

/// `DelegateContents`, a union.
fn read_contents(reader: &mut Reader<'_>) -> Result<Contents, Fault> {
    let mut contents = None;
    while let Some((id, kind)) = reader.field()? {
        let member = match id {
            1 => Contents::Error(reader.text("error", kind)?),
            2 => void(reader, "empty", kind, Contents::Empty)?,
            3 => void(reader, "fail", kind, Contents::Fail)?,
            4 => void(reader, "neg", kind, Contents::Neg)?,
            5 => Contents::Delegate(reader.number("delegate", kind)?),
            6 => void(reader, "boundLeaf", kind, Contents::BoundLeaf)?,
            7 => Contents::PathLeaf(super::arguments::elems(reader, "pathLeaf", kind)?.into()),
            8 => {
                let count = reader.list("alt", kind, Type::I32)?;
                Contents::Alt((0..count).map(|_| reader.i32()).collect::<Result<_, _>>()?)
            }
            9 => {
                let count = reader.list("weighted", kind, Type::Struct)?;
                Contents::Weighted((0..count).map(|_| read_weighted(reader)).collect::<Result<_, _>>()?)
            }
            10 => void(reader, "transformation", kind, Contents::Transformation)?,
            _ => {
                reader.skip(kind)?;
                Contents::Unknown
            }
        };
        if contents.replace(member).is_some() {
            return Err(Fault::Protocol("a union has more than one member".to_owned()));
        }
    }
    contents.ok_or_else(|| Fault::Protocol("a union has no member".to_owned()))
}

/// `WeightedNodeId`. What is missing is 0, as in namerd.
fn read_weighted(reader: &mut Reader<'_>) -> Result<(f64, i32), Fault> {
    let (mut weight, mut node) = (0.0, 0);
    while let Some((id, kind)) = reader.field()? {
        match id {
            1 => weight = reader.real("weight", kind)?,
            2 => node = reader.number("id", kind)?,
            _ => reader.skip(kind)?,
        }
    }
    Ok((weight, node))
}

/// A member whose value says nothing, or nothing that a delegation accepts.
fn void(reader: &mut Reader<'_>, field: &str, kind: Type, contents: Contents) -> Result<Contents, Fault> {
    reader.structure(field, kind)?;
    reader.skip(kind)?;
    Ok(contents)
}

// === impl DelegateAsk ===

impl DelegateAsk {
    /// What to explain; usually one leaf.
    ///
    /// # Errors
    /// The tree holds what a delegation does not accept, names a node that is not there, or exceeds `limits`.
    pub fn tree(&self, limits: &Limits) -> Result<NameTree<Path>, Refusal> {
        Builder { nodes: &self.nodes, limits, left: MAX_NODES }.build(&self.root, 0)
    }
}

// === impl Builder ===

impl Builder<'_> {
    /// The bound on levels also ends a tree that contains itself.
    fn build(&mut self, contents: &Contents, level: usize) -> Result<NameTree<Path>, Refusal> {
        if level > self.limits.depth {
            let most = self.limits.depth;
            return refused(format!("delegation nests deeper than {most} levels (limits.depth)"));
        }
        self.left = match self.left.checked_sub(1) {
            Some(left) => left,
            None => return refused(format!("delegation has more than {MAX_NODES} nodes")),
        };
        Ok(match contents {
            Contents::Error(message) => return refused(message.clone()),
            Contents::Empty => NameTree::Empty,
            Contents::Fail => NameTree::Fail,
            Contents::Neg => NameTree::Neg,
            Contents::Delegate(id) => self.node(*id, level)?,
            Contents::PathLeaf(elems) => NameTree::Leaf(wire_path(elems, self.limits)?),
            Contents::Alt(ids) => NameTree::Alt(ids.iter().map(|id| self.node(*id, level)).collect::<Result<_, _>>()?),
            Contents::Weighted(branches) => {
                let branches = branches.iter().map(|(weight, id)| Ok(Weighted::new(*weight, self.node(*id, level)?)));
                NameTree::Union(branches.collect::<Result<_, _>>()?)
            }
            // The words of namerd (ThriftNamerInterface.scala:322-356).
            Contents::BoundLeaf => return refused("delegation cannot accept bound names"),
            Contents::Transformation => return refused("delegation cannot accept transformations"),
            Contents::Unknown => return refused("unknown union field"),
        })
    }

    fn node(&mut self, id: i32, level: usize) -> Result<NameTree<Path>, Refusal> {
        match self.nodes.get(&id) {
            Some(contents) => self.build(contents, level + 1),
            None => refused(format!("key not found: {id}")),
        }
    }
}

fn refused<T>(text: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::Internal(text.into()))
}
