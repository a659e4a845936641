//! What a peer sees.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use super::entry::Moment;

/// A peer that has not answered for so long is away.
const AWAY: Duration = Duration::from_secs(15);

/// What a peer tells of its entries.
#[derive(Debug, Default)]
pub(super) struct Mirror {
    /// Which process it is.
    pub(super) instance: Option<u64>,
    /// It is this process: all replicas may have the same list.
    pub(super) is_self: bool,
    /// Up to where its changes are known.
    pub(super) seq: u64,
    /// When everything was known last.
    pub(super) synced: Moment,
    /// Since when it has been there without a break.
    back: Moment,
    pub(super) seen: HashMap<(u32, u32), Seen>,
    /// How many of them have something cut.
    pub(super) cut: usize,
    /// Entries without claims, in the order in which they go away.
    fading: VecDeque<(Moment, (u32, u32))>,
    /// There was no room for all of its entries.
    pub(super) incomplete: bool,
}

/// An entry of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) live: u16,
    pub(super) cut: u16,
    pub(super) arrived: Moment,
    pub(super) ended: Moment,
}

// === impl Mirror ===

impl Mirror {
    /// Everything is known up to now.
    pub(super) fn is_synced(&mut self, now: Moment) {
        if self.is_away(now) {
            self.back = now;
        }
        self.synced = now;
    }

    pub(super) fn is_away(&self, now: Moment) -> bool {
        !self.is_self && (self.synced == Moment::NEVER || now.since(self.synced) > AWAY)
    }

    /// May a watch that is missing since then be there without our knowledge? `patience` is how long it may wait before
    /// it asks anybody.
    pub(super) fn may_know_more(&self, now: Moment, since: Moment, patience: Duration) -> bool {
        let is_settled = since >= self.back || now >= self.back.after(patience);
        !self.is_self && (self.is_away(now) || self.incomplete || !is_settled)
    }

    /// Takes an entry of the peer; what it replaces.
    pub(super) fn put(&mut self, now: Moment, at: (u32, u32), seen: Seen) -> Option<Seen> {
        if seen.live == 0 && seen.cut == 0 {
            self.fading.push_back((now, at));
        }
        let before = self.seen.insert(at, seen);
        self.cut += usize::from(seen.cut > 0);
        self.cut -= usize::from(before.is_some_and(|before| before.cut > 0));
        before
    }

    /// The places of entries that have had no claims for that long, which are forgotten.
    pub(super) fn fade(&mut self, now: Moment, after: Duration) -> Vec<(u32, u32)> {
        let mut gone = Vec::new();
        while let Some((_, at)) = self.fading.pop_front_if(|(since, _)| now.since(*since) >= after) {
            let is_gone = |seen: &Seen| {
                let last = seen.arrived.max(seen.ended);
                seen.live == 0 && seen.cut == 0 && now.since(last) >= after
            };
            if self.seen.get(&at).is_some_and(is_gone) {
                self.seen.remove(&at);
                gone.push(at);
            }
        }
        gone
    }

    /// Forgets all entries.
    pub(super) fn clear(&mut self) -> HashMap<(u32, u32), Seen> {
        self.fading.clear();
        (self.seq, self.cut, self.incomplete) = (0, 0, false);
        std::mem::take(&mut self.seen)
    }
}
