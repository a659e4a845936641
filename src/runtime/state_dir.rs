//! `stateDir`: the directory for what outlasts the process, and whether that can be written at all.
//!
//! What is kept there is needed when it is too late to mend it, so a directory that takes nothing has to be seen before:
//! by `check --connect`, at the start, in `/ready`, in metrics and in the last lines of the log. It never keeps a process
//! from serving.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

use super::Seldom;
use crate::text::calendar;

/// What is tried to be written: more than a full disk takes.
const TRIAL: [u8; 4096] = [0; 4096];

/// The directory. Cloning shares it.
#[derive(Clone, Debug)]
pub struct StateDir {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    /// What is wrong with the directory itself; a file that was written shows that nothing is.
    wrong: Mutex<Option<String>>,
    files: Mutex<Vec<Arc<Health>>>,
}

/// One file in the directory, and how its writes go.
#[derive(Debug)]
pub struct LastingFile {
    directory: StateDir,
    path: PathBuf,
    health: Arc<Health>,
}

/// How the writes of a file go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileHealth {
    /// Its name in the directory.
    pub name: &'static str,
    /// When it was last written well.
    pub written: Option<SystemTime>,
    /// How many writes have failed.
    pub failures: u64,
    /// Since when no write succeeds, and why not.
    pub failing: Option<(SystemTime, String)>,
}

#[derive(Debug)]
struct Health {
    /// What is in it, for people.
    what: &'static str,
    state: Mutex<FileHealth>,
    complaints: Seldom,
}

// === impl StateDir ===

impl StateDir {
    /// The directory at `path`, which is made if there is none. What is wrong with it is told, and shown until a file in it
    /// could be written. Blocks.
    pub fn open(path: &Path) -> Self {
        let wrong = fs::create_dir_all(path).err().map(|error| format!("cannot be made: {error}"));
        let wrong =
            wrong.map_or_else(|| Self::check(path).err(), |wrong| Some(Self::check(path).err().unwrap_or(wrong)));
        if let Some(wrong) = &wrong {
            tracing::error!(path = %path.display(), "stateDir {wrong}; until then nothing outlasts this process");
        }
        let shared = Shared { path: path.to_owned(), wrong: Mutex::new(wrong), files: Mutex::default() };
        Self { shared: Arc::new(shared) }
    }

    /// Tries whether files can be written at `path`, or where it would be made, and leaves nothing behind. Blocks.
    ///
    /// # Errors
    /// What is wrong, and the remedy.
    pub fn check(path: &Path) -> Result<String, String> {
        const REMEDY: &str = "make it a directory that this user may write, or change stateDir";
        let there = path.ancestors().find(|folder| named(folder).symlink_metadata().is_ok());
        let there = named(there.unwrap_or(path));
        let shown = there.display();
        match there.metadata() {
            Ok(about) if !about.is_dir() => {
                return Err(format!("cannot be used: {shown} is not a directory; {REMEDY}"));
            }
            Ok(_) => {}
            Err(error) => return Err(format!("cannot be used: {shown}: {error}; {REMEDY}")),
        }
        let nanos = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let trial = there.join(format!(".rosterd-{}-{nanos}", std::process::id()));
        let written = File::create_new(&trial).and_then(|mut file| {
            let written = file.write_all(&TRIAL);
            fs::remove_file(&trial).and(written)
        });
        match written {
            Ok(()) if there == named(path) => Ok("can be written".to_owned()),
            Ok(()) => Ok(format!("will be made; {shown} can be written")),
            Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                Err(format!("cannot be written: {error} in {shown}; make room there, or change stateDir"))
            }
            Err(error) => Err(format!("cannot be written: {error} in {shown}; {REMEDY}")),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// The file `name`, which holds `what` (`the watch ledger`). Nothing is touched: it may be another process's.
    pub fn file(&self, name: &'static str, what: &'static str) -> LastingFile {
        let state = FileHealth { name, written: None, failures: 0, failing: None };
        let complaints = Seldom::new(Duration::from_secs(60));
        let health = Arc::new(Health { what, state: Mutex::new(state), complaints });
        self.shared.files.lock().push(health.clone());
        LastingFile { directory: self.clone(), path: self.shared.path.join(name), health }
    }

    /// How the writes of all files go.
    pub fn files(&self) -> Vec<FileHealth> {
        self.shared.files.lock().iter().map(|health| health.state.lock().clone()).collect()
    }

    /// What is wrong now, for `/ready`.
    pub fn degradation(&self) -> Option<String> {
        let failing = self.files().into_iter().filter_map(|file| {
            let (since, error) = file.failing?;
            Some(format!("{} cannot be written since {}: {error}", file.name, calendar::java(since)))
        });
        let failing = failing.collect::<Vec<_>>().join(", ");
        let wrong = if failing.is_empty() { self.shared.wrong.lock().clone()? } else { failing };
        Some(format!("{}: {wrong}", self.shared.path.display()))
    }

    /// The process ends: what is lost with it is told.
    pub fn end(&self) {
        for health in self.shared.files.lock().iter() {
            let state = health.state.lock();
            if let Some((_, error)) = &state.failing {
                let file = self.shared.path.join(state.name);
                tracing::error!(
                    file = %file.display(), %error,
                    "{} could not be written to the end: the next process begins without the newest of it", health.what
                );
            }
        }
    }
}

fn named(folder: &Path) -> &Path {
    if folder.as_os_str().is_empty() { Path::new(".") } else { folder }
}

// === impl LastingFile ===

impl LastingFile {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// It is ours: what an unfinished write of an earlier process has left is removed. Blocks.
    pub fn is_ours(&self) {
        fs::remove_file(self.unfinished()).ok(); // there seldom is one
    }

    /// Opens it for reading. None if there is none, and neither is one where there is no directory.
    ///
    /// # Errors
    /// It is there, and cannot be opened.
    pub fn open(&self) -> io::Result<Option<File>> {
        match File::open(&self.path) {
            Ok(file) => Ok(Some(file)),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sets it aside, as it cannot be read, and says so.
    pub fn set_aside(&self, error: &io::Error) {
        let (path, aside) = (self.path.display(), self.with("unreadable"));
        let what = self.health.what;
        match fs::rename(&self.path, &aside) {
            Ok(()) => tracing::warn!(
                file = %path, %error, aside = %aside.display(),
                "{what} of the earlier process cannot be read; the file is set aside, and a new one begun"
            ),
            Err(kept) => tracing::warn!(
                file = %path, %error,
                "{what} of the earlier process cannot be read, and the file cannot be set aside ({kept})"
            ),
        }
    }

    /// Writes all of it anew: beside the old one, whose place it takes when it is whole and on disk. A write that fails
    /// leaves the old one, and nothing else that takes room. Makes the directory if it has gone. Blocks.
    ///
    /// # Errors
    /// The file system does not take it.
    pub fn replace(&self, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> io::Result<()> {
        let unfinished = self.unfinished();
        fs::create_dir_all(self.directory.path())?;
        let written = (|| {
            let mut to = BufWriter::new(File::create(&unfinished)?);
            write(&mut to)?;
            let file = to.into_inner().map_err(io::IntoInnerError::into_error)?;
            file.sync_all()?;
            fs::rename(&unfinished, &self.path)?;
            File::open(self.directory.path())?.sync_all()
        })();
        if written.is_err() {
            fs::remove_file(&unfinished).ok(); // it may not even have been made
        }
        written
    }

    /// Takes down what came of a write. The first of a streak of failures is logged, then one a minute, then the end of it.
    pub fn told(&self, outcome: &io::Result<()>) {
        let now = SystemTime::now();
        let mut state = self.health.state.lock();
        let what = self.health.what;
        match outcome {
            Ok(()) => {
                state.written = Some(now);
                *self.directory.shared.wrong.lock() = None;
                if state.failing.take().is_some() {
                    tracing::info!(file = %self.path.display(), "{what} can be written again");
                }
            }
            Err(error) => {
                state.failures += 1;
                let text = error.to_string();
                let since = state.failing.as_ref().map_or(now, |(since, _)| *since);
                let again = state.failing.replace((since, text)).is_some();
                if self.health.complaints.due().is_some() {
                    let since = again.then(|| calendar::java(since));
                    tracing::warn!(
                        file = %self.path.display(), %error, since,
                        "{what} cannot be written to stateDir; trying again"
                    );
                }
            }
        }
    }

    fn unfinished(&self) -> PathBuf {
        self.with("new")
    }

    fn with(&self, ending: &str) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(".");
        name.push(ending);
        name.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().expect("a temporary folder can be made")
    }

    fn entries(folder: &Path) -> Vec<String> {
        let names = fs::read_dir(folder).expect("it is there");
        names.map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn a_directory_is_tried_and_nothing_stays_behind() {
        let folder = folder();
        assert_eq!(StateDir::check(folder.path()), Ok("can be written".to_owned()));
        let made = folder.path().join("a/b");
        assert_eq!(StateDir::check(&made), Ok(format!("will be made; {} can be written", folder.path().display())));
        assert_eq!(entries(folder.path()), [""; 0]);
        assert!(
            StateDir::check(Path::new("does-not-exist")).expect("it can be made here").starts_with("will be made; .")
        );

        let file = folder.path().join("file");
        fs::write(&file, "").expect("written");
        for path in [file.clone(), file.join("below")] {
            let wrong = StateDir::check(&path).expect_err("no directory");
            let expected = format!(
                "cannot be used: {} is not a directory; make it a directory that this user may write, or change stateDir",
                file.display()
            );
            assert_eq!(wrong, expected);
        }
        std::os::unix::fs::symlink("nowhere", folder.path().join("dangling")).expect("a link");
        assert!(StateDir::check(&folder.path().join("dangling")).is_err());
        assert!(
            StateDir::check(Path::new("/proc/nope"))
                .expect_err("nothing can be made there")
                .contains(" in /proc; make")
        );
    }

    #[test]
    fn a_directory_that_takes_nothing_is_degraded_until_something_is_written() {
        let folder = folder();
        let path = folder.path().join("state");
        fs::write(&path, "a file").expect("written");
        let state = StateDir::open(&path);
        let degraded = || state.degradation();
        assert!(degraded().expect("degraded").contains(" is not a directory; "), "before anything is written");
        let file = state.file("x", "the x");
        assert!(file.open().expect("no error").is_none(), "there is no earlier one");
        let outcome = file.replace(|to| to.write_all(b"1"));
        file.told(&outcome);
        assert!(degraded().expect("degraded").contains("x cannot be written since "), "{:?}", degraded());
        assert_eq!((state.files()[0].failures, state.files()[0].written), (1, None));

        fs::remove_file(&path).expect("removed");
        let outcome = file.replace(|to| to.write_all(b"1"));
        file.told(&outcome);
        assert_eq!((outcome.is_ok(), degraded()), (true, None), "it was made again");
        assert_eq!(fs::read(path.join("x")).expect("written"), b"1");
        assert!(state.files()[0].written.is_some());
    }

    #[test]
    fn a_write_that_fails_leaves_the_old_file_and_no_other() {
        let folder = folder();
        let state = StateDir::open(folder.path());
        let file = state.file("x", "the x");
        file.replace(|to| to.write_all(b"old")).expect("written");
        // The device that is always full stands in for a disk that is.
        std::os::unix::fs::symlink("/dev/full", folder.path().join("x.new")).expect("a link");
        let failed = file.replace(|to| to.write_all(&[0; 100_000])).expect_err("no room");
        assert_eq!(failed.kind(), io::ErrorKind::StorageFull);
        assert_eq!(
            (entries(folder.path()), fs::read(file.path()).expect("there")),
            (vec!["x".to_owned()], b"old".to_vec())
        );
    }

    #[test]
    fn what_an_unfinished_write_has_left_is_removed_by_whose_file_it_is() {
        let folder = folder();
        fs::write(folder.path().join("x.new"), "half").expect("written");
        let file = StateDir::open(folder.path()).file("x", "the x");
        assert_eq!(entries(folder.path()), ["x.new"], "another process may be writing it");
        file.is_ours();
        assert_eq!(entries(folder.path()), [""; 0]);
    }
}
