//! What a peer sees.

use std::collections::{BTreeSet, HashMap, VecDeque};
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
    /// Those that have something cut.
    pub(super) cut: BTreeSet<(u32, u32)>,
    /// Entries without claims, in the order in which they go away.
    fading: VecDeque<(Moment, (u32, u32))>,
    /// There was no room for all of its entries.
    pub(super) incomplete: bool,
    /// Processes that answered at its address before this one.
    earlier: VecDeque<u64>,
    /// Stamps that they gave, and that this one gives.
    stamps: VecDeque<(u64, u64)>,
}

/// So many earlier processes of a peer are remembered.
const EARLIER: usize = 16;
/// Stamps that are given between two words of a peer, or of the state file, are fewer than this.
const AHEAD: u64 = 1 << 24;

/// Is a stamp one of those that somebody gave who told, not long ago, his first and his next one?
pub(super) fn is_among(stamp: u64, (first, next): (u64, u64)) -> bool {
    (first..next.saturating_add(AHEAD)).contains(&stamp)
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
        if seen.cut > 0 {
            self.cut.insert(at);
        } else {
            self.cut.remove(&at);
        }
        self.seen.insert(at, seen)
    }

    /// There is another process. Is it one that was there before? Then several answer at this address.
    pub(super) fn is_replaced_by(&mut self, instance: u64) -> bool {
        let is_known = self.earlier.contains(&instance);
        self.earlier.extend(self.instance);
        if self.earlier.len() > EARLIER {
            self.earlier.pop_front();
        }
        self.stamps.push_back((0, 0));
        if self.stamps.len() > EARLIER {
            self.stamps.pop_front();
        }
        is_known
    }

    /// It gives stamps between these.
    pub(super) fn gives(&mut self, stamps: (u64, u64)) {
        match self.stamps.back_mut() {
            Some(last) => *last = stamps,
            None => self.stamps.push_back(stamps),
        }
    }

    /// Has this stamp been given here, or by an earlier process?
    pub(super) fn has_given(&self, stamp: u64) -> bool {
        self.stamps.iter().any(|given| is_among(stamp, *given))
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
                self.cut.remove(&at);
                gone.push(at);
            }
        }
        gone
    }

    /// Forgets all entries.
    pub(super) fn clear(&mut self) -> HashMap<(u32, u32), Seen> {
        self.fading.clear();
        self.cut.clear();
        (self.seq, self.incomplete) = (0, false);
        std::mem::take(&mut self.seen)
    }
}
