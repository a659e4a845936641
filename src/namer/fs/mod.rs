//! `io.l5d.fs`: addresses from files, one file a name.
//!
//! Evaluations read cells; one task, the keeper, writes them. It watches the directories on the way to each name that
//! somebody asks about, follows symbolic links, and polls slowly for what the kernel does not tell. What a file says is
//! published when its writer is done with it.

mod config;
mod content;
mod desk;
mod inotify;
mod interest;
mod keeper;
mod look;
mod page;
mod settle;
mod tracked;
mod walk;

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::task::AbortOnDropHandle;

use super::hosts::Hosts;
use super::{Found, Namer, NamerParts};
use crate::name::{Addr, NameTree, Path};
use crate::store::{Policy, Reading, Run, Staleness, State, Table, Wait};

pub use config::FsConfig;
use desk::{Desk, Seat, What};
use keeper::Keeper;

/// How many names may be watched at once, missing ones included.
const NAMES: usize = 100_000;

/// No file has a longer name.
const NAME_MAX: usize = 255;

/// Names are files below one directory.
pub struct FsNamer {
    names: Table<Path, Seat<What>>,
    list: Table<(), Seat<BTreeSet<Path>>>,
    desk: Arc<Desk>,
    hosts: Hosts,
    fall_through_after: Duration,
    _keeper: AbortOnDropHandle<()>,
}

/// How changes are found out.
#[derive(Clone, Copy, Debug)]
struct Settings {
    /// Let the kernel tell.
    notices: bool,
    /// How often to look anyway.
    poll: Duration,
    /// How often to look while something is not watched.
    blind_poll: Duration,
}

// === impl Settings ===

impl Default for Settings {
    fn default() -> Self {
        Self { notices: true, poll: Duration::from_secs(5), blind_poll: Duration::from_millis(500) }
    }
}

// === impl FsNamer ===

impl FsNamer {
    /// Serves the files below `root`. Nothing is read before the first look-up. Must be called within a runtime.
    ///
    /// # Errors
    /// `root` is relative and there is no working directory.
    pub fn new(root: &std::path::Path, parts: &NamerParts) -> Result<Self, String> {
        let root = std::path::absolute(root)
            .map_err(|error| format!("rootDir: {} needs a working directory: {error}", root.display()))?;
        Ok(Self::with_settings(root, parts, Settings::default()))
    }

    fn with_settings(root: PathBuf, parts: &NamerParts, settings: Settings) -> Self {
        let desk = Arc::new(Desk::default());
        let policy = Policy { budget: NAMES, ..Policy::default() };
        let (for_names, for_list) = (desk.clone(), desk.clone());
        let keeper = Keeper::new(root, desk.clone(), settings);
        Self {
            names: Table::weighed(
                "file names",
                policy,
                |name| 1 + name.bytes() / 512,
                move |name: &Path, _| for_names.name(name),
            ),
            list: Table::new("lists of file names", policy, move |(), _| for_list.names()),
            desk,
            hosts: parts.hosts.clone(),
            fall_through_after: parts.fall_through_after,
            _keeper: AbortOnDropHandle::new(tokio::spawn(async move { match keeper.run().await {} })),
        }
    }

    fn what(&self, run: &mut Run<'_>, name: &Path) -> Reading<Arc<What>> {
        if !name.elems().all(is_file_name) {
            return Reading::Ready(Arc::new(What::Missing));
        }
        match run.observe(&self.names, name, |seat| &seat.cell) {
            Ok(snapshot) => snapshot.reading(self.fall_through_after),
            Err(reason) => Reading::Failed(reason),
        }
    }
}

impl Namer for FsNamer {
    fn lookup(&self, run: &mut Run<'_>, path: &Path) -> Reading<NameTree<Found>> {
        for len in 1..=path.len() {
            let id = path.take(len);
            match self.what(run, &id) {
                Reading::Ready(what) => match *what {
                    What::Missing => break,
                    What::Directory => {}
                    What::File(_) => {
                        return Reading::Ready(NameTree::Leaf(Found::Bound { id, residual: path.drop(len) }));
                    }
                },
                Reading::Pending(wait) => return Reading::Pending(wait),
                Reading::Failed(reason) => return Reading::Failed(reason),
            }
        }
        Reading::Ready(NameTree::Neg)
    }

    fn addresses(&self, run: &mut Run<'_>, id: &Path) -> Reading<Addr> {
        if id.is_empty() {
            return Reading::Ready(Addr::Neg);
        }
        self.what(run, id).and_then(|what| match &*what {
            What::Missing | What::Directory => Reading::Ready(Addr::Neg),
            What::File(content) => {
                let snapshot = run.read(content, ());
                match &snapshot.state {
                    State::Ready(content) => self.hosts.with_named(run, &content.literal, &content.named),
                    // A file that never said anything sensible: the addresses have failed, and the name has not.
                    State::Failed(reason) => Reading::Ready(Addr::Failed(Some(reason.clone()))),
                    State::Pending => Reading::Pending(Wait::default()),
                }
            }
        })
    }

    fn enumerates(&self) -> bool {
        true
    }

    fn names(&self, run: &mut Run<'_>) -> Reading<BTreeSet<Path>> {
        match run.observe(&self.list, &(), |seat| &seat.cell) {
            Ok(snapshot) => snapshot.reading(self.fall_through_after).map(|names| (*names).clone()),
            Err(reason) => Reading::Failed(reason),
        }
    }

    fn staleness(&self) -> Staleness {
        let mut staleness = Staleness::default();
        for (_, cell) in self.desk.wanted(usize::MAX) {
            let name = cell.snapshot();
            match name.value().map(|what| &**what) {
                // What the name is and what its file says fail together where the directory is lost.
                Some(What::File(content)) => staleness.add(&content.snapshot()),
                Some(What::Missing | What::Directory) | None => staleness.add(&name),
            }
        }
        staleness
    }

    fn state(&self) -> Option<serde_json::Value> {
        Some(page::page(&self.desk))
    }
}

/// Whether an element can name a file and does not lead elsewhere.
fn is_file_name(elem: &[u8]) -> bool {
    !matches!(elem, b"." | b"..") && elem.len() <= NAME_MAX && !elem.contains(&b'/') && !elem.contains(&0)
}

impl fmt::Debug for FsNamer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FsNamer").field("names", &self.names).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
