//! io.l5d.inMemory: dtabs in this process only; a restart begins with those of the configuration.

mod config;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;

use super::{Storage, StorageError, VersionedDtab};
use crate::name::{Dtab, IndexedDtab};
use crate::runtime::heavy;
use crate::store::{Cell, Client, Live, Observer, OverBudget, Policy, Table, Watch};

pub use config::MemoryConfig;

/// How many namespaces may be watched at once, missing ones included. Namespaces that exist are not limited.
const WATCHED: usize = 100_000;

/// A table with more entries is not indexed on the runtime's own threads.
const HEAVY_FROM: usize = 5_000;

type DtabCell = Arc<Cell<Option<VersionedDtab>>>;

/// Dtabs in memory.
///
/// Version bytes are an 8-byte big-endian counter a namespace: 1 on create, one more on each write, 1 again after
/// delete and create.
pub struct MemoryStorage {
    shelf: Arc<Shelf>,
    watched: Table<String, Seat>,
}

/// All namespaces, behind one lock: under it a write compares, stores and publishes, so writes are atomic and what
/// watchers see of a namespace has the order of its versions.
#[derive(Default)]
struct Shelf {
    spaces: Mutex<BTreeMap<String, Space>>,
    names: Arc<Cell<BTreeSet<String>>>,
}

/// A namespace that exists or is watched; one that is neither is forgotten.
struct Space {
    cell: DtabCell,
    /// The version counter while the namespace exists.
    stored: Option<u64>,
    /// How many seats keep it although it does not exist.
    seats: usize,
}

/// Keeps the cell of a namespace findable for writers, so that a later create reaches those who watch it now.
struct Seat {
    shelf: Arc<Shelf>,
    namespace: String,
    cell: DtabCell,
}

// === impl MemoryStorage ===

impl MemoryStorage {
    /// A storage that holds `namespaces`. Must be called within a runtime.
    pub fn new(namespaces: impl IntoIterator<Item = (String, Dtab)>) -> Self {
        let shelf = Arc::new(Shelf::default());
        {
            let mut spaces = shelf.spaces.lock();
            for (namespace, dtab) in namespaces {
                spaces.entry(namespace).or_default().store(Arc::new(IndexedDtab::new(dtab)));
            }
            shelf.names.publish(existing(&spaces));
        }
        let seated = shelf.clone();
        let policy = Policy { budget: WATCHED, ..Policy::default() };
        let weigh = |namespace: &String| 1 + namespace.len() / 512;
        let watched =
            Table::weighed("watched namespaces", policy, weigh, move |namespace, _| Seat::take(&seated, namespace));
        Self { shelf, watched }
    }

    /// One write: `write` sees the namespace as it is and says how it is to be.
    fn write<T>(
        &self,
        namespace: &str,
        write: impl FnOnce(&mut Space) -> Result<T, StorageError>,
    ) -> Result<T, StorageError> {
        let mut spaces = self.shelf.spaces.lock();
        let space = spaces.entry(namespace.to_owned()).or_default();
        let existed = space.stored.is_some();
        let outcome = write(space);
        let exists = space.stored.is_some();
        forget_if_unused(&mut spaces, namespace);
        if exists != existed {
            self.shelf.names.publish(existing(&spaces));
        }
        outcome
    }
}

#[async_trait]
impl Storage for MemoryStorage {
    fn dtab(&self, client: Client, namespace: &str) -> Result<Watch<Option<VersionedDtab>>, OverBudget> {
        let seat = self.watched.observe(client, &namespace.to_owned())?;
        Ok(Watch::new(seat.cell.clone(), Arc::new(seat)))
    }

    fn namespaces(&self) -> Watch<BTreeSet<String>> {
        Watch::new(self.shelf.names.clone(), self.shelf.clone())
    }

    async fn create(&self, namespace: &str, dtab: Dtab) -> Result<Bytes, StorageError> {
        let dtab = index(dtab).await;
        self.write(namespace, |space| match space.stored {
            Some(_) => Err(StorageError::AlreadyExists(namespace.to_owned())),
            None => Ok(space.store(dtab)),
        })
    }

    async fn update(&self, namespace: &str, dtab: Dtab, version: &[u8]) -> Result<Bytes, StorageError> {
        let dtab = index(dtab).await;
        self.write(namespace, |space| {
            space.expect_version(namespace, Some(version))?;
            Ok(space.store(dtab))
        })
    }

    async fn put(&self, namespace: &str, dtab: Dtab) -> Result<Bytes, StorageError> {
        let dtab = index(dtab).await;
        self.write(namespace, |space| Ok(space.store(dtab)))
    }

    async fn delete(&self, namespace: &str, version: Option<&[u8]>) -> Result<(), StorageError> {
        self.write(namespace, |space| {
            space.expect_version(namespace, version)?;
            space.remove();
            Ok(())
        })
    }

    async fn answered(&self) {}
}

impl fmt::Debug for MemoryStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStorage").field("watched", &self.watched).finish_non_exhaustive()
    }
}

// === impl Shelf ===

impl Live for Shelf {}

/// Indexes a table before the lock is taken: one client's large table must not hold up what the others write and read.
async fn index(dtab: Dtab) -> Arc<IndexedDtab> {
    if dtab.len() < HEAVY_FROM {
        return Arc::new(IndexedDtab::new(dtab));
    }
    let again = dtab.clone();
    let indexed = heavy(move || IndexedDtab::new(dtab)).await;
    Arc::new(indexed.unwrap_or_else(|| IndexedDtab::new(again)))
}

fn existing(spaces: &BTreeMap<String, Space>) -> BTreeSet<String> {
    spaces.iter().filter(|(_, space)| space.stored.is_some()).map(|(namespace, _)| namespace.clone()).collect()
}

fn forget_if_unused(spaces: &mut BTreeMap<String, Space>, namespace: &str) {
    if spaces.get(namespace).is_some_and(|space| space.stored.is_none() && space.seats == 0) {
        spaces.remove(namespace);
    }
}

// === impl Space ===

impl Default for Space {
    fn default() -> Self {
        Self { cell: Cell::ready(None), stored: None, seats: 0 }
    }
}

impl Space {
    fn store(&mut self, dtab: Arc<IndexedDtab>) -> Bytes {
        let counter = self.stored.map_or(1, |counter| counter.wrapping_add(1));
        self.stored = Some(counter);
        let version = version_bytes(counter);
        self.cell.publish(Some(VersionedDtab::new(dtab, version.clone())));
        version
    }

    fn remove(&mut self) {
        self.stored = None;
        self.cell.publish(None);
    }

    fn expect_version(&self, namespace: &str, version: Option<&[u8]>) -> Result<(), StorageError> {
        let Some(counter) = self.stored else {
            return Err(StorageError::DoesNotExist(namespace.to_owned()));
        };
        let current = version_bytes(counter);
        match version {
            Some(version) if current != version => Err(StorageError::VersionMismatch { current: Some(current) }),
            Some(_) | None => Ok(()),
        }
    }
}

fn version_bytes(counter: u64) -> Bytes {
    Bytes::copy_from_slice(&counter.to_be_bytes())
}

// === impl Seat ===

impl Seat {
    fn take(shelf: &Arc<Shelf>, namespace: &str) -> Self {
        let mut spaces = shelf.spaces.lock();
        let space = spaces.entry(namespace.to_owned()).or_default();
        space.seats += 1;
        Self { shelf: shelf.clone(), namespace: namespace.to_owned(), cell: space.cell.clone() }
    }
}

impl Live for Observer<Seat> {}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut spaces = self.shelf.spaces.lock();
        if let Some(space) = spaces.get_mut(&self.namespace) {
            space.seats -= 1;
        }
        forget_if_unused(&mut spaces, &self.namespace);
    }
}

#[cfg(test)]
mod tests;
