//! Finding a name on disk, one element after the other, so that everything is watched that could change the answer:
//! the directories down to it and those in which a symbolic link on the way lives.

use std::collections::{HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::io::Errno;

use super::inotify::Watches;

/// How many symbolic links one name may lead over; the kernel's own limit.
const MAX_LINKS: usize = 40;

/// An entry of a watched directory on which an answer depends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The directory.
    pub(super) wd: i32,
    /// The entry; none stands for all of them.
    pub(super) name: Option<Box<[u8]>>,
}

/// What a walk passed.
#[derive(Debug, Default)]
pub(super) struct Trail {
    /// What the answer depends on.
    pub(super) places: Vec<Place>,
    /// Whether some of it is not watched.
    pub(super) unwatched: bool,
    /// The directory that holds the last element asked for.
    pub(super) home: Option<i32>,
}

/// Where a walk ended. The paths are free of links.
pub(super) enum Target {
    /// Nothing there.
    Missing,
    /// A directory.
    Directory(PathBuf),
    /// A regular file.
    File(PathBuf, Metadata),
}

/// Walks for one round of looks, which watch each directory once.
pub(super) struct Walker {
    watches: Option<Watches>,
    watched: HashMap<PathBuf, Option<i32>>,
    /// Why the last directory that could not be watched was not.
    pub(super) refused: Option<(PathBuf, io::Error)>,
}

/// One step of a walk.
struct Step {
    name: OsString,
    kind: StepKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum StepKind {
    /// An element of the name that was asked for; watched.
    Element,
    /// The end of what a link says; watched.
    End,
    /// On the way to that; watched if the system allows it.
    Link,
    /// On the way to the root directory; watched if it is a link, or the last step.
    Root,
}

impl Walker {
    pub(super) fn new(watches: Option<Watches>) -> Self {
        Self { watches, watched: HashMap::new(), refused: None }
    }

    /// Follows an absolute path to the directory that holds all names.
    ///
    /// # Errors
    /// Whatever the system says, apart from "nothing there".
    pub(super) fn root(&mut self, root: &Path, trail: &mut Trail) -> Result<Target, Failure> {
        self.walk(PathBuf::from("/"), steps(root, StepKind::Root), trail)
    }

    /// Follows the elements of a name, each of which is one step down.
    ///
    /// # Errors
    /// As [`Walker::root`].
    pub(super) fn below<'e>(
        &mut self,
        root: &Path,
        elems: impl Iterator<Item = &'e [u8]>,
        trail: &mut Trail,
    ) -> Result<Target, Failure> {
        let steps =
            elems.map(|elem| Step { name: OsStr::from_bytes(elem).to_owned(), kind: StepKind::Element }).collect();
        self.walk(root.to_owned(), steps, trail)
    }

    /// Depends on all entries of a directory.
    pub(super) fn whole(&mut self, directory: &Path, trail: &mut Trail) {
        self.depend(directory, None, trail);
    }

    fn walk(&mut self, mut at: PathBuf, mut steps: VecDeque<Step>, trail: &mut Trail) -> Result<Target, Failure> {
        let mut links = 0;
        while let Some(Step { name, kind }) = steps.pop_front() {
            if name == ".." {
                // What is left of the path has no links, so its parent is where `..` leads.
                at.pop();
                continue;
            }
            // Watched before it is looked at: a change in between is noticed.
            match kind {
                StepKind::Element => trail.home = self.depend(&at, Some(name.as_bytes()), trail),
                StepKind::Root if !steps.is_empty() => {}
                StepKind::End | StepKind::Root => {
                    self.depend(&at, Some(name.as_bytes()), trail);
                }
                StepKind::Link => {
                    let before = (trail.unwatched, self.refused.take());
                    self.depend(&at, Some(name.as_bytes()), trail);
                    (trail.unwatched, self.refused) = before;
                }
            }
            let next = at.join(&name);
            let found = match fs::symlink_metadata(&next) {
                Ok(found) => found,
                Err(error) if is_absent(&error) => return Ok(Target::Missing),
                Err(error) => return Err(Failure { path: next, error }),
            };
            if found.is_symlink() {
                links += 1;
                if links > MAX_LINKS {
                    return Ok(Target::Missing);
                }
                self.depend(&at, Some(name.as_bytes()), trail);
                let target = match fs::read_link(&next) {
                    Ok(target) => target,
                    Err(error) if is_absent(&error) => return Ok(Target::Missing),
                    Err(error) => return Err(Failure { path: next, error }),
                };
                if target.is_absolute() {
                    at = PathBuf::from("/");
                }
                let mut rest = std::mem::replace(&mut steps, steps_of_link(&target));
                steps.append(&mut rest);
            } else if steps.is_empty() && found.is_file() {
                return Ok(Target::File(next, found));
            } else if found.is_dir() {
                at = next;
            } else {
                return Ok(Target::Missing);
            }
        }
        Ok(Target::Directory(at))
    }

    fn depend(&mut self, directory: &Path, name: Option<&[u8]>, trail: &mut Trail) -> Option<i32> {
        let wd = self.watch(directory);
        match wd {
            Some(wd) => {
                let place = Place { wd, name: name.map(Into::into) };
                if !trail.places.contains(&place) {
                    trail.places.push(place);
                }
            }
            None => trail.unwatched = true,
        }
        wd
    }

    fn watch(&mut self, directory: &Path) -> Option<i32> {
        if let Some(known) = self.watched.get(directory) {
            return *known;
        }
        let wd = match self.watches.as_mut()?.add(directory) {
            Ok(wd) => Some(wd),
            Err(error) => {
                self.refused = Some((directory.to_owned(), error));
                None
            }
        };
        self.watched.insert(directory.to_owned(), wd);
        wd
    }
}

/// What the system said, and where.
#[derive(Debug, thiserror::Error)]
#[error("cannot look at {}: {error}", .path.display())]
pub(super) struct Failure {
    pub(super) path: PathBuf,
    pub(super) error: io::Error,
}

/// Does the error say that there is nothing?
pub(super) fn is_absent(error: &io::Error) -> bool {
    let errno = |errno: Errno| Some(errno.raw_os_error());
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        || [errno(Errno::LOOP), errno(Errno::NAMETOOLONG)].contains(&error.raw_os_error())
}

fn steps(path: &Path, kind: StepKind) -> VecDeque<Step> {
    let named = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name),
        Component::ParentDir => Some(OsStr::new("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    named.map(|name| Step { name: name.to_owned(), kind }).collect()
}

fn steps_of_link(target: &Path) -> VecDeque<Step> {
    let mut steps = steps(target, StepKind::Link);
    if let Some(end) = steps.back_mut() {
        end.kind = StepKind::End;
    }
    steps
}
