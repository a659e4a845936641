//! A stand-in for an API server, without sockets: tests of the loop pause the clock.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use http::StatusCode;
use parking_lot::Mutex;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout, timeout_at};

use super::error::{ApiError, Asked};
use super::server::Places;
use super::transport::{Response, Transport};
use super::{ApiServer, ApiServers};

/// Lists and watches what it is given, as a server with a history does.
#[derive(Clone, Debug, Default)]
pub(crate) struct FakeApi {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    version: u64,
    /// By collection and name.
    objects: BTreeMap<(String, String), Value>,
    history: Vec<Change>,
    /// Versions up to here are forgotten.
    compacted: u64,
    /// Raised when all streams are to end: the number, and whether properly.
    epoch: (u64, bool),
    /// Requests whose target has this in it get that, once.
    script: VecDeque<(String, u16, String)>,
    /// Requests whose target has this in it are forbidden, or unknown.
    refused: Vec<(String, u16)>,
    /// Requests whose target has this in it are never answered.
    hung: Vec<String>,
    /// No connection comes to be.
    down: bool,
    /// Streams tell nothing.
    silent: bool,
    log: Vec<(String, Instant)>,
    open: usize,
}

#[derive(Clone, Debug)]
struct Change {
    version: u64,
    collection: String,
    before: Option<Value>,
    after: Option<Value>,
}

/// What a list or watch is about.
#[derive(Clone, Debug, Default)]
struct Query {
    collection: String,
    object: Option<String>,
    name: Option<String>,
    label: Option<(String, String)>,
    limit: Option<usize>,
    next: Option<usize>,
    watch: bool,
    from: Option<u64>,
    seconds: u64,
}

struct Stream {
    api: FakeApi,
    query: Query,
    at: u64,
    epoch: u64,
    until: Instant,
    pending: VecDeque<Bytes>,
    over: bool,
}

// === impl FakeApi ===

impl FakeApi {
    pub(crate) fn server(&self) -> ApiServer {
        self.server_with(1_000)
    }

    pub(crate) fn server_with(&self, streams: usize) -> ApiServer {
        ApiServers::new().with_transport(
            "k8s.test:443".to_owned(),
            Places { streams, lists: 64 },
            Box::new(self.clone()),
        )
    }

    /// An object is like this from now on.
    pub(crate) fn put(&self, collection: &str, name: &str, mut object: Value) {
        let mut state = self.shared.state.lock();
        state.version += 1;
        object["metadata"]["name"] = name.into();
        object["metadata"]["resourceVersion"] = state.version.to_string().into();
        let key = (collection.to_owned(), name.to_owned());
        let before = state.objects.insert(key, object.clone());
        state.note(collection, before, Some(object));
        self.shared.changed.notify_waiters();
    }

    pub(crate) fn delete(&self, collection: &str, name: &str) {
        let mut state = self.shared.state.lock();
        if let Some(before) = state.objects.remove(&(collection.to_owned(), name.to_owned())) {
            state.version += 1;
            state.note(collection, Some(before), None);
            self.shared.changed.notify_waiters();
        }
    }

    /// Nobody can go on from a version of now or before.
    pub(crate) fn compact(&self) {
        let mut state = self.shared.state.lock();
        // As with other writers, there is a version that nothing watched here has.
        state.version += 1;
        state.compacted = state.version;
    }

    /// All streams end: properly, or in the middle of something.
    pub(crate) fn end_streams(&self, properly: bool) {
        let mut state = self.shared.state.lock();
        state.epoch = (state.epoch.0 + 1, properly);
        self.shared.changed.notify_waiters();
    }

    /// The next request with this in its target gets this answer.
    pub(crate) fn script(&self, part: &str, status: u16, body: &str) {
        self.shared.state.lock().script.push_back((part.to_owned(), status, body.to_owned()));
    }

    pub(crate) fn refuse(&self, part: &str, status: u16) {
        self.shared.state.lock().refused.push((part.to_owned(), status));
    }

    pub(crate) fn refuse_nothing(&self) {
        self.shared.state.lock().refused.clear();
    }

    pub(crate) fn hang(&self, part: &str) {
        self.shared.state.lock().hung.push(part.to_owned());
    }

    /// Up or down; streams end when it goes down.
    pub(crate) fn set_down(&self, down: bool) {
        self.shared.state.lock().down = down;
        if down {
            self.end_streams(false);
        }
    }

    pub(crate) fn set_silent(&self, silent: bool) {
        self.shared.state.lock().silent = silent;
        self.shared.changed.notify_waiters();
    }

    /// The requests so far.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.shared.state.lock().log.iter().map(|(target, _)| target.clone()).collect()
    }

    /// How many of them have this in their target.
    pub(crate) fn count(&self, part: &str) -> usize {
        self.asked().iter().filter(|target| target.contains(part)).count()
    }

    /// Streams that are open.
    pub(crate) fn open(&self) -> usize {
        self.shared.state.lock().open
    }

    fn judged(&self, target: &str) -> Option<Result<(u16, String), ()>> {
        let mut state = self.shared.state.lock();
        state.log.push((target.to_owned(), Instant::now()));
        if state.down {
            return Some(Err(()));
        }
        if let Some(at) = state.script.iter().position(|(part, ..)| target.contains(part)) {
            return state.script.remove(at).map(|(_, status, body)| Ok((status, body)));
        }
        let refused = state.refused.iter().find(|(part, _)| target.contains(part));
        refused.map(|(_, status)| Ok((*status, status_body(*status))))
    }

    fn list(&self, query: &Query) -> (u16, String) {
        let state = self.shared.state.lock();
        let of_collection = state
            .objects
            .iter()
            .filter(|((collection, _), _)| *collection == query.collection)
            .map(|(_, object)| object);
        if let Some(name) = &query.object {
            let found = of_collection.into_iter().find(|object| object["metadata"]["name"] == name.as_str());
            return found.map_or_else(|| (404, not_found(name)), |object| (200, object.to_string()));
        }
        let all: Vec<&Value> = of_collection.filter(|object| query.selects(object)).collect();
        let from = query.next.unwrap_or(0);
        let to = query.limit.map_or(all.len(), |limit| (from + limit).min(all.len()));
        let next = if to < all.len() { to.to_string() } else { String::new() };
        let metadata = json!({ "resourceVersion": state.version.to_string(), "continue": next });
        (200, json!({ "kind": "List", "metadata": metadata, "items": &all[from..to] }).to_string())
    }

    fn stream(&self, query: Query) -> BoxStream<'static, Result<Bytes, ApiError>> {
        let mut state = self.shared.state.lock();
        let mut pending = VecDeque::new();
        let mut at = state.version;
        let mut over = false;
        match query.from {
            Some(from) if from < state.compacted => {
                pending.extend(pieces("ERROR", &json!({ "kind": "Status", "code": 410, "reason": "Expired" })));
                over = true;
            }
            Some(from) => at = from,
            None => {
                let objects = state.objects.iter().filter(|((collection, _), _)| *collection == query.collection);
                let selected = objects.map(|(_, object)| object).filter(|object| query.selects(object));
                pending.extend(selected.flat_map(|object| pieces("ADDED", object)));
            }
        }
        let (epoch, until) = (state.epoch.0, Instant::now() + Duration::from_secs(query.seconds));
        state.open += 1;
        drop(state);
        let stream = Stream { api: self.clone(), query, at, epoch, until, pending, over };
        stream::unfold(stream, |mut stream| async move { stream.next().await.map(|piece| (piece, stream)) }).boxed()
    }
}

#[async_trait]
impl Transport for FakeApi {
    async fn get(&self, asked: Asked<'_>, target: &str, patience: Duration) -> Result<Response, ApiError> {
        tokio::task::yield_now().await;
        let (server, path) = (asked.server.to_owned(), asked.resource.path(asked.namespace));
        let answer = match self.judged(target) {
            Some(Err(())) => return Err(ApiError::Unreachable { server, cause: "Connection refused".to_owned() }),
            Some(Ok(answer)) => answer,
            None if self.shared.state.lock().hung.iter().any(|part| target.contains(part)) => {
                let _ = timeout(patience, std::future::pending::<()>()).await;
                return Err(ApiError::Silent { server, path, seconds: patience.as_secs() });
            }
            None => {
                let query = Query::parse(target);
                if query.watch {
                    return Ok(Response { status: StatusCode::OK, after: None, body: self.stream(query) });
                }
                self.list(&query)
            }
        };
        let (status, body) = answer;
        // Words come with a time.
        let after = (status == 429 && !body.is_empty()).then(|| Duration::from_secs(7));
        let body = stream::iter([Ok(Bytes::from(body))]).boxed();
        Ok(Response { status: StatusCode::from_u16(status).expect("a status"), after, body })
    }
}

fn status_body(code: u16) -> String {
    json!({ "kind": "Status", "message": format!("refused with {code}"), "code": code }).to_string()
}

fn not_found(name: &str) -> String {
    json!({ "kind": "Status", "code": 404, "reason": "NotFound", "details": { "name": name } }).to_string()
}

/// An event, cut into pieces.
fn pieces(kind: &str, object: &Value) -> Vec<Bytes> {
    let event = json!({ "type": kind, "object": object }).to_string();
    event.as_bytes().chunks(97).map(Bytes::copy_from_slice).collect()
}

// === impl State ===

impl State {
    fn note(&mut self, collection: &str, before: Option<Value>, after: Option<Value>) {
        let version = self.version;
        self.history.push(Change { version, collection: collection.to_owned(), before, after });
    }
}

// === impl Query ===

impl Query {
    fn parse(target: &str) -> Self {
        let (path, parameters) = target.split_once('?').unwrap_or((target, ""));
        let segments: Vec<&str> = path.split('/').collect();
        // …/namespaces/NAMESPACE/PLURAL[/NAME]
        let namespaces = segments.iter().position(|segment| *segment == "namespaces").expect("a namespace");
        let collection = segments[..namespaces + 3].join("/");
        let object = segments.get(namespaces + 3).map(|name| (*name).to_owned());
        let mut query = Self { collection, object, ..Self::default() };
        for (key, value) in parameters.split('&').filter_map(|pair| pair.split_once('=')) {
            let value = percent_decode_str(value).decode_utf8_lossy().into_owned();
            match key {
                "fieldSelector" => query.name = value.strip_prefix("metadata.name=").map(str::to_owned),
                "labelSelector" => query.label = value.split_once('=').map(|(k, v)| (k.to_owned(), v.to_owned())),
                "limit" => query.limit = value.parse().ok(),
                "continue" => query.next = value.parse().ok(),
                "watch" => query.watch = value == "true",
                "resourceVersion" => query.from = Some(value.parse().expect("a version of this server")),
                "timeoutSeconds" => query.seconds = value.parse().expect("a number"),
                "allowWatchBookmarks" => {}
                _ => panic!("{key} is no parameter of lists and watches"),
            }
        }
        query
    }

    fn selects(&self, object: &Value) -> bool {
        let named = self.name.as_ref().is_none_or(|name| object["metadata"]["name"] == name.as_str());
        named && self.label.as_ref().is_none_or(|(key, value)| object["metadata"]["labels"][key] == value.as_str())
    }
}

// === impl Stream ===

impl Stream {
    async fn next(&mut self) -> Option<Result<Bytes, ApiError>> {
        loop {
            if let Some(piece) = self.pending.pop_front() {
                return Some(Ok(piece));
            }
            if self.over {
                return None;
            }
            let shared = self.api.shared.clone();
            let mut changed = std::pin::pin!(shared.changed.notified());
            changed.as_mut().enable();
            let is_silent = {
                let state = shared.state.lock();
                if state.epoch.0 != self.epoch {
                    self.over = true;
                    let (server, path) = ("k8s.test:443".to_owned(), self.query.collection.clone());
                    let broken = ApiError::Broken { server, path, cause: "reset".to_owned() };
                    return (!state.epoch.1).then_some(Err(broken));
                }
                if !state.silent {
                    for change in state.history.iter().filter(|change| change.version > self.at) {
                        if change.collection == self.query.collection {
                            self.pending.extend(self.query.told(change));
                        }
                    }
                    self.at = state.version;
                }
                state.silent
            };
            if !self.pending.is_empty() {
                continue;
            }
            if is_silent {
                changed.await;
            } else if timeout_at(self.until, changed).await.is_err() {
                self.over = true;
            }
        }
    }
}

impl Query {
    /// A change as those see it who select: what no longer matches is gone.
    fn told(&self, change: &Change) -> Vec<Bytes> {
        let before = change.before.as_ref().filter(|object| self.selects(object));
        let after = change.after.as_ref().filter(|object| self.selects(object));
        match (before, after) {
            (None, None) => Vec::new(),
            (None, Some(object)) => pieces("ADDED", object),
            (Some(_), Some(object)) => pieces("MODIFIED", object),
            (Some(object), None) => {
                let mut gone = object.clone();
                gone["metadata"]["resourceVersion"] = change.version.to_string().into();
                pieces("DELETED", &gone)
            }
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.api.shared.state.lock().open -= 1;
    }
}
