//! The ledger on disk, so that a watch that ends while its server does is missed by the next process.
//!
//! A file of lines: what it is, then one line for each batch of entries that changed, the newest word on an entry
//! counting. It is appended to a moment after a change, so that hardly anything is lost with the process, and written
//! anew when it has grown. Its time of modification says when the process was last alive.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::task::AbortOnDropHandle;

use super::Ledger;
use super::changes::{Changes, MOST_CHANGES};
use crate::runtime::{Seldom, heavy};

const NAME: &str = "watches.ledger";
const VERSION: u32 = 1;
/// Changes are written so long after they happened, at most.
const EVERY: Duration = Duration::from_millis(250);
/// The file says at least that often that the process is alive.
const ALIVE: Duration = Duration::from_secs(5);

/// The file in `stateDir`.
#[derive(Debug)]
pub struct StateFile {
    ledger: Ledger,
    path: PathBuf,
    /// Up to where it has everything.
    written: u64,
    /// Lines of entries since it was written anew.
    entries: usize,
    /// When it was last touched.
    touched: Option<Instant>,
    complaints: Seldom,
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
    /// The file in a directory, which is made if there is none. What an earlier process has left there is taken up; a file
    /// that cannot be read is set aside, with a warning. Blocks.
    pub fn open(ledger: Ledger, directory: &Path) -> Self {
        let path = directory.join(NAME);
        if let Err(error) = std::fs::create_dir_all(directory) {
            tracing::warn!(directory = %directory.display(), %error, "stateDir cannot be made: the ledger is not kept");
        }
        match take_up(&ledger, &path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                let aside = directory.join(format!("{NAME}.unreadable"));
                let moved = std::fs::rename(&path, &aside);
                tracing::warn!(
                    path = %path.display(), %error, moved = moved.is_ok(), aside = %aside.display(),
                    "the watch ledger of the earlier process cannot be read, and is begun anew"
                );
            }
        }
        let complaints = Seldom::new(Duration::from_secs(60));
        Self { ledger, path, written: 0, entries: usize::MAX, touched: None, complaints }
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
                write(&kept).await;
            }
        }));
        KeptFile { file, _task: task }
    }

    /// Writes what has changed. Blocks.
    pub fn write(&mut self) {
        if let Err(error) = self.try_write()
            && self.complaints.due().is_some()
        {
            tracing::warn!(path = %self.path.display(), %error, "the watch ledger cannot be written; trying again");
        }
    }

    fn try_write(&mut self) -> io::Result<()> {
        let (first, live) = self.ledger.changes_after(self.written);
        let is_alive = self.touched.is_some_and(|at| at.elapsed() < ALIVE);
        if first.entries.is_empty() && is_alive {
            return Ok(());
        }
        if self.entries > 3 * (live + MOST_CHANGES) {
            self.rewrite()?;
        } else if !first.entries.is_empty() {
            let mut file = BufWriter::new(OpenOptions::new().append(true).open(&self.path)?);
            self.append(&mut file, first)?;
        }
        OpenOptions::new().append(true).open(&self.path)?.set_modified(SystemTime::now())?;
        self.touched = Some(Instant::now());
        Ok(())
    }

    fn append(&mut self, file: &mut impl Write, mut changes: Changes) -> io::Result<()> {
        loop {
            let (more, seq) = (changes.more, changes.seq);
            self.entries = self.entries.saturating_add(changes.entries.len());
            if !changes.entries.is_empty() {
                let line = serde_json::to_string(&Line { at: unix_millis(), changes })?;
                writeln!(file, "{line}")?;
            }
            self.written = seq;
            if !more {
                return file.flush();
            }
            (changes, _) = self.ledger.changes_after(seq);
        }
    }

    /// Writes all anew, in another file that then takes its place.
    fn rewrite(&mut self) -> io::Result<()> {
        let new = self.path.with_extension("new");
        let mut file = BufWriter::new(File::create(&new)?);
        let head = Head { file: "rosterd watch ledger".to_owned(), version: VERSION };
        writeln!(file, "{}", serde_json::to_string(&head)?)?;
        self.entries = 0;
        let (all, _) = self.ledger.changes_after(0);
        if let Err(error) = self.append(&mut file, all).and_then(|()| file.get_ref().sync_data()) {
            self.entries = usize::MAX; // next time, then
            return Err(error);
        }
        std::fs::rename(&new, &self.path)
    }
}

async fn write(file: &Arc<Mutex<StateFile>>) {
    let file = file.clone();
    // None after a panic, which has been logged; the next turn tries again.
    heavy(move || file.lock().write()).await;
}

// === impl KeptFile ===

impl KeptFile {
    /// Writes for the last time.
    pub async fn finish(self) {
        write(&self.file).await;
    }
}

/// Reads what an earlier process has left.
fn take_up(ledger: &Ledger, path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
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
