//! HTTP to one agent.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT_ENCODING, HeaderValue};
use tokio::time::{Instant, timeout_at};

use super::AgentConfig;
use super::answer::{LARGEST, Reply};
use super::error::ConsulError;
use super::request::Request;
use crate::backend::{Fault, Pool, fault, secret};
use crate::runtime::tls;

/// How long a body may take to arrive once its answer has begun.
const BODY: Duration = Duration::from_secs(60);

/// How many connections without a request are kept. Together with those in use they must stay below the 200 that a
/// stock agent grants one client, also where a namer and the storage have a token each, and so a pool each.
const IDLE: usize = 8;

/// Carries requests.
#[async_trait]
pub(super) trait Transport: fmt::Debug + Send + Sync {
    /// The reply to `request`, whose path and parameters are `target`.
    async fn send(&self, request: &Request, target: &str, limit: Limit) -> Result<Reply, ConsulError>;
}

/// When a reply has to be there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    /// Its head.
    pub(super) head: Instant,
    /// All of it; if that is not set, some time after the head.
    pub(super) whole: Option<Instant>,
}

/// HTTP/1.1 over a pool of connections.
pub(super) struct Http {
    pool: Pool,
    agent: String,
    token: Option<HeaderValue>,
    packed: bool,
}

// === impl Http ===

impl Http {
    /// A pool for one agent. Nothing is contacted. Must be called within a runtime.
    ///
    /// # Errors
    /// One line, for what only shows now.
    pub(super) fn new(config: &AgentConfig) -> Result<Self, String> {
        let AgentConfig { address, token, tls, max_polls: _ } = config;
        let pool = Pool::new(address, tls.clone().map(tls::Client::new), IDLE)?;
        let token = token.as_ref().map(|token| secret("token", token)).transpose()?;
        // To pack a large answer takes an agent longer than to send it over the loopback.
        let (agent, packed) = (address.to_string(), !address.is_here());
        Ok(Self { pool, agent, token, packed })
    }

    /// Judges an error of the library.
    fn failed(&self, request: &Request, error: &reqwest::Error) -> ConsulError {
        let (fault, cause) = fault(error);
        let agent = self.agent.clone();
        match fault {
            Fault::NoSession => ConsulError::NoSession { agent, cause },
            // An agent refuses a client's 201st connection with a 429 as soon as it is made.
            Fault::Unasked => ConsulError::Busy { agent },
            Fault::Unreachable => ConsulError::Unreachable { agent, cause },
            Fault::Broken => ConsulError::Broken { agent, path: request.path().to_owned(), cause },
        }
    }

    async fn body(&self, request: &Request, mut response: reqwest::Response) -> Result<Bytes, ConsulError> {
        let mut body = BytesMut::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.failed(request, &error))? {
            if body.len() + chunk.len() > LARGEST {
                let path = request.path().to_owned();
                return Err(ConsulError::TooLong { agent: self.agent.clone(), path, limit: LARGEST });
            }
            if body.is_empty() {
                // Room for all of it where the length is known, in bounds: it is only what the agent says.
                let length = response.content_length().unwrap_or(0);
                body.reserve(usize::try_from(length).unwrap_or(0).clamp(chunk.len(), 16 << 20));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body.freeze())
    }
}

#[async_trait]
impl Transport for Http {
    async fn send(&self, request: &Request, target: &str, limit: Limit) -> Result<Reply, ConsulError> {
        let began = Instant::now();
        let silent = |until: Instant| ConsulError::Silent {
            agent: self.agent.clone(),
            path: request.path().to_owned(),
            seconds: until.duration_since(began).as_secs_f64().ceil() as u64,
        };
        let mut sent = self.pool.request(request.method().clone(), target);
        if let Some(token) = &self.token {
            sent = sent.header("x-consul-token", token.clone());
        }
        if self.packed {
            sent = sent.header(ACCEPT_ENCODING, "gzip");
        }
        if request.method() == http::Method::PUT {
            sent = sent.body(request.body().clone());
        }
        let response = timeout_at(limit.head, sent.send()).await.map_err(|_| silent(limit.head))?;
        let mut response = response.map_err(|error| self.failed(request, &error))?;
        let (status, headers) = (response.status(), std::mem::take(response.headers_mut()));
        let until = limit.whole.unwrap_or_else(|| Instant::now() + BODY);
        let body = timeout_at(until, self.body(request, response)).await.map_err(|_| silent(until))??;
        Ok(Reply { status, headers, body })
    }
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http").field("agent", &self.agent).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
