//! The book: all entries, and what sessions tell.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use slab::Slab;

use super::entry::{Entry, Mark, Moment};
use super::judge::SKEW;
use super::key::WatchKey;
use super::mirror::{Mirror, is_among};

/// An entry without claims stays for so long: it tells peers where a watch went.
pub(super) const FADES_AFTER: Duration = Duration::from_secs(300);

/// What the ledger goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// `ledger.clientRetryMaxSeconds`: routers whose polls fail ask again within this time.
    pub retry_max: Duration,
    /// `ledger.maxEntries`
    pub most_entries: usize,
}

/// What a session tells of one of its keys, or of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A loop has shown itself on this session: it has claimed the key.
    Claimed(Arc<WatchKey>),
    /// A key that is claimed was asked by a loop that was answered elsewhere meanwhile.
    Arrived(Arc<WatchKey>),
    /// The poll was answered so long ago, and has not come again. `failed`: with a failure, after which a router waits.
    Silent {
        /// The key.
        key: Arc<WatchKey>,
        /// How long ago.
        ago: Duration,
        /// Was the answer a failure?
        failed: bool,
    },
    /// It has come again.
    Resumed {
        /// The key.
        key: Arc<WatchKey>,
        /// Was the answer a failure?
        failed: bool,
    },
    /// The client has given up the watch, or closed the session.
    Released {
        /// The key.
        key: Arc<WatchKey>,
        /// If it was silent, whether the answer was a failure.
        silent: Option<bool>,
    },
    /// We have ended the session, or it has died; the client was last heard so long ago.
    Cut {
        /// The key.
        key: Arc<WatchKey>,
        /// How long ago.
        ago: Duration,
    },
    /// A session has begun.
    Opened,
    /// A session has ended; did the client close it?
    Closed {
        /// Did it?
        by_client: bool,
    },
    /// The client asks.
    Polled,
    /// The client has a stamp that this process did not give.
    Stranger(u64),
}

/// All that is known of watches. Knows no clock: the present is passed in.
#[derive(Debug)]
pub struct Book {
    pub(super) rules: Rules,
    /// Tells this process from an earlier one at the same address.
    pub(super) instance: u64,
    pub(super) entries: Slab<Entry>,
    pub(super) index: HashMap<(u32, u32), u32>,
    pub(super) keys: Interner,
    pub(super) clients: Slab<ClientRecord>,
    by_ip: HashMap<IpAddr, u32>,
    /// Entries in the order of their last change.
    pub(super) order: BTreeMap<u64, u32>,
    pub(super) seq: u64,
    /// Entries that went away had changed up to here.
    pub(super) gone: u64,
    /// Entries with suspects, by their clients.
    pub(super) suspects: BTreeSet<(u32, u32)>,
    /// Entries without claims, in the order in which they go away.
    fading: VecDeque<(Moment, u32, u64)>,
    pub(super) live: usize,
    pub(super) peers: Vec<Mirror>,
    /// Claims that found no room.
    left_out: u64,
    /// The process of which this one has taken everything up.
    pub(super) earlier: Option<u64>,
    /// Stamps that earlier processes of this replica gave.
    pub(super) stamps: VecDeque<(u64, u64)>,
    /// Until when stamps of servers that are not peers are seen now and then.
    strangers_until: Moment,
}

/// Keys, each kept once.
#[derive(Debug, Default)]
pub(super) struct Interner {
    slab: Slab<(Arc<WatchKey>, u32)>,
    by_key: HashMap<Arc<WatchKey>, u32>,
    /// Bytes of the texts of all keys.
    bytes: usize,
}

/// A client.
#[derive(Debug)]
pub(super) struct ClientRecord {
    pub(super) ip: IpAddr,
    /// Entries and mirrored entries that are about it.
    uses: u32,
    /// Entries that are about it.
    entries: u32,
    pub(super) sessions: u32,
    /// Since when it has had sessions here without a break.
    pub(super) here: Moment,
    /// Mirrored entries of it that are live.
    pub(super) live_at_peers: u32,
    /// When it last asked anything, as far as is known.
    pub(super) polled: Moment,
    /// Until when it may have asked servers that are not peers.
    pub(super) strangers_until: Moment,
}

// === impl Book ===

impl Book {
    /// An empty book, with so many peers.
    pub fn new(rules: Rules, peers: usize) -> Self {
        Self {
            rules,
            instance: rand::random(),
            entries: Slab::new(),
            index: HashMap::new(),
            keys: Interner::default(),
            clients: Slab::new(),
            by_ip: HashMap::new(),
            order: BTreeMap::new(),
            seq: 0,
            gone: 0,
            suspects: BTreeSet::new(),
            fading: VecDeque::new(),
            live: 0,
            peers: (0..peers).map(|_| Mirror::default()).collect(),
            left_out: 0,
            earlier: None,
            stamps: VecDeque::new(),
            strangers_until: Moment::NEVER,
        }
    }

    /// Takes what a session of `client` tells.
    pub fn apply(&mut self, now: Moment, ip: IpAddr, event: Event) {
        let client = self.client(ip);
        match event {
            Event::Claimed(key) => self.claimed(now, client, &key, true),
            Event::Arrived(key) => self.claimed(now, client, &key, false),
            Event::Silent { key, ago, failed } => self.silent(now, client, &key, now.before(ago), failed),
            Event::Resumed { key, failed } => {
                // Its entry may have gone meanwhile, after a peer had explained it.
                if let Some(id) = self.entry(client, &key) {
                    self.change_entry(now, id, |entry, live| {
                        let count = if failed { &mut entry.cut } else { &mut entry.silent };
                        *count = count.saturating_sub(1);
                        add(&mut entry.live, live);
                        // It may have been anywhere meanwhile.
                        entry.arrived = now;
                    });
                }
            }
            Event::Released { key, silent } => {
                // One that asked until now is none of those that are missing.
                let certain = match silent {
                    None => self.find(client, &key).map_or(0, |entry| self.silent_for_certain(now, entry)),
                    Some(_) => 0,
                };
                self.change(now, client, &key, |entry, live| {
                    match silent {
                        None => take(&mut entry.live, live),
                        Some(true) => entry.cut = entry.cut.saturating_sub(1),
                        Some(false) => entry.silent = entry.silent.saturating_sub(1),
                    }
                    entry.forget_loops(1, certain);
                    entry.ended = now;
                });
            }
            Event::Cut { key, ago } => self.cut(now, client, &key, now.before(ago)),
            Event::Opened => {
                let record = &mut self.clients[client as usize];
                if record.sessions == 0 {
                    record.here = now;
                }
                record.sessions += 1;
            }
            Event::Closed { by_client } => self.closed(now, client, by_client),
            Event::Polled => {}
            Event::Stranger(stamp) => self.stranger(now, client, stamp),
        }
        if let Some(record) = self.clients.get_mut(client as usize) {
            record.polled = now;
        }
        self.release_client(client);
    }

    /// Claims that found no room since this was last asked.
    pub fn take_left_out(&mut self) -> u64 {
        std::mem::take(&mut self.left_out)
    }

    /// May routers be asking servers that are not peers?
    pub fn has_strangers(&self, now: Moment) -> bool {
        now < self.strangers_until
    }

    /// A client has a stamp that this process did not give: of a peer, of an earlier process, or of a server that is in no
    /// list, to which watches may go that are missing here.
    fn stranger(&mut self, now: Moment, client: u32, stamp: u64) {
        let is_own = self.stamps.iter().any(|given| is_among(stamp, *given));
        let is_known = is_own || self.peers.iter().any(|peer| peer.has_given(stamp));
        // In the beginning they come from the process before this one; and with a peer away everything is unknown anyway.
        let is_early = now < Moment::START.after(self.patience());
        if is_known || is_early || self.peers.iter().any(|peer| peer.is_away(now)) {
            return;
        }
        self.clients[client as usize].strangers_until = now.after(STRANGERS);
        self.strangers_until = now.after(STRANGERS);
    }

    /// A loop has come: a new one, or one that is missing somewhere.
    fn claimed(&mut self, now: Moment, client: u32, key: &Arc<WatchKey>, new: bool) {
        let Some(id) = self.entry(client, key) else {
            self.left_out += u64::from(new);
            return;
        };
        self.change_entry(now, id, |entry, live| {
            if new {
                add(&mut entry.live, live);
            }
            let is_renewed = new && entry.ended > entry.arrived && now.since(entry.ended) < RENEWED;
            if is_renewed && entry.loops > 0 {
                // The one that was given up a moment ago; nobody who is missing.
                entry.loops = entry.loops.saturating_add(1);
            } else if !entry.has_several() {
                // It explains one that is missed, which may be missed as either.
                entry.has_come(1);
                if new {
                    entry.silent = entry.silent.saturating_sub(1);
                }
            } else if entry.live.saturating_add(entry.cut) > u16::from(entry.loops) {
                entry.has_come(1);
            }
            entry.arrived = now;
        });
    }

    fn silent(&mut self, now: Moment, client: u32, key: &Arc<WatchKey>, since: Moment, failed: bool) {
        let place = self.keys.find(key).map(|key| (client, key));
        let seen = self.peers.iter().filter_map(|peer| peer.seen.get(&place?));
        let ended = seen.map(|seen| seen.ended).max().unwrap_or(Moment::NEVER);
        self.change(now, client, key, |entry, live| {
            take(&mut entry.live, live);
            if entry.ended.max(ended).after(SKEW) >= since {
                // Perhaps this one was given up; then it is none of those that are left.
                entry.forget_loops(u8::MAX, 0);
                if entry.live == 0 || entry.arrived.after(ROUNDING) < since {
                    entry.is_silent(since, failed);
                }
                return;
            }
            let has_come = entry.arrived.after(ROUNDING) >= since;
            if entry.live > 0 && !has_come && entry.arrived.after(UNSURE) < since {
                entry.are_different(entry.live.saturating_add(1));
            }
            // Another session of this client may have been asked instead, before this one could notice.
            if entry.live > 0 && has_come && !entry.has_several() {
                return;
            }
            entry.is_silent(since, failed);
        });
    }

    fn cut(&mut self, now: Moment, client: u32, key: &Arc<WatchKey>, heard: Moment) {
        self.change(now, client, key, |entry, live| {
            take(&mut entry.live, live);
            if heard < now {
                // What waited there may have been there no more for long.
                entry.forget_loops(u8::MAX, 0);
                if entry.came_after(heard) {
                    return; // before we noticed that the session was dead
                }
            }
            entry.is_cut(heard);
        });
    }

    /// A client that closes its last session goes, or was told that our address does not serve any more: whether what was
    /// cut before comes again cannot be known then.
    fn closed(&mut self, now: Moment, client: u32, by_client: bool) {
        let record = &mut self.clients[client as usize];
        record.sessions = record.sessions.saturating_sub(1);
        if !by_client || record.sessions > 0 {
            return;
        }
        self.ended_everywhere(now, client);
        let missing: Vec<u32> = self.suspects_of_client(client).collect();
        for id in missing {
            self.change_entry(now, id, |entry, _| {
                (entry.silent, entry.mark) = (0, Mark::Parted);
            });
        }
    }

    fn suspects_of_client(&self, client: u32) -> impl Iterator<Item = u32> + use<'_> {
        self.suspects.range((client, 0)..=(client, u32::MAX)).map(|(_, id)| *id)
    }

    /// A client has gone, of which peers miss something: they learn of it by an entry that has ended.
    fn ended_everywhere(&mut self, now: Moment, client: u32) {
        let of_client = (client, 0)..=(client, u32::MAX);
        let missed: BTreeSet<u32> =
            self.peers.iter().flat_map(|peer| peer.cut.range(of_client.clone())).map(|(_, key)| *key).collect();
        for key in missed {
            let key = self.keys.get(key).clone();
            if let Some(id) = self.entry(client, &key) {
                self.change_entry(now, id, |entry, _| entry.ended = now);
            }
        }
    }

    /// The entry of a key, if there is one.
    fn find(&self, client: u32, key: &WatchKey) -> Option<&Entry> {
        let id = self.index.get(&(client, self.keys.find(key)?))?;
        self.entries.get(*id as usize)
    }

    /// Changes the entry of a key, if there is one.
    fn change(&mut self, now: Moment, client: u32, key: &Arc<WatchKey>, change: impl FnOnce(&mut Entry, &mut usize)) {
        let known = self.keys.find(key).and_then(|key| self.index.get(&(client, key)).copied());
        if let Some(id) = known {
            self.change_entry(now, id, change);
        }
    }

    /// The entry of a key, which is made if there is none. None if there is no room, or none for so much of one client.
    pub(super) fn entry(&mut self, client: u32, key: &Arc<WatchKey>) -> Option<u32> {
        let known = self.keys.find(key).and_then(|key| self.index.get(&(client, key)).copied());
        if known.is_some() {
            return known;
        }
        let most = self.rules.most_entries;
        let share = (most / 8).max(LEAST_SHARE);
        let is_large = self.clients[client as usize].entries as usize >= share || !self.keys.has_room(key, most);
        if is_large {
            return None;
        }
        // Before others make room: the last one of them may be of the same client.
        self.begin_using(client);
        while self.entries.len() >= most {
            // Those without claims give way.
            let Some((_, id, seq)) = self.fading.pop_front() else {
                self.stop_using(client);
                return None;
            };
            self.fade(id, seq);
        }
        self.clients[client as usize].entries += 1;
        let key = self.keys.use_key(key);
        let id = u32::try_from(self.entries.insert(Entry::new(client, key))).unwrap_or(u32::MAX);
        self.index.insert((client, key), id);
        Some(id)
    }

    pub(super) fn change_entry(&mut self, now: Moment, id: u32, change: impl FnOnce(&mut Entry, &mut usize)) {
        let entry = &mut self.entries[id as usize];
        change(entry, &mut self.live);
        self.order.remove(&entry.seq);
        self.seq += 1;
        entry.seq = self.seq;
        self.order.insert(self.seq, id);
        if entry.is_suspect() {
            self.suspects.insert((entry.client, id));
        } else {
            (entry.mark, entry.explained) = (Mark::None, Moment::NEVER);
            self.suspects.remove(&(entry.client, id));
        }
        if entry.is_empty() {
            self.fading.push_back((now.after(FADES_AFTER), id, entry.seq));
            if self.fading.len() > 2 * self.entries.len() + 1_024 {
                let entries = &self.entries;
                self.fading.retain(|(_, id, seq)| entries.get(*id as usize).is_some_and(|entry| entry.seq == *seq));
            }
        }
    }

    /// Lets entries go that have had no claims for a while.
    pub(super) fn fade_old(&mut self, now: Moment) {
        for _ in 0..MOST_FADING {
            let Some((_, id, seq)) = self.fading.pop_front_if(|(at, _, _)| *at <= now) else { return };
            self.fade(id, seq);
        }
    }

    fn fade(&mut self, id: u32, seq: u64) {
        if self.entries.get(id as usize).is_some_and(|entry| entry.seq == seq) {
            self.remove(id);
        }
    }

    pub(super) fn remove(&mut self, id: u32) {
        let Some(entry) = self.entries.try_remove(id as usize) else { return };
        self.live -= usize::from(entry.live);
        self.order.remove(&entry.seq);
        self.gone = self.gone.max(entry.seq);
        self.suspects.remove(&(entry.client, id));
        self.index.remove(&(entry.client, entry.key));
        self.keys.release(entry.key);
        self.clients[entry.client as usize].entries -= 1;
        self.stop_using(entry.client);
    }

    /// How many sessions there are.
    pub(super) fn sessions(&self) -> usize {
        self.clients.iter().map(|(_, client)| client.sessions as usize).sum()
    }

    /// How peers call this process.
    pub(super) fn name(&self) -> String {
        format!("{:016x}", self.instance)
    }

    /// The number of a client.
    pub(super) fn client(&mut self, ip: IpAddr) -> u32 {
        // One replica may listen on both families with one socket, and another one not.
        let (clients, ip) = (&mut self.clients, ip.to_canonical());
        *self.by_ip.entry(ip).or_insert_with(|| {
            let record = ClientRecord {
                ip,
                uses: 0,
                entries: 0,
                sessions: 0,
                here: Moment::NEVER,
                live_at_peers: 0,
                polled: Moment::NEVER,
                strangers_until: Moment::NEVER,
            };
            u32::try_from(clients.insert(record)).unwrap_or(u32::MAX)
        })
    }

    /// The number of a client of which something is known.
    pub(super) fn known_client(&self, ip: IpAddr) -> Option<u32> {
        self.by_ip.get(&ip.to_canonical()).copied()
    }

    pub(super) fn begin_using(&mut self, client: u32) {
        self.clients[client as usize].uses += 1;
    }

    pub(super) fn stop_using(&mut self, client: u32) {
        self.clients[client as usize].uses -= 1;
        self.release_client(client);
    }

    fn release_client(&mut self, client: u32) {
        if self.clients.get(client as usize).is_some_and(|record| record.uses == 0 && record.sessions == 0) {
            let record = self.clients.remove(client as usize);
            self.by_ip.remove(&record.ip);
        }
    }
}

/// For so long after a stamp of an unknown server was seen, that server may be asked.
const STRANGERS: Duration = Duration::from_secs(3_600);

/// Who is given up and asked again within this time is the same loop.
const RENEWED: Duration = Duration::from_secs(60);

/// Sessions count in tenths of a second of their own.
const ROUNDING: Duration = Duration::from_millis(300);

/// Two loops are different ones only if they waited together for longer than this.
const UNSURE: Duration = Duration::from_secs(2);

/// One client may have an eighth of all entries, or so many.
const LEAST_SHARE: usize = 10_000;

/// A key with more bytes is not looked after; and of all keys there may be so many bytes for each entry.
const LONGEST_KEY: usize = 4 << 10;
const KEY_BYTES: usize = 256;

/// So many entries are let go at a time.
const MOST_FADING: usize = 10_000;

fn add(count: &mut u16, all: &mut usize) {
    if *count < u16::MAX {
        (*count, *all) = (*count + 1, *all + 1);
    }
}

fn take(count: &mut u16, all: &mut usize) {
    if *count > 0 {
        (*count, *all) = (*count - 1, *all - 1);
    }
}

// === impl Interner ===

impl Interner {
    pub(super) fn find(&self, key: &WatchKey) -> Option<u32> {
        self.by_key.get(key).copied()
    }

    pub(super) fn get(&self, id: u32) -> &Arc<WatchKey> {
        &self.slab[id as usize].0
    }

    /// Is this key known, or may it be, where there may be `most` entries?
    pub(super) fn has_room(&self, key: &WatchKey, most: usize) -> bool {
        let bytes = key.bytes();
        let is_small = bytes <= LONGEST_KEY && self.bytes + bytes <= most.max(LEAST_SHARE).saturating_mul(KEY_BYTES);
        is_small || self.by_key.contains_key(key)
    }

    /// The number of a key, until [`Self::release`].
    pub(super) fn use_key(&mut self, key: &Arc<WatchKey>) -> u32 {
        if let Some(id) = self.find(key) {
            self.slab[id as usize].1 += 1;
            return id;
        }
        let id = u32::try_from(self.slab.insert((key.clone(), 1))).unwrap_or(u32::MAX);
        self.by_key.insert(key.clone(), id);
        self.bytes += key.bytes();
        id
    }

    pub(super) fn release(&mut self, id: u32) {
        let (key, uses) = &mut self.slab[id as usize];
        *uses -= 1;
        if *uses == 0 {
            self.bytes -= key.bytes();
            self.by_key.remove(key);
            self.slab.remove(id as usize);
        }
    }
}
