//! Rows: the topics that a session cares for, with the polls that wait on each.

use std::collections::HashMap;

use slab::Slab;
use smallvec::SmallVec;

use super::answer::{Exchange, Question};
use crate::iface::thrift::topics::Seat;
use crate::mux::Tag;
use crate::store::{Key, Mailbox, Subscription};
use crate::thrift::NameRef;

/// The table of a session. A row's place is its key in the session's mailbox.
#[derive(Debug)]
pub(super) struct Rows {
    rows: Slab<Row>,
    by_topic: HashMap<usize, u32>,
    waiting: usize,
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
    pub(super) waiting: SmallVec<[Waiter; 1]>,
    /// The second in which it was asked for last, or answered.
    pub(super) used: u32,
}

/// A parked poll.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) exchange: Exchange,
    pub(super) seqid: i32,
    /// The second, in the life of the session, in which it is answered at the latest.
    pub(super) due: u32,
    /// The millisecond in which it came; wraps around.
    pub(super) came: u32,
    /// What a failure echoes. None once there is a value: then there is no failure any more.
    pub(super) name: Option<Box<NameRef>>,
}

// === impl Rows ===

impl Rows {
    pub(super) fn new() -> Self {
        Self { rows: Slab::new(), by_topic: HashMap::new(), waiting: 0, due: u32::MAX }
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
        self.rows.get_mut(key.0 as usize)
    }

    /// The row of a topic.
    pub(super) fn find(&self, seat: &Seat) -> Option<Key> {
        self.by_topic.get(&seat.place()).copied().map(Key)
    }

    /// A new row, subscribed to its topic.
    pub(super) fn add(&mut self, seat: Seat, mailbox: &Mailbox) -> Key {
        let entry = self.rows.vacant_entry();
        let key = u32::try_from(entry.key()).expect("their number is limited by limits.watchesPerConnection, a u32");
        self.by_topic.insert(seat.place(), key);
        let subscription = seat.subscribe(mailbox, Key(key));
        entry.insert(Row { _subscription: subscription, seat, seen: 0, waiting: SmallVec::new(), used: 0 });
        Key(key)
    }

    /// Parks a poll.
    pub(super) fn park(&mut self, key: Key, waiter: Waiter) {
        if let Some(row) = self.rows.get_mut(key.0 as usize) {
            self.due = self.due.min(waiter.due);
            row.waiting.push(waiter);
            self.waiting += 1;
        }
    }

    /// Takes out who waits in a row.
    pub(super) fn take_waiting(&mut self, key: Key) -> SmallVec<[Waiter; 1]> {
        let taken = self.rows.get_mut(key.0 as usize).map(|row| std::mem::take(&mut row.waiting)).unwrap_or_default();
        self.waiting -= taken.len();
        taken
    }

    /// Forgets a parked poll; and its row, if nobody waits there any more.
    pub(super) fn discard(&mut self, key: u32, tag: Tag) {
        let Some(row) = self.rows.get_mut(key as usize) else { return };
        let before = row.waiting.len();
        row.waiting.retain(|waiter| waiter.exchange.tag != tag);
        self.waiting -= before - row.waiting.len();
        if row.waiting.is_empty() {
            self.remove(Key(key));
        }
    }

    fn remove(&mut self, key: Key) {
        if let Some(row) = self.rows.try_remove(key.0 as usize) {
            self.by_topic.remove(&row.seat.place());
            self.waiting -= row.waiting.len();
        }
        if self.rows.is_empty() {
            *self = Self::new(); // thousands may have been there
        }
    }

    /// The keys of all rows in which somebody waits.
    pub(super) fn all_waiting(&self) -> Vec<Key> {
        let waiting = self.rows.iter().filter(|(_, row)| !row.waiting.is_empty());
        waiting.map(|(key, _)| Key(key as u32)).collect()
    }

    /// Drops the rows for which nobody has asked for `keep` seconds; the keys of those with polls that are due.
    pub(super) fn sweep(&mut self, now: u32, keep: u32) -> Vec<Key> {
        let (mut due, mut gone, mut next) = (Vec::new(), Vec::new(), u32::MAX);
        for (key, row) in &self.rows {
            let key = Key(key as u32);
            match row.waiting.iter().map(|waiter| waiter.due).min() {
                Some(first) if first <= now => due.push(key),
                Some(first) => next = next.min(first),
                None if row.used + keep <= now => gone.push(key),
                None => next = next.min(row.used + keep),
            }
        }
        self.due = next;
        for key in gone {
            self.remove(key);
        }
        due
    }

    /// Makes room for a row by dropping those in which nobody waits.
    pub(super) fn drop_idle(&mut self) {
        let idle: Vec<Key> =
            self.rows.iter().filter(|(_, row)| row.waiting.is_empty()).map(|(key, _)| Key(key as u32)).collect();
        for key in idle {
            self.remove(key);
        }
    }

    /// A row that nobody waits in from this second on is to be looked at again later.
    pub(super) fn rests(&mut self, key: Key, now: u32, keep: u32) {
        if let Some(row) = self.rows.get_mut(key.0 as usize) {
            row.used = now;
            self.due = self.due.min(now + keep);
        }
    }
}

// === impl Waiter ===

impl Waiter {
    pub(super) fn question(&self, method: crate::thrift::Method) -> Question {
        Question { exchange: self.exchange, method, seqid: self.seqid }
    }
}
