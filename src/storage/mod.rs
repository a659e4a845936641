//! Storages: where dtabs live. One folder per home.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use crate::consul::Agents;
use crate::name::{Dtab, IndexedDtab, Limits};
use crate::runtime::Probe;
use crate::store::{Client, OverBudget, Staleness, Watch};

mod config;
pub mod consul;
pub mod memory;

pub use config::{KINDS, OWN_KEYS, StorageBlock};

/// A stored dtab, parsed and indexed once per version and shared.
#[derive(Clone, Debug)]
pub struct VersionedDtab {
    dtab: Arc<IndexedDtab>,
    version: Bytes,
}

/// A home of dtabs by namespace.
///
/// The watched cells keep the last good value through any outage. A write is acknowledged only once it is stored and
/// visible in this process's cells: a read after it sees it. One-shot readers ([`Watch::answer`]) get what the store
/// has, whoever wrote it.
#[async_trait]
pub trait Storage: Send + Sync + 'static {
    /// Whether there can be a namespace of this name. One that cannot be is watched in vain, and is never written.
    ///
    /// # Errors
    /// [`StorageError::InvalidNamespace`], with the rule.
    fn accepts(&self, namespace: &str) -> Result<(), StorageError> {
        let _ = namespace;
        Ok(())
    }

    /// Whether it lists its namespaces and takes writes. A relay may do neither.
    ///
    /// # Errors
    /// [`StorageError::Elsewhere`], with who does.
    fn lists(&self) -> Result<(), StorageError> {
        Ok(())
    }

    /// The dtab of a namespace; `None` when there is no such namespace. An unreadable dtab, or an unreachable store,
    /// shows as the standing of the cell.
    ///
    /// # Errors
    /// [`OverBudget`] when this client watches too many namespaces.
    fn dtab(&self, client: Client, namespace: &str) -> Result<Watch<Option<VersionedDtab>>, OverBudget>;

    /// The names of all namespaces.
    fn namespaces(&self) -> Watch<BTreeSet<String>>;

    /// Makes a namespace: the version that it has. As of every write the version is empty, which none has, if others
    /// wrote before it could be learnt.
    ///
    /// # Errors
    /// [`StorageError::AlreadyExists`], and whatever the store says.
    async fn create(&self, namespace: &str, dtab: Dtab) -> Result<Bytes, StorageError>;

    /// Replaces a dtab if its version is still `version`.
    ///
    /// # Errors
    /// [`StorageError::VersionMismatch`], [`StorageError::DoesNotExist`], and whatever the store says.
    async fn update(&self, namespace: &str, dtab: Dtab, version: &[u8]) -> Result<Bytes, StorageError>;

    /// Makes or replaces a dtab.
    ///
    /// # Errors
    /// Whatever the store says.
    async fn put(&self, namespace: &str, dtab: Dtab) -> Result<Bytes, StorageError>;

    /// Deletes a namespace, if `version` is given only while it has that version.
    ///
    /// # Errors
    /// [`StorageError::DoesNotExist`], [`StorageError::VersionMismatch`], and whatever the store says.
    async fn delete(&self, namespace: &str, version: Option<&[u8]>) -> Result<(), StorageError>;

    /// Has it answered once? Readiness waits for that (5 s at most).
    async fn answered(&self);

    /// How many of its values are the last good ones because the store fails, or holds what cannot be read.
    fn staleness(&self) -> Staleness {
        Staleness::default()
    }

    /// The page it adds to the admin server and what that shows, if any: (`/storage/….json`, JSON).
    fn state(&self) -> Option<(String, serde_json::Value)> {
        None
    }
}

/// Why a write was not done. The first three texts are namerd's own (`DtabStore.scala:7-71`).
#[derive(Clone, Debug, thiserror::Error)]
pub enum StorageError {
    /// Create of an existing namespace.
    #[error("The dtab namespace {0} already exists")]
    AlreadyExists(String),
    /// The stored version is another one, the given one if it is known.
    #[error("Could not update dtab: current version does not match provided version")]
    VersionMismatch {
        /// The version that is stored.
        current: Option<Bytes>,
    },
    /// There is no such namespace.
    #[error("The dtab namespace {0} does not exist")]
    DoesNotExist(String),
    /// The store's rules forbid the name.
    #[error("invalid dtab namespace {namespace}: {rule}")]
    InvalidNamespace {
        /// The refused name.
        namespace: String,
        /// The rule it breaks.
        rule: String,
    },
    /// The store denies access.
    #[error("{0}")]
    Forbidden(String),
    /// The dtab is larger than the store takes.
    #[error("{0}")]
    TooLarge(String),
    /// The store did not answer, or not in time; nothing was written, nor will be.
    #[error("{0}")]
    Unavailable(String),
    /// The store did not confirm the write: it may be done, or be done later.
    #[error("{0}")]
    Uncertain(String),
    /// It is not done here, but there.
    #[error("{0}")]
    Elsewhere(String),
}

/// The `kind`-specific part of the `storage:` block.
pub trait StorageConfig: fmt::Debug + Send + Sync {
    /// Builds the storage. It must not wait for its backend: rosterd starts while every backend is down.
    ///
    /// # Errors
    /// One line that names the key and the remedy, for what only shows at start.
    fn build(&self, parts: &StorageParts) -> Result<Arc<dyn Storage>, String>;

    /// What `rosterd check --connect` tries.
    ///
    /// # Errors
    /// As [`StorageConfig::build`].
    fn probes(&self, agents: &Agents) -> Result<Vec<Probe>, String> {
        let _ = agents;
        Ok(Vec::new())
    }
}

/// What a storage is built from besides its own keys.
#[derive(Clone, Debug)]
pub struct StorageParts {
    /// The Consul agents of the process.
    pub agents: Agents,
    /// What is read of a stored dtab.
    pub names: Limits,
}

// === impl VersionedDtab ===

impl VersionedDtab {
    /// A table that was read from, or written to, the store under `version`.
    pub fn new(dtab: Arc<IndexedDtab>, version: Bytes) -> Self {
        Self { dtab, version }
    }

    /// The table.
    pub fn dtab(&self) -> &Dtab {
        self.dtab.dtab()
    }

    /// The table with its index.
    pub fn indexed(&self) -> &IndexedDtab {
        &self.dtab
    }

    /// The storage's own version bytes, opaque; in Base64 they are the `Etag`.
    pub fn version(&self) -> &Bytes {
        &self.version
    }
}

impl PartialEq for VersionedDtab {
    fn eq(&self, other: &Self) -> bool {
        self.version == other.version && (Arc::ptr_eq(&self.dtab, &other.dtab) || self.dtab() == other.dtab())
    }
}
