//! Drain: how everybody learns that the process is going, and how the process learns that they have finished.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, watch};

/// How far the process is on its way out. Each phase includes the ones before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Not going.
    Serving,
    /// Not ready any more, and everything is served as before: name services and load balancers take notice.
    LameDuck,
    /// Clients that can be told to go elsewhere are told, and what they wait for is answered.
    Leave,
    /// Open HTTP streams end with their final chunk. This comes late, because their clients ask again at once.
    EndStreams,
    /// Listeners close, connections end after the request in hand.
    Close,
    /// The admin server goes too.
    Done,
}

/// The one handle on the drain, shared by everybody: whoever serves watches the phase and holds what it must finish.
#[derive(Clone, Debug)]
pub struct Drain {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    phase: watch::Sender<Phase>,
    request: watch::Sender<Option<Request>>,
    /// One counter a phase: what goes on until then.
    holds: [AtomicUsize; Phase::Done as usize + 1],
    released: Notify,
}

#[derive(Clone, Debug)]
struct Request {
    by: Arc<str>,
    grace: Option<Duration>,
}

/// A session or stream that goes on until a phase and must be finished then. Dropping it says that it is.
#[derive(Debug)]
pub struct Hold {
    drain: Drain,
    until: Phase,
}

// === impl Drain ===

impl Default for Drain {
    fn default() -> Self {
        Self {
            shared: Arc::new(Shared {
                phase: watch::Sender::new(Phase::Serving),
                request: watch::Sender::new(None),
                holds: Default::default(),
                released: Notify::new(),
            }),
        }
    }
}

impl Drain {
    /// Nothing is going yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks for the drain on behalf of `by` (a signal, a path of the admin server). `grace` overrides the configured
    /// time that clients get. The first request counts: false if there was one before.
    pub fn request(&self, by: &str, grace: Option<Duration>) -> bool {
        self.shared.request.send_if_modified(|request| {
            let first = request.is_none();
            if first {
                *request = Some(Request { by: by.into(), grace });
            }
            first
        })
    }

    /// Waits for the drain to be asked for. Returns who did, and the grace period they asked for.
    pub async fn requested(&self) -> (Arc<str>, Option<Duration>) {
        let mut requests = self.shared.request.subscribe();
        // The sender lives in `self`, so waiting cannot fail.
        match requests.wait_for(Option::is_some).await.map(|request| request.clone()) {
            Ok(Some(request)) => (request.by, request.grace),
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }

    /// Has the drain been asked for?
    pub fn is_requested(&self) -> bool {
        self.shared.request.borrow().is_some()
    }

    /// The phase of this moment.
    pub fn phase(&self) -> Phase {
        *self.shared.phase.borrow()
    }

    /// Waits until the drain is at `phase` or later. Cancel safe.
    pub async fn reached(&self, phase: Phase) {
        let mut phases = self.shared.phase.subscribe();
        if phases.wait_for(|now| *now >= phase).await.is_err() {
            std::future::pending().await // cannot happen: the sender lives in `self`
        }
    }

    /// Goes on to `phase`; never back.
    pub fn enter(&self, phase: Phase) {
        self.shared.phase.send_if_modified(|now| {
            let later = phase > *now;
            if later {
                *now = phase;
            }
            later
        });
    }

    /// Counts something that goes on until the drain is at `until`. If that has passed already it goes on until
    /// [`Phase::Close`]: a client that was told to go and came back is served to the end.
    pub fn hold(&self, until: Phase) -> Hold {
        let until = if self.phase() < until { until } else { until.max(Phase::Close) };
        self.shared.holds[until as usize].fetch_add(1, Ordering::AcqRel);
        Hold { drain: self.clone(), until }
    }

    /// How many go on until `phase` or an earlier one and are not finished.
    pub fn held_until(&self, phase: Phase) -> usize {
        self.shared.holds[..=phase as usize].iter().map(|count| count.load(Ordering::Acquire)).sum()
    }

    /// Waits until everything that goes on until `phase` or an earlier one is finished. Cancel safe.
    pub async fn finished(&self, phase: Phase) {
        loop {
            let released = self.shared.released.notified();
            if self.held_until(phase) == 0 {
                return;
            }
            released.await;
        }
    }
}

// === impl Hold ===

impl Hold {
    /// Waits for the moment at which this is to be finished. Cancel safe.
    pub async fn over(&self) {
        self.drain.reached(self.until).await;
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let shared = &self.drain.shared;
        if shared.holds[self.until as usize].fetch_sub(1, Ordering::AcqRel) == 1 {
            shared.released.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_first_request_counts() {
        let drain = Drain::new();
        assert!(!drain.is_requested());
        assert!(drain.request("SIGTERM", None));
        assert!(!drain.request("SIGINT", Some(Duration::ZERO)));
        assert_eq!(drain.requested().await, ("SIGTERM".into(), None));
    }

    #[tokio::test(start_paused = true)]
    async fn phases_only_go_forward() {
        let drain = Drain::new();
        drain.enter(Phase::EndStreams);
        drain.enter(Phase::LameDuck);
        assert_eq!(drain.phase(), Phase::EndStreams);
        drain.reached(Phase::Leave).await;
        let close = tokio::time::timeout(Duration::from_secs(1), drain.reached(Phase::Close)).await;
        assert!(close.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_is_waited_for_and_one_that_comes_back_is_served_to_the_end() {
        let drain = Drain::new();
        let early = drain.hold(Phase::EndStreams);
        drain.enter(Phase::EndStreams);
        early.over().await;
        let late = drain.hold(Phase::EndStreams);
        assert!(tokio::time::timeout(Duration::from_secs(1), late.over()).await.is_err());
        let waiting = drain.clone();
        let waiter = tokio::spawn(async move { waiting.finished(Phase::EndStreams).await });
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!waiter.is_finished());
        assert_eq!((drain.held_until(Phase::EndStreams), drain.held_until(Phase::Close)), (1, 2));
        drop(early);
        tokio::time::timeout(Duration::from_secs(1), waiter).await.expect("finished").expect("no panic");
        drain.enter(Phase::Close);
        late.over().await;
    }
}
