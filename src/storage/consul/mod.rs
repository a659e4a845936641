//! io.l5d.consul: dtabs in Consul's key-value store, where namerd has them.
//!
//! Each namespace that is asked for has one blocking query, and so has the list of all. Who reads once asks the store
//! itself ([`watched`]); who writes reads first, and replaces what he read ([`write`]).

mod config;
mod layout;
mod page;
mod probe;
mod value;
mod watched;
mod write;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use super::{Storage, StorageError, VersionedDtab};
use crate::consul::{Agent, Consistency, Query, Rank, Rhythm, WAIT};
use crate::name::{Dtab, Limits};
use crate::runtime::heavy;
use crate::store::{Cell, Client, Key, Live, Mailbox, OverBudget, Policy, Staleness, Table, Watch};

pub use config::ConsulConfig;
use layout::{Layout, check};
use watched::Watched;
use write::{Stored, Turns, Wants};

/// How many namespaces may be watched at once, missing ones included. Each takes a place for a poll, so those that
/// nobody watches any more do not stay for long.
const WATCHED: Policy =
    Policy { idle: Duration::from_secs(60), protect: Duration::from_secs(10), budget: 10_000, in_use: usize::MAX };

/// How long the poll of the list waits. A key list is not woken when a folder above it is deleted, so it is asked for
/// more often.
const LIST_WAIT: Duration = Duration::from_secs(60);

/// A dtab with more nodes is not written out on the runtime's own threads.
const LARGE: usize = 4_096;

type DtabWatch = Watched<Option<VersionedDtab>>;

/// Dtabs in Consul. The version of one is the index of its key's last change, as decimal digits.
pub struct ConsulStorage {
    agent: Agent,
    layout: Layout,
    write: Consistency,
    turns: Turns,
    watched: Table<String, DtabWatch>,
    names: Arc<Watched<BTreeSet<String>>>,
    page: String,
}

// === impl ConsulStorage ===

impl ConsulStorage {
    /// A storage in the folder of `layout`. Nothing is waited for. Must be called within a runtime.
    fn new(agent: Agent, layout: Layout, config: &ConsulConfig, limits: Limits) -> Self {
        let ConsulConfig { read, write, delays, path_prefix, .. } = config;
        let (read, delays) = (*read, *delays);
        let of_list = layout.clone();
        let decode = move |answer: &_, body: &_| value::namespaces(answer, body, &of_list);
        let list = Query {
            delays,
            rank: Rank::Dtab,
            probe: layout.probe(read),
            ..Query::new(layout.list(read), Rhythm::Blocking(LIST_WAIT), decode)
        };
        let names = Arc::new(Watched::start("", &agent, read, list, BTreeSet::is_empty));
        let (asked, place) = (agent.clone(), layout.clone());
        let weigh = |namespace: &String| 1 + namespace.len() / 512;
        let watched = Table::weighed("watched namespaces", WATCHED, weigh, move |namespace: &String, _| {
            let key = place.key(namespace);
            let decode = move |answer: &_, body: &_| value::dtab(answer, body, &limits, &key);
            let query = Query::new(place.read(namespace, read), Rhythm::Blocking(WAIT), decode);
            let query = Query { delays, rank: Rank::Dtab, ..query };
            Watched::start(namespace, &asked, read, query, Option::is_none)
        });
        let page = format!("/storage{path_prefix}.json");
        Self { agent, layout, write: *write, turns: Turns::default(), watched, names, page }
    }
}

#[async_trait]
impl Storage for ConsulStorage {
    fn accepts(&self, namespace: &str) -> Result<(), StorageError> {
        check(namespace)
    }

    fn dtab(&self, client: Client, namespace: &str) -> Result<Watch<Option<VersionedDtab>>, OverBudget> {
        if let Err(refused) = check(namespace) {
            let cell = Cell::new();
            cell.fail(refused.to_string());
            return Ok(Watch::new(cell, Arc::new(Never)));
        }
        let watched = self.watched.observe(client, &namespace.to_owned())?;
        Ok(Watch::new(watched.cell.clone(), Arc::new(watched)))
    }

    fn namespaces(&self) -> Watch<BTreeSet<String>> {
        Watch::new(self.names.cell.clone(), self.names.clone())
    }

    async fn create(&self, namespace: &str, dtab: Dtab) -> Result<Bytes, StorageError> {
        check(namespace)?;
        let absent = |stored: &Stored| match stored.text {
            None => Ok(()),
            Some(_) => Err(StorageError::AlreadyExists(namespace.to_owned())),
        };
        self.write(namespace, Some(text(dtab).await), Wants::Change, absent).await
    }

    async fn update(&self, namespace: &str, dtab: Dtab, version: &[u8]) -> Result<Bytes, StorageError> {
        check(namespace)?;
        // That there is no such namespace is a mismatch too: namerd cannot tell (`ConsulDtabStore.scala:104-122`).
        self.write(namespace, Some(text(dtab).await), Wants::Change, |stored| expect(version, stored)).await
    }

    async fn put(&self, namespace: &str, dtab: Dtab) -> Result<Bytes, StorageError> {
        check(namespace)?;
        self.write(namespace, Some(text(dtab).await), Wants::State, |_| Ok(())).await
    }

    async fn delete(&self, namespace: &str, version: Option<&[u8]>) -> Result<(), StorageError> {
        check(namespace)?;
        let right = |stored: &Stored| match (&stored.text, version) {
            (None, _) => Err(StorageError::DoesNotExist(namespace.to_owned())),
            (Some(_), Some(version)) => expect(version, stored),
            (Some(_), None) => Ok(()),
        };
        let wants = if version.is_some() { Wants::Change } else { Wants::State };
        self.write(namespace, None, wants, right).await.map(|_| ())
    }

    async fn answered(&self) {
        let (mailbox, mut marked) = (Mailbox::new(), Vec::new());
        let (_, _subscription) = self.names.cell.subscribe(&mailbox, Key(0));
        while self.names.cell.snapshot().value().is_none() {
            mailbox.marked().await;
            mailbox.take_marked(&mut marked);
        }
    }

    fn staleness(&self) -> Staleness {
        let mut staleness = Staleness::default();
        staleness.add(&self.names.cell.snapshot());
        self.watched.visit(|namespace| staleness.add(&namespace.cell.snapshot()));
        staleness
    }

    fn state(&self) -> Option<(String, serde_json::Value)> {
        Some((self.page.clone(), page::page(&self.watched)))
    }
}

impl fmt::Debug for ConsulStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConsulStorage")
            .field("agent", &self.agent)
            .field("layout", &self.layout)
            .finish_non_exhaustive()
    }
}

/// The handle on a namespace that cannot be.
struct Never;

impl Live for Never {}

/// A version that is not what is stored is refused, with that. No key has the version 0, which to Consul means that
/// there is none.
fn expect(version: &[u8], stored: &Stored) -> Result<(), StorageError> {
    let current = stored.text.as_ref().map(|_| value::version(stored.index));
    match current {
        Some(current) if current == version => Ok(()),
        current => Err(StorageError::VersionMismatch { current }),
    }
}

/// What is stored of a dtab: the shown form, as namerd stores it.
async fn text(dtab: Dtab) -> Bytes {
    if dtab.nodes(LARGE) <= LARGE {
        return dtab.to_string().into();
    }
    let again = dtab.clone();
    heavy(move || dtab.to_string()).await.unwrap_or_else(|| again.to_string()).into()
}

#[cfg(test)]
mod tests;
