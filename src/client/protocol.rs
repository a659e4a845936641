//! What a protocol has to do, and how it tells what it learns.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::{Answer, Ask, BoundName, End, Failure, Server, Timings};
use crate::name::{Addr, DelegateTree, NameTree, Path};

/// A way to ask another name server.
///
/// Neither method needs to bound its time, save for what it does before it has asked, or to survive a panic: whoever
/// calls sees to both.
#[async_trait]
pub trait Protocol: Send + Sync + 'static {
    /// Its name, as `kind` has it.
    fn name(&self) -> &'static str;

    /// How long to stay with one attempt.
    fn ages(&self, timings: &Timings) -> Ages;

    /// Follows `ask` at one server, telling every answer, until something ends that. Dropping it must leave nothing
    /// behind at the server.
    async fn follow(&self, server: &Arc<Server>, ask: &Ask, news: &News) -> End;

    /// Explains a name, once.
    ///
    /// # Errors
    /// What went wrong.
    async fn explain(&self, server: &Arc<Server>, ask: &Explain) -> Result<DelegateTree<Explained>, Failure>;
}

/// What to explain.
#[derive(Clone, Debug)]
pub struct Explain {
    /// Whose dtab.
    pub ns: Arc<str>,
    /// Text of the dtab that the request adds.
    pub dtab: Arc<str>,
    /// What to look up; usually one leaf.
    pub tree: NameTree<Path>,
}

/// A leaf of an explanation.
#[derive(Clone, Debug, PartialEq)]
pub struct Explained {
    /// The name.
    pub name: BoundName,
    /// Its addresses, where the server tells them with the leaf.
    pub addr: Option<Addr>,
}

/// After which times another attempt is begun; the old one goes on until the new one has its first answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ages {
    /// Since the last answer; none where silence says nothing.
    pub quiet: Option<Duration>,
    /// Since the beginning.
    pub whole: Duration,
}

/// Where an attempt tells what it learns.
pub struct News {
    sink: Arc<dyn Sink>,
    signs: Arc<Signs>,
    server: Arc<Server>,
}

/// Takes answers.
pub(super) trait Sink: Send + Sync {
    fn asked(&self, server: &Server);
    fn tell(&self, answer: Answer) -> Result<(), Failure>;
    fn declined(&self, failure: &Failure);
}

/// What the loop of a watch sees of an attempt.
#[derive(Debug)]
pub(super) struct Signs {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Clone, Copy, Debug)]
struct State {
    answered: bool,
    heard: Instant,
    leaving: bool,
}

// === impl News ===

impl News {
    pub(super) fn new(sink: Arc<dyn Sink>, server: Arc<Server>) -> (Self, Arc<Signs>) {
        let signs = Arc::new(Signs::new());
        (Self { sink, signs: signs.clone(), server }, signs)
    }

    /// The server is being asked.
    pub fn asked(&self) {
        self.sink.asked(&self.server);
    }

    /// An answer.
    ///
    /// # Errors
    /// It is none to what was asked.
    pub fn tell(&self, answer: Answer) -> Result<(), Failure> {
        self.sink.tell(answer)?;
        self.signs.change(|state| (state.answered, state.heard) = (true, Instant::now()));
        Ok(())
    }

    /// The server says that there is no answer, and goes on: a later one will come by the same way.
    pub fn declined(&self, failure: &Failure) {
        self.sink.declined(failure);
        self.signs.change(|state| (state.answered, state.heard) = (true, Instant::now()));
    }

    /// The server is about to go: another one is to be asked before this one is let go of.
    pub fn leave(&self) {
        self.signs.change(|state| state.leaving = true);
    }
}

// === impl Signs ===

impl Signs {
    fn new() -> Self {
        let state = State { answered: false, heard: Instant::now(), leaving: false };
        Self { state: Mutex::new(state), changed: Notify::new() }
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock());
        self.changed.notify_one();
    }

    /// Waits until there is something new. Cancel safe.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    pub(super) fn answered(&self) -> bool {
        self.state.lock().answered
    }

    /// The last answer, or the beginning.
    pub(super) fn heard(&self) -> Instant {
        self.state.lock().heard
    }

    pub(super) fn leaving(&self) -> bool {
        self.state.lock().leaving
    }
}
