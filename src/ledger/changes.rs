//! What is told to peers, and kept in the state directory: entries that have changed.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::book::Book;
use super::entry::{Entry, Moment};
use super::judge::AT_ONCE;
use super::key::WatchKey;
use super::mirror::Seen;

/// So many entries are told at a time.
pub const MOST_CHANGES: usize = 10_000;

/// A watch that goes elsewhere is counted as live for so long.
const UNTOLD: Duration = Duration::from_secs(11);

/// Entries that have changed since a number. Times are ages in milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    /// The process that tells.
    pub instance: String,
    /// Where to go on from.
    pub seq: u64,
    /// What had gone by then: who reads on shows it, so that a read of many pages ends also where entries come and go.
    #[serde(default)]
    pub gone: u64,
    /// What was told earlier does not count: this is the beginning.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reset: bool,
    /// There is more at once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
    /// The process of which it has taken up everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier: Option<String>,
    /// The first stamp that it gave, and the next one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stamps: Option<(u64, u64)>,
    /// The clients that entries name by their places here.
    pub clients: Vec<IpAddr>,
    /// How long ago each of them was heard.
    #[serde(default)]
    pub polled: Vec<u64>,
    /// Likewise their keys.
    pub keys: Vec<Arc<WatchKey>>,
    /// The entries.
    pub entries: Vec<Change>,
}

/// One entry: the places of client and key, the claims (live, silent, cut), and how long ago they fell silent, were cut,
/// arrived and ended as they should (none: never).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change(u32, u32, [u16; 3], [Option<u64>; 4]);

/// An entry of a peer: whose it is, of what, and what became of it.
type Told<'a> = (IpAddr, &'a Arc<WatchKey>, &'a Change);

/// Why what a peer tells makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("what it tells makes no sense: {0}")]
pub struct BadChanges(&'static str);

// === impl Changes ===

impl Changes {
    /// The process that tells.
    fn instance(&self) -> Result<u64, BadChanges> {
        number(&self.instance)
    }

    /// The clients, and when they were heard, this having been told at `at`.
    fn heard(&self, at: Moment) -> impl Iterator<Item = (IpAddr, Moment)> {
        self.clients.iter().zip(&self.polled).map(move |(ip, age)| (*ip, at.before(Duration::from_millis(*age))))
    }

    /// The entries with their clients and keys.
    fn entries(&self) -> Result<Vec<Told<'_>>, BadChanges> {
        if self.entries.len() > MOST_CHANGES {
            return Err(BadChanges("there are more entries than anybody tells at a time"));
        }
        self.entries
            .iter()
            .map(|change| {
                let client = self.clients.get(change.0 as usize)?;
                let key = self.keys.get(change.1 as usize)?;
                Some((*client, key, change))
            })
            .collect::<Option<_>>()
            .ok_or(BadChanges("an entry names a client or a key that is not there"))
    }
}

fn number(instance: &str) -> Result<u64, BadChanges> {
    u64::from_str_radix(instance, 16).map_err(|_| BadChanges("its instance is no number"))
}

// === impl Change ===

impl Change {
    fn of(entry: &Entry, client: u32, key: u32, now: Moment, silent: u16) -> Self {
        let ages = [entry.silent_since, entry.cut_newest, entry.arrived, entry.ended];
        let age = |at: Moment| (at != Moment::NEVER).then(|| millis(now.since(at)));
        Self(client, key, [entry.live, silent, entry.cut], ages.map(age))
    }

    fn times(&self, now: Moment) -> [Moment; 4] {
        self.3.map(|age| age.map_or(Moment::NEVER, |age| now.before(Duration::from_millis(age))))
    }
}

fn millis(age: Duration) -> u64 {
    u64::try_from(age.as_millis()).unwrap_or(u64::MAX)
}

// === impl Book ===

impl Book {
    /// What has changed since `since`, in the order of the changes; `gone` is what the page before had, if this is not
    /// the first one of a read.
    pub fn changes(&self, now: Moment, since: u64, gone: Option<u64>) -> Changes {
        // An entry that has gone a reader would keep for ever, so he begins anew; not if he never had it.
        let has_missed = since < self.gone && gone != Some(self.gone);
        let reset = since == 0 || since > self.seq || has_missed;
        Changes { reset, ..self.changes_after(now, if reset { 0 } else { since }) }
    }

    /// What has changed since `since`, whatever has gone: for the file, which gets it all soon enough to have been told
    /// that an entry is empty before it goes.
    pub(super) fn changes_after(&self, now: Moment, since: u64) -> Changes {
        let (instance, earlier) = (self.name(), self.earlier.map(|earlier| format!("{earlier:016x}")));
        let mut changes = Changes { instance, earlier, seq: since, gone: self.gone, ..Changes::default() };
        let (mut clients, mut keys) = (Places::default(), Places::default());
        for (seq, id) in self.order.range(since + 1..) {
            if changes.entries.len() == MOST_CHANGES {
                changes.more = true;
                return changes;
            }
            let entry = &self.entries[*id as usize];
            let client = clients.place(entry.client, || {
                let record = &self.clients[entry.client as usize];
                changes.clients.push(record.ip);
                changes.polled.push(millis(now.since(record.polled)));
            });
            let key = keys.place(entry.key, || changes.keys.push(self.keys.get(entry.key).clone()));
            changes.entries.push(Change::of(entry, client, key, now, self.silent_for_certain(now, entry)));
            changes.seq = *seq;
        }
        changes.seq = self.seq;
        changes
    }

    /// The number from which a peer is to be asked.
    pub fn asked_until(&self, peer: usize) -> u64 {
        self.peers.get(peer).map_or(0, |peer| peer.seq)
    }

    /// Takes what a peer tells. The number to ask from next, if there is more.
    ///
    /// # Errors
    /// It makes no sense.
    pub fn merge(&mut self, now: Moment, peer: usize, changes: &Changes) -> Result<Option<u64>, BadChanges> {
        let instance = changes.instance()?;
        let earlier = changes.earlier.as_deref().map(number).transpose()?;
        let entries = changes.entries()?;
        let asked = self.asked_until(peer);
        let Some(mirror) = self.peers.get_mut(peer) else { return Ok(None) };
        mirror.is_self = instance == self.instance;
        if mirror.is_self {
            self.forget_mirror(peer);
            return Ok(None);
        }
        if let Some(known) = mirror.instance.filter(|known| *known != instance) {
            let are_several = mirror.is_replaced_by(instance);
            if earlier == Some(known) {
                // It knows itself what it misses.
                self.forget_mirror(peer);
            } else if !are_several {
                self.peer_is_another(now, peer);
            }
            // However short it was away: it may have lost what it was asked.
            (self.peers[peer].instance, self.peers[peer].synced) = (Some(instance), Moment::NEVER);
            if are_several {
                self.forget_mirror(peer);
                return Err(BadChanges("several processes answer at its address: list each one by itself"));
            }
            if asked != 0 {
                return Ok(Some(0));
            }
        } else if changes.reset {
            self.forget_mirror(peer);
        }
        let known = self.peers[peer].seq;
        if changes.seq < known || changes.more && changes.seq == known {
            return Err(BadChanges("its numbers do not grow"));
        }
        for (ip, key, change) in entries {
            let Change(_, _, [live, _, cut], _) = *change;
            let [_, _, arrived, ended] = change.times(now);
            self.see(now, peer, ip, key, Seen { live, cut, arrived, ended });
        }
        for (ip, heard) in changes.heard(now) {
            if let Some(client) = self.known_client(ip) {
                let record = &mut self.clients[client as usize];
                record.polled = record.polled.max(heard);
            }
        }
        let mirror = &mut self.peers[peer];
        (mirror.instance, mirror.seq) = (Some(instance), changes.seq);
        if let Some(stamps) = changes.stamps {
            mirror.gives(stamps);
        }
        if changes.more {
            return Ok(Some(changes.seq));
        }
        mirror.is_synced(now);
        Ok(None)
    }

    fn see(&mut self, now: Moment, peer: usize, ip: IpAddr, key: &Arc<WatchKey>, seen: Seen) {
        let client = self.client(ip);
        self.begin_using(client);
        let most = self.rules.most_entries;
        let has_room = self.keys.has_room(key, most);
        if has_room {
            let place = (client, self.keys.use_key(key));
            if let Some(id) = self.index.get(&place).copied() {
                let before = self.peers[peer].seen.get(&place).map_or(Moment::NEVER, |before| before.ended);
                if seen.ended > before {
                    // Which of several loops that was cannot be known, nor how many.
                    self.entries[id as usize].forget_loops(u8::MAX, 0);
                    self.change_entry(now, id, |_, _| ());
                }
            }
            let mirror = &mut self.peers[peer];
            if mirror.seen.len() < most || mirror.seen.contains_key(&place) {
                let before = mirror.put(now, place, seen);
                let record = &mut self.clients[client as usize];
                record.live_at_peers += u32::from(seen.live > 0);
                record.live_at_peers -= u32::from(before.is_some_and(|before| before.live > 0));
                if before.is_none() {
                    return;
                }
                self.keys.release(place.1);
                self.stop_using(client);
                return;
            }
            self.keys.release(place.1);
        }
        self.peers[peer].incomplete = true;
        self.stop_using(client);
    }

    fn forget_mirror(&mut self, peer: usize) {
        for ((client, key), seen) in self.peers[peer].clear() {
            self.clients[client as usize].live_at_peers -= u32::from(seen.live > 0);
            self.keys.release(key);
            self.stop_using(client);
        }
    }

    /// There is another process at the address of a peer. Watches that were at the earlier one are missed from then on,
    /// wherever they come: it may have kept nothing itself.
    fn peer_is_another(&mut self, now: Moment, peer: usize) {
        let since = self.peers[peer].synced.before(UNTOLD);
        for ((client, key), seen) in self.peers[peer].clear() {
            self.clients[client as usize].live_at_peers -= u32::from(seen.live > 0);
            let interned = self.keys.get(key).clone();
            let missing = seen.live.saturating_add(seen.cut);
            if missing > 0
                && let Some(id) = self.entry(client, &interned)
            {
                let record = &mut self.clients[client as usize];
                record.polled = record.polled.max(since);
                let is_one = record.sessions <= 1;
                self.change_entry(now, id, |entry, _| {
                    // It may have gone on at any time after it came there: what it was told last nobody has heard.
                    // Of several routers only what came since it was asked last is one that came from there.
                    let heard = if is_one { seen.arrived.max(seen.ended).min(since) } else { since };
                    if entry.came_after(heard) {
                        return;
                    }
                    // What went there from here is missed here already.
                    let missing = missing.saturating_sub(entry.silent);
                    for _ in entry.cut..missing {
                        entry.is_cut(since);
                    }
                });
            }
            self.keys.release(key);
            self.stop_using(client);
        }
    }

    /// Takes up what an earlier process of this replica told at `at`. What was live has been cut, if nothing newer says
    /// otherwise, when that process was last `alive`.
    ///
    /// # Errors
    /// It makes no sense.
    pub(super) fn take_up(
        &mut self,
        now: Moment,
        (at, alive): (Moment, Moment),
        changes: &Changes,
    ) -> Result<(), BadChanges> {
        let lost = alive.before(UNTOLD);
        self.earlier = Some(changes.instance()?);
        if let Some(stamps) = changes.stamps {
            self.stamps.retain(|known| known.0 != stamps.0);
            self.stamps.push_back(stamps);
            if self.stamps.len() > MOST_STAMPS {
                self.stamps.pop_front();
            }
        }
        let heard: Vec<(IpAddr, Moment)> = changes.heard(at).collect();
        for (ip, key, change) in changes.entries()? {
            let client = self.client(ip);
            self.begin_using(client);
            let Change(place, _, [live, silent, cut], _) = *change;
            let [silent_since, cut_since, arrived, ended] = change.times(at);
            if let Some(id) = self.entry(client, key) {
                // Without a word about it, it was heard until the end.
                let heard = heard.get(place as usize).map_or(alive, |(_, heard)| *heard);
                let record = &mut self.clients[client as usize];
                record.polled = record.polled.max(if live > 0 { alive } else { heard });
                self.change_entry(now, id, |entry, _| {
                    // That process may have gone on for a while after this one had begun.
                    if entry.came_after(Moment::START) {
                        return;
                    }
                    // The newest word counts, and they are taken up in their order.
                    (entry.arrived, entry.ended) = (arrived, ended);
                    (entry.cut, entry.cut_since, entry.cut_newest) = (cut, cut_since, cut_since);
                    // What was silent for a moment only may have been about to come.
                    let was_missing = alive.since(silent_since) >= AT_ONCE;
                    (entry.silent, entry.silent_since) = (if was_missing { silent } else { 0 }, silent_since);
                    (0..if was_missing { 0 } else { silent }).for_each(|_| entry.is_cut(silent_since));
                    (0..live).for_each(|_| entry.is_cut(lost));
                });
            }
            self.stop_using(client);
        }
        Ok(())
    }
}

/// Stamps of so many earlier processes are remembered.
const MOST_STAMPS: usize = 16;

/// Gives numbers their places in a list.
#[derive(Default)]
struct Places(std::collections::HashMap<u32, u32>);

impl Places {
    fn place(&mut self, number: u32, new: impl FnOnce()) -> u32 {
        let next = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        *self.0.entry(number).or_insert_with(|| {
            new();
            next
        })
    }
}
