//! The ledger on disk, so that a watch that ends while its server does is missed by the next process.
//!
//! A file of lines: what it is, then one line for each batch of entries that changed, the newest word on an entry
//! counting. It is appended to a moment after a change, so that hardly anything is lost with the process, and written
//! anew when it has grown. Its time of modification says when the process was last alive.

use std::fs::OpenOptions;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::task::AbortOnDropHandle;

use super::Ledger;
use super::changes::{Changes, MOST_CHANGES};
use crate::runtime::{LastingFile, StateDir, heavy};

const NAME: &str = "watches.ledger";
const VERSION: u32 = 1;
/// Changes are written so long after they happened, at most.
const EVERY: Duration = Duration::from_millis(250);
/// The file says at least that often that the process is alive.
const ALIVE: Duration = Duration::from_secs(5);
/// After a write that failed the next one is tried so much later.
const ANEW: Duration = Duration::from_secs(2);

/// The file in `stateDir`.
#[derive(Debug)]
pub struct StateFile {
    ledger: Ledger,
    file: LastingFile,
    /// Up to where it has everything.
    written: u64,
    /// Lines of entries since it was written anew.
    entries: usize,
    /// When it was last touched.
    touched: Option<Instant>,
}

/// A file that is kept current.
#[derive(Debug)]
pub struct KeptFile {
    file: Arc<Mutex<StateFile>>,
    _task: AbortOnDropHandle<()>,
}

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    file: String,
    version: u32,
}

/// One of the others.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    /// When, in milliseconds since 1970.
    at: u64,
    #[serde(flatten)]
    changes: Changes,
}

// === impl StateFile ===

impl StateFile {
    /// The file in a directory, which is ours. What an earlier process has left there is taken up; a file that cannot be read is set aside,
    /// with a warning. Blocks.
    pub fn open(ledger: Ledger, directory: &StateDir) -> Self {
        let file = directory.file(NAME, "the watch ledger");
        file.is_ours();
        if let Err(error) = take_up(&ledger, &file) {
            file.set_aside(&error);
        }
        Self { ledger, file, written: 0, entries: usize::MAX, touched: None }
    }

    /// Keeps the file current until that is dropped. Must be called within a runtime.
    pub fn keep(self) -> KeptFile {
        let file = Arc::new(Mutex::new(self));
        let kept = file.clone();
        let task = AbortOnDropHandle::new(tokio::spawn(async move {
            let mut turns = interval(EVERY);
            turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                turns.tick().await;
                if !write(&kept).await {
                    turns.reset_after(ANEW); // the whole file is due then, which may be large
                }
            }
        }));
        KeptFile { file, _task: task }
    }

    /// Writes what has changed; whether that went well. Blocks.
    pub fn write(&mut self) -> bool {
        let outcome = self.try_write();
        if outcome.is_err() {
            self.entries = usize::MAX; // what is there may be torn, or gone: all of it is written next time
        }
        let well = outcome.is_ok();
        if let Some(outcome) = outcome.transpose() {
            self.file.told(&outcome);
        }
        well
    }

    /// None if there is nothing to write.
    fn try_write(&mut self) -> io::Result<Option<()>> {
        let (first, entries) = self.ledger.changes_after(self.written);
        let is_alive = self.touched.is_some_and(|at| at.elapsed() < ALIVE);
        if first.entries.is_empty() && is_alive {
            return Ok(None);
        }
        if self.entries > 3 * (entries + MOST_CHANGES) {
            self.rewrite()?;
        } else if !first.entries.is_empty() {
            let mut file = BufWriter::new(OpenOptions::new().append(true).open(self.file.path())?);
            let (entries, written) = append(&self.ledger, &mut file, first)?;
            (self.entries, self.written) = (self.entries.saturating_add(entries), written);
        }
        OpenOptions::new().append(true).open(self.file.path())?.set_modified(SystemTime::now())?;
        self.touched = Some(Instant::now());
        Ok(Some(()))
    }

    /// Writes all anew.
    fn rewrite(&mut self) -> io::Result<()> {
        let head = Head { file: "rosterd watch ledger".to_owned(), version: VERSION };
        let (all, _) = self.ledger.changes_after(0);
        let (ledger, mut entries, mut written) = (&self.ledger, 0, self.written);
        self.file.replace(|file| {
            writeln!(file, "{}", serde_json::to_string(&head)?)?;
            (entries, written) = append(ledger, file, all)?;
            Ok(())
        })?;
        (self.entries, self.written) = (entries, written);
        Ok(())
    }
}

/// How many entries were written, and up to where that is everything.
fn append(ledger: &Ledger, file: &mut impl Write, mut changes: Changes) -> io::Result<(usize, u64)> {
    let mut entries = 0;
    loop {
        let (more, seq) = (changes.more, changes.seq);
        entries += changes.entries.len();
        if !changes.entries.is_empty() {
            let line = serde_json::to_string(&Line { at: unix_millis(), changes })?;
            writeln!(file, "{line}")?;
        }
        if !more {
            file.flush()?;
            return Ok((entries, seq));
        }
        (changes, _) = ledger.changes_after(seq);
    }
}

async fn write(file: &Arc<Mutex<StateFile>>) -> bool {
    let file = file.clone();
    // None after a panic, which has been logged; the next turn tries again.
    heavy(move || file.lock().write()).await.unwrap_or(true)
}

// === impl KeptFile ===

impl KeptFile {
    /// Writes for the last time.
    pub async fn finish(self) {
        write(&self.file).await;
    }
}

/// Reads what an earlier process has left.
fn take_up(ledger: &Ledger, file: &LastingFile) -> io::Result<()> {
    let Some(file) = file.open()? else { return Ok(()) };
    let alive = SystemTime::now().duration_since(file.metadata()?.modified()?).unwrap_or_default();
    let mut lines = BufReader::new(file);
    let (mut text, mut number) = (String::new(), 0_usize);
    let now = unix_millis();
    loop {
        text.clear();
        // A last line without an end was being written when the process ended.
        if lines.read_line(&mut text)? == 0 || !text.ends_with('\n') {
            return Ok(());
        }
        number += 1;
        let bad = |what: String| io::Error::new(io::ErrorKind::InvalidData, format!("line {number}: {what}"));
        if number == 1 {
            let head: Head = serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?;
            if head.version != VERSION {
                return Err(bad(format!("version {}, where {VERSION} is known", head.version)));
            }
            continue;
        }
        let line: Line = serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?;
        let ago = Duration::from_millis(now.saturating_sub(line.at));
        ledger.take_up((ago, alive), &line.changes).map_err(|error| bad(error.to_string()))?;
    }
}

fn unix_millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
