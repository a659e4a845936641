//! The dtabs of a relay: those of the other name server. Lists and writes go to its HTTP controller.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::StatusCode;
use tokio::runtime::Handle;

use super::source::Source;
use super::{FOLLOWED_MAX, Remote};
use crate::client::http::{Controller, Refused, Written};
use crate::client::{Answer, Ask, Upstream};
use crate::interpreter::Interpreter;
use crate::name::{Dtab, IndexedDtab};
use crate::storage::{Storage, StorageError, VersionedDtab};
use crate::store::{Client, OverBudget, Policy, Staleness, Table, Unanswered, Watch};

/// How long a write may take. Longer than the other server waits for its store.
const WRITE: Duration = Duration::from_secs(35);

/// How long what nobody watches or reads is kept. Whoever reads many once leaves nothing behind for long.
const IDLE: Duration = Duration::from_secs(60);

/// The storage of a relay.
pub struct RemoteDtabs {
    remote: Remote,
    kept: Option<Kept>,
}

/// What the controller keeps.
#[derive(Clone)]
struct Kept {
    controller: Controller,
    dtabs: Table<String, Source<Option<VersionedDtab>>>,
    lists: Table<(), Source<BTreeSet<String>>>,
}

/// What a write does to the list of namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Listing {
    Stays,
    MayGrow,
    Changes,
}

// === impl RemoteDtabs ===

impl RemoteDtabs {
    /// Dtabs as `controller` keeps them; without one, as `remote` tells them, and nobody writes. Must be called within a
    /// runtime.
    pub fn new(remote: Remote, controller: Option<Controller>) -> Self {
        let kept = controller.map(|controller| {
            let policy = Policy { budget: FOLLOWED_MAX, idle: IDLE, ..Policy::default() };
            let (at, on) = (controller.clone(), Handle::current());
            let weigh = |ns: &String| 1 + ns.len() / 512;
            let dtabs = Table::weighed("watched namespaces", policy, weigh, move |ns: &String, _| {
                Source::new(&on, &at, Ask::Dtab { ns: ns.as_str().into() }, versioned)
            });
            let (at, on) = (controller.clone(), Handle::current());
            let lists = Table::new("lists of namespaces", policy, move |(): &(), _| {
                Source::new(&on, &at, Ask::Namespaces, namespaces)
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
        match &self.kept {
            Some(kept) => Ok(kept.dtabs.observe(client, &namespace.to_owned())?.into()),
            None => self.remote.dtab(client, namespace),
        }
    }

    fn namespaces(&self) -> Watch<BTreeSet<String>> {
        match self.kept().map(|kept| kept.lists.observe(Client::INTERNAL, &())) {
            Ok(Ok(source)) => source.into(),
            Ok(Err(over)) => Watch::failed(over.to_string()),
            Err(elsewhere) => Watch::failed(elsewhere.to_string()),
        }
    }

    async fn create(&self, namespace: &str, dtab: Dtab) -> Result<Bytes, StorageError> {
        let kept = self.kept()?;
        let created = kept.controller.create(namespace, &dtab, WRITE).await;
        kept.written(namespace, created, Listing::Changes).await
    }

    async fn update(&self, namespace: &str, dtab: Dtab, version: &[u8]) -> Result<Bytes, StorageError> {
        let kept = self.kept()?;
        let updated = kept.controller.put(namespace, &dtab, Some(version), WRITE).await;
        kept.written(namespace, updated, Listing::Stays).await
    }

    async fn put(&self, namespace: &str, dtab: Dtab) -> Result<Bytes, StorageError> {
        let kept = self.kept()?;
        let put = kept.controller.put(namespace, &dtab, None, WRITE).await;
        kept.written(namespace, put, Listing::MayGrow).await
    }

    async fn delete(&self, namespace: &str, version: Option<&[u8]>) -> Result<(), StorageError> {
        let kept = self.kept()?;
        if version.is_some() {
            // The controller does not look at versions here, and to look first would not be the same.
            let text = "a relay cannot delete a namespace on condition of its version";
            return Err(StorageError::Elsewhere(text.to_owned()));
        }
        let deleted = kept.controller.delete(namespace, WRITE).await;
        kept.written(namespace, deleted, Listing::Changes).await.map(drop)
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
    /// A write is visible here before it is acknowledged: the version that is stored then. It is done, whether it can be
    /// read back or not; readers read anew in any case, and watchers are told a little later.
    async fn written(
        &self,
        ns: &str,
        written: Result<Written, Refused>,
        listing: Listing,
    ) -> Result<Bytes, StorageError> {
        let written = written.map_err(|refused| storage_error(ns, refused))?;
        let dtab = self.dtabs.get(&ns.to_owned());
        if let Some(dtab) = &dtab {
            shown(dtab.read_back(&written).await, "a dtab");
        }
        if let Some(list) = self.lists.get(&()) {
            let listed = || list.value().is_some_and(|names| names.contains(ns));
            if listing == Listing::Changes || (listing == Listing::MayGrow && !listed()) {
                shown(list.read_back(&written).await, "the list of namespaces");
            }
        }
        let stored = dtab.and_then(|dtab| dtab.value());
        Ok(stored
            .and_then(|stored| stored.as_ref().as_ref().map(|stored| stored.version().clone()))
            .unwrap_or_default())
    }
}

fn shown(outcome: Result<(), Unanswered>, what: &str) {
    if let Err(failure) = outcome {
        tracing::warn!(%failure, "{what} was written, and cannot be read back yet");
    }
}

fn storage_error(ns: &str, refused: Refused) -> StorageError {
    let (status, text, version, later) = match refused {
        Refused::Status { status, text, version, later } => (status, text, version, later),
        Refused::Unreached(failure) => return StorageError::Unavailable(failure.to_string()),
        Refused::Uncertain(failure) => return StorageError::Uncertain(failure.to_string()),
    };
    let told = || format!("HTTP status {status}: {text}");
    match status {
        StatusCode::CONFLICT => StorageError::AlreadyExists(ns.to_owned()),
        StatusCode::NOT_FOUND => StorageError::DoesNotExist(ns.to_owned()),
        StatusCode::PRECONDITION_FAILED => StorageError::VersionMismatch { current: version },
        StatusCode::FORBIDDEN => StorageError::Forbidden(text),
        StatusCode::UNAUTHORIZED | StatusCode::PROXY_AUTHENTICATION_REQUIRED => StorageError::Forbidden(told()),
        StatusCode::PAYLOAD_TOO_LARGE => StorageError::TooLarge(text),
        StatusCode::BAD_REQUEST => StorageError::InvalidNamespace { namespace: ns.to_owned(), rule: text },
        StatusCode::NOT_IMPLEMENTED => StorageError::Elsewhere(text),
        StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT => StorageError::Unavailable(told()),
        // Whoever says when to come back has done nothing; who does not may have.
        StatusCode::SERVICE_UNAVAILABLE if later => StorageError::Unavailable(text),
        StatusCode::SERVICE_UNAVAILABLE => StorageError::Uncertain(text),
        status if status.is_server_error() => StorageError::Uncertain(told()),
        _ => StorageError::Elsewhere(told()),
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
