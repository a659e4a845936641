//! Addresses: from an id, or from the leaf of a tree, to an address set. No dtab is involved.

use super::bind::bind;
use super::namers::{Alone, Namers, SystemOnly};
use super::{AddrSource, BoundTree};
use crate::name::{Addr, AddrSet, Meta, NameTree, Path};
use crate::store::{Reading, Run};
use crate::transformer::Effect;

/// The addresses behind a leaf.
pub(super) fn of_source(namers: &Namers, run: &mut Run<'_>, source: &AddrSource) -> Reading<Addr> {
    match source {
        AddrSource::None => Reading::Ready(no_addresses()),
        AddrSource::Inet(hosts) => namers.hosts().inet(run, hosts),
        AddrSource::Fixed(hosts) => namers.hosts().fixed_inet(run, hosts),
        AddrSource::Namer { namer, id } => match namers.get(*namer) {
            Some(configured) => configured.namer.addresses(run, id),
            None => Reading::Ready(Addr::Neg),
        },
        // Only the interpreter that asks other name servers has these.
        AddrSource::Upstream(_) => Reading::Ready(Addr::Neg),
        AddrSource::Transformed { namer, transformer, inner } => of_source(namers, run, inner).and_then(|addr| {
            let effect = namers
                .get(*namer)
                .and_then(|configured| configured.transformers.get(usize::from(*transformer)))
                .map(|transformer| &transformer.effect);
            match (addr, effect) {
                (Addr::Bound(set), Some(Effect::Addresses(map))) => map.map(run, &set),
                (addr, _) => Reading::Ready(addr),
            }
        }),
    }
}

/// The addresses of an id: it is bound again, with the namer alone that it belongs to.
pub(super) fn of_id(namers: &Namers, run: &mut Run<'_>, id: &Path) -> Reading<Addr> {
    let tree = match namers.owner(id) {
        Some((at, configured)) => bind(&Alone { namers, at }, run, &NameTree::Leaf(id.drop(configured.prefix.len()))),
        None => bind(&SystemOnly, run, &NameTree::Leaf(id.clone())),
    };
    tree.and_then(|tree| of_tree(namers, run, id, &tree))
}

fn of_tree(namers: &Namers, run: &mut Run<'_>, id: &Path, tree: &BoundTree) -> Reading<Addr> {
    match tree {
        NameTree::Leaf(bound) => of_source(namers, run, &bound.source),
        NameTree::Neg => Reading::Ready(Addr::Neg),
        NameTree::Empty => Reading::Ready(no_addresses()),
        NameTree::Fail => Reading::Failed("name tree failed".into()),
        NameTree::Alt(_) | NameTree::Union(_) => Reading::Failed(format!("{id} is not a concrete bound id").into()),
    }
}

/// The addresses of all leaves together. Those that are known count; it is waited for the others only if there are none.
pub(super) fn of_all(namers: &Namers, run: &mut Run<'_>, tree: &BoundTree) -> Reading<Addr> {
    let mut found = Vec::new();
    let (mut unknown, mut failed) = (None, None);
    let mut bound = false;
    tree.map(|leaf| match of_source(namers, run, &leaf.source) {
        Reading::Ready(Addr::Bound(set)) => {
            bound = true;
            found.extend_from_slice(set.addrs());
        }
        Reading::Ready(Addr::Neg) => {}
        Reading::Ready(Addr::Failed(reason)) => failed = Some(Reading::Ready(Addr::Failed(reason))),
        other => unknown = Some(other),
    });
    match unknown.or(failed) {
        Some(other) if found.is_empty() => other,
        _ if bound => Reading::Ready(Addr::Bound(AddrSet::new(found, Meta::default()))),
        _ => Reading::Ready(Addr::Neg),
    }
}

/// The id below the transformers that an id names: from `/%` up to the first `#` or `$`. An id without either becomes
/// the empty path, which nobody answers for (Paths.scala:15-19).
pub fn strip_transformers(id: &Path) -> Path {
    if id.first() != Some(b"%") {
        return id.clone();
    }
    let start = id.elems().position(|elem| elem == b"#" || elem == b"$");
    id.drop(start.unwrap_or(id.len()))
}

fn no_addresses() -> Addr {
    Addr::Bound(AddrSet::new(Vec::new(), Meta::default()))
}
