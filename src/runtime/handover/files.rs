//! Whose the files in `stateDir` are: one process's at a time.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

const NAME: &str = "lock";
/// A process that has just been told to end lets go within this time.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often it is seen whether the files are free.
const TICK: Duration = Duration::from_millis(100);

/// The right to write files in `stateDir`. Cloning shares it. The kernel takes it back when the process ends, however
/// that happens.
#[derive(Clone, Debug)]
pub struct Files {
    directory: PathBuf,
    lock: Arc<watch::Sender<Option<File>>>,
}

// === impl Files ===

impl Files {
    /// Those in this directory, which is made if there is none. They are not ours yet.
    pub fn of(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), lock: Arc::default() }
    }

    /// Where they are.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Are they ours?
    pub fn are_ours(&self) -> bool {
        self.lock.borrow().is_some()
    }

    /// Waits until they are ours. Cancel safe.
    pub async fn ours(&self) {
        let mut lock = self.lock.subscribe();
        if lock.wait_for(Option::is_some).await.is_err() {
            std::future::pending().await // cannot happen: the sender lives in `self`
        }
    }

    /// Makes them ours. A process that is about to end is waited for. A directory that cannot be used keeps nobody from
    /// starting: there are no files, then.
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
                    tracing::warn!("{problem}: nothing is kept, and nobody can take over");
                    return Ok(());
                }
            }
            if Instant::now() >= until {
                let owner = self.owner().map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"));
                return Err(format!(
                    "stateDir {} is in use by {owner}; give each process a directory of its own, or start this one with \
                     --take-over",
                    self.directory.display()
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
        tracing::info!(directory = %self.directory.display(), "the files in stateDir are ours now");
    }

    /// Makes them ours if nobody has them.
    fn try_claim(&self) -> Result<bool, String> {
        if self.are_ours() {
            return Ok(true);
        }
        let locked = std::fs::create_dir_all(&self.directory).and_then(|()| lock(&self.directory.join(NAME)));
        match locked {
            Ok(None) => Ok(false),
            Ok(Some(file)) => {
                self.lock.send_replace(Some(file));
                Ok(true)
            }
            Err(error) => Err(format!("stateDir {} cannot be used: {error}", self.directory.display())),
        }
    }

    /// Does a process have them?
    pub(super) fn are_taken(&self) -> bool {
        let path = self.directory.join(NAME);
        self.are_ours() || path.exists() && lock(&path).is_ok_and(|lock| lock.is_none())
    }

    fn owner(&self) -> Option<u32> {
        let mut text = String::new();
        File::open(self.directory.join(NAME)).ok()?.take(32).read_to_string(&mut text).ok()?;
        text.trim().parse().ok()
    }
}

/// None if somebody else has it.
fn lock(path: &Path) -> io::Result<Option<File>> {
    let mut file = OpenOptions::new().create(true).truncate(false).read(true).write(true).mode(0o600).open(path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    // For people, and for messages.
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())?;
    Ok(Some(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn files_belong_to_one_at_a_time_and_are_inherited() {
        let folder = tempfile::tempdir().expect("a folder");
        let directory = folder.path().join("state");
        let (first, second) = (Files::of(&directory), Files::of(&directory));
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
        let files = Files::of(&taken);
        files.claim().await.expect("nobody has them");
        assert!(!files.are_ours() && !files.are_taken());
    }
}
