//! Writes. Each reads what is stored and replaces that alone (`cas`), again and again until its time is over.
//!
//! * A store that cannot be reached is found out by the read, before anything is sent.
//! * A write whose answer is lost may still be done, at any time: Consul does what it has received. It replaces what was
//!   read and nothing else, so it cannot undo what others write meanwhile. While nothing has changed since that read, the
//!   same write is sent again, under the same index: it is done at most once, which settles it. As soon as something has
//!   changed, that may have been its own doing, and what is there now may be built on it, so nothing is sent any more.
//!   If the wanted text is there, that is enough for who wanted it there, and unknown to who named a version, since
//!   another process may have written the same; if it is not, the outcome is unknown. So it is if the store stays silent
//!   until the end.
//! * That somebody else deleted a key in the same moment is not told by Consul: it says of both that it is done.
//! * Within this process the writes of a namespace take turns.
//! * It is acknowledged when it has been read back and shown to the readers of this process.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;
use tokio::time::{Instant, sleep, timeout_at};

use super::ConsulStorage;
use super::value::version;
use super::watched::{patience, retries};
use crate::consul::{Answer, Consistency, ConsulError, Undecoded};
use crate::runtime::Backoff;
use crate::storage::StorageError;

/// How long a write may take.
pub(super) const LIMIT: Duration = Duration::from_secs(15);

/// Lets one write of a namespace begin when the one before has ended. There are entries only for namespaces that are being
/// written.
#[derive(Default)]
pub(super) struct Turns(Mutex<HashMap<String, Weak<tokio::sync::Mutex<()>>>>);

/// What a write depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wants {
    /// That this is what is stored in the end.
    State,
    /// That it is this write which replaces what was there.
    Change,
}

/// What is stored under a key.
#[derive(Clone, Debug, Default)]
pub(super) struct Stored {
    /// The index of its last change; if there is no such key, that of the last change of any key.
    pub(super) index: u64,
    /// The text; none if there is no such key.
    pub(super) text: Option<Bytes>,
}

/// One write.
struct Write<'s> {
    storage: &'s ConsulStorage,
    namespace: &'s str,
    /// The text, or none to delete the key.
    wanted: Option<Bytes>,
    deadline: Instant,
    backoff: Backoff,
    /// What went wrong last.
    failure: Option<ConsulError>,
    sent: Sent,
}

/// What is known of the writes that were sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sent {
    /// None was done.
    Nothing,
    /// The answer to one is lost, which was to replace what was stored under this index.
    InDoubt(u64),
    /// One was done.
    Done,
}

impl ConsulStorage {
    /// Makes `wanted` what is stored, if `may` agrees to what is there before: the new version.
    pub(super) async fn write(
        &self,
        namespace: &str,
        wanted: Option<Bytes>,
        wants: Wants,
        may: impl Fn(&Stored) -> Result<(), StorageError> + Send,
    ) -> Result<Bytes, StorageError> {
        let deadline = Instant::now() + LIMIT;
        let (backoff, failure, sent) = (retries(), None, Sent::Nothing);
        let mut write = Write { storage: self, namespace, wanted, deadline, backoff, failure, sent };
        let _turn = match timeout_at(deadline, self.turns.of(namespace)).await {
            Ok(turn) => turn,
            Err(_) => return Err(write.no_turn()),
        };
        loop {
            let stored = write.read().await?;
            if let Sent::InDoubt(replaced) = write.sent
                && replaced != stored.index
            {
                return match wants {
                    _ if !write.is_done(&stored) => Err(in_doubt(OTHERS)),
                    Wants::State => Ok(write.version(&stored)),
                    Wants::Change => Err(StorageError::Uncertain(MAYBE_DONE.to_owned())),
                };
            }
            may(&stored)?;
            if write.replace(&stored).await? {
                return write.confirmed().await;
            }
        }
    }
}

impl Turns {
    async fn of(&self, namespace: &str) -> OwnedMutexGuard<()> {
        self.turn(namespace).lock_owned().await
    }

    fn turn(&self, namespace: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.0.lock();
        turns.retain(|_, turn| turn.strong_count() > 0);
        if let Some(turn) = turns.get(namespace).and_then(Weak::upgrade) {
            return turn;
        }
        let turn = Arc::default();
        turns.insert(namespace.to_owned(), Arc::downgrade(&turn));
        turn
    }
}

impl Write<'_> {
    /// What is stored now; readers are shown it too.
    async fn read(&mut self) -> Result<Stored, StorageError> {
        // Neither another server's older state would do here nor that of a leader that is still catching up.
        let request = self.storage.layout.read(self.namespace, Consistency::Consistent);
        loop {
            let watched = self.storage.watched.get(&self.namespace.to_owned());
            let before = watched.as_ref().map(|watched| watched.given());
            let read = match self.storage.agent.once(&request, patience(self.deadline)).await {
                Ok(answer) => {
                    if let (Some(watched), Some(before)) = (watched, before) {
                        // What cannot be read shows below, too.
                        watched.offer(answer.clone(), before).await.ok();
                    }
                    stored(answer).await
                }
                Err(error) => Err(error),
            };
            match read {
                Ok(stored) => return Ok(stored),
                Err(error) => self.failed(error).await?,
            }
        }
    }

    /// Sends the write. False: it is not known to be done, so that it is to be seen what is there now.
    async fn replace(&mut self, stored: &Stored) -> Result<bool, StorageError> {
        let ConsulStorage { layout, write: mode, agent, .. } = self.storage;
        let index = if stored.text.is_some() { stored.index } else { 0 };
        let request = match &self.wanted {
            Some(text) => layout.write(self.namespace, *mode, index, text.clone()),
            None => layout.delete(self.namespace, *mode, index),
        };
        let outcome = match agent.once(&request, patience(self.deadline)).await {
            Ok(answer) => answer.read(done).await,
            Err(error) => Err(error),
        };
        match outcome {
            Ok(Ok(true)) => return Ok(true),
            // Somebody else was faster.
            Ok(_) => self.failure = None,
            Err(error) => {
                if !error.is_certainly_undone() {
                    self.sent = Sent::InDoubt(stored.index);
                }
                self.failed(error).await?;
            }
        }
        if Instant::now() >= self.deadline { Err(self.given_up()) } else { Ok(false) }
    }

    /// Reads back what has been written, and so shows it to the readers of this process.
    async fn confirmed(mut self) -> Result<Bytes, StorageError> {
        self.sent = Sent::Done;
        let stored = self.read().await?;
        Ok(self.version(&stored))
    }

    fn is_done(&self, stored: &Stored) -> bool {
        stored.text == self.wanted
    }

    /// The version of what was written; empty if something else is there already.
    fn version(&self, stored: &Stored) -> Bytes {
        if stored.text.is_some() && self.is_done(stored) { version(stored.index) } else { Bytes::new() }
    }

    /// Waits for the next attempt; fails if there is none.
    async fn failed(&mut self, error: ConsulError) -> Result<(), StorageError> {
        let (passing, delay) = (error.is_passing(), self.backoff.next_delay());
        let in_time = Instant::now() + delay < self.deadline;
        self.failure = Some(error);
        if !passing || !in_time {
            return Err(self.given_up());
        }
        sleep(delay).await;
        Ok(())
    }

    /// Others write this namespace here, and none of them has come to an end.
    fn no_turn(&self) -> StorageError {
        let (namespace, agent, limit) = (self.namespace, self.storage.agent.name(), LIMIT.as_secs());
        StorageError::Unavailable(format!(
            "another write of {namespace} has been waiting for Consul at {agent}, and this one for its turn, for \
             {limit} s; nothing was written"
        ))
    }

    fn given_up(&mut self) -> StorageError {
        let agent = self.storage.agent.name();
        let Some(error) = self.failure.take() else {
            let (namespace, limit) = (self.namespace, LIMIT.as_secs());
            return match self.sent {
                Sent::InDoubt(_) => in_doubt(OTHERS),
                Sent::Nothing | Sent::Done => StorageError::Unavailable(format!(
                    "others have kept writing {namespace} to Consul at {agent} for {limit} s; nothing was written"
                )),
            };
        };
        match (self.sent, error) {
            (Sent::InDoubt(_), error) => in_doubt(&error.to_string()),
            (Sent::Done, error) => StorageError::Uncertain(format!(
                "{error}. The write is done, but could not be read back: what is read here may lack it for a while"
            )),
            (Sent::Nothing, error @ (ConsulError::Forbidden { .. } | ConsulError::UnknownToken { .. })) => {
                StorageError::Forbidden(error.to_string())
            }
            (Sent::Nothing, ConsulError::TooLarge { text }) => StorageError::TooLarge(format!(
                "the dtab has {} bytes as text, more than Consul at {agent} stores under one key: {text} \
                 (`limits.kv_max_value_size` of the Consul agents)",
                self.wanted.as_ref().map_or(0, Bytes::len)
            )),
            (Sent::Nothing, error) => StorageError::Unavailable(format!("{error}; nothing was written")),
        }
    }
}

const MAYBE_DONE: &str = "what was to be written is there now; whether by this write, whose answer was lost, or by another \
                          one of the same text, is not known";

const OTHERS: &str = "the answer to it was lost, and others have written meanwhile";

fn in_doubt(why: &str) -> StorageError {
    StorageError::Uncertain(format!(
        "{why}. The write was sent, and whether it is done, or will be, is not known: read the namespace before you \
         repeat it"
    ))
}

/// What an answer to a read says.
async fn stored(answer: Answer) -> Result<Stored, ConsulError> {
    let read = answer.read(|answer, body| match (answer.found, answer.index) {
        (true, Some(index)) => Ok(Stored { index, text: Some(Bytes::copy_from_slice(body)) }),
        (false, Some(index)) => Ok(Stored { index, text: None }),
        (_, None) => Err(Undecoded::Unreadable("it has no X-Consul-Index".to_owned())),
    });
    Ok(read.await?.unwrap_or_default())
}

/// What an answer to a write says: whether the index was still the given one.
fn done(_: &Answer, body: &[u8]) -> Result<bool, Undecoded> {
    match body.trim_ascii() {
        b"true" => Ok(true),
        b"false" => Ok(false),
        _ => Err(Undecoded::Unreadable("it is neither true nor false".to_owned())),
    }
}
