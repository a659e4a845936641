//! `io.l5d.httpController`: dtabs and names over HTTP.
//!
//! | path | answer |
//! |---|---|
//! | `/api/1/dtabs[/<namespace>]` | read, watch, create, replace, delete dtabs ([`dtabs`]) |
//! | `/api/1/bind/<namespace>` | what a path is bound to ([`once`], [`lines`]) |
//! | `/api/1/addr/<namespace>` | the addresses of a bound id |
//! | `/api/1/resolve/<namespace>` | the addresses of one of the ids that a path is bound to |
//! | `/api/1/delegate[/<namespace>]` | how a path is looked up ([`delegate`]) |
//! | `/api/1/bound-names` | the names that namers can list |
//!
//! Answers are namerd's, byte for byte, except where `docs/differences.md` says otherwise.

mod config;
pub mod delegate;
mod dtabs;
mod encoded;
pub mod json;
mod lines;
mod media;
mod metrics;
mod once;
mod pick;
mod prepared;
mod question;
mod route;
pub mod version;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::Semaphore;

pub use config::HttpControllerConfig;
pub use metrics::HttpMetrics;

use self::encoded::Encoded;
use self::once::Answer;
use self::prepared::{Prepared, Ready};
use self::question::Question;
use self::route::Route;
use super::{Core, NameReader, Serving};
use crate::config::Fixes;
use crate::http1::{self, Head, Params, Request, Response, Server, Service};
use crate::interpreter::Interpreter;
use crate::runtime::{self, Drain, Limit, LimitCounts, Listener, Phase, RateLimit};
use crate::storage::Storage;
use crate::store::Client;
use crate::telemetry::ServerStats;

/// So many one-shot requests may wait for a first value at a time.
const WAITING: usize = 4096;

/// Reading a body larger than this is not done on the runtime's own threads.
const HEAVY_FROM: usize = 256 << 10;

/// The controller. Cloning shares it.
#[derive(Clone)]
struct Api {
    interpreter: Arc<dyn Interpreter>,
    storage: Arc<dyn Storage>,
    names: NameReader,
    rate: Option<Arc<RateLimit>>,
    limits: LimitCounts,
    fixes: Fixes,
    drain: Drain,
    metrics: HttpMetrics,
    encoded: Arc<Encoded>,
    prepared: Arc<Prepared>,
    waits: Arc<Semaphore>,
}

/// Serves what comes to `listener` until the drain ends it. Must be called within a runtime.
pub fn serve(core: &Core, kind: &'static str, listener: Listener) -> Serving {
    // The kind is both scope and label in namerd's names.
    let stats = ServerStats::with_streams(core.legacy.scope("interface").scope(kind).scope(kind));
    let stats = stats.over_tls(listener.has_tls());
    let mut server = Server::new(core.body_bytes, stats, core.drain.clone(), Phase::Close);
    server.limits = core.limits.clone();
    server.read_timeout = listener.options().read_timeout;
    server.write_timeout = listener.options().write_timeout;
    let (server, api) = (Arc::new(server), Arc::new(Api::new(core)));
    let (connections, drain) = (core.connections.clone(), core.drain.clone());
    Box::pin(async move {
        runtime::accept(listener, connections, &drain, Phase::Close, move |conn, peer| {
            http1::serve(conn, peer, api.clone(), server.clone())
        })
        .await;
    })
}

// === impl Api ===

impl Api {
    fn new(core: &Core) -> Self {
        Self {
            interpreter: core.interpreter.clone(),
            storage: core.storage.clone(),
            names: core.names.clone(),
            rate: core.rate.clone(),
            limits: core.limits.clone(),
            fixes: core.fixes,
            drain: core.drain.clone(),
            metrics: core.metrics.http.clone(),
            encoded: Arc::default(),
            prepared: Arc::new(Prepared::new()),
            waits: Arc::new(Semaphore::new(WAITING)),
        }
    }

    /// Whether a client may ask something now.
    fn admits(&self, client: Client) -> bool {
        self.rate.as_ref().is_none_or(|rate| rate.admits(client.0))
    }

    fn too_many(&self, client: Client) -> Response {
        let limit = Limit::RequestsPerSecondPerClient;
        self.limits.refused(limit);
        let reason = format!("too many requests of {} ({limit})", client.0);
        Response::refusal(429, reason).header("Retry-After", "1")
    }

    async fn answer(&self, route: Route<'_>, request: &Request) -> Response {
        if let Err(response) = check_local_dtab(request, &self.names) {
            return response;
        }
        match route {
            Route::List => self.list(&Params::of(request)).await,
            Route::Dtab(namespace) => self.dtab(namespace, request, &Params::of(request)).await,
            Route::BoundNames => self.bound_names(&Params::of(request)).await,
            Route::Bind(_) | Route::Addr(_) | Route::Resolve(_) | Route::Delegate(_) => {
                self.about_name(route, request).await.unwrap_or_else(|response| response)
            }
            Route::Unknown => Response::with_body(404, ""),
        }
    }

    /// The questions that have a path. Methods do not matter.
    async fn about_name(&self, route: Route<'_>, request: &Request) -> Result<Response, Response> {
        Params::check_form(request)?;
        let (params, names, client) = (Params::of(request), &self.names, request.client);
        let path = question::path(&params, names)?;
        let interpreter = &*self.interpreter;
        let ask = |namespace| Question::of(client, namespace, path.clone(), &params, names, interpreter);
        let typed = |response: Response| response.header("Content-Type", "application/json");
        Ok(match route {
            Route::Bind(Some(namespace)) if params.watch() => Response::stream(self.bind_lines(&ask(namespace)?)?),
            Route::Bind(Some(namespace)) => {
                let question = ask(namespace)?;
                let answer = self.bind_once(&question).await?;
                self.keep(route, request, !question.local.is_empty(), answer, |response| response)
            }
            Route::Addr(Some(_)) if params.watch() => Response::stream(self.addr_lines(client, &path)?),
            Route::Addr(Some(_)) => {
                let answer = self.addr_once(client, &path).await?;
                self.keep(route, request, false, answer, |response| response)
            }
            Route::Resolve(Some(namespace)) if params.watch() => {
                typed(Response::stream(self.resolve_lines(&ask(namespace)?)?))
            }
            Route::Resolve(Some(namespace)) => {
                let question = ask(namespace)?;
                let answer = self.resolve_once(&question).await?;
                self.keep(route, request, !question.local.is_empty(), answer, typed)
            }
            Route::Delegate(Some(namespace)) => {
                let exact = self.fixes.delegate_weights;
                delegate::in_namespace(interpreter, client, namespace, path, &params, names, exact).await
            }
            Route::Delegate(None) => {
                delegate::by_request(interpreter, request, names, delegate::Uses::StoredDtab).await
            }
            _ => Response::with_body(404, ""),
        })
    }

    /// The response with an answer, which is kept ready for the next one who asks the same.
    fn keep(
        &self,
        route: Route<'_>,
        request: &Request,
        local: bool,
        (body, sources): Answer,
        finish: impl FnOnce(Response) -> Response,
    ) -> Response {
        let fits = Prepared::fits(body.len());
        let response = finish(Response::with_body(200, body));
        if let Some(sources) = sources
            && fits
            && request.method() == "GET"
            && request.body.is_empty()
        {
            let coding = request.coding();
            if let Some(answer) = response.to_bytes(coding) {
                let counter = self.metrics.good(route.endpoint());
                let ready = Ready { sources, answer, counter };
                self.prepared.keep(request.client, coding, request.target(), local, ready);
            }
        }
        response
    }
}

impl Service for Api {
    fn prepared(&self, head: &Head<'_>, client: Client) -> Option<Bytes> {
        let (answer, counter) = self.prepared.get(head)?;
        if !self.admits(client) {
            return None; // it is refused below
        }
        self.metrics.answered_from_memory(&counter);
        Some(answer)
    }

    async fn call(&self, request: Request) -> Response {
        let route = Route::of(request.method(), request.path());
        let response = match self.admits(request.client) {
            true => self.answer(route, &request).await,
            false => self.too_many(request.client),
        };
        self.metrics.answered(route.endpoint(), response.status);
        response
    }
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api").field("names", &self.names).finish_non_exhaustive()
    }
}

/// `Dtab-Local` has no effect here, but what is sent must parse.
fn check_local_dtab(request: &Request, names: &NameReader) -> Result<(), Response> {
    for value in request.header_values("dtab-local") {
        if let Err(error) = names.dtab(&String::from_utf8_lossy(value)) {
            let response = Response::with_body(400, format!("Invalid Dtab headers: {error}"));
            return Err(response.header("Content-Type", "text/plain; charset=UTF-8"));
        }
    }
    Ok(())
}
