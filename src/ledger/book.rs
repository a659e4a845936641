//! The book: all entries, and what sessions tell.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use slab::Slab;

use super::entry::{Entry, Moment};
use super::key::WatchKey;
use super::mirror::Mirror;

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
    Stranger,
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
    pub(super) suspects: BTreeSet<u32>,
    /// Entries without claims, in the order in which they go away.
    fading: VecDeque<(Moment, u32, u64)>,
    pub(super) live: usize,
    pub(super) peers: Vec<Mirror>,
    /// Claims that found no room.
    left_out: u64,
    /// Until when servers that are not peers may have been asked.
    strangers_until: Moment,
}

/// Keys, each kept once.
#[derive(Debug, Default)]
pub(super) struct Interner {
    slab: Slab<(Arc<WatchKey>, u32)>,
    by_key: HashMap<Arc<WatchKey>, u32>,
}

/// A client.
#[derive(Debug)]
pub(super) struct ClientRecord {
    pub(super) ip: IpAddr,
    /// Entries and mirrored entries that are about it.
    uses: u32,
    pub(super) sessions: u32,
    /// When it last asked anything, as far as is known.
    pub(super) polled: Moment,
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
                    });
                }
            }
            Event::Released { key, silent } => {
                self.change(now, client, &key, |entry, live| {
                    match silent {
                        None => take(&mut entry.live, live),
                        Some(true) => entry.cut = entry.cut.saturating_sub(1),
                        Some(false) => entry.silent = entry.silent.saturating_sub(1),
                    }
                    entry.ended = now;
                });
            }
            Event::Cut { key, ago } => self.cut(now, client, &key, now.before(ago)),
            Event::Opened => self.clients[client as usize].sessions += 1,
            Event::Closed { by_client } => self.closed(now, client, by_client),
            Event::Polled => {}
            Event::Stranger => {
                // In the beginning they come from the process before this one, which handed over to it.
                if self.peers.is_empty() && now > Moment::START.after(HAND_OVER) {
                    self.strangers_until = now.after(STRANGERS);
                }
            }
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
            // It explains one that is missed, which may be missed as either.
            entry.cut = entry.cut.saturating_sub(1);
            if new {
                entry.silent = entry.silent.saturating_sub(1);
            }
            entry.arrived = now;
        });
    }

    fn silent(&mut self, now: Moment, client: u32, key: &Arc<WatchKey>, since: Moment, failed: bool) {
        self.change(now, client, key, |entry, live| {
            take(&mut entry.live, live);
            // Another session of this client may have been asked instead, before this one could notice.
            if entry.live > 0 && entry.arrived >= since {
                return;
            }
            let (count, oldest) = match failed {
                true => (&mut entry.cut, &mut entry.cut_since),
                false => (&mut entry.silent, &mut entry.silent_since),
            };
            *oldest = if *count == 0 { since } else { since.min(*oldest) };
            *count = count.saturating_add(1);
        });
    }

    fn cut(&mut self, now: Moment, client: u32, key: &Arc<WatchKey>, heard: Moment) {
        self.change(now, client, key, |entry, live| {
            take(&mut entry.live, live);
            if heard < now && entry.came_after(heard) {
                return; // before we noticed that the session was dead
            }
            entry.cut_since = if entry.cut == 0 { heard } else { heard.min(entry.cut_since) };
            entry.cut = entry.cut.saturating_add(1);
        });
    }

    /// A client that closes its last session goes, or was told that our address does not serve any more: what was cut
    /// before will not come again.
    fn closed(&mut self, now: Moment, client: u32, by_client: bool) {
        let record = &mut self.clients[client as usize];
        record.sessions = record.sessions.saturating_sub(1);
        if !by_client || record.sessions > 0 {
            return;
        }
        self.ended_everywhere(now, client);
        let cut: Vec<u32> =
            self.suspects.iter().copied().filter(|id| self.entries[*id as usize].client == client).collect();
        for id in cut {
            self.change_entry(now, id, |entry, _| {
                (entry.cut, entry.silent) = (0, 0);
                entry.ended = now;
            });
        }
    }

    /// A client has gone, of which peers miss something: they learn of it by an entry that has ended.
    fn ended_everywhere(&mut self, now: Moment, client: u32) {
        let missed = self.peers.iter().filter(|peer| peer.cut > 0).flat_map(|peer| &peer.seen);
        let missed: Vec<u32> =
            missed.filter(|(at, seen)| at.0 == client && seen.cut > 0).map(|((_, key), _)| *key).collect();
        for key in missed {
            let key = self.keys.get(key).clone();
            if let Some(id) = self.entry(client, &key) {
                self.change_entry(now, id, |entry, _| entry.ended = now);
            }
        }
    }

    /// Changes the entry of a key, if there is one.
    fn change(&mut self, now: Moment, client: u32, key: &Arc<WatchKey>, change: impl FnOnce(&mut Entry, &mut usize)) {
        let known = self.keys.find(key).and_then(|key| self.index.get(&(client, key)).copied());
        if let Some(id) = known {
            self.change_entry(now, id, change);
        }
    }

    /// The entry of a key, which is made if there is none. None if there is no room.
    pub(super) fn entry(&mut self, client: u32, key: &Arc<WatchKey>) -> Option<u32> {
        let known = self.keys.find(key).and_then(|key| self.index.get(&(client, key)).copied());
        if known.is_some() {
            return known;
        }
        // Before others make room: the last one of them may be of the same client.
        self.begin_using(client);
        while self.entries.len() >= self.rules.most_entries {
            // Those without claims give way.
            let Some((_, id, seq)) = self.fading.pop_front() else {
                self.stop_using(client);
                return None;
            };
            self.fade(id, seq);
        }
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
            self.suspects.insert(id);
        } else {
            (entry.reported, entry.explained) = (false, Moment::NEVER);
            self.suspects.remove(&id);
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
        while let Some((_, id, seq)) = self.fading.pop_front_if(|(at, _, _)| *at <= now) {
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
        self.suspects.remove(&id);
        self.index.remove(&(entry.client, entry.key));
        self.keys.release(entry.key);
        self.stop_using(entry.client);
    }

    /// The number of a client.
    pub(super) fn client(&mut self, ip: IpAddr) -> u32 {
        let clients = &mut self.clients;
        *self.by_ip.entry(ip).or_insert_with(|| {
            let record = ClientRecord { ip, uses: 0, sessions: 0, polled: Moment::NEVER };
            u32::try_from(clients.insert(record)).unwrap_or(u32::MAX)
        })
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

/// For so long after the start, stamps may be those of the process before.
const HAND_OVER: Duration = Duration::from_secs(600);

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

    /// The number of a key, until [`Self::release`].
    pub(super) fn use_key(&mut self, key: &Arc<WatchKey>) -> u32 {
        if let Some(id) = self.find(key) {
            self.slab[id as usize].1 += 1;
            return id;
        }
        let id = u32::try_from(self.slab.insert((key.clone(), 1))).unwrap_or(u32::MAX);
        self.by_key.insert(key.clone(), id);
        id
    }

    pub(super) fn release(&mut self, id: u32) {
        let (key, uses) = &mut self.slab[id as usize];
        *uses -= 1;
        if *uses == 0 {
            self.by_key.remove(key);
            self.slab.remove(id as usize);
        }
    }
}
