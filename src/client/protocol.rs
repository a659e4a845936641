//! What a protocol has to do, and how it tells what it learns.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
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

/// Hands out who may speak for one watch: of its attempts only the newest that has answered. They are all run by the
/// task of the watch, never two at a time.
pub(super) struct Voice {
    sink: Arc<dyn Sink>,
    attempts: u64,
    /// The attempt that speaks.
    speaks: Arc<AtomicU64>,
}

/// Where an attempt tells what it learns.
pub struct News {
    sink: Arc<dyn Sink>,
    signs: Arc<Signs>,
    server: Arc<Server>,
    attempt: u64,
    speaks: Arc<AtomicU64>,
}

/// Takes answers.
pub(super) trait Sink: Send + Sync {
    fn asked(&self, server: &Server);
    fn tell(&self, answer: Answer) -> Result<(), Failure>;
}

/// What the loop of a watch sees of an attempt.
#[derive(Debug)]
pub(super) struct Signs {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug)]
struct State {
    word: Word,
    /// Whether the loop has looked at `word`.
    read: bool,
    heard: Instant,
    leaving: bool,
}

/// The last that an attempt has said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// Nothing yet.
    None,
    /// A good answer.
    Answer,
    /// That there is none.
    No(Failure),
}

// === impl Explain ===

impl fmt::Display for Explain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.tree {
            NameTree::Leaf(path) => write!(f, "explain {path} in {}", self.ns),
            _ => write!(f, "explain a tree in {}", self.ns),
        }
    }
}

// === impl Voice ===

impl Voice {
    pub(super) fn new(sink: Arc<dyn Sink>) -> Self {
        Self { sink, attempts: 0, speaks: Arc::default() }
    }

    /// For a new attempt.
    pub(super) fn news(&mut self, server: Arc<Server>) -> (News, Arc<Signs>) {
        self.attempts += 1;
        let (sink, signs, speaks) = (self.sink.clone(), Arc::new(Signs::new()), self.speaks.clone());
        (News { sink, signs: signs.clone(), server, attempt: self.attempts, speaks }, signs)
    }
}

// === impl News ===

impl News {
    /// The server is being asked.
    pub fn asked(&self) {
        self.sink.asked(&self.server);
    }

    /// An answer. What comes after a later attempt has answered counts no more: that one's server goes on from its own
    /// answer, and would not repeat it.
    ///
    /// # Errors
    /// It is none to what was asked.
    pub fn tell(&self, answer: Answer) -> Result<(), Failure> {
        if self.speaks.load(Ordering::Relaxed) > self.attempt {
            return Ok(());
        }
        self.sink.tell(answer)?;
        self.speaks.store(self.attempt, Ordering::Relaxed);
        self.say(Word::Answer);
        Ok(())
    }

    /// The server says that there is no answer, and goes on: a later one will come by the same way.
    pub fn declined(&self, failure: Failure) {
        self.say(Word::No(failure));
    }

    fn say(&self, word: Word) {
        self.signs.change(|state| (state.word, state.read, state.heard) = (word, false, Instant::now()));
    }

    /// The server is about to go: another one is to be asked before this one is let go of.
    pub fn leave(&self) {
        self.signs.change(|state| state.leaving = true);
    }
}

// === impl Signs ===

impl Signs {
    fn new() -> Self {
        let state = State { word: Word::None, read: true, heard: Instant::now(), leaving: false };
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

    pub(super) fn word(&self) -> Word {
        self.state.lock().word.clone()
    }

    /// The last word, if nobody has taken it yet.
    pub(super) fn take_unread(&self) -> Word {
        let mut state = self.state.lock();
        if std::mem::replace(&mut state.read, true) { Word::None } else { state.word.clone() }
    }

    /// The last answer, or the beginning.
    pub(super) fn heard(&self) -> Instant {
        self.state.lock().heard
    }

    pub(super) fn leaving(&self) -> bool {
        self.state.lock().leaving
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::client::Reason;

    #[derive(Default)]
    struct Told(Mutex<Vec<usize>>);

    impl Sink for Told {
        fn asked(&self, _: &Server) {}

        fn tell(&self, answer: Answer) -> Result<(), Failure> {
            let Answer::Namespaces(names) = answer else { return Err(Failure::new(Reason::BadAnswer, "nonsense")) };
            self.0.lock().push(names.len());
            Ok(())
        }
    }

    fn names(count: usize) -> Answer {
        Answer::Namespaces((0..count).map(|n| n.to_string()).collect())
    }

    #[test]
    fn of_the_attempts_of_a_watch_the_newest_that_has_answered_speaks() {
        let told = Arc::new(Told::default());
        let mut voice = Voice::new(told.clone());
        let server = Arc::new(Server::alone());
        let (old, old_signs) = voice.news(server.clone());
        let (new, new_signs) = voice.news(server);
        old.tell(names(1)).expect("a list");
        old.tell(names(2)).expect("a list"); // until its successor has answered
        new.tell(Answer::Names(BTreeSet::new())).expect_err("no answer");
        old.tell(names(3)).expect("a list");
        assert_eq!((old_signs.take_unread(), new_signs.word()), (Word::Answer, Word::None));
        new.tell(names(4)).expect("a list");
        old.tell(names(5)).expect("passed over");
        assert_eq!(*told.0.lock(), [1, 2, 3, 4]);
        assert_eq!(old_signs.take_unread(), Word::None, "and is no sign of life of the watch");
        new.declined(Failure::new(Reason::Declared, "not any more"));
        assert!(matches!(new_signs.take_unread(), Word::No(_)));
        assert_eq!(new_signs.take_unread(), Word::None, "each word is read once");
    }
}
