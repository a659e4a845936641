//! Rows: the topics that a session cares for, with the polls that wait on each.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashTable};
use slab::Slab;
use smallvec::SmallVec;

use super::answer::{Exchange, Question};
use super::times::TICK;
use super::watched::{Claim, SILENT_AFTER};
use crate::iface::thrift::topics::Seat;
use crate::ledger::{Asks, Event, MOST_BEHIND, WatchKey};
use crate::mux::Tag;
use crate::store::{Key, Mailbox, Subscription};
use crate::thrift::NameRef;

/// Names of parked polls are kept up to so many bytes on a session; a failure of those beyond echoes no name, at which
/// no router looks.
const MOST_NAMES: usize = 1 << 20;

/// Those who wait in a row, in the order in which they came.
pub(super) type Waiting = SmallVec<[Waiter; 1]>;

/// The table of a session. A row's key in the session's mailbox is its place and one.
#[derive(Debug)]
pub(super) struct Rows {
    rows: Slab<Row>,
    /// The places of rows by that of their topic, which a row knows itself.
    by_topic: HashTable<u32>,
    hasher: DefaultHashBuilder,
    waiting: usize,
    /// Bytes of the names of those who wait.
    names: usize,
    /// Somebody waits in each row, as far as is known.
    all_in_use: bool,
    /// No row is due before this second.
    due: u32,
}

/// A topic. It stays subscribed between an answer and the next poll, which usually comes at once.
#[derive(Debug)]
pub(super) struct Row {
    // Before the seat, which keeps the subscribed cell going.
    _subscription: Subscription,
    pub(super) seat: Seat,
    /// The version that all who wait have seen, or for which there is nothing to see.
    pub(super) seen: u64,
    waiting: Waiting,
    /// So many of those were given up. They are taken out when they are half of all, so that a discard costs the same
    /// however many wait.
    given_up: usize,
    /// The second in which it was asked for last, or answered.
    pub(super) used: u32,
    /// What the watch ledger knows of it.
    pub(super) claim: Claim,
    /// The last answer was a failure.
    pub(super) failed: bool,
    /// The tag under which somebody was answered last: a discard may cross the answer.
    answered: Option<Tag>,
    /// The tick in which the ledger heard last that a loop came here from elsewhere.
    pub(super) arrived: u32,
}

/// What a session knows when it looks for rows that are silent, in ticks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look<'s> {
    pub(super) now: u32,
    /// When anything was heard of the client.
    pub(super) heard: u32,
    /// When a poll was refused before its row was known, after which a router waits.
    pub(super) refused: Option<u32>,
    /// Tags that were given up when nothing was pending under them any more, and when.
    pub(super) given_up: &'s HashMap<Tag, u32>,
}

/// What became of rows in which nobody waits, and which of the others are due.
#[derive(Debug, Default)]
pub(super) struct Swept {
    /// Rows with polls that are due.
    pub(super) due: Vec<Key>,
    /// Rows that are silent now.
    pub(super) events: Vec<Event>,
    /// Rows that are silent and gone.
    pub(super) forgotten: Vec<(Arc<WatchKey>, Answered)>,
}

/// The last answer of a row that has gone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answered {
    /// When, in ticks.
    pub(super) at: u32,
    /// Was it a failure?
    pub(super) failed: bool,
}

/// A parked poll.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) exchange: Exchange,
    /// Tells it from others with the same tag; those who came later have greater ones.
    pub(super) serial: u32,
    pub(super) seqid: i32,
    /// The second, in the life of the session, in which it is answered at the latest; [`GIVEN_UP`] if it is not.
    pub(super) due: u32,
    /// The millisecond in which it came; wraps around.
    pub(super) came: u32,
    /// What a failure echoes. None once there is a value: a failure is rare then, and the echo is empty.
    pub(super) name: Option<Box<NameRef>>,
}

const GIVEN_UP: u32 = u32::MAX;

/// A row that cannot be judged yet is looked at again after so many ticks.
const LOOK_AGAIN: u32 = 10;

/// The key of a call by the ledger: none of a row.
pub(super) const CALLED: Key = Key(0);

fn key_of(slot: usize) -> Key {
    Key(u32::try_from(slot + 1).expect("their number is limited by limits.watchesPerConnection, a u32"))
}

fn slot(key: Key) -> usize {
    (key.0 as usize).wrapping_sub(1)
}

// === impl Rows ===

impl Rows {
    pub(super) fn new() -> Self {
        Self {
            rows: Slab::new(),
            by_topic: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            waiting: 0,
            names: 0,
            all_in_use: false,
            due: u32::MAX,
        }
    }

    /// How many polls wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// How many topics there are.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// No row is due before this second.
    pub(super) fn due(&self) -> u32 {
        self.due
    }

    pub(super) fn get(&mut self, key: Key) -> Option<&mut Row> {
        self.rows.get_mut(slot(key))
    }

    /// The row of a topic.
    pub(super) fn find(&self, seat: &Seat) -> Option<Key> {
        let place = seat.place();
        let is_of_topic = |key: &u32| self.rows[slot(Key(*key))].seat.place() == place;
        self.by_topic.find(self.hasher.hash_one(place), is_of_topic).copied().map(Key)
    }

    /// A new row, subscribed to its topic.
    pub(super) fn add(&mut self, seat: Seat, mailbox: &Mailbox) -> Key {
        if self.rows.len() == self.rows.capacity() {
            // Doubling would leave up to half of it empty, on thousands of connections.
            self.rows.reserve_exact(self.rows.len() / 4 + 4);
        }
        let (place, entry) = (seat.place(), self.rows.vacant_entry());
        let key = key_of(entry.key());
        let subscription = seat.subscribe(mailbox, key);
        let waiting = SmallVec::new();
        entry.insert(Row {
            _subscription: subscription,
            seat,
            seen: 0,
            waiting,
            given_up: 0,
            used: 0,
            claim: Claim::None,
            failed: false,
            answered: None,
            arrived: 0,
        });
        let Self { rows, by_topic, hasher, .. } = self;
        let hash_of = |key: &u32| hasher.hash_one(rows[slot(Key(*key))].seat.place());
        by_topic.insert_unique(hasher.hash_one(place), key.0, hash_of);
        key
    }

    /// Parks a poll.
    pub(super) fn park(&mut self, key: Key, mut waiter: Waiter) {
        let Some(row) = self.rows.get_mut(slot(key)) else { return };
        if self.names + waiter.name_bytes() > MOST_NAMES {
            waiter.name = None;
        }
        self.names += waiter.name_bytes();
        self.due = self.due.min(waiter.due);
        self.waiting += 1;
        row.waiting.push(waiter);
    }

    /// Takes out who waits in a row, and those who were given up.
    pub(super) fn take_waiting(&mut self, key: Key) -> Waiting {
        let Some(row) = self.rows.get_mut(slot(key)) else { return Waiting::new() };
        self.waiting -= row.waiting();
        self.names -= row.waiting.iter().map(Waiter::name_bytes).sum::<usize>();
        row.given_up = 0;
        std::mem::take(&mut row.waiting)
    }

    /// Forgets a parked poll, if it is in this row; and the row, if nobody waits there any more, which the ledger may
    /// have to hear.
    pub(super) fn discard(&mut self, key: Key, serial: u32) -> Option<Event> {
        let row = self.rows.get_mut(slot(key))?;
        let Some(waiter) = row.find(serial) else {
            // Its answer was made already, and has not left.
            return if row.has_waiting() { None } else { row.is_released() };
        };
        self.names -= waiter.name_bytes();
        (waiter.due, waiter.name) = (GIVEN_UP, None);
        self.waiting -= 1;
        row.given_up += 1;
        if !row.has_waiting() {
            let released = row.is_released();
            self.remove(key);
            return released;
        }
        if row.given_up * 2 > row.waiting.len() {
            row.waiting.retain(|waiter| waiter.due != GIVEN_UP);
            row.waiting.shrink_to_fit();
            row.given_up = 0;
        }
        None
    }

    /// A poll of this row was given up before it was looked at.
    pub(super) fn gives_up(&mut self, key: Key) -> Option<Event> {
        self.get(key).filter(|row| !row.has_waiting()).and_then(Row::is_released)
    }

    /// Somebody was answered under this tag.
    pub(super) fn answered(&mut self, key: Key, tag: Tag) {
        if let Some(row) = self.get(key) {
            row.answered = Some(tag);
        }
    }

    /// What the watches of a namespace have seen: how many the present value, and which ones an earlier version.
    pub(super) fn seen_in(&mut self, ns: &str) -> (usize, Vec<(Arc<WatchKey>, u64)>, usize) {
        let (mut current, mut behind, mut more) = (0, Vec::new(), 0);
        // What is silent here the ledger knows better: it may have gone to a peer.
        for (_, row) in self.rows.iter().filter(|(_, row)| row.claim == Claim::Live) {
            let key = row.seat.watch_key();
            if key.asks == Asks::Addr || *key.ns != *ns {
                continue;
            }
            row.seat.refresh();
            if row.has_waiting() && row.seen == row.seat.version() {
                current += 1;
            } else if behind.len() < MOST_BEHIND {
                behind.push((key.clone(), row.seen));
            } else {
                more += 1;
            }
        }
        (current, behind, more)
    }

    /// The rows that the ledger knows.
    pub(super) fn claimed(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().map(|(_, row)| row).filter(|row| row.claim != Claim::None)
    }

    fn remove(&mut self, key: Key) {
        if let Some(row) = self.rows.try_remove(slot(key)) {
            let hash = self.hasher.hash_one(row.seat.place());
            if let Ok(found) = self.by_topic.find_entry(hash, |place| *place == key.0) {
                found.remove();
            }
        }
        if self.rows.is_empty() {
            *self = Self::new(); // thousands may have been there
        }
    }

    /// The keys of all rows in which somebody waits.
    pub(super) fn all_waiting(&self) -> Vec<Key> {
        let waiting = self.rows.iter().filter(|(_, row)| row.has_waiting());
        waiting.map(|(key, _)| key_of(key)).collect()
    }

    /// Drops the rows for which nobody has asked for `keep` ticks, and finds those with polls that are due.
    pub(super) fn sweep(&mut self, look: Look<'_>, keep: u32) -> Swept {
        let (mut swept, mut gone, mut next, now) = (Swept::default(), Vec::new(), u32::MAX, look.now);
        for (key, row) in &mut self.rows {
            let key = key_of(key);
            match row.waiting.iter().map(|waiter| waiter.due).min() {
                Some(first) if first <= now => swept.due.push(key),
                Some(first) => next = next.min(first),
                None if row.used + keep <= now => gone.push(key),
                None => {
                    if row.claim == Claim::Live && row.used + SILENT_AFTER <= now {
                        swept.events.extend(row.falls_silent(look));
                    }
                    next = next.min((row.used + row.patience(keep)).max(now + LOOK_AGAIN));
                }
            }
        }
        self.due = next;
        for key in gone {
            self.forget(key, look, &mut swept);
        }
        swept
    }

    /// Removes a row in which nobody waits.
    fn forget(&mut self, key: Key, look: Look<'_>, swept: &mut Swept) {
        if let Some(row) = self.get(key).filter(|row| row.claim != Claim::None) {
            swept.events.extend(row.falls_silent(Look { heard: u32::MAX, ..look }));
            if row.claim == Claim::Silent {
                swept.forgotten.push((row.seat.watch_key().clone(), Answered { at: row.used, failed: row.failed }));
            }
        }
        self.remove(key);
    }

    /// Makes room for a row by dropping those in which nobody waits.
    pub(super) fn drop_idle(&mut self, look: Look<'_>) -> Swept {
        let mut swept = Swept::default();
        if self.all_in_use {
            return swept; // who asks for too much asks often, and there may be many rows
        }
        let idle: Vec<Key> =
            self.rows.iter().filter(|(_, row)| !row.has_waiting()).map(|(key, _)| key_of(key)).collect();
        self.all_in_use = idle.is_empty();
        for key in idle {
            self.forget(key, look, &mut swept);
        }
        swept
    }

    /// A row that nobody waits in from this second on is to be looked at again later.
    pub(super) fn rests(&mut self, key: Key, now: u32, keep: u32) {
        if let Some(row) = self.rows.get_mut(slot(key)) {
            row.used = now;
            self.all_in_use = false;
            self.due = self.due.min(now + row.patience(keep));
        }
    }
}

// === impl Row ===

impl Row {
    /// How many wait here.
    fn waiting(&self) -> usize {
        self.waiting.len() - self.given_up
    }

    pub(super) fn has_waiting(&self) -> bool {
        self.waiting() > 0
    }

    /// After what time in which nobody waits here it is looked at.
    fn patience(&self, keep: u32) -> u32 {
        if self.claim == Claim::Live { keep.min(SILENT_AFTER) } else { keep }
    }

    /// It is not asked for any more, which the ledger has to hear once; or it was given up.
    fn falls_silent(&mut self, look: Look<'_>) -> Option<Event> {
        let is_given_up = |tag: Tag| look.given_up.get(&tag).is_some_and(|at| *at >= self.used);
        if self.claim == Claim::Live && self.answered.is_some_and(is_given_up) {
            return self.is_released();
        }
        // Of which nothing was heard since may never have had the answer: its session is dead, which shows soon.
        if self.claim == Claim::Silent || look.heard <= self.used {
            return None;
        }
        self.claim = Claim::Silent;
        self.failed |= look.refused.is_some_and(|at| at >= self.used);
        let ago = TICK * look.now.saturating_sub(self.used);
        Some(Event::Silent { key: self.seat.watch_key().clone(), ago, failed: self.failed })
    }

    /// Its client does not want it any more, which the ledger has to hear.
    fn is_released(&mut self) -> Option<Event> {
        let silent = match std::mem::take(&mut self.claim) {
            Claim::None => return None,
            Claim::Live => None,
            Claim::Silent => Some(self.failed),
        };
        Some(Event::Released { key: self.seat.watch_key().clone(), silent })
    }

    /// Has somebody waited here for long enough?
    pub(super) fn is_due(&self, now: u32) -> bool {
        self.waiting.iter().any(|waiter| waiter.due <= now)
    }

    /// Somebody comes who has seen this version, or is answered with it. Those who wait here already may have seen an
    /// older one, and are still to be told.
    pub(super) fn sees(&mut self, version: u64) {
        if !self.has_waiting() {
            self.seen = version;
        }
    }

    fn find(&mut self, serial: u32) -> Option<&mut Waiter> {
        let first = self.waiting.first()?.serial;
        let later = |serial: u32| serial.wrapping_sub(first);
        let place = self.waiting.binary_search_by_key(&later(serial), |waiter| later(waiter.serial)).ok()?;
        Some(&mut self.waiting[place])
    }
}

// === impl Waiter ===

impl Waiter {
    fn name_bytes(&self) -> usize {
        self.name.as_ref().map_or(0, |name| size_of::<NameRef>() + name.bytes())
    }

    pub(super) fn question(&self, method: crate::thrift::Method) -> Question {
        Question { exchange: self.exchange, method, seqid: self.seqid }
    }
}
