//! `BoundTree` and `DelegateTree`: nodes that name each other by number.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::sync::Arc;

use super::{BoundName, bound_name, only, path, there, wrong};
use crate::name::{DelegateTree, Dentry, NameTree, Path, Weighted, WeightedDelegate};
use crate::thrift::read::{Fault, Reader, Type};

/// How many nodes a tree may come to. Nodes may be shared, so few of them can stand for very many.
const MAX_NODES: usize = 100_000;

/// How deep a tree may nest; what servers make themselves stays below. Also ends a tree that contains itself.
const MAX_NESTING: usize = 512;

/// A node of either kind of tree.
trait Node: Sized {
    /// What it is a node of.
    type Tree;

    fn read(reader: &mut Reader<'_>) -> Result<Self, Fault>;

    /// The tree from this node on; `below` makes those of its children.
    fn build(&self, below: &mut dyn FnMut(i32) -> Result<Self::Tree, Fault>) -> Result<Self::Tree, Fault>;
}

/// The union `BoundNode`.
enum BoundNode {
    Neg,
    Empty,
    Fail,
    Leaf(BoundName),
    Alt(Vec<i32>),
    Weighted(Vec<(f64, i32)>),
}

/// The struct `DelegateNode`.
struct DelegateNode {
    path: Path,
    /// The entry; of a transformation the name of the transformer.
    dentry: String,
    /// The entry once it was needed: many nodes may lead to this one.
    parsed: OnceCell<Arc<Dentry>>,
    contents: Contents,
}

/// The union `DelegateContents`.
enum Contents {
    Error(String),
    Empty,
    Fail,
    Neg,
    Delegate(i32),
    Leaf(BoundName),
    Alt(Vec<i32>),
    Weighted(Vec<(f64, i32)>),
    Transformation(BoundName, i32),
}

/// `BoundTree`, behind its start.
pub(super) fn bound(reader: &mut Reader<'_>) -> Result<NameTree<BoundName>, Fault> {
    tree::<BoundNode>(reader)
}

/// `DelegateTree`, behind its start.
pub(super) fn delegation(reader: &mut Reader<'_>) -> Result<DelegateTree<BoundName>, Fault> {
    tree::<DelegateNode>(reader)
}

fn tree<N: Node>(reader: &mut Reader<'_>) -> Result<N::Tree, Fault> {
    let (mut root, mut nodes) = (None, HashMap::new());
    while let Some((id, kind)) = reader.field()? {
        match id {
            1 => {
                reader.structure("root", kind)?;
                root = Some(N::read(reader)?);
            }
            2 => {
                nodes.clear();
                for _ in 0..reader.map("nodes", kind, Type::I32, Type::Struct)? {
                    nodes.insert(reader.i32()?, N::read(reader)?);
                }
            }
            _ => reader.skip(kind)?,
        }
    }
    let mut left = MAX_NODES;
    build(&there("root", root)?, &nodes, 0, &mut left)
}

fn build<N: Node>(node: &N, nodes: &HashMap<i32, N>, level: usize, left: &mut usize) -> Result<N::Tree, Fault> {
    if level > MAX_NESTING {
        return Err(wrong(format!("a tree nests deeper than {MAX_NESTING} levels")));
    }
    *left = left.checked_sub(1).ok_or_else(|| wrong(format!("a tree has more than {MAX_NODES} nodes")))?;
    node.build(&mut |id| match nodes.get(&id) {
        Some(child) => build(child, nodes, level + 1, left),
        None => Err(wrong(format!("there is no node {id}"))),
    })
}

// === impl BoundNode ===

impl Node for BoundNode {
    type Tree = NameTree<BoundName>;

    fn read(reader: &mut Reader<'_>) -> Result<Self, Fault> {
        let mut node = None;
        while let Some((id, kind)) = reader.field()? {
            let member = match id {
                1 => void(reader, kind, Self::Neg)?,
                2 => void(reader, kind, Self::Empty)?,
                3 => void(reader, kind, Self::Fail)?,
                4 => {
                    reader.structure("leaf", kind)?;
                    match bound_name(reader)? {
                        name if name.id.is_empty() => return Err(wrong("a leaf has an empty id")),
                        name => Self::Leaf(name),
                    }
                }
                5 => Self::Alt(ids(reader, kind)?),
                6 => Self::Weighted(weighted(reader, kind)?),
                _ => return Err(wrong(format!("a node of a bound tree is member {id}, which is not known"))),
            };
            only(&mut node, member)?;
        }
        there("node", node)
    }

    fn build(&self, below: &mut dyn FnMut(i32) -> Result<Self::Tree, Fault>) -> Result<Self::Tree, Fault> {
        Ok(match self {
            Self::Neg => NameTree::Neg,
            Self::Empty => NameTree::Empty,
            Self::Fail => NameTree::Fail,
            Self::Leaf(name) => NameTree::Leaf(name.clone()),
            Self::Alt(ids) => NameTree::Alt(ids.iter().map(|id| below(*id)).collect::<Result<_, _>>()?),
            Self::Weighted(branches) => {
                let branches = branches.iter().map(|(weight, id)| Ok(Weighted::new(*weight, below(*id)?)));
                NameTree::Union(branches.collect::<Result<_, _>>()?)
            }
        })
    }
}

// === impl DelegateNode ===

impl Node for DelegateNode {
    type Tree = DelegateTree<BoundName>;

    fn read(reader: &mut Reader<'_>) -> Result<Self, Fault> {
        let (mut here, mut dentry, mut contents) = (Path::empty(), String::new(), None);
        while let Some((id, kind)) = reader.field()? {
            match id {
                1 => here = path(reader, "path", kind)?,
                2 => dentry = reader.long_text("dentry", kind)?,
                3 => {
                    reader.structure("contents", kind)?;
                    contents = Some(Contents::read(reader)?);
                }
                _ => reader.skip(kind)?,
            }
        }
        Ok(Self { path: here, dentry, parsed: OnceCell::new(), contents: there("contents", contents)? })
    }

    fn build(&self, below: &mut dyn FnMut(i32) -> Result<Self::Tree, Fault>) -> Result<Self::Tree, Fault> {
        let path = self.path.clone();
        if let Contents::Transformation(value, id) = &self.contents {
            let tree = Box::new(below(*id)?);
            return Ok(DelegateTree::Transformation { path, name: self.dentry.clone(), value: value.clone(), tree });
        }
        let dentry = match self.parsed.get() {
            Some(dentry) => dentry.clone(),
            None => {
                let dentry = Dentry::parse(&self.dentry);
                let dentry = dentry.map_err(|error| wrong(format!("an entry that is none: {error}")))?;
                self.parsed.get_or_init(|| Arc::new(dentry)).clone()
            }
        };
        Ok(match &self.contents {
            Contents::Error(message) => {
                DelegateTree::Exception { path, dentry, message: (!message.is_empty()).then(|| message.clone()) }
            }
            Contents::Empty => DelegateTree::Empty { path, dentry },
            Contents::Fail => DelegateTree::Fail { path, dentry },
            Contents::Neg => DelegateTree::Neg { path, dentry },
            Contents::Leaf(name) => DelegateTree::Leaf { path, dentry, value: name.clone() },
            Contents::Delegate(id) => DelegateTree::Delegate { path, dentry, tree: Box::new(below(*id)?) },
            Contents::Alt(ids) => {
                let trees = ids.iter().map(|id| below(*id)).collect::<Result<_, _>>()?;
                DelegateTree::Alt { path, dentry, trees }
            }
            Contents::Weighted(branches) => {
                let branch = |(weight, id): &(f64, i32)| Ok(WeightedDelegate { weight: *weight, tree: below(*id)? });
                let trees = branches.iter().map(branch).collect::<Result<_, Fault>>()?;
                DelegateTree::Union { path, dentry, trees }
            }
            Contents::Transformation(..) => return Err(wrong("a transformation where none can be")),
        })
    }
}

// === impl Contents ===

impl Contents {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Fault> {
        let mut contents = None;
        while let Some((id, kind)) = reader.field()? {
            let member = match id {
                1 => Self::Error(reader.long_text("error", kind)?),
                2 => void(reader, kind, Self::Empty)?,
                3 => void(reader, kind, Self::Fail)?,
                4 => void(reader, kind, Self::Neg)?,
                5 => Self::Delegate(reader.number("delegate", kind)?),
                6 => {
                    reader.structure("boundLeaf", kind)?;
                    Self::Leaf(bound_name(reader)?)
                }
                8 => Self::Alt(ids(reader, kind)?),
                9 => Self::Weighted(weighted(reader, kind)?),
                10 => {
                    reader.structure("transformation", kind)?;
                    transformation(reader)?
                }
                _ => return Err(wrong(format!("a node of an explanation is member {id}, which is not known"))),
            };
            only(&mut contents, member)?;
        }
        there("contents", contents)
    }
}

fn transformation(reader: &mut Reader<'_>) -> Result<Contents, Fault> {
    let (mut value, mut tree) = (None, None);
    while let Some((id, kind)) = reader.field()? {
        match id {
            1 => {
                reader.structure("value", kind)?;
                value = Some(bound_name(reader)?);
            }
            2 => tree = Some(reader.number("tree", kind)?),
            _ => reader.skip(kind)?,
        }
    }
    Ok(Contents::Transformation(there("value", value)?, there("tree", tree)?))
}

/// A member that says all by its name.
fn void<T>(reader: &mut Reader<'_>, kind: Type, member: T) -> Result<T, Fault> {
    reader.structure("member", kind)?;
    reader.skip(kind)?;
    Ok(member)
}

fn ids(reader: &mut Reader<'_>, kind: Type) -> Result<Vec<i32>, Fault> {
    let count = reader.list("alt", kind, Type::I32)?;
    (0..count).map(|_| reader.i32()).collect()
}

fn weighted(reader: &mut Reader<'_>, kind: Type) -> Result<Vec<(f64, i32)>, Fault> {
    let count = reader.list("weighted", kind, Type::Struct)?;
    let branch = |_| {
        let (mut weight, mut node) = (None, None);
        while let Some((id, kind)) = reader.field()? {
            match id {
                1 => weight = Some(reader.real("weight", kind)?),
                2 => node = Some(reader.number("id", kind)?),
                _ => reader.skip(kind)?,
            }
        }
        match there("weight", weight)? {
            weight if weight.is_finite() => Ok((weight, there("id", node)?)),
            weight => Err(wrong(format!("a branch of weight {weight}"))),
        }
    };
    (0..count).map(branch).collect()
}
