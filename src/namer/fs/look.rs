//! Looking at the disk: blocking, in rounds of a bounded number of names, off the runtime's own threads.

use std::collections::BTreeSet;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::OFlags;

use super::content::{Content, MAX_LEN};
use super::desk::Key;
use super::inotify::Watches;
use super::settle::{Doubt, QUIET, Writing};
use super::walk::{Failure, Target, Trail, Walker, is_absent};
use crate::name::Path as Name;

/// How many names of the root directory are listed.
const MAX_NAMES: usize = 100_000;

/// A file whose last change is younger than this when it is read may change again without a new time.
const CLOCK_GRAIN: Duration = Duration::from_secs(2);

/// A question about one name.
#[derive(Debug)]
pub(super) struct Ask {
    /// Whose answer it is.
    pub(super) id: u64,
    /// What to look at.
    pub(super) key: Key,
    /// The file as it was when it was last read.
    pub(super) seen: Option<Seen>,
    /// What is known of somebody writing to the file.
    pub(super) writing: Writing,
}

/// The answer to an [`Ask`].
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) id: u64,
    pub(super) trail: Trail,
    pub(super) finding: Finding,
}

/// What was found.
#[derive(Debug)]
pub(super) enum Finding {
    /// There is no such name.
    Missing,
    /// A directory.
    Directory,
    /// A regular file that is as it was.
    Unchanged,
    /// A regular file somebody may be writing to; to be looked at again after this time.
    Unsettled {
        /// When to look again.
        again: Duration,
        /// What is to be confirmed then.
        doubt: Doubt,
    },
    /// What a regular file says, or why it says nothing.
    File(Option<Seen>, Result<Content, Unreadable>),
    /// The names in the root directory.
    Names(BTreeSet<Name>),
    /// The system did not say what is there.
    Trouble(String),
}

/// Why a file says nothing.
#[derive(Debug)]
pub(super) struct Unreadable {
    /// What clients are told.
    pub(super) reason: String,
    /// Where that is, for the log: `path`, or `path:line`.
    pub(super) place: String,
}

/// Tells one state of a file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    device: u64,
    inode: u64,
    len: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    /// Was it so fresh that another change might leave no trace?
    fresh: bool,
}

/// What one round found.
#[derive(Debug)]
pub(super) struct Round {
    /// What the place of the root directory depends on.
    pub(super) root: Trail,
    /// Why there is no root directory; then all answers are [`Finding::Trouble`].
    pub(super) root_failure: Option<String>,
    /// The answers, in the order of the questions.
    pub(super) answers: Vec<Answer>,
    /// A directory that could not be watched, and why.
    pub(super) refused: Option<(std::path::PathBuf, io::Error)>,
}

/// Answers all questions.
pub(super) fn look(root: &Path, watches: Option<Watches>, asks: Vec<Ask>) -> Round {
    let mut walker = Walker::new(watches);
    let mut root_trail = Trail::default();
    let found = walker.root(root, &mut root_trail);
    // The parent of the root directory need not be readable; then the poll notices that the root was replaced.
    walker.refused = None;
    let found = match found {
        Ok(Target::Directory(found)) => Ok(found),
        Ok(Target::File(..) | Target::Missing) => Err(format!("{} is not a directory (any more)", root.display())),
        Err(failure) => Err(failure.to_string()),
    };
    let answer = |Ask { id, key, seen, writing }| {
        let mut trail = Trail::default();
        let finding = match (&found, key) {
            (Err(reason), _) => Finding::Trouble(reason.clone()),
            (Ok(found), Key::Names) => {
                walker.whole(found, &mut trail);
                names(found)
            }
            (Ok(found), Key::Name(name)) => match walker.below(found, name.elems(), &mut trail) {
                Ok(Target::Missing) => Finding::Missing,
                Ok(Target::Directory(_)) => Finding::Directory,
                Ok(Target::File(path, metadata)) => {
                    if !writing.changed && seen.is_some_and(|seen| !seen.fresh && seen.same(&metadata)) {
                        Finding::Unchanged
                    } else {
                        read(&path, &shown(root, &name), seen, writing)
                    }
                }
                Err(failure) => Finding::Trouble(failure.to_string()),
            },
        };
        Answer { id, trail, finding }
    };
    let answers = asks.into_iter().map(answer).collect();
    Round { root: root_trail, root_failure: found.err(), answers, refused: walker.refused }
}

/// The path under which an operator knows the file.
fn shown(root: &Path, name: &Name) -> String {
    let elems = name.elems().map(std::ffi::OsStr::from_bytes);
    root.join(elems.collect::<std::path::PathBuf>()).display().to_string()
}

fn read(path: &Path, shown: &str, seen: Option<Seen>, writing: Writing) -> Finding {
    match try_read(path, shown, seen, writing) {
        Ok(finding) => finding,
        Err(error) if is_absent(&error) => Finding::Missing,
        Err(error) => {
            let reason = format!("cannot read {shown}: {error}");
            Finding::File(None, Err(Unreadable { reason, place: shown.to_owned() }))
        }
    }
}

fn try_read(path: &Path, shown: &str, seen: Option<Seen>, writing: Writing) -> io::Result<Finding> {
    // Without blocking: something else may stand there by now.
    let nonblocking = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let mut file = OpenOptions::new().read(true).custom_flags(nonblocking).open(path)?;
    let before = file.metadata()?;
    if !before.is_file() {
        return Ok(Finding::Missing);
    }
    let content = content(&mut file, before.len(), shown)?;
    let after = file.metadata()?;
    let now = SystemTime::now();
    let read = Seen::of(&after, now);
    if !read.same(&before) {
        return Ok(Finding::Unsettled { again: QUIET, doubt: Doubt::Partial });
    }
    if seen.is_some_and(|seen| seen.same(&after)) && !writing.changed {
        // Only its freshness had to be ruled out.
        return Ok(Finding::File(Some(read), content));
    }
    let empty = content.as_ref().is_ok_and(Content::is_empty);
    let modified = after.modified().unwrap_or(now);
    match writing.wait(empty, modified, now) {
        Some((again, doubt)) => Ok(Finding::Unsettled { again, doubt }),
        None => Ok(Finding::File(Some(read), content)),
    }
}

fn content(file: &mut File, len: u64, shown: &str) -> io::Result<Result<Content, Unreadable>> {
    let too_large =
        |len| Ok(Err(Unreadable { reason: format!("file {shown} is {len}.bytes"), place: shown.to_owned() }));
    if len > MAX_LEN {
        return too_large(len);
    }
    let mut bytes = Vec::with_capacity(usize::try_from(len).unwrap_or_default());
    file.take(MAX_LEN + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 {
        len if len > MAX_LEN => too_large(len),
        _ => Ok(Content::parse(&bytes).map_err(|malformed| Unreadable {
            place: format!("{shown}:{}", malformed.line),
            reason: malformed.to_string(),
        })),
    }
}

fn names(directory: &Path) -> Finding {
    let listed = || -> io::Result<BTreeSet<Name>> {
        let mut names = BTreeSet::new();
        for entry in fs::read_dir(directory)?.take(MAX_NAMES) {
            let entry = entry?;
            let kind = match entry.file_type()? {
                kind if kind.is_symlink() => fs::metadata(entry.path()).map(|metadata| metadata.file_type()),
                kind => Ok(kind),
            };
            if kind.is_ok_and(|kind| kind.is_dir() || kind.is_file()) {
                names.extend(Name::from_elems([entry.file_name().as_bytes()]).ok());
            }
        }
        Ok(names)
    };
    match listed() {
        Ok(names) => Finding::Names(names),
        Err(error) => Finding::Trouble(Failure { path: directory.to_owned(), error }.to_string()),
    }
}

// === impl Seen ===

impl Seen {
    fn of(metadata: &Metadata, now: SystemTime) -> Self {
        let age = metadata.modified().ok().and_then(|modified| now.duration_since(modified).ok());
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            len: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            fresh: age.is_none_or(|age| age < CLOCK_GRAIN),
        }
    }

    fn same(&self, metadata: &Metadata) -> bool {
        *self == Self { fresh: self.fresh, ..Self::of(metadata, SystemTime::UNIX_EPOCH) }
    }
}
