//! Which suspects are explained by what peers see, and how the others stand.

use std::collections::HashSet;
use std::time::Duration;

use super::TURN;
use super::book::{Book, FADES_AFTER};
use super::entry::{Counts, Entry, Moment, Standing};
use super::report::Suspect;

/// A router that is answered asks again at once, wherever it is.
pub(super) const AT_ONCE: Duration = Duration::from_secs(30);
/// Times that peers tell are off by less than this.
const SKEW: Duration = Duration::from_secs(1);
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
        let mut stopped = Vec::new();
        let mut clients_of_peers = None;
        for id in self.suspects.iter().copied().collect::<Vec<u32>>() {
            // Both at once: one that was answered here and cut there may be missed as either.
            let newest = self.explain(now, id, Sort::Silent).max(self.explain(now, id, Sort::Cut));
            if newest != Moment::NEVER && self.suspects.contains(&id) {
                self.entries[id as usize].explained = newest.after(SKEW + Duration::from_millis(100));
            }
            if self.is_forgotten(now, id, &mut clients_of_peers) {
                // It goes as all others do: peers and the file are told that it is empty first.
                self.change_entry(now, id, |entry, _| (entry.silent, entry.cut) = (0, 0));
                continue;
            }
            let entry = &self.entries[id as usize];
            let is_stopped = self.standings(now, entry).any(|(standing, ..)| standing == Standing::Stopped);
            if is_stopped && !entry.reported {
                stopped.extend(self.suspects_of(now, id).filter(|suspect| suspect.standing == Standing::Stopped));
            }
            self.entries[id as usize].reported = is_stopped;
        }
        self.fade_old(now);
        for peer in 0..self.peers.len() {
            for (client, key) in self.peers[peer].fade(now, FADES_AFTER) {
                self.keys.release(key);
                self.stop_using(client);
            }
        }
        stopped
    }

    /// How many watches there are, by how they stand.
    pub fn counts(&self, now: Moment) -> Counts {
        let mut counts = Counts { live: self.live, ..Counts::default() };
        for id in &self.suspects {
            for (standing, count, _) in self.standings(now, &self.entries[*id as usize]) {
                counts.add(standing, usize::from(count));
            }
        }
        counts
    }

    /// How the suspects of an entry stand, how many they are, and since when. An answer of a moment ago makes no suspect
    /// that is worth showing.
    pub(super) fn standings(
        &self,
        now: Moment,
        entry: &Entry,
    ) -> impl Iterator<Item = (Standing, u16, Moment)> + use<> {
        let patience = self.patience();
        let sure = |since| match self.may_be_elsewhere(now, since) {
            true => Standing::Unknown,
            false => Standing::Stopped,
        };
        // Which of several routers went to a peer cannot be told.
        let is_mixed = self.clients[entry.client as usize].sessions > 1 && self.peers.iter().any(|peer| !peer.is_self);
        let silent = match now.since(entry.silent_since) {
            age if age < AT_ONCE => Standing::Live,
            _ if is_mixed => Standing::Unknown,
            _ => sure(entry.silent_since),
        };
        let cut = match now.since(entry.cut_since) {
            age if age < AT_ONCE => Standing::Live,
            age if age < patience => Standing::Late,
            _ => sure(entry.cut_since),
        };
        [(silent, entry.silent, entry.silent_since), (cut, entry.cut, entry.cut_since)]
            .into_iter()
            .filter(|(_, count, _)| *count > 0)
    }

    /// Has its client not asked anybody anything for a day? `clients_of_peers` are those that ask a peer, once somebody
    /// wanted to know.
    fn is_forgotten(&mut self, now: Moment, id: u32, clients_of_peers: &mut Option<HashSet<u32>>) -> bool {
        let client = self.entries[id as usize].client;
        let record = &mut self.clients[client as usize];
        if now.since(record.polled) < FORGOTTEN_AFTER {
            return false;
        }
        let seen = self.peers.iter().flat_map(|peer| &peer.seen);
        let polls = clients_of_peers
            .get_or_insert_with(|| seen.filter(|(_, seen)| seen.live > 0).map(|(at, _)| at.0).collect())
            .contains(&client);
        if polls {
            record.polled = now;
        }
        !polls
    }

    /// How long a router may wait before it asks again.
    fn patience(&self) -> Duration {
        self.rules.retry_max + AT_ONCE
    }

    /// May a watch that is missing here since then be where we cannot look?
    fn may_be_elsewhere(&self, now: Moment, since: Moment) -> bool {
        let patience = self.patience();
        self.has_strangers(now) || self.peers.iter().any(|peer| peer.may_know_more(now, since, patience))
    }

    /// Clears suspects that have come to a peer; when the last of them came, or never.
    fn explain(&mut self, now: Moment, id: u32, sort: Sort) -> Moment {
        let entry = &self.entries[id as usize];
        let (count, since, after) = match sort {
            // Several may have gone to one peer at times of their own, of which it tells the last one only.
            Sort::Silent => (entry.silent, entry.silent_since, entry.silent_since),
            Sort::Cut => (entry.cut, entry.cut_since, entry.cut_since.max(entry.explained)),
        };
        // Before anybody may see it as missing, whenever he looks.
        if count == 0 || now.since(since) < AT_ONCE.saturating_sub(TURN) {
            return Moment::NEVER;
        }
        let place = (entry.client, entry.key);
        let (mut found, mut newest) = (0_u16, Moment::NEVER);
        for seen in self.peers.iter().filter_map(|peer| peer.seen.get(&place)) {
            let is_settled = sort == Sort::Silent || count < 2 || now.since(seen.arrived) >= SETTLES;
            // What was cut there is missed there, if it does not come again.
            let there = seen.live.saturating_add(seen.cut);
            if there > 0 && seen.arrived.after(SKEW) >= after && is_settled {
                (found, newest) = (found.saturating_add(there), newest.max(seen.arrived));
            } else if seen.ended.after(SKEW) >= after {
                (found, newest) = (found.saturating_add(1), newest.max(seen.ended));
            }
        }
        let found = found.min(count);
        if found == 0 {
            return Moment::NEVER;
        }
        self.change_entry(now, id, |entry, _| {
            let count = match sort {
                Sort::Silent => &mut entry.silent,
                Sort::Cut => &mut entry.cut,
            };
            *count -= found;
        });
        newest
    }
}
