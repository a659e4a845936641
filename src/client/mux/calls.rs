//! What callers and the task of a session share.

use std::collections::HashSet;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot, watch};

use crate::client::{End, Reason};

/// So many calls may be open at a session; each watch has one.
const MOST_OPEN: usize = 200_000;

/// The calls of one session.
pub(super) struct Calls {
    inbox: Mutex<Inbox>,
    wake: Notify,
    phase: watch::Sender<Phase>,
}

#[derive(Default)]
struct Inbox {
    next: u64,
    open: usize,
    new: Vec<NewCall>,
    dropped: Vec<u64>,
    end: Option<End>,
}

/// A call that was not sent yet.
pub(super) struct NewCall {
    pub id: u64,
    pub message: Bytes,
    pub reply: oneshot::Sender<Result<Bytes, End>>,
}

/// Where a session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Opening,
    Open,
    Draining,
    Ended,
}

/// A caller that waits; dropping it drops the call.
struct Caller<'a> {
    calls: &'a Calls,
    id: u64,
    answered: bool,
}

// === impl Calls ===

impl Calls {
    pub(super) fn new() -> Self {
        Self { inbox: Mutex::default(), wake: Notify::new(), phase: watch::Sender::new(Phase::Opening) }
    }

    // What callers do.

    pub(super) fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// Waits until the session is in a phase that `wanted` names.
    pub(super) async fn reach(&self, wanted: impl Fn(Phase) -> bool) {
        if self.phase.subscribe().wait_for(|phase| wanted(*phase)).await.is_err() {
            std::future::pending().await // cannot happen: the sender is here
        }
    }

    /// How the session ended.
    pub(super) fn end(&self) -> End {
        let end = self.inbox.lock().end.clone();
        end.unwrap_or_else(|| End::failed(Reason::Panic, "internal error: a session ended without a reason"))
    }

    /// Sends a message and waits for its answer. Dropping this tells the server not to bother.
    pub(super) async fn call(&self, message: Bytes) -> Result<Bytes, End> {
        let (reply, answer) = oneshot::channel();
        let mut caller = {
            let mut inbox = self.inbox.lock();
            if let Some(end) = &inbox.end {
                return Err(end.clone());
            }
            if self.phase() == Phase::Draining {
                return Err(End::Gone(Reason::Draining));
            }
            if inbox.open >= MOST_OPEN {
                return Err(End::failed(Reason::Busy, format!("{MOST_OPEN} calls are open at one server already")));
            }
            inbox.open += 1;
            inbox.next += 1;
            let id = inbox.next;
            inbox.new.push(NewCall { id, message, reply });
            Caller { calls: self, id, answered: false }
        };
        self.wake.notify_one();
        let answer = answer.await;
        caller.answered = true;
        answer.unwrap_or_else(|_| Err(self.end()))
    }

    // What the task does.

    pub(super) fn advance(&self, phase: Phase) {
        self.phase.send_replace(phase);
    }

    /// Waits until callers have done something. Cancel safe.
    pub(super) async fn changed(&self) {
        self.wake.notified().await;
    }

    /// The calls to be sent, and those that nobody waits for any more.
    pub(super) fn take(&self) -> (Vec<NewCall>, Vec<u64>) {
        let (mut new, mut dropped) = {
            let mut inbox = self.inbox.lock();
            (std::mem::take(&mut inbox.new), std::mem::take(&mut inbox.dropped))
        };
        if !new.is_empty() && !dropped.is_empty() {
            // Those that came and went are not even sent.
            let mut gone: HashSet<u64> = dropped.into_iter().collect();
            new.retain(|call| !gone.remove(&call.id));
            dropped = gone.into_iter().collect();
        }
        (new, dropped)
    }

    /// The session has ended, for all who call and will call.
    pub(super) fn ended(&self, end: End) {
        let new = {
            let mut inbox = self.inbox.lock();
            inbox.end.get_or_insert(end);
            std::mem::take(&mut inbox.new)
        };
        drop(new); // and with them the ends that their callers wait at
        self.advance(Phase::Ended);
    }
}

// === impl Caller ===

impl Drop for Caller<'_> {
    fn drop(&mut self) {
        let mut inbox = self.calls.inbox.lock();
        inbox.open -= 1;
        if self.answered {
            return;
        }
        inbox.dropped.push(self.id);
        drop(inbox);
        self.calls.wake.notify_one();
    }
}
