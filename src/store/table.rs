//! Table: single flight and life time.

mod in_use;

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio_util::task::AbortOnDropHandle;

use self::in_use::{Holding, InUse, is_modest, subtract};

const SHARDS: usize = 16;

/// How often entries past their idle time are looked for.
const SWEEP: Duration = Duration::from_secs(5);

/// On whose behalf something is looked up; budgets are shared out by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Client(pub IpAddr);

/// How long entries live and how many there may be.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// An entry without observers is dropped after this time.
    pub idle: Duration,
    /// An entry asked for within this time is never dropped to make room.
    pub protect: Duration,
    /// How many entries there may be before idle ones are dropped early and then the greediest client is refused. A
    /// heavy entry counts as several.
    pub budget: usize,
    /// How many entries may have observers before the greediest client is refused new ones. Idle entries do not count:
    /// what clients left behind is in nobody's way.
    pub in_use: usize,
}

/// Maps a key to an entry: looking it up, making it and starting its only writer is one atomic step, so that any
/// number of concurrent first look-ups start one writer.
pub struct Table<K, V> {
    inner: Arc<Inner<K, V>>,
    _sweeper: Arc<AbortOnDropHandle<()>>,
}

/// Makes an entry's value and starts its writer.
type Start<K, V> = Box<dyn Fn(&K, Client) -> V + Send + Sync>;

/// As how many an entry counts, by its key.
type Weigh<K> = fn(&K) -> usize;

/// Whether an entry without observers stays beyond its time, by its value.
type Keep<V> = fn(&V) -> bool;

/// How long a look for entries that could go is not repeated if it found none.
const BARREN: Duration = Duration::from_millis(250);

struct Inner<K, V> {
    name: &'static str,
    policy: Policy,
    shards: Vec<Mutex<HashMap<K, Arc<Entry<V>>>>>,
    /// Picks the shard.
    hasher: RandomState,
    start: Start<K, V>,
    weigh: Weigh<K>,
    keep: Keep<V>,
    len: AtomicUsize,
    /// Milliseconds since the epoch until which nothing can be dropped to make room.
    barren: AtomicU64,
    refused: AtomicU64,
    clients: Mutex<HashMap<Client, usize>>,
    in_use: Arc<InUse>,
}

struct Entry<V> {
    value: V,
    client: Client,
    weight: usize,
    holding: Mutex<Holding>,
    in_use: Arc<InUse>,
    /// Milliseconds since the table's epoch at which somebody last asked for the entry or let go of it.
    touched: AtomicU64,
    /// Overrides the policy's idle time; the longest that anybody asked for.
    idle_ms: AtomicU64,
}

/// Pins an entry; when the last one goes, the entry's idle time begins.
pub struct Observer<V> {
    entry: Arc<Entry<V>>,
}

/// There is no room for a new entry of this client.
#[derive(Clone, Debug, thiserror::Error)]
#[error("too many {table} at once: {len} of {budget} in use, {share} of them by {client}; \
         let unused watches go, or raise the limit", client = .client.0)]
pub struct OverBudget {
    /// Which table.
    pub table: &'static str,
    /// Entries in it.
    pub len: usize,
    /// Entries allowed.
    pub budget: usize,
    /// Entries that the refused client holds.
    pub share: usize,
    /// The refused client.
    pub client: Client,
}

/// Figures for metrics and pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Entries in the table, heavy ones counted as several.
    pub len: usize,
    /// Those of them that have observers.
    pub in_use: usize,
    /// Entries allowed.
    pub budget: usize,
    /// Look-ups refused since the start.
    pub refused: u64,
}

// === impl Client ===

impl Client {
    /// The process itself.
    pub const INTERNAL: Self = Self(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
}

// === impl Policy ===

impl Default for Policy {
    fn default() -> Self {
        Self { idle: Duration::from_secs(600), protect: Duration::from_secs(60), budget: 1_000_000, in_use: usize::MAX }
    }
}

// === impl Table ===

impl<K, V> Clone for Table<K, V> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), _sweeper: self._sweeper.clone() }
    }
}

impl<K, V> Table<K, V>
where
    K: Clone + Eq + Hash + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    /// A table called `name` in errors. `start` makes an entry's value and starts its writer; it runs under a lock
    /// of this table and must neither block nor look into the same table. Dropping the value must stop the writer.
    ///
    /// Must be called within a runtime: a task drops entries past their idle time, until the last handle goes.
    pub fn new(name: &'static str, policy: Policy, start: impl Fn(&K, Client) -> V + Send + Sync + 'static) -> Self {
        Self::weighed(name, policy, |_| 1, start)
    }

    /// The same for entries that may be heavy: `weigh` says as how many one counts. Keys that clients make up as they
    /// like must be weighed.
    pub fn weighed(
        name: &'static str,
        policy: Policy,
        weigh: fn(&K) -> usize,
        start: impl Fn(&K, Client) -> V + Send + Sync + 'static,
    ) -> Self {
        Self::keeping(name, policy, weigh, |_| false, start)
    }

    /// The same for values that cannot be had anew at any time: where `keep` says so an idle entry stays as long as there
    /// is room, and is the last to go. It runs under locks of this table.
    pub fn keeping(
        name: &'static str,
        policy: Policy,
        weigh: fn(&K) -> usize,
        keep: fn(&V) -> bool,
        start: impl Fn(&K, Client) -> V + Send + Sync + 'static,
    ) -> Self {
        let inner = Arc::new(Inner {
            name,
            policy,
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
            start: Box::new(start),
            weigh,
            keep,
            len: AtomicUsize::new(0),
            barren: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            clients: Mutex::default(),
            in_use: Arc::new(InUse::new(name, &policy)),
        });
        let swept = Arc::downgrade(&inner);
        let sweeper = tokio::spawn(async move {
            let mut ticks = tokio::time::interval(SWEEP);
            loop {
                ticks.tick().await;
                for shard in 0..SHARDS {
                    let Some(inner) = swept.upgrade() else { return };
                    inner.sweep(shard, |entry, now| {
                        entry.idle_since(now) >= entry.idle_ms.load(Ordering::Relaxed) && !keep(&entry.value)
                    });
                    tokio::task::yield_now().await;
                }
            }
        });
        Self { inner, _sweeper: Arc::new(AbortOnDropHandle::new(sweeper)) }
    }

    /// Pins the entry of `key`, making it if need be.
    ///
    /// # Errors
    /// [`OverBudget`] when the table is full of entries in use, or too many are, and `client` has the largest share.
    pub fn observe(&self, client: Client, key: &K) -> Result<Observer<V>, OverBudget> {
        self.observe_for(client, key, self.inner.policy.idle)
    }

    /// Like [`Table::observe`], and once let go the entry idles for `idle` only, unless somebody asked for longer.
    ///
    /// # Errors
    /// As [`Table::observe`].
    pub fn observe_for(&self, client: Client, key: &K, idle: Duration) -> Result<Observer<V>, OverBudget> {
        let inner = &*self.inner;
        let shard = &inner.shards[inner.hasher.hash_one(key) as usize % SHARDS];
        if let Some(entry) = shard.lock().get(key) {
            return inner.pin(entry, client, idle);
        }
        // Room is made without holding the shard, since that visits all shards.
        let weight = (inner.weigh)(key).max(1);
        inner.admit(client, weight)?;
        let mut entries = shard.lock();
        if let Some(entry) = entries.get(key) {
            inner.release(client, weight);
            return inner.pin(entry, client, idle);
        }
        if let Err(over) = inner.in_use.take(client, weight) {
            inner.release(client, weight);
            return Err(inner.refuse(over));
        }
        let entry = Arc::new(Entry {
            value: (inner.start)(key, client),
            client,
            weight,
            holding: Mutex::new(Holding { observers: 1, client }),
            in_use: inner.in_use.clone(),
            touched: AtomicU64::new(inner.now()),
            idle_ms: AtomicU64::new(millis(idle)),
        });
        entries.insert(key.clone(), entry.clone());
        Ok(Observer { entry })
    }

    /// Pins the entry of `key` if there is one, and if it may be in use; makes none.
    pub fn get(&self, key: &K) -> Option<Observer<V>> {
        let inner = &*self.inner;
        let entries = inner.shards[inner.hasher.hash_one(key) as usize % SHARDS].lock();
        entries.get(key).and_then(|entry| inner.pin(entry, entry.client, Duration::ZERO).ok())
    }

    /// Figures for metrics and pages.
    pub fn usage(&self) -> Usage {
        Usage {
            len: self.inner.len.load(Ordering::Relaxed),
            in_use: self.inner.in_use.count(),
            budget: self.inner.policy.budget,
            refused: self.inner.refused.load(Ordering::Relaxed),
        }
    }

    /// Shows the value of every entry of this moment, in no order: for metrics and pages. `see` must not look into this
    /// table.
    pub fn visit(&self, mut see: impl FnMut(&V)) {
        for shard in &self.inner.shards {
            shard.lock().values().for_each(|entry| see(&entry.value));
        }
    }
}

// === impl Inner ===

impl<K: Eq + Hash, V> Inner<K, V> {
    fn now(&self) -> u64 {
        millis(self.in_use.epoch.elapsed())
    }

    /// Pins an entry of which the shard is locked: so it cannot be dropped meanwhile.
    fn pin(&self, entry: &Arc<Entry<V>>, client: Client, idle: Duration) -> Result<Observer<V>, OverBudget> {
        let mut holding = entry.holding.lock();
        if holding.observers == 0 {
            self.in_use.take(client, entry.weight).map_err(|over| self.refuse(over))?;
            holding.client = client;
        }
        holding.observers += 1;
        entry.touched.store(self.now(), Ordering::Relaxed);
        entry.idle_ms.fetch_max(millis(idle), Ordering::Relaxed);
        Ok(Observer { entry: entry.clone() })
    }

    fn refuse(&self, over: OverBudget) -> OverBudget {
        self.refused.fetch_add(1, Ordering::Relaxed);
        over
    }

    /// Reserves room for one entry of `client`.
    fn admit(&self, client: Client, weight: usize) -> Result<(), OverBudget> {
        let budget = self.policy.budget;
        if self.len.load(Ordering::Relaxed) >= budget {
            self.make_room();
        }
        let mut clients = self.clients.lock();
        let len = self.len.load(Ordering::Relaxed);
        if len >= budget {
            let share = clients.get(&client).copied().unwrap_or(0);
            if !is_modest(share, &clients, len, budget) {
                return Err(self.refuse(OverBudget { table: self.name, len, budget, share, client }));
            }
        }
        self.len.fetch_add(weight, Ordering::Relaxed);
        *clients.entry(client).or_insert(0) += weight;
        Ok(())
    }

    fn release(&self, client: Client, weight: usize) {
        self.len.fetch_sub(weight, Ordering::Relaxed);
        subtract(&mut self.clients.lock(), client, weight);
    }

    /// Drops entries that idle and were not asked for lately, shard by shard until a batch has gone.
    fn make_room(&self) {
        let now = self.now();
        if now < self.barren.load(Ordering::Relaxed) {
            return; // a client that is refused again and again must not cost a walk through everything each time
        }
        let protect = millis(self.policy.protect);
        let batch = self.policy.budget / 64 + 1;
        let mut freed = 0;
        for kept in [false, true] {
            for shard in 0..SHARDS {
                freed += self.sweep(shard, |entry, now| {
                    entry.idle_since(now) >= protect && (kept || !(self.keep)(&entry.value))
                });
                if freed >= batch {
                    return;
                }
            }
        }
        if freed == 0 {
            self.barren.store(now + millis(BARREN), Ordering::Relaxed);
        }
    }

    /// Drops the unobserved entries of one shard that `goes` names; returns the weight of what went.
    fn sweep(&self, shard: usize, goes: impl Fn(&Entry<V>, u64) -> bool) -> usize {
        let now = self.now();
        let mut gone = Vec::new();
        {
            let mut entries = self.shards[shard].lock();
            entries.retain(|_, entry| {
                // Observers are added under this lock only, so none can appear meanwhile.
                let keep = entry.holding.lock().observers > 0 || !goes(entry, now);
                if !keep {
                    gone.push(entry.clone());
                }
                keep
            });
            if entries.capacity() > 64 && entries.len() * 4 < entries.capacity() {
                entries.shrink_to_fit();
            }
        }
        for entry in &gone {
            self.release(entry.client, entry.weight);
        }
        gone.iter().map(|entry| entry.weight).sum() // their writers stop here, outside the lock
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

// === impl Entry ===

impl<V> Entry<V> {
    fn idle_since(&self, now: u64) -> u64 {
        now.saturating_sub(self.touched.load(Ordering::Relaxed))
    }
}

// === impl Observer ===

impl<V> Clone for Observer<V> {
    fn clone(&self) -> Self {
        self.entry.holding.lock().observers += 1;
        Self { entry: self.entry.clone() }
    }
}

impl<V> Deref for Observer<V> {
    type Target = V;

    fn deref(&self) -> &V {
        &self.entry.value
    }
}

impl<V> Drop for Observer<V> {
    fn drop(&mut self) {
        let entry = &*self.entry;
        // The clock starts before the count falls: a sweep in between must not see an old time.
        entry.touched.store(millis(entry.in_use.epoch.elapsed()), Ordering::Relaxed);
        let mut holding = entry.holding.lock();
        holding.observers -= 1;
        if holding.observers == 0 {
            entry.in_use.give_back(holding.client, entry.weight);
        }
    }
}

impl<V: fmt::Debug> fmt::Debug for Observer<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Observer").field(&self.entry.value).finish()
    }
}

impl<K, V> fmt::Debug for Table<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("name", &self.inner.name).field("len", &self.inner.len).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
