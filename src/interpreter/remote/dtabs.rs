//! The dtabs of a relay: those of the other name server. Lists and writes go to its HTTP controller.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::StatusCode;
use tokio::runtime::Handle;

use super::{FOLLOWED_MAX, Remote};
use crate::client::http::{Controller, Refused, Written};
use crate::client::{Answer, Ask, Feed, Upstream};
use crate::interpreter::Interpreter;
use crate::name::{Dtab, IndexedDtab};
use crate::storage::{Storage, StorageError, VersionedDtab};
use crate::store::{Client, Live, Observer, OverBudget, Policy, Renewal, Staleness, Table, Unanswered, Watch};

/// How long a write may take. Longer than the other server waits for its store.
const WRITE: Duration = Duration::from_secs(35);

/// How long a read may take that follows a write, or comes before somebody edits what he reads.
const READ: Duration = Duration::from_secs(5);

/// The storage of a relay.
pub struct RemoteDtabs {
    remote: Remote,
    kept: Option<Kept>,
}

/// What is followed at the controller.
#[derive(Clone)]
struct Kept {
    controller: Controller,
    dtabs: Table<String, Feed<Option<VersionedDtab>>>,
    lists: Table<(), Feed<BTreeSet<String>>>,
}

/// A handle on a dtab that can be read anew.
struct Renewable {
    feed: Observer<Feed<Option<VersionedDtab>>>,
    controller: Controller,
    ns: String,
}

/// A handle on the list of namespaces that can be read anew.
struct RenewableList {
    feed: Observer<Feed<BTreeSet<String>>>,
    controller: Controller,
}

// === impl RemoteDtabs ===

impl RemoteDtabs {
    /// Dtabs as `controller` keeps them; without one, as `remote` tells them, and nobody writes. Must be called within a
    /// runtime.
    pub fn new(remote: Remote, controller: Option<Controller>) -> Self {
        let kept = controller.map(|controller| {
            let policy = Policy { budget: FOLLOWED_MAX, ..Policy::default() };
            let runtime = Handle::current();
            let (at, on) = (controller.upstream().clone(), runtime.clone());
            let weigh = |ns: &String| 1 + ns.len() / 512;
            let dtabs = Table::weighed("watched namespaces", policy, weigh, move |ns: &String, _| {
                at.follow(&on, Ask::Dtab { ns: ns.as_str().into() }, versioned)
            });
            let at = controller.upstream().clone();
            let lists = Table::new("lists of namespaces", policy, move |(): &(), _| {
                at.follow(&runtime, Ask::Namespaces, namespaces)
            });
            Kept { controller, dtabs, lists }
        });
        Self { remote, kept }
    }

    fn kept(&self) -> Result<&Kept, StorageError> {
        self.kept.as_ref().ok_or_else(|| StorageError::Elsewhere(no_controller(self.remote.upstream())))
    }
}

#[async_trait]
impl Storage for RemoteDtabs {
    fn lists(&self) -> Result<(), StorageError> {
        self.kept().map(drop)
    }

    fn dtab(&self, client: Client, namespace: &str) -> Result<Watch<Option<VersionedDtab>>, OverBudget> {
        let Some(Kept { controller, dtabs, .. }) = &self.kept else { return self.remote.dtab(client, namespace) };
        let ns = namespace.to_owned();
        let feed = dtabs.observe(client, &ns)?;
        Ok(Watch::new(feed.cell().clone(), Arc::new(Renewable { feed, controller: controller.clone(), ns })))
    }

    fn namespaces(&self) -> Watch<BTreeSet<String>> {
        let Kept { controller, lists, .. } = match self.kept() {
            Ok(kept) => kept,
            Err(elsewhere) => return Watch::failed(elsewhere.to_string()),
        };
        match lists.observe(Client::INTERNAL, &()) {
            Ok(feed) => {
                let cell = feed.cell().clone();
                Watch::new(cell, Arc::new(RenewableList { feed, controller: controller.clone() }))
            }
            Err(over) => Watch::failed(over.to_string()),
        }
    }

    async fn create(&self, namespace: &str, dtab: Dtab) -> Result<Bytes, StorageError> {
        let kept = self.kept()?;
        kept.written(namespace, kept.controller.create(namespace, &dtab, WRITE).await).await
    }

    async fn update(&self, namespace: &str, dtab: Dtab, version: &[u8]) -> Result<Bytes, StorageError> {
        let kept = self.kept()?;
        kept.written(namespace, kept.controller.put(namespace, &dtab, Some(version), WRITE).await).await
    }

    async fn put(&self, namespace: &str, dtab: Dtab) -> Result<Bytes, StorageError> {
        let kept = self.kept()?;
        kept.written(namespace, kept.controller.put(namespace, &dtab, None, WRITE).await).await
    }

    async fn delete(&self, namespace: &str, version: Option<&[u8]>) -> Result<(), StorageError> {
        let kept = self.kept()?;
        if version.is_some() {
            // The controller does not look at versions here, and to look first would not be the same.
            let text = "a relay cannot delete a namespace on condition of its version";
            return Err(StorageError::Elsewhere(text.to_owned()));
        }
        kept.written(namespace, kept.controller.delete(namespace, WRITE).await).await.map(drop)
    }

    async fn answered(&self) {}

    fn staleness(&self) -> Staleness {
        self.kept.as_ref().map(|kept| kept.controller.upstream().staleness()).unwrap_or_default()
    }

    fn state(&self) -> Option<(String, serde_json::Value)> {
        let page = self.kept.as_ref()?.controller.upstream().page();
        Some(("/storage/relay.json".to_owned(), page))
    }
}

impl fmt::Debug for RemoteDtabs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteDtabs").field("remote", &self.remote).finish_non_exhaustive()
    }
}

// === impl Kept ===

impl Kept {
    /// A write is visible here before it is acknowledged: the version that is stored then.
    async fn written(&self, ns: &str, written: Result<Written, Refused>) -> Result<Bytes, StorageError> {
        written.map_err(|refused| storage_error(ns, refused))?;
        let stored = self.controller.get(ns, READ).await.ok();
        if let Some(stored) = &stored
            && let Some(feed) = self.dtabs.get(&ns.to_owned())
            && let Err(failure) = feed.offer(Answer::Dtab(stored.clone()))
        {
            tracing::debug!(%failure, "a dtab that was written cannot be shown yet");
        }
        if let Some(feed) = self.lists.get(&())
            && let Ok(names) = self.controller.list(READ).await
            && let Err(failure) = feed.offer(Answer::Namespaces(names))
        {
            tracing::debug!(%failure, "the list of namespaces cannot be shown yet");
        }
        Ok(stored.flatten().map(|(_, version)| version).unwrap_or_default())
    }
}

fn storage_error(ns: &str, refused: Refused) -> StorageError {
    let (status, text, version) = match refused {
        Refused::Status { status, text, version } => (status, text, version),
        Refused::Unreached(failure) => return StorageError::Unavailable(failure.to_string()),
        Refused::Uncertain(failure) => return StorageError::Uncertain(failure.to_string()),
    };
    match status {
        StatusCode::CONFLICT => StorageError::AlreadyExists(ns.to_owned()),
        StatusCode::NOT_FOUND => StorageError::DoesNotExist(ns.to_owned()),
        StatusCode::PRECONDITION_FAILED => StorageError::VersionMismatch { current: version },
        StatusCode::FORBIDDEN => StorageError::Forbidden(text),
        StatusCode::PAYLOAD_TOO_LARGE => StorageError::TooLarge(text),
        StatusCode::BAD_REQUEST => StorageError::InvalidNamespace { namespace: ns.to_owned(), rule: text },
        StatusCode::NOT_IMPLEMENTED => StorageError::Elsewhere(text),
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => StorageError::Unavailable(text),
        status => StorageError::Uncertain(format!("HTTP status {status}: {text}")),
    }
}

// === impl Live ===

impl Live for Renewable {
    fn renew(&self, limit: Duration) -> Option<Renewal<'_>> {
        Some(Box::pin(async move {
            let stored = self.controller.get(&self.ns, limit.min(READ)).await;
            let stored = stored.map_err(|refused| unanswered(refused, limit.min(READ)))?;
            self.feed.offer(Answer::Dtab(stored)).map_err(|failure| Unanswered::Failed(failure.text))
        }))
    }
}

impl Live for RenewableList {
    fn renew(&self, limit: Duration) -> Option<Renewal<'_>> {
        Some(Box::pin(async move {
            let names = self.controller.list(limit.min(READ)).await;
            let names = names.map_err(|refused| unanswered(refused, limit.min(READ)))?;
            self.feed.offer(Answer::Namespaces(names)).map_err(|failure| Unanswered::Failed(failure.text))
        }))
    }
}

fn unanswered(refused: Refused, waited: Duration) -> Unanswered {
    match refused {
        Refused::Unreached(failure) => Unanswered::TimedOut { waited, reason: Some(failure.text) },
        Refused::Status { .. } | Refused::Uncertain(_) => Unanswered::Failed(refused.to_string().into()),
    }
}

pub(super) fn no_controller(upstream: &Upstream) -> String {
    let name = upstream.name();
    format!(
        "this is a relay of {name}: ask that name server, or give the URL of its HTTP controller as \
         `interpreter.controller`"
    )
}

/// A dtab as storages give it.
pub(super) fn versioned(answer: Answer) -> Result<Option<VersionedDtab>, String> {
    match answer {
        Answer::Dtab(dtab) => {
            Ok(dtab.map(|(dtab, version)| VersionedDtab::new(Arc::new(IndexedDtab::new(dtab)), version)))
        }
        other => Err(format!("no dtab: {other:?}")),
    }
}

fn namespaces(answer: Answer) -> Result<BTreeSet<String>, String> {
    match answer {
        Answer::Namespaces(names) => Ok(names),
        other => Err(format!("no namespaces: {other:?}")),
    }
}
