//! The loop behind everything that is watched in Kubernetes.
//!
//! It lists, which replaces what is known, and then watches from the version of the list. It ends when its guard is
//! dropped and for no other reason: whatever else happens leads back into it. A stream that ends is resumed from the last
//! version that it told; where that is too old, or cannot be told from one that the server does not like, there is a new
//! list. What goes wrong never takes anything away from readers. Versions are the server's own: they are given back as
//! they came and never compared.

mod aftermath;
mod follow;

use std::collections::HashSet;
use std::convert::Infallible;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use rand::RngExt;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::error::ApiError;
use super::event::{Head, Page};
use super::resource::Ask;
use super::server::Counted;
use super::{ApiServer, Journal, Kind, Object, Resource, Select};
use crate::runtime::{Backoff, Pace, heavy};

/// Attempts of one watch may follow each other in so many at once, and then in this time.
const BURST: u32 = 3;
const SPACING: Duration = Duration::from_secs(1);

/// Delays after failures are drawn between these.
const FLOOR: Duration = Duration::from_millis(100);
const CAP: Duration = Duration::from_secs(5);

/// Everything is listed anew after about this time, whatever streams say.
const RELIST: Duration = Duration::from_secs(600);

/// Where that list fails, what is watched goes on, and the next one is tried after about this time.
const RELIST_AGAIN: Duration = Duration::from_secs(60);

/// How long a page of a list may take, head and body each.
const PATIENCE: Duration = Duration::from_secs(30);

/// How many objects a page has.
const PAGE: u32 = 500;

/// A larger page is not read on the runtime's own threads.
const HEAVY_FROM: usize = 128 << 10;

/// Where a reflector puts what it learns; nobody else may write there.
pub(super) trait Sink<T>: Send + Sync + 'static {
    /// The whole state; of the objects in `unread` what is known stays. Says whether readers see something new.
    fn replace(&self, objects: Vec<Object<T>>, unread: &HashSet<Box<str>>) -> bool;

    /// One object is like this now.
    fn apply(&self, object: Object<T>) -> bool;

    /// One object is gone.
    fn remove(&self, name: &str) -> bool;

    /// What is known is current (again).
    fn confirm(&self);

    /// What is known cannot be kept current.
    fn fail(&self, error: &ApiError);
}

/// A watch; it ends when this is dropped.
pub(super) struct Reflector {
    journal: Arc<Journal>,
    _counted: Counted,
    _task: AbortOnDropHandle<Infallible>,
}

/// What is watched, and where it goes.
pub(super) struct Task<K: Kind> {
    pub(super) server: ApiServer,
    pub(super) kind: Arc<K>,
    pub(super) namespace: Box<str>,
    /// The ways to know it, the preferred one first.
    pub(super) ways: Vec<Way>,
    pub(super) sink: Arc<dyn Sink<K::Value>>,
}

/// One way to know what is asked for.
#[derive(Clone, Debug)]
pub(super) struct Way {
    pub(super) resource: Resource,
    pub(super) select: Select,
    /// May not list: the object of this name is read, and watched from now on. Needs the rights `get` and `watch` only,
    /// which is what rules made for namerd grant.
    pub(super) reads: Option<Box<str>>,
}

/// What the loop itself owns.
struct Worker<K: Kind> {
    task: Task<K>,
    journal: Arc<Journal>,
    /// Which way is gone.
    way: usize,
    /// From where the next stream goes on; none: the next attempt begins with the state.
    version: Option<Box<str>>,
    /// When everything is to be listed anew.
    due: Instant,
    /// Does the server send bookmarks? Then it is never silent for long.
    bookmarks: bool,
    /// Is the next list to be one without pages? The rest of the last one was no longer to be had.
    in_one: bool,
    /// Failures in a row.
    failures: u32,
    /// Streams in a row that were of no use: each ended as soon as it began, or could not begin.
    fruitless: u32,
    /// Has anything been told since the last list?
    told: bool,
    pace: Pace,
    backoff: Backoff,
    failing: bool,
}

/// How an attempt ended.
#[derive(Debug)]
enum End {
    /// The state is known.
    Listed,
    /// The stream is over, and had been of use or long.
    Over,
    /// The stream ended as soon as it began.
    Fruitless,
    /// It is time for a new list.
    Due,
    /// The list that was due failed: what was watched before goes on.
    NotListed(ApiError),
    /// There is no room for a stream: the next list is to come in a while.
    Crowded,
    /// The version is too old.
    TooOld,
    /// It failed.
    Failed(ApiError),
}

// === impl Reflector ===

impl Reflector {
    /// Begins to watch.
    pub(super) fn start<K: Kind>(task: Task<K>) -> Self {
        let journal = Arc::new(Journal::default());
        let counted = task.server.watched(&journal);
        let runtime = task.server.runtime().clone();
        let worker = Worker {
            task,
            journal: journal.clone(),
            way: 0,
            version: None,
            due: Instant::now(),
            bookmarks: false,
            in_one: false,
            failures: 0,
            fruitless: 0,
            told: false,
            pace: Pace::new(SPACING, BURST),
            backoff: Backoff::new(FLOOR, CAP),
            failing: false,
        };
        Self { journal, _counted: counted, _task: AbortOnDropHandle::new(runtime.spawn(worker.run())) }
    }

    /// What pages and metrics show of it.
    pub(super) fn journal(&self) -> &Arc<Journal> {
        &self.journal
    }
}

impl fmt::Debug for Reflector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reflector").finish_non_exhaustive()
    }
}

// === impl Worker ===

impl<K: Kind> Worker<K> {
    async fn run(mut self) -> Infallible {
        let mut panicked = false;
        loop {
            let turn = AssertUnwindSafe(self.turn(panicked)).catch_unwind().await;
            // That is a defect, and one more failure: a watch that ended here would be stale in silence.
            panicked = turn.is_err();
        }
    }

    /// One attempt, unless the turn before `panicked`, and what follows from it.
    async fn turn(&mut self, panicked: bool) {
        self.pace.next().await;
        let end = match panicked {
            true => End::Failed(ApiError::Panicked { path: self.path() }),
            false => self.attempt().await,
        };
        self.journal.closed();
        self.note(&end);
        self.rest(end).await;
    }

    async fn attempt(&mut self) -> End {
        match self.version.clone() {
            Some(version) if Instant::now() < self.due => self.watch(&version).await,
            Some(_) => self.begin_anew().await,
            None => self.begin(self.task.ways.len()).await,
        }
    }

    /// Learns the state once more while there is a version from which a stream would go on. A server that has too much to
    /// do refuses lists first: then what is watched is not given up for one.
    async fn begin_anew(&mut self) -> End {
        let (way, due) = (self.way, self.due);
        // No further than to the way that is gone: another may know less.
        let mut end = self.begin(way + 1).await;
        if matches!(end, End::TooOld) && self.in_one {
            end = self.begin(way + 1).await;
        }
        match end {
            End::Failed(error) if self.due == due => {
                self.way = way;
                self.due = Instant::now() + drawn_about(RELIST_AGAIN);
                End::NotListed(error)
            }
            end => end,
        }
    }

    /// Learns the state, by the first of so many ways that is not refused.
    async fn begin(&mut self, ways: usize) -> End {
        // Rights may have been given since, and APIs installed.
        self.way = 0;
        let mut refused = None;
        loop {
            let end = match &self.way().reads {
                None => self.list().await.map_or_else(|end| end, |()| End::Listed),
                Some(name) => {
                    let name = name.clone();
                    self.read_and_watch(&name).await
                }
            };
            match end {
                End::Failed(error) if error.is_refusal() => {
                    let more = self.way + 1 < ways;
                    tracing::debug!("{error}");
                    let first = refused.get_or_insert(error);
                    if !more {
                        self.way = 0;
                        return End::Failed(first.clone());
                    }
                    self.way += 1;
                }
                end => return end,
            }
        }
    }

    /// Lists everything, page by page, and replaces what is known by it.
    async fn list(&mut self) -> Result<(), End> {
        let failed = End::Failed;
        let way = self.way().clone();
        let server = self.task.server.clone();
        let namespace = self.task.namespace.clone();
        let asked = server.asked(way.resource, &namespace, "list");
        let limit = (!std::mem::take(&mut self.in_one)).then_some(PAGE);
        let (mut objects, mut unread) = (Vec::new(), HashSet::new());
        let mut next: Option<String> = None;
        let version = loop {
            let ask = Ask::Page { limit, next: next.as_deref() };
            let target = way.resource.target(&namespace, &way.select, ask);
            let _place = server.list_place().await;
            self.journal.asked(&target);
            let body = match server.get(asked, &target, PATIENCE).await {
                Ok(response) => server.body(asked, response, PATIENCE).await.map_err(failed)?,
                Err(ApiError::Gone { .. }) if next.is_some() => {
                    // It took too long to get here; without pages it is one answer.
                    self.in_one = true;
                    return Err(End::TooOld);
                }
                Err(error) => return Err(failed(error)),
            };
            let read = self.read_page(way.resource, body).await.map_err(failed)?;
            objects.extend(read.objects);
            unread.extend(read.unread);
            match read.next.filter(|next| !next.is_empty()) {
                Some(more) => next = Some(more),
                None => break read.version,
            }
        };
        let count = objects.len();
        let changed = self.task.sink.replace(objects, &unread);
        self.journal.listed(count, changed);
        // A list without a version cannot be followed: the next attempt lists again.
        self.is_begun(version);
        Ok(())
    }

    /// The state is known, and followed from here.
    fn is_begun(&mut self, version: Option<Box<str>>) {
        self.version = version;
        self.told = false;
        self.due = Instant::now() + drawn_about(RELIST);
    }

    async fn read_page(&self, resource: Resource, body: Vec<u8>) -> Result<ReadPage<K::Value>, ApiError> {
        let kind = self.task.kind.clone();
        let read = if body.len() < HEAVY_FROM {
            read_page(&*kind, resource, &body)
        } else {
            let reading = heavy(move || read_page(&*kind, resource, &body)).await;
            reading.ok_or_else(|| ApiError::Panicked { path: self.path() })?
        };
        read.map_err(|reason| self.unreadable(reason))
    }

    fn unreadable(&self, reason: String) -> ApiError {
        ApiError::Unreadable { server: self.task.server.name().to_owned(), path: self.path(), reason }
    }

    fn way(&self) -> &Way {
        &self.task.ways[self.way]
    }

    fn path(&self) -> String {
        self.way().resource.path(&self.task.namespace)
    }
}

fn drawn_about(time: Duration) -> Duration {
    rand::rng().random_range(time.mul_f64(0.9)..=time.mul_f64(1.1))
}

/// A page of a list, read.
struct ReadPage<T> {
    objects: Vec<Object<T>>,
    /// The names of those that gave no value.
    unread: Vec<Box<str>>,
    version: Option<Box<str>>,
    next: Option<String>,
}

fn read_page<K: Kind>(kind: &K, resource: Resource, body: &[u8]) -> Result<ReadPage<K::Value>, String> {
    let page: Page<'_> = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let items = page.items.unwrap_or_default();
    let metadata = page.metadata.ok_or("it has no metadata, so it is no list")?;
    let (mut objects, mut unread) = (Vec::with_capacity(items.len()), Vec::new());
    for item in items {
        let item = item.get().as_bytes();
        match kind.read(resource, item) {
            Ok(object) => objects.push(object),
            Err(reason) => unread.extend(passed_over(resource, item, &reason.to_string())),
        }
    }
    Ok(ReadPage { objects, unread, version: metadata.resource_version, next: metadata.next })
}

/// Logs that an object cannot be read. Returns its name.
fn passed_over(resource: Resource, object: &[u8], reason: &str) -> Option<Box<str>> {
    let name = Head::of(object).name;
    let shown = name.as_deref().unwrap_or("without a name");
    tracing::warn!(resource = resource.plural, name = shown, "an object cannot be read: {reason}; what is known stays");
    name
}
