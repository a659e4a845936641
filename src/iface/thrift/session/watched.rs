//! What a session tells the watch ledger: which keys its router watches, and which of them it does not ask for any more.
//! What a row goes through all the time, an answer and the next poll, is not told.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};

use super::answer::Exchange;
use super::ask::{Next, prepare};
use super::polls::PollAsk;
use super::rows::{Answered, CALLED, Look, Swept};
use super::times::{self, Times};
use super::work::HEAVY_FROM;
use super::{End, Session};
use crate::ledger::{Event, Said, WatchKey};
use crate::mux::Tag;
use crate::store::{Key, Subscription, Version};

/// A row that was answered, and not asked for so many ticks, is silent.
pub(super) const SILENT_AFTER: u32 = 100;
/// The ledger hears at least that often, in ticks, that its client asks.
const POLLED_EVERY: u32 = 600;
/// A loop that was answered here asks again within so many ticks, if it was nowhere else meanwhile.
const AT_ONCE: u32 = 10;
/// That loops come here from elsewhere is told once in so many ticks for each key.
const ARRIVED_EVERY: u32 = 20;
/// A stamp of a server that nobody knows is told once in so many ticks.
const STRANGER_EVERY: u32 = 3_000;
/// So many discards that crossed their answers are remembered, until the rows were looked at.
const MOST_CROSSED: usize = 1_024;

/// What the ledger knows of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Claim {
    /// Nothing. Who asks once, and does not come again, is no loop.
    #[default]
    None,
    /// That it is watched.
    Live,
    /// That it is silent.
    Silent,
}

/// What a session has to tell.
#[derive(Debug, Default)]
pub(super) struct Watched {
    /// Since the last turn.
    pub(super) events: Vec<Event>,
    /// Keys that are silent and have no row any more.
    pub(super) forgotten: HashMap<Arc<WatchKey>, Answered>,
    /// When the ledger heard last that the client asks.
    polled: u32,
    opened: bool,
    /// It hears when the ledger calls all sessions.
    calls: Option<Subscription>,
    /// When it heard last of a stamp that this process did not give.
    stranger: Option<u32>,
    /// When a poll was refused before its row was known.
    refused: Option<u32>,
    /// Tags that were given up when nothing was pending under them, and when.
    crossed: HashMap<Tag, u32>,
}

// === impl Watched ===

impl Watched {
    /// What is to be known when rows are judged.
    pub(super) fn look(&self, times: &Times) -> Look<'_> {
        Look { now: times.now(), heard: times.heard_at(), refused: self.refused, given_up: &self.crossed }
    }

    /// Something was refused for which there may be a row.
    pub(super) fn refuses(&mut self, times: &Times) {
        self.refused = Some(times.now());
    }

    /// A tag was given up under which nothing is pending: what was pending has just been answered. The row is found when
    /// rows are looked at, since that may be many.
    pub(super) fn crossed(&mut self, which: Tag, times: &Times) {
        if !self.opened {
            return;
        }
        let now = times.now();
        if self.crossed.len() >= MOST_CROSSED {
            self.crossed.retain(|_, at| *at + 2 * SILENT_AFTER > now);
        }
        if self.crossed.len() < MOST_CROSSED {
            self.crossed.insert(which, now);
        }
    }

    /// Takes what became of rows in which nobody waits. Of those that have gone it keeps no more than `most`: who asks for
    /// ever new names is no router, and the ledger is to forget what that left behind.
    pub(super) fn swept(&mut self, swept: Swept, most: usize) -> Vec<Key> {
        self.events.extend(swept.events);
        for (key, answered) in swept.forgotten {
            if self.forgotten.len() < most {
                self.forgotten.insert(key, answered);
            } else {
                self.events.push(Event::Released { key, silent: Some(answered.failed) });
            }
        }
        swept.due
    }
}

// === impl Session ===

impl<IO: AsyncRead + AsyncWrite + Unpin + Send> Session<IO> {
    /// A router has come. (Plain thrift is what scripts speak: they ask when they like.)
    pub(super) fn begin_watching(&mut self) {
        if self.dialect.is_mux() {
            self.watched.opened = true;
            self.watched.calls = Some(self.server.ledger.follow_calls(&self.mailbox, CALLED));
            self.watched.events.push(Event::Opened);
        }
    }

    /// A row is asked for by who has this stamp.
    pub(super) fn watches(&mut self, key: Key, stamp: &[u8]) {
        if !self.watched.opened {
            return;
        }
        let now = self.times.now();
        let Some(row) = self.rows.get(key) else { return };
        let events = &mut self.watched.events;
        if now.saturating_sub(self.watched.polled) >= POLLED_EVERY {
            self.watched.polled = now;
            events.push(Event::Polled);
        }
        // A loop that was answered here, and nowhere else since, has the stamp that it got here, and comes at once. (After
        // a failure it keeps its stamp, wherever that was.)
        let is_prompt = now.saturating_sub(row.used) <= AT_ONCE;
        let comes_back = row.has_waiting() || is_prompt && *stamp == row.seen.to_be_bytes();
        match row.claim {
            Claim::Live if comes_back || now.saturating_sub(row.arrived) < ARRIVED_EVERY => {}
            Claim::Live => {
                row.arrived = now;
                events.push(Event::Arrived(row.seat.watch_key().clone()));
            }
            Claim::Silent => {
                (row.claim, row.arrived) = (Claim::Live, now);
                events.push(Event::Resumed { key: row.seat.watch_key().clone(), failed: row.failed });
            }
            // Whoever has a stamp has asked before.
            Claim::None if !stamp.is_empty() => self.claims(key),
            Claim::None => {}
        }
        let watched = &mut self.watched;
        let is_told = watched.stranger.is_some_and(|at| now.saturating_sub(at) < STRANGER_EVERY);
        if !comes_back && !is_told && Version::is_foreign(stamp) {
            watched.stranger = Some(now);
            let number = stamp.try_into().map_or(0, u64::from_be_bytes);
            watched.events.push(Event::Stranger(number));
        }
    }

    /// A request was given up before it was looked at. If it was a poll, its watch has been given up.
    pub(super) fn was_given_up(&mut self, exchange: Exchange, message: &[u8]) {
        if !self.watched.opened || self.rows.len() == 0 || message.len() >= HEAVY_FROM {
            return;
        }
        if let Next::Poll(PollAsk { seat, .. }) = prepare(&self.server, self.client, exchange, message)
            && let Some(key) = self.rows.find(&seat)
        {
            self.watched.events.extend(self.rows.gives_up(key));
        }
    }

    /// A row is watched.
    pub(super) fn claims(&mut self, key: Key) {
        let Some(row) = self.rows.get(key).filter(|row| row.claim == Claim::None) else { return };
        if self.watched.opened {
            (row.claim, row.arrived) = (Claim::Live, self.times.now());
            let key = row.seat.watch_key().clone();
            self.watched.events.push(match self.watched.forgotten.remove(&key) {
                Some(Answered { failed, .. }) => Event::Resumed { key, failed },
                None => Event::Claimed(key),
            });
        }
    }

    /// The ledger has called: says what the watches of a namespace have seen.
    pub(super) fn answers_call(&mut self) {
        if let Some(call) = self.server.ledger.call() {
            let (current, behind, more) = self.rows.seen_in(call.ns());
            call.answer(Said { client: self.client.0, current, behind, more });
        }
    }

    /// Tells the ledger what there is to tell.
    pub(super) fn tell_ledger(&mut self) {
        if !self.watched.events.is_empty() {
            self.server.ledger.tell(self.client.0, &mut self.watched.events);
        }
    }

    /// The session is over. What the client has closed it does not miss; everything else it will ask for again.
    pub(super) fn end_watching(&mut self, end: &End) {
        if !self.watched.opened {
            return;
        }
        // Nobody closed what the network took.
        let is_lost = matches!(end, End::Gone(Some(error)) if is_of_the_network(error.kind()));
        // On the way out clients close because we want them to.
        let by_client = !self.leaving.is_leaving() && !is_lost && (self.ended || matches!(end, End::Gone(Some(_))));
        let heard = match end {
            End::TimedOut(times::SILENT | times::UNREAD) => self.times.unheard(),
            End::Gone(Some(_)) if is_lost => self.times.unheard(),
            _ => Duration::ZERO,
        };
        let now = self.times.now();
        let events = &mut self.watched.events;
        for row in self.rows.claimed() {
            let (key, silent) = (row.seat.watch_key().clone(), (row.claim == Claim::Silent).then_some(row.failed));
            match silent {
                _ if by_client => events.push(Event::Released { key, silent }),
                // It never had the answer: the session was dead already.
                Some(failed) if times::TICK * now.saturating_sub(row.used) < heard => {
                    events.push(Event::Resumed { key: key.clone(), failed });
                    events.push(Event::Cut { key, ago: heard });
                }
                Some(_) => {} // it stays as it is
                None if row.has_waiting() => events.push(Event::Cut { key, ago: heard }),
                None => {
                    // What was answered after the session was dead never arrived.
                    let answered = times::TICK * now.saturating_sub(row.used);
                    events.push(Event::Cut { key, ago: answered.max(heard) });
                }
            }
        }
        for (key, Answered { at, failed }) in self.watched.forgotten.drain() {
            if by_client {
                events.push(Event::Released { key, silent: Some(failed) });
            } else if times::TICK * now.saturating_sub(at) < heard {
                events.push(Event::Resumed { key: key.clone(), failed });
                events.push(Event::Cut { key, ago: heard });
            }
        }
        events.push(Event::Closed { by_client });
        self.tell_ledger();
    }
}

/// Is that what the kernel says of a peer that it does not reach any more?
fn is_of_the_network(kind: ErrorKind) -> bool {
    use ErrorKind::{HostUnreachable, NetworkDown, NetworkUnreachable, TimedOut};
    matches!(kind, TimedOut | HostUnreachable | NetworkUnreachable | NetworkDown)
}
