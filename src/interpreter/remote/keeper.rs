//! Keeps the file of last good values current, and gives them back where no server answers.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::Remote;
use super::snapshot::{Known, Snapshot};
use crate::client::{Ask, Failure, Feed};
use crate::interpreter::local::BindingKey;
use crate::runtime::handover::Files;
use crate::runtime::heavy;
use crate::store::Observer;

/// How often it is seen whether anything has changed.
const PERIOD: Duration = Duration::from_secs(5);

/// The times of values that do not change are written anew this often.
const ANEW: Duration = Duration::from_secs(1_800);

/// Writing may take one part in so many of all time.
const PART: u32 = 50;

/// A server has this time to answer before the value of an earlier process is given.
const PATIENCE: Duration = Duration::from_secs(2);

/// How often it is seen whether that time is over.
const TICK: Duration = Duration::from_millis(100);

/// What is followed now and has a value of before.
pub(super) struct Begun {
    pub(super) snapshot: Snapshot,
    /// Whose the file is.
    files: Files,
    /// The first to be due first.
    due: Mutex<VecDeque<Due>>,
}

/// A server that has not answered `ask` by then is helped out. A binding is found by its key.
struct Due {
    at: Instant,
    ask: Ask,
    key: Option<BindingKey>,
}

/// Writes what a relay knows, for as long as this lives.
pub(super) struct Keeper {
    shared: Arc<Shared>,
    _task: AbortOnDropHandle<Infallible>,
}

struct Shared {
    remote: Remote,
    begun: Arc<Begun>,
    /// One write at a time: what was known at the last, and when that was.
    written: tokio::sync::Mutex<Written>,
}

#[derive(Default)]
struct Written {
    last: Option<(u64, Instant)>,
}

// === impl Begun ===

impl Begun {
    pub(super) fn new(snapshot: Snapshot, files: Files) -> Self {
        Self { snapshot, files, due: Mutex::default() }
    }

    /// Something is followed from now on.
    pub(super) fn begins(&self, ask: &Ask, key: Option<&BindingKey>) {
        if self.snapshot.has(ask) {
            let at = Instant::now() + PATIENCE;
            self.due.lock().push_back(Due { at, ask: ask.clone(), key: key.cloned() });
        }
    }

    /// None if nobody follows it any more, or there is no such value: the former may change.
    fn restore<T>(&self, feed: Option<Observer<Feed<T>>>, ask: &Ask) -> Option<Result<bool, Failure>>
    where
        T: PartialEq + Send + Sync + 'static,
    {
        let feed = feed?;
        let (answer, at) = self.snapshot.claim(ask)?;
        Some(feed.restore(answer, at))
    }

    fn take_due(&self, now: Instant) -> Option<Due> {
        self.due.lock().pop_front_if(|due| due.at <= now)
    }
}

// === impl Keeper ===

impl Keeper {
    /// Must be called within a runtime.
    pub(super) fn start(remote: Remote, begun: Arc<Begun>) -> Self {
        let shared = Arc::new(Shared { remote, begun, written: tokio::sync::Mutex::default() });
        let task = tokio::spawn(keep(shared.clone()));
        Self { shared, _task: AbortOnDropHandle::new(task) }
    }

    /// Writes what is known now, if it is not what was written last.
    pub(super) async fn write(&self) {
        self.shared.write().await;
    }
}

async fn keep(shared: Arc<Shared>) -> Infallible {
    let mut write_at = Instant::now() + PERIOD;
    let mut is_ours = false;
    loop {
        tokio::time::sleep(TICK).await;
        if !is_ours && shared.begun.files.are_ours() {
            is_ours = true;
            let begun = shared.begun.clone();
            heavy(move || begun.snapshot.is_ours()).await;
        }
        let now = Instant::now();
        while let Some(due) = shared.begun.take_due(now) {
            shared.restore(due);
        }
        if write_at <= now {
            let took = shared.write().await;
            write_at = Instant::now() + PERIOD.max(took * PART);
        }
    }
}

// === impl Shared ===

impl Shared {
    /// Gives the value of before, unless a server has answered; that is then forgotten.
    fn restore(&self, Due { ask, key, .. }: Due) {
        let begun = &self.begun;
        let restored = match &ask {
            Ask::Bind { .. } => key.and_then(|key| begun.restore(self.remote.bindings.get(&key), &ask)),
            Ask::Addr { id } => begun.restore(self.remote.addresses.get(id), &ask),
            Ask::Dtab { ns } => begun.restore(self.remote.dtabs.get(ns), &ask),
            Ask::Namespaces | Ask::Names => None,
        };
        match restored.unwrap_or(Ok(false)) {
            Ok(true) => tracing::debug!(watch = %ask, "no answer yet; the last good value of before serves"),
            Ok(false) => {}
            Err(failure) => tracing::warn!(watch = %ask, %failure, "a last good value of before cannot be used"),
        }
    }

    /// Returns how long it took.
    async fn write(&self) -> Duration {
        if !self.begun.files.are_ours() {
            return Duration::ZERO; // the process that was here before writes what it knows to the end
        }
        let mut written = self.written.lock().await;
        let (print, known) = self.remote.known();
        if written.last.is_some_and(|(last, at)| last == print && at.elapsed() < ANEW) {
            return Duration::ZERO;
        }
        let (began, begun) = (Instant::now(), self.begun.clone());
        let outcome = tokio::task::spawn_blocking(move || begun.snapshot.write(&known)).await;
        let outcome = outcome.unwrap_or_else(|panic| Err(io::Error::other(panic)));
        self.begun.snapshot.file.told(&outcome);
        if outcome.is_ok() {
            written.last = Some((print, Instant::now()));
        }
        began.elapsed()
    }
}

// === impl Remote ===

impl Remote {
    /// All that is known, after what tells it from what was known at another time.
    fn known(&self) -> (u64, Vec<(Ask, SystemTime, Known)>) {
        let (mut print, mut known) = (0_u64, Vec::new());
        let mut see = |version: u64, last: Option<(Ask, SystemTime, Known)>| {
            print = print.wrapping_add(version.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            known.extend(last);
        };
        self.bindings.visit(|feed| {
            let last = feed.last().map(|(ask, at, tree)| (ask, at, Known::Tree(tree)));
            see(feed.cell().version(), last);
        });
        self.addresses.visit(|feed| {
            let last = feed.last().map(|(ask, at, addr)| (ask, at, Known::Addr(addr)));
            see(feed.cell().version(), last);
        });
        self.dtabs.visit(|feed| {
            let last = feed.last().map(|(ask, at, dtab)| (ask, at, Known::Dtab(dtab)));
            see(feed.cell().version(), last);
        });
        (print, known)
    }
}
