//! Writing dtabs at another name server: once, and never a second time by mistake.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, IF_MATCH, RETRY_AFTER};
use http::{Method, StatusCode};
use http_body_util::Full;
use tokio::time::Instant;

use super::exchange::{Patience, Unsent};
use super::{DTABS, Http, version_of};
use crate::client::{Answer, Ask, Failure, Reason, Server, Upstream};
use crate::name::Dtab;
use crate::store::Unanswered;
use crate::text::url::Target;

/// The HTTP controller of another name server.
#[derive(Clone)]
pub struct Controller {
    upstream: Upstream,
    http: Arc<Http>,
}

/// A write that a server has done.
#[derive(Clone, Debug)]
pub struct Written {
    server: Arc<Server>,
}

/// A write that was not done, as far as can be told.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Refused {
    /// The server refused it with this status and text.
    #[error("HTTP status {status}: {text}")]
    Status {
        /// The status.
        status: StatusCode,
        /// What the server says.
        text: String,
        /// `Etag`, as the bytes that it stands for: with 412, the version that is stored.
        version: Option<Bytes>,
        /// The server says when to try again (`Retry-After`): nothing was done.
        later: bool,
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

    /// What is stored now: the answer to [`Ask::Dtab`] or [`Ask::Namespaces`], from one server after the other until one
    /// answers.
    ///
    /// # Errors
    /// [`Unanswered`], with the reason.
    pub async fn read(&self, ask: &Ask, limit: Duration) -> Result<Answer, Unanswered> {
        self.upstream.once(ask, limit, |server| async move { self.http.read(&server, ask).await }).await
    }

    /// What is stored now at the server that has done a write. Others may not know of it yet.
    ///
    /// # Errors
    /// Why it does not tell within `limit`.
    pub async fn read_back(&self, written: &Written, ask: &Ask, limit: Duration) -> Result<Answer, Failure> {
        let read = self.http.read(&written.server, ask);
        let late = |_| Failure::new(Reason::Silent, format!("no answer within {} ms", limit.as_millis()));
        tokio::time::timeout(limit, read).await.map_err(late)?
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
            let patience = Patience { until: deadline, answer: limit };
            let mut exchange = match self.http.exchanges.begin(server, request, patience).await {
                Ok(exchange) => exchange,
                Err(Unsent { failure, sent: true }) => return Err(Refused::Uncertain(failure)),
                Err(Unsent { failure, sent: false }) if Instant::now() >= deadline => {
                    return Err(Refused::Unreached(failure));
                }
                Err(Unsent { sent: false, .. }) => {
                    grudges.bear(server.address());
                    continue;
                }
            };
            let status = exchange.head.status;
            if status.is_success() {
                return Ok(Written { server: server.clone() });
            }
            let version = version_of(&exchange).ok().filter(|version| !version.is_empty());
            let later = exchange.head.headers.contains_key(RETRY_AFTER);
            let text = exchange.whole(self.http.exchanges.timings.handshake).await.unwrap_or_default();
            let text = Failure::new(Reason::Status, String::from_utf8_lossy(&text).trim()).to_string();
            return Err(Refused::Status { status, text, version, later });
        }
    }
}

impl fmt::Debug for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controller").field("upstream", &self.upstream).finish_non_exhaustive()
    }
}
