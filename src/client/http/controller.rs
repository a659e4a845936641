//! Writing dtabs at another name server: once, and never a second time by mistake.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, IF_MATCH};
use http::{Method, StatusCode};
use http_body_util::Full;
use tokio::time::Instant;

use super::exchange::Unsent;
use super::{DTABS, Http, version_of};
use crate::client::{Failure, Reason, Server, Upstream};
use crate::name::Dtab;
use crate::text::url::Target;

/// The HTTP controller of another name server.
#[derive(Clone)]
pub struct Controller {
    upstream: Upstream,
    http: Arc<Http>,
}

/// A write that the server has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The version that is stored now, if the server told it.
    pub version: Option<Bytes>,
}

/// A write, or a read, that was not done, as far as can be told.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Refused {
    /// The server refused it with this status and text; with 412, what version is stored if it says so.
    #[error("HTTP status {status}: {text}")]
    Status {
        /// The status.
        status: StatusCode,
        /// What the server says.
        text: String,
        /// `Etag`, as the bytes that it stands for.
        version: Option<Bytes>,
    },
    /// It never reached a server.
    #[error("{0}")]
    Unreached(Failure),
    /// It may have been done.
    #[error("{0}")]
    Uncertain(Failure),
}

impl Controller {
    /// The controller at the servers of `upstream`.
    pub fn new(upstream: Upstream, http: Arc<Http>) -> Self {
        Self { upstream, http }
    }

    /// What is followed at the same servers.
    pub fn upstream(&self) -> &Upstream {
        &self.upstream
    }

    /// The dtab that is stored, and its version; none = no such namespace.
    ///
    /// # Errors
    /// [`Refused`]
    pub async fn get(&self, ns: &str, limit: Duration) -> Result<Option<(Dtab, Bytes)>, Refused> {
        self.read(limit, |server| self.http.dtab(server, ns)).await
    }

    /// Reads, from one server after the other until one answers.
    async fn read<T, F>(&self, limit: Duration, from: impl Fn(Arc<Server>) -> F) -> Result<T, Refused>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let deadline = Instant::now() + limit;
        let mut grudges = self.upstream.grudges();
        loop {
            let seat = self.upstream.pick(&grudges, deadline).await.map_err(Refused::Unreached)?;
            let server = seat.server();
            match tokio::time::timeout_at(deadline, from(server.clone())).await {
                Ok(Ok(value)) => {
                    server.answered();
                    return Ok(value);
                }
                Ok(Err(failure)) if failure.reason.is_of_connection() && Instant::now() < deadline => {
                    server.failed(&failure);
                    grudges.bear(server.address());
                }
                Ok(Err(failure)) => return Err(Refused::Unreached(failure)),
                Err(_) => return Err(Refused::Unreached(late(limit))),
            }
        }
    }

    /// The names of all namespaces.
    ///
    /// # Errors
    /// [`Refused`]
    pub async fn list(&self, limit: Duration) -> Result<BTreeSet<String>, Refused> {
        self.read(limit, |server| self.http.namespaces(server)).await
    }

    /// Makes a namespace.
    ///
    /// # Errors
    /// [`Refused`]
    pub async fn create(&self, ns: &str, dtab: &Dtab, limit: Duration) -> Result<Written, Refused> {
        self.write(Method::POST, ns, Some(dtab), None, limit).await
    }

    /// Makes or replaces a dtab; with a version only that one.
    ///
    /// # Errors
    /// [`Refused`]
    pub async fn put(
        &self,
        ns: &str,
        dtab: &Dtab,
        version: Option<&[u8]>,
        limit: Duration,
    ) -> Result<Written, Refused> {
        self.write(Method::PUT, ns, Some(dtab), version, limit).await
    }

    /// Removes a namespace.
    ///
    /// # Errors
    /// [`Refused`]
    pub async fn delete(&self, ns: &str, limit: Duration) -> Result<Written, Refused> {
        self.write(Method::DELETE, ns, None, None, limit).await
    }

    /// Tries servers until one can be reached; what may have reached one is not sent again.
    async fn write(
        &self,
        method: Method,
        ns: &str,
        dtab: Option<&Dtab>,
        version: Option<&[u8]>,
        limit: Duration,
    ) -> Result<Written, Refused> {
        let deadline = Instant::now() + limit;
        let body: Bytes = dtab.map(|dtab| dtab.to_string().into()).unwrap_or_default();
        let mut grudges = self.upstream.grudges();
        loop {
            let seat = self.upstream.pick(&grudges, deadline).await.map_err(Refused::Unreached)?;
            let server = seat.server();
            let mut request = self.http.request(method.clone(), &Target::namespace(DTABS, ns));
            if dtab.is_some() {
                request = request.header(CONTENT_TYPE, "application/dtab");
            }
            if let Some(version) = version {
                request = request.header(IF_MATCH, STANDARD.encode(version));
            }
            let request = request.body(Full::new(body.clone()));
            let request =
                request.map_err(|error| Refused::Unreached(Failure::new(Reason::BadAnswer, error.to_string())))?;
            let patience = deadline.saturating_duration_since(Instant::now());
            let mut exchange = match self.http.exchanges.begin(server, request, patience).await {
                Ok(exchange) => exchange,
                Err(Unsent { failure, sent: true }) => return Err(Refused::Uncertain(failure)),
                Err(Unsent { failure, sent: false }) => {
                    server.failed(&failure);
                    grudges.bear(server.address());
                    continue;
                }
            };
            server.answered();
            let (status, version) = (exchange.head.status, version_of(&exchange));
            let version = Some(version).filter(|version| !version.is_empty());
            if status.is_success() {
                return Ok(Written { version });
            }
            let text = exchange.whole(self.http.exchanges.timings.handshake).await.unwrap_or_default();
            let text = String::from_utf8_lossy(&text).trim().to_owned();
            return Err(Refused::Status { status, text, version });
        }
    }
}

fn late(limit: Duration) -> Failure {
    Failure::new(Reason::Silent, format!("no answer within {} ms", limit.as_millis()))
}

impl fmt::Debug for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controller").field("upstream", &self.upstream).finish_non_exhaustive()
    }
}
