//! `io.rosterd.namerd`: names that another name server looks up.
//!
//! For namers that exist only as plugins of the original: while a fleet moves, the names below their prefix are asked of
//! a namerd that still has them. Ids are that server's own, transformers and all, so that routers see no difference.

mod config;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use super::{Found, Namer, NamerParts};
use crate::client::{Answer, Ask, Feed, Named, Upstream};
use crate::name::{Addr, NameTree, Path};
use crate::store::{Policy, Reading, Run, Staleness, Table};

pub use config::NamerdConfig;

/// How many names, and how many ids, may be followed at once.
const FOLLOWED_MAX: usize = 100_000;

/// Names below a prefix that another name server has, too.
pub struct NamerdNamer {
    upstream: Upstream,
    names: Table<Path, Feed<NameTree<Found>>>,
    addresses: Table<Path, Feed<Addr>>,
    fall_through_after: Duration,
}

// === impl NamerdNamer ===

impl NamerdNamer {
    /// Looks names up in a namespace of `upstream`, which should have no entries for them. Must be called within a
    /// runtime.
    pub fn new(upstream: Upstream, ns: Arc<str>, parts: &NamerParts) -> Self {
        let policy = Policy { budget: FOLLOWED_MAX, ..Policy::default() };
        let weigh = |path: &Path| 1 + path.bytes() / 512;
        let runtime = Handle::current();
        let (at, on, prefix) = (upstream.clone(), runtime.clone(), parts.prefix.clone());
        let keep = Feed::is_stale;
        let names = Table::keeping("names at another name server", policy, weigh, keep, move |name: &Path, _| {
            let path = prefix.concat(name);
            at.feed(&on, Ask::Bind { ns: ns.clone(), dtab: "".into(), path }, found).begun()
        });
        let at = upstream.clone();
        let keep = Feed::is_stale;
        let addresses =
            Table::keeping("address sets of another name server", policy, weigh, keep, move |id: &Path, _| {
                at.feed(&runtime, Ask::Addr { id: id.clone() }, addr).begun()
            });
        Self { upstream, names, addresses, fall_through_after: parts.fall_through_after }
    }
}

impl Namer for NamerdNamer {
    fn lookup(&self, run: &mut Run<'_>, path: &Path) -> Reading<NameTree<Found>> {
        match run.observe(&self.names, path, Feed::cell) {
            Ok(snapshot) => snapshot.reading(self.fall_through_after).map(|tree| (*tree).clone()),
            Err(reason) => Reading::Failed(reason),
        }
    }

    fn addresses(&self, run: &mut Run<'_>, id: &Path) -> Reading<Addr> {
        match run.observe(&self.addresses, id, Feed::cell) {
            Ok(snapshot) => snapshot.reading(self.fall_through_after).map(|addr| (*addr).clone()),
            Err(reason) => Reading::Failed(reason),
        }
    }

    fn staleness(&self) -> Staleness {
        self.upstream.staleness()
    }

    fn state(&self) -> Option<serde_json::Value> {
        Some(self.upstream.page())
    }
}

impl fmt::Debug for NamerdNamer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NamerdNamer").field("upstream", &self.upstream).finish_non_exhaustive()
    }
}

fn found(answer: Answer) -> Result<NameTree<Found>, String> {
    match answer {
        Answer::Tree(tree) => {
            Ok(tree.map(|Named { id, residual, .. }| Found::Whole { id: id.clone(), residual: residual.clone() }))
        }
        other => Err(format!("not a tree: {other:?}")),
    }
}

fn addr(answer: Answer) -> Result<Addr, String> {
    match answer {
        Answer::Addr(addr) => Ok(addr),
        other => Err(format!("no addresses: {other:?}")),
    }
}
