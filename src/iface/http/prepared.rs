//! Answers kept ready: the same question, while nothing it depends on has changed, is answered with the same bytes.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;

use crate::http1::{Coding, Head};
use crate::store::{Client, Policy, Standing, Table, Watch};

/// How long answers to requests with a dtab of their own are kept: nobody is likely to ask again.
const IDLE_LOCAL: Duration = Duration::from_secs(10);

/// Larger answers are made anew; that takes less than sending them.
const MOST_BYTES: usize = 8 << 10;

/// Longer questions are not kept.
const MOST_TARGET: usize = 1 << 10;

const POLICY: Policy =
    Policy { idle: Duration::from_secs(600), protect: Duration::from_secs(1), budget: 10_000, in_use: usize::MAX };

/// A source of an answer that can say whether it still has the value of a version.
pub(super) trait Still: Send + Sync {
    fn is_still(&self, version: u64) -> bool;
}

/// What an answer was made of, and of which versions.
pub(super) type Sources = Vec<(Arc<dyn Still>, u64)>;

type Key = (Coding, Bytes);

/// Ready answers by question: the raw target, and the coding that the client accepts.
#[derive(Debug)]
pub(super) struct Prepared {
    answers: Table<Key, Slot>,
}

#[derive(Default)]
struct Slot(Mutex<Option<Arc<Ready>>>);

/// An answer, what it was made of, and the counter of its endpoint.
pub(super) struct Ready {
    pub(super) sources: Sources,
    pub(super) answer: Bytes,
    pub(super) counter: Counter,
}

// === impl Prepared ===

impl Prepared {
    /// Must be called within a runtime.
    pub(super) fn new() -> Self {
        Self { answers: Table::new("ready answers", POLICY, |_: &Key, _| Slot::default()) }
    }

    /// The answer to a plain GET, if it is there and still right, and the counter of its endpoint.
    pub(super) fn get(&self, head: &Head<'_>) -> Option<(Bytes, Counter)> {
        if !is_kept(head.target) {
            return None;
        }
        let key = (Coding::accepted(head.header("accept-encoding")), Bytes::copy_from_slice(head.target));
        let slot = self.answers.get(&key)?;
        let ready = slot.0.lock().clone()?;
        let right = ready.sources.iter().all(|(source, version)| source.is_still(*version));
        right.then(|| (ready.answer.clone(), ready.counter.clone()))
    }

    /// Whether an answer of this length is worth keeping.
    pub(super) fn fits(length: usize) -> bool {
        length <= MOST_BYTES
    }

    /// Keeps an answer. `local`: the request had a dtab of its own.
    pub(super) fn keep(&self, client: Client, coding: Coding, target: &[u8], local: bool, ready: Ready) {
        if !is_kept(target) {
            return;
        }
        let key = (coding, Bytes::copy_from_slice(target));
        let idle = if local { IDLE_LOCAL } else { POLICY.idle };
        // Without room it is simply made anew each time.
        if let Ok(slot) = self.answers.observe_for(client, &key, idle) {
            *slot.0.lock() = Some(Arc::new(ready));
        }
    }
}

/// Only questions whose answer depends on the target and the coding alone.
fn is_kept(target: &[u8]) -> bool {
    target.len() <= MOST_TARGET
        && [&b"/api/1/bind/"[..], b"/api/1/addr/", b"/api/1/resolve/"].iter().any(|start| target.starts_with(start))
}

// === impl Still ===

impl<T: Send + Sync + 'static> Still for Watch<T> {
    fn is_still(&self, version: u64) -> bool {
        let now = self.current();
        // A one-shot reader is told of a failure although watchers keep the last good value.
        now.version.get() == version && now.standing == Standing::Current
    }
}
