//! Whose the files in `stateDir` are: one process's at a time.
//!
//! A process that leaves keeps them to its end, and notes behind its number in the lock that it serves nobody any more.
//! Those who serve meanwhile are its heirs, and share a second lock: so a start in that time can tell whether somebody
//! serves, or whoever took over has died.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::runtime::{StateDir, heavy};

const NAME: &str = "lock";
const HEIRS: &str = "heirs";
/// What the lock says of a process that serves nobody any more.
const LEAVING: &str = "leaving";
/// A process that has just been told to end lets go within this time.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often it is seen whether the files are free.
const TICK: Duration = Duration::from_millis(100);
/// The same when that takes long.
const LONG_TICK: Duration = Duration::from_secs(1);
/// A process that leaves has ended within this time, unless it hangs or is configured to take longer.
const LONG: Duration = Duration::from_secs(120);
/// How often it is seen whether a directory that could not be used has been mended.
const MENDED: Duration = Duration::from_secs(5);
/// Who looks whether there are heirs has their lock for a moment.
const TRIES: usize = 20;

/// The right to write files in `stateDir`. Cloning shares it. The kernel takes it back when the process ends, however
/// that happens.
#[derive(Clone, Debug)]
pub struct Files {
    directory: StateDir,
    claim: Arc<watch::Sender<Claim>>,
    heir: Arc<Mutex<Heir>>,
}

#[derive(Debug)]
enum Claim {
    None,
    Locked(File),
    /// There can be no lock, because the directory cannot be used; it may be mended later.
    Unlocked,
}

/// Whether this process is to have the files of another one.
#[derive(Debug, Default)]
struct Heir {
    /// It serves meanwhile.
    serving: Option<File>,
    since: Option<Instant>,
}

/// Who has the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    Nobody,
    /// A process that serves nobody any more, and neither does anybody in its place.
    Leaving,
    /// A process that serves, or one that leaves while another one serves.
    Serving,
}

// === impl Files ===

impl Files {
    /// Those in this directory. They are not ours yet.
    pub fn of(directory: StateDir) -> Self {
        Self { directory, claim: Arc::new(watch::Sender::new(Claim::None)), heir: Arc::default() }
    }

    /// Where they are.
    pub fn directory(&self) -> &StateDir {
        &self.directory
    }

    /// Are they ours?
    pub fn are_ours(&self) -> bool {
        !matches!(*self.claim.borrow(), Claim::None)
    }

    /// Are they to be ours when another process has ended?
    pub fn are_to_be_ours(&self) -> bool {
        self.heir.lock().since.is_some() && !self.are_ours()
    }

    /// Waits until they are ours. Cancel safe.
    pub async fn ours(&self) {
        let mut claim = self.claim.subscribe();
        if claim.wait_for(|claim| !matches!(claim, Claim::None)).await.is_err() {
            std::future::pending().await // cannot happen: the sender lives in `self`
        }
    }

    /// What is wrong, for `/ready`: they should have been ours for long.
    pub fn degradation(&self) -> Option<String> {
        let since = self.heir.lock().since.filter(|_| !self.are_ours())?.elapsed();
        (since > LONG).then(|| {
            format!(
                "{}: still {}'s after {} s: it was to end; until then nothing of this process is kept",
                self.directory.path().display(),
                self.owner(),
                since.as_secs()
            )
        })
    }

    /// Makes them ours, or will when their process has ended, if that serves nobody any more. A process that is about to
    /// end is waited for. A directory that cannot be used keeps nobody from starting.
    ///
    /// # Errors
    /// One line: another process has them.
    pub async fn claim(&self) -> Result<(), String> {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.try_claim() {
                Ok(true) => return Ok(()),
                Ok(false) if self.holder() == Holder::Leaving => {
                    tracing::info!("{} has closed its ports and ends; its files are ours then", self.owner());
                    self.become_heir();
                    return Ok(());
                }
                Ok(false) => {}
                Err(problem) => {
                    tracing::warn!("{problem}: nobody can take over");
                    self.claim.send_replace(Claim::Unlocked);
                    return Ok(());
                }
            }
            if Instant::now() >= until {
                return Err(format!(
                    "stateDir {} is in use by {}; give each process a directory of its own, or start this one with \
                     --take-over",
                    self.directory.path().display(),
                    self.owner()
                ));
            }
            sleep(TICK).await;
        }
    }

    /// Makes them ours as soon as the process that has them has ended.
    pub async fn inherit(&self) {
        let (began, mut pause, mut told) = (Instant::now(), TICK, false);
        loop {
            let files = self.clone();
            match heavy(move || files.try_claim()).await {
                Some(Ok(true)) => break,
                Some(Ok(false)) | None => {}
                Some(Err(problem)) => tracing::debug!("{problem}"),
            }
            if began.elapsed() > LONG && !std::mem::replace(&mut told, true) {
                tracing::warn!(
                    directory = %self.directory.path().display(),
                    "{} has not ended yet: nothing of this process is kept until it has; end it by hand", self.owner()
                );
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONG_TICK);
        }
        self.heir.lock().serving = None;
        tracing::info!(directory = %self.directory.path().display(), "the files in stateDir are ours now");
    }

    /// Locks a directory that could not be used, once that has been mended, so that nobody else takes it.
    pub(crate) async fn lock_when_mended(&self) {
        while matches!(*self.claim.borrow(), Claim::Unlocked) {
            sleep(MENDED).await;
            let files = self.clone();
            if let Some(Ok(false)) = heavy(move || files.try_lock()).await {
                tracing::error!(
                    directory = %self.directory.path().display(),
                    "two processes write their files there: this one and {}; give each a directory of its own",
                    self.owner()
                );
                return;
            }
        }
    }

    /// This process serves in the place of the one that has them.
    pub(super) fn become_heir(&self) {
        let mut heir = self.heir.lock();
        heir.since.get_or_insert_with(Instant::now);
        let path = self.directory.path().join(HEIRS);
        for _ in 0..TRIES {
            // Without it a start after our death has to wait for longer, and that is all.
            match lock(&path, FlockOperation::NonBlockingLockShared) {
                Ok(Some(file)) => {
                    heir.serving = Some(file);
                    return;
                }
                Ok(None) => std::thread::sleep(Duration::from_millis(1)),
                Err(_) => return,
            }
        }
    }

    /// The hand-over has failed.
    pub(super) fn stay_without(&self) {
        *self.heir.lock() = Heir::default();
    }

    /// This process serves nobody any more, and ends.
    pub(crate) fn leave(&self) {
        if let Claim::Locked(file) = &*self.claim.borrow() {
            note(file, LEAVING);
        }
        self.heir.lock().serving = None;
    }

    /// Makes them ours if nobody has them. Blocks.
    fn try_claim(&self) -> Result<bool, String> {
        if self.are_ours() { Ok(true) } else { self.try_lock() }
    }

    fn try_lock(&self) -> Result<bool, String> {
        let path = self.directory.path();
        let locked = std::fs::create_dir_all(path)
            .and_then(|()| lock(&path.join(NAME), FlockOperation::NonBlockingLockExclusive));
        match locked {
            Ok(None) => Ok(false),
            Ok(Some(file)) => {
                note(&file, "");
                self.claim.send_replace(Claim::Locked(file));
                Ok(true)
            }
            Err(error) => Err(format!("stateDir {} cannot be used: {error}", path.display())),
        }
    }

    /// Who has them.
    pub(super) fn holder(&self) -> Holder {
        let path = |name| self.directory.path().join(name);
        let is_free = |name| {
            let path = path(name);
            !path.exists() || !lock(&path, FlockOperation::NonBlockingLockExclusive).is_ok_and(|lock| lock.is_none())
        };
        if !self.are_ours() && is_free(NAME) {
            Holder::Nobody
        } else if self.noted().is_some_and(|noted| noted.trim().ends_with(LEAVING)) && is_free(HEIRS) {
            Holder::Leaving
        } else {
            Holder::Serving
        }
    }

    /// The process that has them, for messages.
    pub(super) fn owner(&self) -> String {
        let noted = self.noted();
        let pid = noted.as_deref().and_then(|noted| noted.split_whitespace().next()?.parse::<u32>().ok());
        pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
    }

    fn noted(&self) -> Option<String> {
        let mut text = String::new();
        File::open(self.directory.path().join(NAME)).ok()?.take(64).read_to_string(&mut text).ok()?;
        Some(text)
    }
}

/// None if somebody else has it.
fn lock(path: &Path, how: FlockOperation) -> io::Result<Option<File>> {
    let file = OpenOptions::new().create(true).truncate(false).read(true).write(true).mode(0o600).open(path)?;
    match flock(&file, how) {
        Ok(()) => Ok(Some(file)),
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Whose the lock is, and how it is with that process. The lock holds without, on a full disk for one.
fn note(file: &File, how: &str) {
    let text = format!("{} {how}\n", std::process::id());
    let written = file.write_all_at(text.as_bytes(), 0).and_then(|()| file.set_len(text.len() as u64));
    if let Err(error) = written {
        tracing::debug!(%error, "the lock does not say whose it is");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn files_belong_to_one_at_a_time_and_are_inherited() {
        let folder = tempfile::tempdir().expect("a folder");
        let directory = folder.path().join("state");
        let of = |path: &Path| Files::of(StateDir::open(path));
        let (first, second) = (of(&directory), of(&directory));
        assert_eq!(first.holder(), Holder::Nobody);
        first.claim().await.expect("free");
        assert!(first.are_ours() && !second.are_ours());
        assert_eq!(second.holder(), Holder::Serving);
        let refused = second.claim().await.expect_err("taken");
        let owner = format!("is in use by process {}; ", std::process::id());
        assert!(refused.contains(&owner) && refused.contains("--take-over"), "{refused}");
        let heir = tokio::spawn({
            let second = second.clone();
            async move { second.inherit().await }
        });
        sleep(Duration::from_secs(60)).await;
        assert!(!heir.is_finished());
        drop(first);
        second.ours().await;
        heir.await.expect("no panic");
    }

    #[tokio::test]
    async fn a_directory_that_cannot_be_made_keeps_nobody_from_starting() {
        let folder = tempfile::tempdir().expect("a folder");
        let taken = folder.path().join("taken");
        std::fs::write(&taken, "a file").expect("written");
        let files = Files::of(StateDir::open(&taken));
        assert_eq!(files.holder(), Holder::Nobody);
        files.claim().await.expect("nobody has them");
        assert!(files.are_ours(), "it may be mended");
    }

    #[tokio::test(start_paused = true)]
    async fn who_serves_nobody_any_more_is_in_nobodys_way_unless_an_heir_serves() {
        let folder = tempfile::tempdir().expect("a folder");
        let of = || Files::of(StateDir::open(folder.path()));
        let (old, heir, next) = (of(), of(), of());
        old.claim().await.expect("free");
        heir.become_heir();
        old.leave();
        assert_eq!(next.holder(), Holder::Serving, "the heir serves");
        assert!(next.claim().await.is_err());
        drop(heir); // it has died
        assert_eq!(next.holder(), Holder::Leaving);
        next.claim().await.expect("nobody serves");
        assert!(next.are_to_be_ours() && !next.are_ours());
        assert_eq!(of().holder(), Holder::Serving, "somebody does again");
        assert_eq!(next.degradation(), None);
        sleep(LONG + LONG_TICK).await;
        let degraded = next.degradation().expect("the old one hangs");
        assert!(degraded.contains(&format!("still process {}'s", std::process::id())), "{degraded}");
        let inherit = next.inherit();
        drop(old);
        inherit.await;
        assert!(next.are_ours() && next.degradation().is_none());
    }

    #[tokio::test]
    async fn a_directory_that_is_mended_is_locked() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("taken");
        std::fs::write(&path, "a file").expect("written");
        let files = Files::of(StateDir::open(&path));
        files.claim().await.expect("nobody has them");
        std::fs::remove_file(&path).expect("removed");
        assert_eq!(files.try_lock(), Ok(true));
        assert_eq!(Files::of(StateDir::open(&path)).holder(), Holder::Serving);
    }
}
