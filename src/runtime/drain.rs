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
    /// Only in a drain that is not to end the process ([`Way::Stay`]): all who could be told are gone, and whoever comes
    /// all the same is served as ever, since it may have nowhere else to go.
    Away,
    /// Those are told to go, and answered, too.
    LeaveAgain,
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
    /// Clients in a handshake, of TLS or of their protocol: what they want is not known yet.
    greetings: AtomicUsize,
    released: Notify,
}

/// Who asked for the drain, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// A signal, a path of the admin server, another process.
    pub by: Arc<str>,
    /// Overrides the configured time that clients get.
    pub grace: Option<Duration>,
    /// What comes of it.
    pub way: Way,
}

/// What a drain is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// Clients are moved away, and the process stays until it is told to end.
    Stay,
    /// The process ends.
    End,
    /// The process ends, and another one has its listening sockets already: nothing is accepted any more, and clients
    /// find their way by connecting anew to the same address.
    HandOver,
}

/// Who accepts what waits in the queue of a listener that is no more accepted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// Nobody else does.
    Ours,
    /// Another process does.
    Others,
}

/// A session or stream that goes on until a phase and must be finished then. Dropping it says that it is.
#[derive(Debug)]
pub struct Hold {
    drain: Drain,
    until: Phase,
}

/// A client whose wishes are not known yet. Dropping it says that they are.
#[derive(Debug)]
pub struct Greeting(Drain);

// === impl Drain ===

impl Default for Drain {
    fn default() -> Self {
        Self {
            shared: Arc::new(Shared {
                phase: watch::Sender::new(Phase::Serving),
                request: watch::Sender::new(None),
                holds: Default::default(),
                greetings: AtomicUsize::new(0),
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

    /// Asks for the drain. False if it changes nothing, because the same or more has been asked for: a drain after which
    /// the process stays can become one that ends it, and either one in which another process takes over.
    pub fn request(&self, wanted: Request) -> bool {
        self.shared.request.send_if_modified(|request| {
            let counts = request.as_ref().is_none_or(|before| wanted.way > before.way);
            if counts {
                *request = Some(wanted);
            }
            counts
        })
    }

    /// Waits for a drain to be asked for, whatever for. Cancel safe.
    pub async fn requested(&self) -> Request {
        self.asked(Way::Stay).await
    }

    /// Waits for a drain to be asked for that ends the process. Cancel safe.
    pub async fn told_to_end(&self) -> Request {
        self.asked(Way::End).await
    }

    async fn asked(&self, least: Way) -> Request {
        let mut requests = self.shared.request.subscribe();
        let asked = requests.wait_for(|request| request.as_ref().is_some_and(|request| request.way >= least)).await;
        // The sender lives in `self`, so waiting cannot fail.
        match asked.map(|request| request.clone()) {
            Ok(Some(request)) => request,
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }

    /// Is the process on its way to its end?
    pub fn is_ending(&self) -> bool {
        self.way().is_some_and(|way| way >= Way::End)
    }

    /// What has been asked for, if anything.
    pub fn way(&self) -> Option<Way> {
        self.shared.request.borrow().as_ref().map(|request| request.way)
    }

    /// Does another process have the listening sockets?
    pub fn is_handed_over(&self) -> bool {
        self.way() == Some(Way::HandOver)
    }

    /// Waits until a server that ends at `phase` is to accept no more: at that phase, or when another process accepts in
    /// its place. Cancel safe.
    pub async fn accepts_until(&self, phase: Phase) -> Queue {
        tokio::select! {
            biased;
            _ = self.asked(Way::HandOver) => Queue::Others,
            () = self.reached(phase) => Queue::Ours,
        }
    }

    /// Is a connection of a server that ends at `phase` over with the answer at hand? Another process takes the next one.
    pub fn ends_connections(&self, phase: Phase) -> bool {
        self.phase() >= phase || self.is_handed_over()
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
    /// [`Phase::Close`]: a client that was told to go and came back is served to the end. In a hand-over nobody comes
    /// back, and who comes late was accepted just before it: that one is waited for.
    pub fn hold(&self, until: Phase) -> Hold {
        let phase = self.phase();
        let is_in_time = phase < until || phase == until && self.is_handed_over();
        let until = if is_in_time { until } else { until.max(Phase::Close) };
        self.shared.holds[until as usize].fetch_add(1, Ordering::AcqRel);
        Hold { drain: self.clone(), until }
    }

    /// Counts a client that has not said yet what it wants: a hand-over waits for it for some seconds.
    pub fn greet(&self) -> Greeting {
        self.shared.greetings.fetch_add(1, Ordering::AcqRel);
        Greeting(self.clone())
    }

    /// Waits until the wishes of all clients are known. Cancel safe.
    pub(super) async fn greeted(&self) {
        loop {
            let released = self.shared.released.notified();
            if self.shared.greetings.load(Ordering::Acquire) == 0 {
                return;
            }
            released.await;
        }
    }

    /// Waits until another process has taken over. Cancel safe.
    pub(super) async fn handed_over(&self) {
        self.asked(Way::HandOver).await;
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

// === impl Request ===

impl Request {
    /// The process is to end.
    pub fn end(by: &str) -> Self {
        Self { by: by.into(), grace: None, way: Way::End }
    }

    /// Clients are to go, and the process stays.
    pub fn stay(by: &str) -> Self {
        Self { way: Way::Stay, ..Self::end(by) }
    }

    /// Another process has taken over.
    pub fn hand_over(by: &str) -> Self {
        Self { way: Way::HandOver, ..Self::end(by) }
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

impl Drop for Greeting {
    fn drop(&mut self) {
        let shared = &self.0.shared;
        if shared.greetings.fetch_sub(1, Ordering::AcqRel) == 1 {
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
        assert!(drain.request(Request::end("SIGTERM")));
        assert!(!drain.request(Request { grace: Some(Duration::ZERO), ..Request::end("SIGINT") }));
        assert!(!drain.request(Request::stay("POST /admin/drain")));
        assert_eq!(drain.requested().await, Request::end("SIGTERM"));
        assert!(drain.request(Request::hand_over("process 2")), "its port is served all the same");
        assert!(!drain.request(Request::end("SIGTERM")));
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_that_was_to_stay_can_still_be_told_to_end_or_be_taken_over() {
        for request in [Request::end("SIGTERM"), Request::hand_over("process 2")] {
            let drain = Drain::new();
            assert!(drain.request(Request::stay("POST /admin/drain")));
            assert!(!drain.request(Request::stay("POST /admin/drain")), "once");
            assert!(!drain.is_ending());
            assert!(drain.request(request.clone()));
            assert!(drain.is_ending());
            assert_eq!((drain.told_to_end().await, drain.is_handed_over()), (request.clone(), request.way > Way::End));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_was_taken_over_accepts_no_more_long_before_its_end() {
        let drain = Drain::new();
        let accepts = |drain: Drain| async move { drain.accepts_until(Phase::Done).await };
        assert!(tokio::time::timeout(Duration::from_secs(1), accepts(drain.clone())).await.is_err());
        drain.request(Request::hand_over("process 2"));
        assert_eq!(accepts(drain.clone()).await, Queue::Others);
        assert!(drain.ends_connections(Phase::Close) && drain.phase() == Phase::Serving);
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
