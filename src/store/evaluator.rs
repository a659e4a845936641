//! Evaluators: the tasks that re-run derived cells, one a core.

use std::collections::BTreeSet;
use std::fmt;
use std::slice;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use slab::Slab;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::mailbox::Wakes;
use super::{Key, Mailbox, Marker};

/// So many derived cells go to one evaluator before the next one gets some: cells that are made one after the other are
/// mostly those of one client, which is told of all that change in one turn only if one evaluator has them.
const BATCH: usize = 512;

/// How long an evaluator works before it lets other tasks run.
const SLICE: Duration = Duration::from_millis(1);

/// For how long those who wait for a value are not told while others are being computed: most watch several, and one
/// turn for all is cheaper than one for each.
const HOLD: Duration = Duration::from_millis(10);

/// How many of those who wait are woken at a time, so that whoever wants little of the process (a ping) does not queue
/// behind thousands. The runtime looks at sockets, and comes back here, after 61 tasks: more than cores can do meanwhile
/// would pile up.
const PORTION: usize = 128;

/// Something that can be brought up to date.
pub(super) trait Evaluate: Send + Sync {
    fn evaluate(&self);
}

/// The process's evaluators; dropping the last handle stops them.
#[derive(Clone)]
pub struct Evaluators {
    all: Arc<[Arc<Evaluator>]>,
    next: Arc<AtomicUsize>,
    _tasks: Arc<[AbortOnDropHandle<()>]>,
}

/// One evaluator: a mailbox whose keys are derived cells.
pub(super) struct Evaluator {
    mailbox: Mailbox,
    nodes: Mutex<Slab<Weak<dyn Evaluate>>>,
    timers: Mutex<BTreeSet<(Instant, Key)>>,
    rearmed: Notify,
    runs: AtomicU64,
    panics: AtomicU64,
}

// === impl Evaluators ===

impl Evaluators {
    /// Starts `count` evaluators on the current runtime.
    pub fn start(count: usize) -> Self {
        let all: Arc<[_]> = (0..count.max(1)).map(|_| Arc::new(Evaluator::new())).collect();
        let tasks = all.iter().map(|evaluator| AbortOnDropHandle::new(tokio::spawn(turn(evaluator.clone())))).collect();
        Self { all, next: Arc::default(), _tasks: tasks }
    }

    pub(super) fn pick(&self) -> Arc<Evaluator> {
        self.all[self.next.fetch_add(1, Ordering::Relaxed) / BATCH % self.all.len()].clone()
    }

    /// How many formulas have been run, and how many of those panicked, since the start.
    pub fn counts(&self) -> (u64, u64) {
        self.all.iter().fold((0, 0), |(runs, panics), evaluator| {
            (runs + evaluator.runs.load(Ordering::Relaxed), panics + evaluator.panics.load(Ordering::Relaxed))
        })
    }
}

impl fmt::Debug for Evaluators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Evaluators").field("count", &self.all.len()).finish_non_exhaustive()
    }
}

// === impl Evaluator ===

impl Evaluator {
    fn new() -> Self {
        Self {
            mailbox: Mailbox::prompt(),
            nodes: Mutex::default(),
            timers: Mutex::default(),
            rearmed: Notify::new(),
            runs: AtomicU64::new(0),
            panics: AtomicU64::new(0),
        }
    }

    pub(super) fn marker(&self) -> Marker {
        self.mailbox.marker()
    }

    pub(super) fn register(&self, node: Weak<dyn Evaluate>) -> Key {
        let at = self.nodes.lock().insert(node);
        Key(u32::try_from(at).expect("memory ends long before four billion derived cells"))
    }

    pub(super) fn unregister(&self, key: Key) {
        self.nodes.lock().try_remove(key.0 as usize);
    }

    pub(super) fn wake_at(&self, when: Instant, key: Key) {
        let mut timers = self.timers.lock();
        let earlier = timers.first().is_none_or(|(first, _)| when < *first);
        timers.insert((when, key));
        if earlier {
            self.rearmed.notify_one();
        }
    }

    pub(super) fn count_run(&self) {
        self.runs.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_panic(&self) {
        self.panics.fetch_add(1, Ordering::Relaxed);
    }

    fn evaluate(&self, key: Key) {
        // A key may have been given to another node since it was marked: that one finds itself up to date.
        let node = self.nodes.lock().get(key.0 as usize).and_then(Weak::upgrade);
        if let Some(node) = node {
            node.evaluate();
        }
    }

    /// Evaluates for a slice of time; says whether there is more to do.
    fn work(&self, keys: &mut slice::Iter<'_, Key>, wakes: &mut Wakes) -> bool {
        let _holding = wakes.hold();
        let began = Instant::now();
        while let Some(key) = keys.next() {
            self.evaluate(*key);
            if began.elapsed() >= SLICE {
                return keys.len() > 0;
            }
        }
        false
    }

    /// Waits for the first timer, or for ever while there is none; returns early when an earlier one is set.
    async fn timer(&self) {
        let first = self.timers.lock().first().map(|(when, _)| *when);
        match first {
            Some(when) => tokio::select! {
                () = tokio::time::sleep_until(when) => {}
                () = self.rearmed.notified() => {}
            },
            None => self.rearmed.notified().await,
        }
    }

    fn take_due(&self, into: &mut Vec<Key>) {
        let now = Instant::now();
        let mut timers = self.timers.lock();
        while let Some((when, key)) = timers.first().copied()
            && when <= now
        {
            timers.pop_first();
            into.push(key);
        }
    }
}

/// Takes all marked and due keys in one turn and brings them up to date, in slices.
async fn turn(evaluator: Arc<Evaluator>) {
    let mut keys = Vec::new();
    loop {
        tokio::select! {
            () = evaluator.mailbox.marked() => {}
            () = evaluator.timer() => {}
        }
        evaluator.mailbox.take_marked(&mut keys);
        evaluator.take_due(&mut keys);
        let mut left = keys.iter();
        let mut wakes = Wakes::default();
        let mut holding_since = Instant::now();
        while evaluator.work(&mut left, &mut wakes) {
            if holding_since.elapsed() >= HOLD {
                wake(&mut wakes).await;
                holding_since = Instant::now();
            }
            tokio::task::yield_now().await;
        }
        wake(&mut wakes).await;
    }
}

/// Wakes all, in portions.
async fn wake(wakes: &mut Wakes) {
    loop {
        wakes.wake(PORTION);
        if wakes.is_empty() {
            return;
        }
        tokio::task::yield_now().await;
    }
}
