//! Whose the files in `stateDir` are: one process's at a time.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::runtime::StateDir;

const NAME: &str = "lock";
/// A process that has just been told to end lets go within this time.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often it is seen whether the files are free.
const TICK: Duration = Duration::from_millis(100);

/// The right to write files in `stateDir`. Cloning shares it. The kernel takes it back when the process ends, however
/// that happens.
#[derive(Clone, Debug)]
pub struct Files {
    directory: StateDir,
    claim: Arc<watch::Sender<Claim>>,
}

#[derive(Debug)]
enum Claim {
    None,
    Locked {
        _file: File,
    },
    /// There can be no lock, because the directory cannot be used; it may be mended later, and nobody else has files there.
    Unlocked,
}

// === impl Files ===

impl Files {
    /// Those in this directory. They are not ours yet.
    pub fn of(directory: StateDir) -> Self {
        Self { directory, claim: Arc::new(watch::Sender::new(Claim::None)) }
    }

    /// Where they are.
    pub fn directory(&self) -> &StateDir {
        &self.directory
    }

    /// Are they ours?
    pub fn are_ours(&self) -> bool {
        !matches!(*self.claim.borrow(), Claim::None)
    }

    /// Waits until they are ours. Cancel safe.
    pub async fn ours(&self) {
        let mut claim = self.claim.subscribe();
        if claim.wait_for(|claim| !matches!(claim, Claim::None)).await.is_err() {
            std::future::pending().await // cannot happen: the sender lives in `self`
        }
    }

    /// Makes them ours. A process that is about to end is waited for. A directory that cannot be used keeps nobody from
    /// starting.
    ///
    /// # Errors
    /// One line: another process has them.
    pub async fn claim(&self) -> Result<(), String> {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.try_claim() {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(problem) => {
                    tracing::warn!("{problem}: nobody can take over");
                    self.claim.send_replace(Claim::Unlocked);
                    return Ok(());
                }
            }
            if Instant::now() >= until {
                let owner = self.owner().map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"));
                return Err(format!(
                    "stateDir {} is in use by {owner}; give each process a directory of its own, or start this one with \
                     --take-over",
                    self.directory.path().display()
                ));
            }
            sleep(TICK).await;
        }
    }

    /// Makes them ours as soon as the process that has them has ended.
    pub async fn inherit(&self) {
        while !self.try_claim().unwrap_or(false) {
            sleep(TICK).await;
        }
        tracing::info!(directory = %self.directory.path().display(), "the files in stateDir are ours now");
    }

    /// Makes them ours if nobody has them.
    fn try_claim(&self) -> Result<bool, String> {
        if self.are_ours() {
            return Ok(true);
        }
        let locked =
            std::fs::create_dir_all(self.directory.path()).and_then(|()| lock(&self.directory.path().join(NAME)));
        match locked {
            Ok(None) => Ok(false),
            Ok(Some(mut file)) => {
                if let Err(error) = sign(&mut file) {
                    tracing::debug!(%error, "the lock does not say whose it is");
                }
                self.claim.send_replace(Claim::Locked { _file: file });
                Ok(true)
            }
            Err(error) => Err(format!("stateDir {} cannot be used: {error}", self.directory.path().display())),
        }
    }

    /// Does a process have them?
    pub(super) fn are_taken(&self) -> bool {
        let path = self.directory.path().join(NAME);
        self.are_ours() || path.exists() && lock(&path).is_ok_and(|lock| lock.is_none())
    }

    fn owner(&self) -> Option<u32> {
        let mut text = String::new();
        File::open(self.directory.path().join(NAME)).ok()?.take(32).read_to_string(&mut text).ok()?;
        text.trim().parse().ok()
    }
}

/// None if somebody else has it.
fn lock(path: &Path) -> io::Result<Option<File>> {
    let file = OpenOptions::new().create(true).truncate(false).read(true).write(true).mode(0o600).open(path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// For people, and for messages: the lock holds without, on a full disk for one.
fn sign(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
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
        assert!(!first.are_taken());
        first.claim().await.expect("free");
        assert!(first.are_ours() && second.are_taken() && !second.are_ours());
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
        assert!(!files.are_taken());
        files.claim().await.expect("nobody has them");
        assert!(files.are_ours(), "it may be mended");
    }
}
