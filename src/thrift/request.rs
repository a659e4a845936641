//! Calls of the `Namer` service, for a client of another server: what follows is read by [`super::read_call`] there.
//!
//! Every field is written, as Linkerd does, and no client is named (ThriftNamerClient.scala:24).

use bytes::{BufMut, Bytes};

use crate::name::{Dentry, NameTree, Path};

use super::Method;
use super::encode::{Encode, call_head};
use super::nodes::{Branches, Numbered, number};
use super::read::Type;

/// Asks for the bound tree of `path`. It is answered once there is one whose stamp is not `stamp`.
pub fn bind(stamp: &[u8], dtab: &str, path: &Path, ns: &str) -> Bytes {
    call(Method::Bind, |out| {
        out.string(1, dtab);
        name_ref(out, 2, stamp, path, ns);
        out.path(3, &Path::empty());
    })
}

/// Asks for the addresses of a bound id. It is answered once there are some whose stamp is not `stamp`.
pub fn addr(stamp: &[u8], id: &Path, ns: &str) -> Bytes {
    call(Method::Addr, |out| {
        name_ref(out, 1, stamp, id, ns);
        out.path(2, &Path::empty());
    })
}

/// Asks for the dtab of a namespace. It is answered once there is one whose stamp is not `stamp`.
pub fn dtab(stamp: &[u8], ns: &str) -> Bytes {
    call(Method::Dtab, |out| {
        out.string(1, stamp);
        out.string(2, ns);
        out.path(3, &Path::empty());
    })
}

/// Asks for the explanation of a tree; answered once.
pub fn delegate(dtab: &str, tree: &NameTree<Path>, ns: &str) -> Bytes {
    let placeholder = Dentry::nop().to_string();
    call(Method::Delegate, |out| {
        out.string(1, dtab);
        out.field(Type::Struct, 2);
        // With a stamp it would never be answered (ThriftNamerInterface.scala:568).
        out.string(1, []);
        out.field(Type::Struct, 2);
        let nodes = number(tree, branches);
        if let Some((root, others)) = nodes.split_first() {
            out.field(Type::Struct, 1);
            node(out, root, &placeholder);
            out.nodes(2, others.len());
            for other in others {
                out.put_i32(other.id);
                node(out, other, &placeholder);
            }
        }
        out.stop();
        out.string(3, ns);
        out.stop();
        out.path(3, &Path::empty());
    })
}

/// A message whose only argument has these fields.
fn call(method: Method, fields: impl FnOnce(&mut Vec<u8>)) -> Bytes {
    let mut out = Vec::with_capacity(128);
    call_head(&mut out, method.name().as_bytes());
    out.field(Type::Struct, 1);
    fields(&mut out);
    out.stop();
    out.stop();
    out.into()
}

fn name_ref(out: &mut Vec<u8>, id: i16, stamp: &[u8], path: &Path, ns: &str) {
    out.field(Type::Struct, id);
    out.string(1, stamp);
    out.path(2, path);
    out.string(3, ns);
    out.stop();
}

fn branches(tree: &NameTree<Path>) -> Branches<'_, NameTree<Path>> {
    match tree {
        NameTree::Alt(trees) => Branches::before(trees),
        NameTree::Union(trees) => Branches::before(trees.iter().map(|branch| &branch.tree)),
        NameTree::Leaf(_) | NameTree::Neg | NameTree::Fail | NameTree::Empty => Branches::before([]),
    }
}

/// The struct `DelegateNode`; servers look at neither path nor entry, but both must be there and readable.
fn node(out: &mut Vec<u8>, Numbered { node, children, .. }: &Numbered<'_, NameTree<Path>>, placeholder: &str) {
    let path = match node {
        NameTree::Leaf(path) => path.clone(),
        _ => Path::empty(),
    };
    out.path(1, &path);
    out.string(2, placeholder);
    out.field(Type::Struct, 3);
    match node {
        NameTree::Empty => out.void(2),
        NameTree::Fail => out.void(3),
        NameTree::Neg => out.void(4),
        NameTree::Leaf(path) => out.path(7, path),
        NameTree::Alt(_) => out.ids(8, children),
        NameTree::Union(trees) => out.weighted(9, trees.iter().map(|branch| branch.weight), children),
    }
    out.stop();
    out.stop();
}
