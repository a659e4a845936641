//! Which suspects are explained by what peers see, and how the others stand.

use std::time::Duration;

use super::TURN;
use super::book::{Book, ClientRecord, FADES_AFTER};
use super::entry::{Counts, Entry, Mark, Moment, Standing};
use super::mirror::Seen;
use super::report::Suspect;

/// Where a suspect is in the order of suspects: by client, then by entry.
pub(super) type Place = (u32, u32);
/// The first one.
pub(super) const FIRST: Place = (0, 0);
/// So many suspects are looked at before others may have the book.
const SLICE: usize = 500;
/// So many new ones are told at a time; the others follow with the next turn.
const MOST_NEW: usize = 1_000;

/// A router that is answered asks again at once, wherever it is.
pub(super) const AT_ONCE: Duration = Duration::from_secs(30);
/// Times that peers tell are off by less than this: sessions tell of arrivals once in two seconds.
pub(super) const SKEW: Duration = Duration::from_secs(4);
/// Where two watches were cut, arrivals at a peer count only after this time: the other one may be about to follow.
const SETTLES: Duration = Duration::from_secs(10);
/// Entries end so long after the client's last poll, of whatever key.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(24 * 3_600);

/// The two sorts of suspects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Silent,
    Cut,
}

// === impl Book ===

impl Book {
    /// Looks at all suspects; those that have stopped and were not reported before.
    pub fn turn(&mut self, now: Moment) -> Vec<Suspect> {
        let (mut stopped, mut from) = (Vec::new(), Some(FIRST));
        while let Some(place) = from {
            from = self.look(now, place, &mut stopped);
        }
        self.fade_all(now);
        stopped
    }

    /// Looks at some suspects, from a place on; the place of the next one, if there are more.
    pub(super) fn look(&mut self, now: Moment, from: Place, stopped: &mut Vec<Suspect>) -> Option<Place> {
        let some: Vec<Place> = self.suspects.range(from..).take(SLICE + 1).copied().collect();
        for (_, id) in some.iter().take(SLICE).copied() {
            self.look_at(now, id, stopped);
        }
        some.get(SLICE).copied()
    }

    fn look_at(&mut self, now: Moment, id: u32, stopped: &mut Vec<Suspect>) {
        self.count_loops(now, id);
        // Both at once: one that was answered here and cut there may be missed as either.
        let newest = self.explain(now, id, Sort::Silent).max(self.explain(now, id, Sort::Cut));
        if newest != Moment::NEVER && self.entries[id as usize].is_suspect() {
            self.entries[id as usize].explained = newest.after(SKEW + Duration::from_millis(100));
        }
        if self.is_forgotten(now, id) {
            // It goes as all others do: peers and the file are told that it is empty first.
            self.change_entry(now, id, |entry, _| (entry.silent, entry.cut) = (0, 0));
            return;
        }
        let entry = &self.entries[id as usize];
        let is_stopped = self.standings(now, entry).any(|(standing, ..)| standing == Standing::Stopped);
        if is_stopped && entry.mark == Mark::None && stopped.len() < MOST_NEW {
            stopped.extend(self.suspects_of(now, id).filter(|suspect| suspect.standing == Standing::Stopped));
        }
        let mark = if is_stopped { Mark::Reported } else { Mark::None };
        if entry.mark != Mark::Parted && entry.mark != mark {
            // Which the next process is to know, too.
            self.change_entry(now, id, |entry, _| entry.mark = mark);
        }
    }

    /// Lets go what has had its time.
    pub(super) fn fade_all(&mut self, now: Moment) {
        self.fade_old(now);
        for peer in 0..self.peers.len() {
            for (client, key) in self.peers[peer].fade(now, FADES_AFTER) {
                self.keys.release(key);
                self.stop_using(client);
            }
        }
    }

    /// How many watches there are, by how they stand.
    pub fn counts(&self, now: Moment) -> Counts {
        let (mut counts, mut from) = (Counts { live: self.live, ..Counts::default() }, Some(FIRST));
        while let Some(place) = from {
            from = self.count(now, place, &mut counts);
        }
        counts
    }

    /// Counts some suspects, from a place on; the place of the next one, if there are more.
    pub(super) fn count(&self, now: Moment, from: Place, counts: &mut Counts) -> Option<Place> {
        self.some_suspects(from, |id| {
            for (standing, count, _) in self.standings(now, &self.entries[id as usize]) {
                counts.add(standing, usize::from(count));
            }
        })
    }

    /// Does something with some suspects, from a place on; the place of the next one, if there are more.
    pub(super) fn some_suspects(&self, from: Place, mut each: impl FnMut(u32)) -> Option<Place> {
        let mut all = self.suspects.range(from..);
        all.by_ref().take(SLICE).for_each(|(_, id)| each(*id));
        all.next().copied()
    }

    /// How the suspects of an entry stand, how many they are, and since when. An answer of a moment ago makes no suspect
    /// that is worth showing.
    pub(super) fn standings(
        &self,
        now: Moment,
        entry: &Entry,
    ) -> impl Iterator<Item = (Standing, u16, Moment)> + use<> {
        let client = &self.clients[entry.client as usize];
        let sure = |since| match self.may_be_elsewhere(now, since, client) {
            true => Standing::Unknown,
            false => Standing::Stopped,
        };
        // Which of several routers went to a peer cannot be told, unless it is known how many there are.
        let is_mixed = client.sessions > 1 && self.peers.iter().any(|peer| !peer.is_self);
        // A router that cannot reach us waits for longer and longer, from the last time that it failed on.
        let is_here = client.sessions > 0 && entry.mark != Mark::Parted;
        let cut = |since: Moment| match now.since(since) {
            age if age < AT_ONCE => Standing::Live,
            _ if !is_here || now.since(since.max(client.here)) < self.patience() => Standing::Late,
            _ => sure(since.max(client.here)),
        };
        let silent = match now.since(entry.silent_since) {
            age if age < AT_ONCE => Standing::Live,
            // The session on which it was answered has gone, and all others with it.
            _ if client.sessions == 0 || client.here > entry.silent_since => cut(entry.silent_since),
            _ if is_mixed && !entry.has_several() && self.has_anybody_come(entry) => Standing::Unknown,
            _ => sure(entry.silent_since),
        };
        let silents = match entry.has_several() {
            true => entry.silent.min(self.missing(entry)),
            false => entry.silent,
        };
        let (oldest, others) = (entry.cut.min(1), entry.cut.saturating_sub(1));
        [
            (silent, silents, entry.silent_since),
            (cut(entry.cut_since), oldest, entry.cut_since),
            (cut(entry.cut_newest), others, entry.cut_newest),
        ]
        .into_iter()
        .filter(|(_, count, _)| *count > 0)
    }

    /// Has its client not asked anybody anything for a day?
    fn is_forgotten(&self, now: Moment, id: u32) -> bool {
        let client = &self.clients[self.entries[id as usize].client as usize];
        client.live_at_peers == 0 && now.since(client.polled) >= FORGOTTEN_AFTER
    }

    /// How long a router may wait before it asks again.
    pub(super) fn patience(&self) -> Duration {
        self.rules.retry_max + AT_ONCE
    }

    /// May a watch of this client that is missing here since then be where we cannot look?
    fn may_be_elsewhere(&self, now: Moment, since: Moment, client: &ClientRecord) -> bool {
        let patience = self.patience();
        now < client.strangers_until || self.peers.iter().any(|peer| peer.may_know_more(now, since, patience))
    }

    /// What peers see of an entry.
    fn seen_of(&self, entry: &Entry) -> impl Iterator<Item = &Seen> {
        let place = (entry.client, entry.key);
        self.peers.iter().filter_map(move |peer| peer.seen.get(&place))
    }

    /// Has a loop come anywhere, or been given up, since one fell silent here?
    fn has_anybody_come(&self, entry: &Entry) -> bool {
        let since = entry.silent_since;
        let is_late = |arrived: Moment, ended: Moment| arrived.max(ended).after(SKEW) >= since;
        is_late(entry.arrived, entry.ended) || self.seen_of(entry).any(|seen| is_late(seen.arrived, seen.ended))
    }

    /// How many loops are missing, of those that are known to be different ones, besides those that were cut.
    fn missing(&self, entry: &Entry) -> u16 {
        self.nowhere(entry).saturating_sub(entry.cut)
    }

    /// So many are silent as far as others are to know: of several loops only those that are missing, and have been for a
    /// while.
    pub(super) fn silent_for_certain(&self, now: Moment, entry: &Entry) -> u16 {
        match entry.has_several() {
            false => entry.silent,
            true if now.since(entry.silent_since) < AT_ONCE => 0,
            true => entry.silent.min(self.missing(entry)),
        }
    }

    /// How many of them are neither here nor at a peer, as far as that can be seen.
    fn nowhere(&self, entry: &Entry) -> u16 {
        let there = |seen: &Seen| seen.live.saturating_add(seen.cut);
        let seen = self.seen_of(entry).map(there).fold(entry.live, u16::saturating_add);
        u16::from(entry.loops).saturating_sub(seen)
    }

    /// Of several loops those are missing that are nowhere; since the number was short for the first time.
    fn count_loops(&mut self, now: Moment, id: u32) {
        let entry = &self.entries[id as usize];
        if entry.has_several() && entry.silent > 0 && self.missing(entry) == 0 {
            // It shows ten seconds late.
            self.entries[id as usize].silent_since = now.before(Duration::from_secs(10));
        }
    }

    /// Clears suspects that have come to a peer; when the last of them came, or never.
    fn explain(&mut self, now: Moment, id: u32, sort: Sort) -> Moment {
        let entry = &self.entries[id as usize];
        let (count, since, after) = match sort {
            // Of several loops it is their number that counts.
            Sort::Silent if entry.has_several() => return Moment::NEVER,
            // Several may have gone to one peer at times of their own, of which it tells the last one only.
            Sort::Silent => (entry.silent, entry.silent_since, entry.silent_since),
            Sort::Cut => (entry.cut, entry.cut_since, entry.cut_since.max(entry.explained)),
        };
        // Before anybody may see it as missing, whenever he looks.
        if count == 0 || now.since(since) < AT_ONCE.saturating_sub(TURN) {
            return Moment::NEVER;
        }
        let (mut found, mut newest) = (0_u16, Moment::NEVER);
        for seen in self.seen_of(entry) {
            let is_settled = sort == Sort::Silent || count < 2 || now.since(seen.arrived) >= SETTLES;
            // What was cut there is missed there, if it does not come again.
            let there = seen.live.saturating_add(seen.cut);
            if there > 0 && seen.arrived.after(SKEW) >= after && is_settled {
                (found, newest) = (found.saturating_add(there), newest.max(seen.arrived));
            } else if seen.ended.after(SKEW) >= after {
                (found, newest) = (found.saturating_add(1), newest.max(seen.ended));
            }
        }
        let to_keep = if entry.has_several() { self.nowhere(entry) } else { 0 };
        let found = found.min(count.saturating_sub(to_keep));
        if found == 0 {
            return Moment::NEVER;
        }
        self.change_entry(now, id, |entry, _| match sort {
            Sort::Silent => entry.silent -= found,
            Sort::Cut => entry.has_come(found),
        });
        newest
    }
}
