//! API servers: where requests go, and what all who ask one server share.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::StreamExt;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use super::access::Endpoint;
use super::error::{ApiError, Asked};
use super::http::Http;
use super::metrics::ApiMetrics;
use super::transport::{Response, Transport};
use super::{ApiConfig, Journal, Resource};
use crate::runtime::{Seldom, tls};

/// How much may be under way at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    pub(super) streams: usize,
    pub(super) lists: usize,
}

/// At the server itself.
const DIRECT: Places = Places { streams: 10_000, lists: 64 };

/// At a proxy: a kubectl proxy carries 250 requests over its one connection, and hangs beyond. Others may use it, too.
const OF_PROXY: Places = Places { streams: 168, lists: 32 };
const _: () = assert!(OF_PROXY.streams + OF_PROXY.lists <= 200);

/// How much is read of one answer that is no stream.
pub(super) const LARGEST: usize = 256 << 20;

/// How many errors are remembered as logged, and for how long after they were met last.
const MOST_TOLD: usize = 10_000;
const TELL_AGAIN: Duration = Duration::from_secs(600);

/// How long a short answer may take in all.
const PATIENCE: Duration = Duration::from_secs(10);

/// One API server as one part of the program asks it. Cloning shares it.
#[derive(Clone)]
pub struct ApiServer {
    shared: Arc<Shared>,
}

struct Shared {
    name: String,
    transport: Box<dyn Transport>,
    streams: Arc<Semaphore>,
    limit: usize,
    lists: Semaphore,
    /// Those that are watched, and some that were.
    watches: Mutex<Vec<Weak<Journal>>>,
    /// How many are.
    alive: AtomicUsize,
    is_lost: AtomicBool,
    crowded: Seldom,
    /// What was logged lately, by what it was and what it was about.
    told: Mutex<HashMap<(&'static str, String), Instant>>,
    metrics: ApiMetrics,
    runtime: Handle,
}

/// Those there are, for as long as somebody uses them.
type Known = Arc<Mutex<Vec<(ApiConfig, Weak<Shared>)>>>;

/// The API servers of the process. Who asks for the same one gets the same, with one pool of connections. Cloning shares
/// them.
#[derive(Clone)]
pub struct ApiServers {
    known: Known,
    metrics: ApiMetrics,
    runtime: Handle,
}

/// One watch, among those that wait for each other.
pub(super) struct Counted(ApiServer);

/// What metrics show of a server.
#[derive(Clone, Debug)]
pub struct ServerFigures {
    /// `host:port`
    pub server: String,
    /// Objects, services and namespaces that are watched there.
    pub watches: usize,
    /// Streams that are open now.
    pub open: usize,
    /// Streams that may be.
    pub limit: usize,
    /// Time since the last sign of the watch that has gone without for longest.
    pub oldest: Duration,
}

// === impl ApiServers ===

impl ApiServers {
    /// No servers yet. Must be called within a runtime, on which all watches will run.
    #[expect(clippy::new_without_default, reason = "a default that must be called within a runtime would surprise")]
    pub fn new() -> Self {
        Self { known: Arc::default(), metrics: ApiMetrics::default(), runtime: Handle::current() }
    }

    /// A server. Nothing is contacted.
    ///
    /// # Errors
    /// One line that names the key, for what only shows now.
    pub fn server(&self, config: &ApiConfig) -> Result<ApiServer, String> {
        let mut known = self.known.lock();
        known.retain(|(_, server)| server.strong_count() > 0);
        let same = known.iter().find(|(other, _)| other == config);
        if let Some(shared) = same.and_then(|(_, server)| server.upgrade()) {
            return Ok(ApiServer { shared });
        }
        let Endpoint { address, tls, token } = config.endpoint()?;
        let transport = Http::new(&address, tls.map(tls::Client::new), token)?;
        let places = if config.is_direct() { DIRECT } else { OF_PROXY };
        let server = self.with_transport(address.to_string(), places, Box::new(transport));
        known.push((config.clone(), Arc::downgrade(&server.shared)));
        Ok(server)
    }

    pub(super) fn with_transport(&self, name: String, places: Places, transport: Box<dyn Transport>) -> ApiServer {
        ApiServer {
            shared: Arc::new(Shared {
                name,
                transport,
                streams: Arc::new(Semaphore::new(places.streams)),
                limit: places.streams,
                lists: Semaphore::new(places.lists),
                watches: Mutex::default(),
                alive: AtomicUsize::new(0),
                is_lost: AtomicBool::new(false),
                crowded: Seldom::new(Duration::from_secs(600)),
                told: Mutex::default(),
                metrics: self.metrics.clone(),
                runtime: self.runtime.clone(),
            }),
        }
    }

    pub(super) fn metrics(&self) -> &ApiMetrics {
        &self.metrics
    }

    /// What metrics show.
    pub fn figures(&self) -> Vec<ServerFigures> {
        let all: Vec<Arc<Shared>> = self.known.lock().iter().filter_map(|(_, server)| server.upgrade()).collect();
        all.iter().map(|server| server.figures()).collect()
    }
}

impl fmt::Debug for ApiServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ApiServers").field(&self.figures()).finish()
    }
}

// === impl Shared ===

impl Shared {
    fn figures(&self) -> ServerFigures {
        let journals: Vec<Arc<Journal>> = self.watches.lock().iter().filter_map(Weak::upgrade).collect();
        ServerFigures {
            server: self.name.clone(),
            watches: journals.len(),
            open: self.limit - self.streams.available_permits(),
            limit: self.limit,
            oldest: journals.iter().map(|journal| journal.age()).max().unwrap_or_default(),
        }
    }
}

// === impl Counted ===

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.shared.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

// === impl ApiServer ===

impl ApiServer {
    /// `host:port`, for messages.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// May objects of this resource be listed and watched in a namespace? Says how many there are.
    ///
    /// # Errors
    /// Why not.
    pub async fn probe(&self, resource: Resource, namespace: &str) -> Result<String, String> {
        let asked = self.asked(resource, namespace, "list");
        let target = format!("{}?limit=1", resource.path(namespace));
        let told = |error: ApiError| error.to_string();
        let response = self.get(asked, &target, PATIENCE).await.map_err(told)?;
        self.body(asked, response, PATIENCE).await.map_err(told)?;
        Ok(format!("{} of namespace {namespace} can be listed", resource.plural))
    }

    pub(super) fn asked<'a>(&'a self, resource: Resource, namespace: &'a str, verb: &'static str) -> Asked<'a> {
        Asked { server: self.name(), resource, namespace, verb }
    }

    /// An answer with a good status.
    pub(super) async fn get(&self, asked: Asked<'_>, target: &str, patience: Duration) -> Result<Response, ApiError> {
        let response = self.shared.transport.get(asked, target, patience).await?;
        if response.status.is_success() {
            return Ok(response);
        }
        let (status, after) = (response.status, response.after);
        // The words of a refusal are few; without them it is one all the same.
        let body = self.body(asked, response, PATIENCE).await.unwrap_or_default();
        Err(ApiError::of_status(asked, status, after, &body))
    }

    /// All of a body.
    pub(super) async fn body(
        &self,
        asked: Asked<'_>,
        mut response: Response,
        patience: Duration,
    ) -> Result<Vec<u8>, ApiError> {
        let (server, path) = (self.name(), || asked.resource.path(asked.namespace));
        let read = async {
            let mut body = Vec::new();
            while let Some(piece) = response.body.next().await.transpose()? {
                if body.len() + piece.len() > LARGEST {
                    let reason = format!("it has more than {LARGEST} bytes");
                    return Err(ApiError::Unreadable { server: server.to_owned(), path: path(), reason });
                }
                body.extend_from_slice(&piece);
            }
            Ok(body)
        };
        let silent = |_| ApiError::Silent { server: server.to_owned(), path: path(), seconds: patience.as_secs() };
        timeout(patience, read).await.map_err(silent)?
    }

    /// A place for a list.
    pub(super) async fn list_place(&self) -> Option<tokio::sync::SemaphorePermit<'_>> {
        self.shared.lists.acquire().await.ok()
    }

    /// A place for a stream, if there is one.
    pub(super) fn stream_place(&self) -> Option<OwnedSemaphorePermit> {
        let place = self.shared.streams.clone().try_acquire_owned().ok();
        if place.is_none() && self.shared.crowded.due().is_some() {
            let Shared { name, limit, .. } = &*self.shared;
            tracing::warn!(
                server = name,
                limit,
                "more is watched in Kubernetes than streams may be open; the rest is listed every few seconds. Let \
                 rosterd list and watch whole namespaces, or talk to the API server itself (inCluster, kubeconfig)"
            );
        }
        place
    }

    /// Enters a watch into the figures, for as long as the guard is there.
    pub(super) fn watched(&self, journal: &Arc<Journal>) -> Counted {
        let alive = self.shared.alive.fetch_add(1, Ordering::Relaxed) + 1;
        let mut watches = self.shared.watches.lock();
        if watches.len() >= 2 * alive {
            watches.retain(|watch| watch.strong_count() > 0);
        }
        watches.push(Arc::downgrade(journal));
        Counted(self.clone())
    }

    /// How many watches there are.
    pub(super) fn watches(&self) -> usize {
        self.shared.alive.load(Ordering::Relaxed)
    }

    /// Logs once for all that the server is lost.
    pub(super) fn report_lost(&self, error: &ApiError) {
        if self.shared.is_lost.swap(true, Ordering::Relaxed) {
            tracing::debug!("{error}");
        } else {
            tracing::warn!("{error}; what is known stays");
        }
    }

    /// Was such an error not logged lately? Many watches of one namespace meet the same.
    pub(super) fn is_news(&self, error: &ApiError, path: &str) -> bool {
        let mut told = self.shared.told.lock();
        if told.len() >= MOST_TOLD {
            told.clear();
        }
        let now = Instant::now();
        let before = told.insert((error.word(), path.to_owned()), now);
        before.is_none_or(|before| now - before > TELL_AGAIN)
    }

    /// Logs once for all that it is back.
    pub(super) fn came_back(&self) {
        if self.shared.is_lost.load(Ordering::Relaxed) && self.shared.is_lost.swap(false, Ordering::Relaxed) {
            tracing::info!(server = self.name(), "Kubernetes answers again");
        }
    }

    pub(super) fn metrics(&self) -> &ApiMetrics {
        &self.shared.metrics
    }

    pub(super) fn runtime(&self) -> &Handle {
        &self.shared.runtime
    }
}

impl fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ApiServer").field(&self.name()).finish()
    }
}
