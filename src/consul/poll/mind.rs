//! What a watch knows of its place in the history of what it watches, and what it makes of each answer.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::{Rhythm, Sink};
use crate::consul::answer::Seal;
use crate::consul::request::From;
use crate::consul::{Answer, Consistency, ConsulError, Journal, Request, Undecoded};

type Decode<T> = dyn Fn(&Answer, &[u8]) -> Result<T, Undecoded> + Send + Sync;

/// Shared by the loop and by those who offer it answers. Under the lock of `place` an answer is judged and published,
/// so there is one writer at a time.
pub(super) struct Mind<T> {
    request: Request,
    rhythm: Rhythm,
    decode: Arc<Decode<T>>,
    sink: Box<dyn Sink<T>>,
    journal: Arc<Journal>,
    place: Mutex<Place>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Place {
    /// From where the next request waits.
    index: Option<u64>,
    /// What readers were given.
    given: Given,
    /// Of which answer that was made, as long as it is beyond doubt.
    seal: Option<Seal>,
    /// Whether it says that there is nothing.
    nothing: bool,
    /// The next answer is to be confirmed by a majority of the servers. A server that has just become the leader, as
    /// one that was restarted, answers others from a state that lacks what it has not caught up with, and says nothing
    /// of it; and one that lags behind answers with what was before.
    confirm: bool,
}

/// What readers were given last, whoever asked for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// How many answers there were.
    count: u64,
    /// The index of the last one.
    index: u64,
}

/// What became of an answer that came by other means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Offered {
    /// Readers have it.
    Taken,
    /// It is good, and what somebody stored is not: readers keep what they have, and are told why.
    Content(String),
    /// They have been given one with a higher index meanwhile, and keep that.
    Overtaken,
}

/// Where the loop stood when it asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct AskedAt {
    place: Place,
    wait: Duration,
}

/// How an attempt ended. Each end leads back into the loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Readers see something new.
    Changed,
    /// They do not.
    Unchanged,
    /// As before, and the answer came early under the index that was waited from: a server that does not wait, or one
    /// whose state was replaced under the poll. Waiting on from that index could be in vain, so the next request is
    /// one without.
    Unmoved,
    /// The index is lower than that of what readers have. That is so once Consul has lost its state, or got back an
    /// older one, but also where a server lags behind: it is read again, without an index, and published when a
    /// majority confirms it.
    WentBack,
    /// Nothing is left, says an answer that is not sure, or one without an index: it has to be confirmed.
    Doubted,
    /// A newer answer came by other means meanwhile.
    Overtaken,
    /// The answer is good, and what somebody stored is not.
    Content(String),
    /// No good answer.
    Failed(ConsulError),
}

// === impl Mind ===

impl<T: Send + 'static> Mind<T> {
    pub(super) fn new(
        request: Request,
        rhythm: Rhythm,
        decode: Arc<Decode<T>>,
        sink: Box<dyn Sink<T>>,
        journal: Arc<Journal>,
    ) -> Self {
        Self { request, rhythm, decode, sink, journal, place: Mutex::default() }
    }

    pub(super) fn rhythm(&self) -> Rhythm {
        self.rhythm
    }

    /// From where the next request is made.
    pub(super) fn next(&self) -> AskedAt {
        let wait = match self.rhythm {
            Rhythm::Blocking(wait) => wait,
            Rhythm::Every(_) => Duration::ZERO,
        };
        AskedAt { place: *self.place.lock(), wait }
    }

    pub(super) fn target(&self, asked: AskedAt, from: Option<From>) -> String {
        self.request.target(from, asked.place.confirm.then_some(Consistency::Consistent))
    }

    /// Judges an answer to the loop's own request, made at `asked` and `from` there, that took `took`.
    pub(super) async fn take(&self, answer: Answer, asked: AskedAt, from: Option<From>, took: Duration) -> End {
        let (index, sure) = (answer.index, answer.sure);
        self.journal.answered(&answer);
        if matches!(self.rhythm, Rhythm::Blocking(_)) && index.is_none() {
            return self.lost(answer.without_index());
        }
        // While watches take turns most answers bring nothing new, and may be long.
        let seal = answer.seal();
        let value = match asked.place.seal == Some(seal) {
            true => None,
            false => match self.decoded(answer).await {
                Ok(value) => Some(value),
                Err(error) => return self.lost(error),
            },
        };
        let mut place = self.place.lock();
        // An answer under the index that was waited from has no news since then; what came meanwhile is newer, and its
        // index may be lower.
        let lower = index.unwrap_or(0) < place.given.index;
        let outdated = lower || from.is_some_and(|from| index == Some(from.index));
        if place.given != asked.place.given && (outdated || value.is_none()) {
            return End::Overtaken;
        }
        if lower && !asked.place.confirm {
            (place.index, place.confirm) = (None, true);
            return End::WentBack;
        }
        let unmoved = from.is_some_and(|from| index == Some(from.index) && took < from.wait.mul_f64(0.9));
        let next = index.filter(|index| *index > 0 && !unmoved && matches!(self.rhythm, Rhythm::Blocking(_)));
        let changed = match value {
            None => {
                (place.index, place.confirm) = (next, false);
                false
            }
            Some(Err(reason)) => {
                place.give(next, index, !unmoved);
                self.sink.fail(reason.as_str().into());
                self.journal.good(false);
                return End::Content(reason);
            }
            Some(Ok(value)) => {
                let nothing = self.sink.is_nothing(&value);
                if nothing && !place.nothing && (!sure || from.is_none()) && !asked.place.confirm {
                    (place.index, place.confirm) = (None, true);
                    return End::Doubted;
                }
                place.give(next, index, !unmoved);
                let changed = self.sink.publish(value);
                (place.seal, place.nothing) = (Some(seal), nothing);
                changed
            }
        };
        self.journal.good(changed);
        match (changed, unmoved) {
            (true, _) => End::Changed,
            (false, true) => End::Unmoved,
            (false, false) => End::Unchanged,
        }
    }

    /// There is no good answer.
    pub(super) fn lost(&self, error: ConsulError) -> End {
        {
            // It may be the first sign of a Consul that begins anew.
            let mut place = self.place.lock();
            (place.index, place.seal) = (None, None);
            // Who is content with any server's state gets that even while there is no leader.
            place.confirm = self.request.mode() == Consistency::Default;
        }
        if error.is_authoritative() {
            self.sink.absent(error.to_string().into());
        } else {
            self.sink.fail(error.to_string().into());
        }
        End::Failed(error)
    }

    pub(super) fn given(&self) -> Given {
        self.place.lock().given
    }

    /// Judges an answer that came by other means.
    pub(super) async fn offer(&self, answer: Answer, before: Given) -> Result<Offered, ConsulError> {
        let Some(index) = answer.index else { return Err(answer.without_index()) };
        let value = self.decoded(answer).await?;
        let mut place = self.place.lock();
        if index < place.given.index && place.given != before {
            return Ok(Offered::Overtaken);
        }
        place.give(Some(index), Some(index), true);
        Ok(match value {
            Ok(value) => {
                place.nothing = self.sink.is_nothing(&value);
                let changed = self.sink.publish(value);
                self.journal.good(changed);
                Offered::Taken
            }
            Err(reason) => {
                self.journal.failed(&reason);
                self.sink.fail(reason.as_str().into());
                Offered::Content(reason)
            }
        })
    }

    async fn decoded(&self, answer: Answer) -> Result<Result<T, String>, ConsulError> {
        let decode = self.decode.clone();
        answer.read(move |answer, body| decode(answer, body)).await
    }
}

impl<T> Mind<T> {
    pub(super) fn request(&self) -> &Request {
        &self.request
    }

    /// Do readers know that there is nothing?
    pub(super) fn is_of_nothing(&self) -> bool {
        self.place.lock().nothing
    }

    pub(super) fn journal(&self) -> &Arc<Journal> {
        &self.journal
    }
}

// === impl Place ===

impl Place {
    /// Readers are given the answer of `index`, which may be `news`; the next request waits from `next`.
    fn give(&mut self, next: Option<u64>, index: Option<u64>, news: bool) {
        let given = Given { count: self.given.count + u64::from(news), index: index.unwrap_or(0) };
        *self = Self { index: next, given, seal: None, nothing: false, confirm: false };
    }
}

// === impl Given ===

impl Given {
    /// Would `answer` lead readers back? Then it is not to be believed before a majority of the servers confirms it.
    pub fn is_newer_than(&self, answer: &Answer) -> bool {
        answer.index.unwrap_or(0) < self.index
    }
}

// === impl AskedAt ===

impl AskedAt {
    /// The index and the time to wait with; none for a request that does not wait.
    pub(super) fn from(&self) -> Option<(u64, Duration)> {
        self.place.index.map(|index| (index, self.wait))
    }

    /// Whether it is asked to confirm what was said before.
    pub(super) fn confirms(&self) -> bool {
        self.place.confirm
    }
}

// === impl End ===

impl End {
    /// One word for metrics.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::Unchanged => "unchanged",
            Self::Unmoved => "unmoved",
            Self::WentBack => "went_back",
            Self::Doubted => "doubted",
            Self::Overtaken => "overtaken",
            Self::Content(_) => "bad_content",
            Self::Failed(error) => error.word(),
        }
    }
}
