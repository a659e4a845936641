//! HTTP to one agent.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_LENGTH, HeaderName, HeaderValue};
use http_body_util::Full;
use tokio::time::{Instant, timeout_at};

use super::AgentConfig;
use super::answer::{LARGEST, Reply};
use super::error::ConsulError;
use super::request::Request;
use crate::backend::{Broken, Exchange, Fault, Links, secret};

/// How long a body may take to arrive once its answer has begun.
const BODY: Duration = Duration::from_secs(60);

/// What carries a token.
const TOKEN: HeaderName = HeaderName::from_static("x-consul-token");

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

/// HTTP/1.1 over connections that all clients of the agent share.
pub(super) struct Http {
    links: Arc<Links>,
    agent: String,
    token: Option<HeaderValue>,
    packed: bool,
    /// Bytes of a body as it comes.
    most: usize,
}

// === impl Http ===

impl Http {
    /// Requests with what `config` says of their sender, over these connections.
    ///
    /// # Errors
    /// One line, for what only shows now.
    pub(super) fn new(config: &AgentConfig, links: Arc<Links>) -> Result<Self, String> {
        let AgentConfig { address, token, tls: _, max_polls: _ } = config;
        let token = token.as_ref().map(|token| secret("token", token)).transpose()?;
        // To pack a large answer takes an agent longer than to send it over the loopback.
        let (agent, packed) = (address.to_string(), !address.is_here());
        Ok(Self { links, agent, token, packed, most: LARGEST })
    }

    /// Judges what went wrong with a connection.
    fn failed(&self, request: &Request, Broken { fault, cause }: Broken) -> ConsulError {
        let agent = self.agent.clone();
        match fault {
            Fault::NoSession => ConsulError::NoSession { agent, cause },
            // An agent refuses a client's 201st connection with a 429 as soon as it is made.
            Fault::Unasked => ConsulError::Busy { agent },
            Fault::Unreachable => ConsulError::Unreachable { agent, cause },
            Fault::Broken => ConsulError::Broken { agent, path: request.path().to_owned(), cause },
        }
    }

    fn request(&self, request: &Request, target: &str) -> Result<http::Request<Full<Bytes>>, http::Error> {
        let mut sent = http::Request::builder().method(request.method()).uri(target).header(ACCEPT, "*/*");
        if let Some(token) = &self.token {
            sent = sent.header(TOKEN, token.clone());
        }
        if self.packed {
            sent = sent.header(ACCEPT_ENCODING, "gzip");
        }
        sent.body(Full::new(request.body().clone()))
    }

    async fn body(&self, request: &Request, length: usize, mut exchange: Exchange<'_>) -> Result<Bytes, ConsulError> {
        let mut body = BytesMut::new();
        while let Some(chunk) = exchange.some().await.map_err(|broken| self.failed(request, broken))? {
            if body.len() + chunk.len() > self.most {
                let path = request.path().to_owned();
                return Err(ConsulError::TooLong { agent: self.agent.clone(), path, limit: self.most });
            }
            if body.is_empty() {
                // Room for all of it where the length is known, in bounds: it is only what the agent says.
                body.reserve(length.clamp(chunk.len(), 16 << 20));
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
        let sent = self.request(request, target).map_err(|error| {
            let (fault, cause) = (Fault::Broken, format!("it cannot be asked: {error}"));
            self.failed(request, Broken { fault, cause })
        })?;
        let sent = timeout_at(limit.head, self.links.send(sent)).await.map_err(|_| silent(limit.head))?;
        let mut exchange = sent.map_err(|broken| self.failed(request, broken))?;
        let (status, headers) = (exchange.head.status, std::mem::take(&mut exchange.head.headers));
        let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok()).unwrap_or(0);
        let until = limit.whole.unwrap_or_else(|| Instant::now() + BODY);
        let body = timeout_at(until, self.body(request, length, exchange)).await.map_err(|_| silent(until))??;
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
