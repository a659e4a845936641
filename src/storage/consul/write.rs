//! Writes. Each reads what is stored and replaces that alone (`cas`), again and again until its time is over.
//!
//! * A store that cannot be reached is found out by the read, before anything is sent.
//! * A write whose answer is lost may still be done, at any time: Consul does what it has received. It replaces what was
//!   read and nothing else, so it cannot undo what others write meanwhile. The same write again, under the same index,
//!   is done at most once, and settles it. If it finds that somebody has written meanwhile, that may have been itself, or
//!   another process with the same text: enough for who wanted this text there, unknown to who named a version. So it is
//!   if the store stays silent until the end.
//! * Within this process the writes of a namespace take turns.
//! * It is acknowledged when it has been read back and shown to the readers of this process.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep, timeout_at};

use super::ConsulStorage;
use super::value::version;
use super::watched::{patience, retries};
use crate::consul::{Answer, Consistency, ConsulError, Undecoded};
use crate::runtime::Backoff;
use crate::storage::StorageError;

/// How long a write may take.
pub(super) const LIMIT: Duration = Duration::from_secs(15);

/// Writes of namespaces with the same hash wait for each other.
const TURNS: usize = 64;

/// Lets one write of a namespace begin when the one before has ended.
pub(super) struct Turns {
    turns: [tokio::sync::Mutex<()>; TURNS],
    hasher: RandomState,
}

/// What a write depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wants {
    /// That this is what is stored in the end.
    State,
    /// That it is this write which replaces what was there.
    Change,
}

/// What is stored under a key: the index of its last change, and the text.
pub(super) type Stored = Option<(u64, Bytes)>;

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
    /// The answer to one is lost.
    InDoubt,
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
            Err(_) => return Err(write.given_up()),
        };
        loop {
            let stored = write.read().await?;
            if write.sent == Sent::InDoubt && write.is_done(&stored) {
                return match wants {
                    Wants::State => Ok(write.version(&stored)),
                    Wants::Change => Err(StorageError::Uncertain(MAYBE_DONE.to_owned())),
                };
            }
            may(&stored).map_err(|refused| write.refused(refused))?;
            if write.replace(&stored).await? {
                return write.confirmed().await;
            }
        }
    }
}

impl Turns {
    async fn of(&self, namespace: &str) -> tokio::sync::MutexGuard<'_, ()> {
        self.turns[self.hasher.hash_one(namespace) as usize % TURNS].lock().await
    }
}

impl Default for Turns {
    fn default() -> Self {
        Self { turns: std::array::from_fn(|_| tokio::sync::Mutex::default()), hasher: RandomState::new() }
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
        let index = stored.as_ref().map_or(0, |(index, _)| *index);
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
                    self.sent = Sent::InDoubt;
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
        stored.as_ref().map(|(_, text)| text) == self.wanted.as_ref()
    }

    /// The version of what was written; empty if something else is there already.
    fn version(&self, stored: &Stored) -> Bytes {
        let index = stored.as_ref().filter(|_| self.is_done(stored)).map(|(index, _)| *index);
        index.map(version).unwrap_or_default()
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

    /// What is stored now does not allow the write. If one was sent whose answer is lost, that may be its own doing: it
    /// was done, and others have written since.
    fn refused(&self, refused: StorageError) -> StorageError {
        match self.sent {
            Sent::InDoubt => in_doubt("the answer to it was lost, and others have written meanwhile"),
            Sent::Nothing | Sent::Done => refused,
        }
    }

    fn given_up(&mut self) -> StorageError {
        let agent = self.storage.agent.name();
        let Some(error) = self.failure.take() else {
            let busy =
                format!("others have kept writing this namespace to Consul at {agent} for {} s", LIMIT.as_secs());
            return self.refused(StorageError::Unavailable(busy));
        };
        match (self.sent, error) {
            (Sent::InDoubt, error) => in_doubt(&error.to_string()),
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

fn in_doubt(why: &str) -> StorageError {
    StorageError::Uncertain(format!(
        "{why}. The write was sent, and whether it is done, or will be, is not known: read the namespace before you \
         repeat it"
    ))
}

/// What an answer to a read says.
async fn stored(answer: Answer) -> Result<Stored, ConsulError> {
    let read = answer.read(|answer, body| match (answer.found, answer.index) {
        (true, Some(index)) => Ok(Some((index, Bytes::copy_from_slice(body)))),
        (true, None) => Err(Undecoded::Unreadable("it has no X-Consul-Index".to_owned())),
        (false, _) => Ok(None),
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
