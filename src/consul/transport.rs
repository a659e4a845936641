//! HTTP to one agent.

use std::error::Error;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT_ENCODING, HOST, HeaderValue};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::time::{Instant, timeout_at};
use tokio_util::task::AbortOnDropHandle;

use super::AgentConfig;
use super::answer::{LARGEST, Reply};
use super::error::ConsulError;
use super::request::Request;
use crate::runtime::tls;
use crate::text::root_cause;

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(5);

/// How long a body may take to arrive once its answer has begun.
const BODY: Duration = Duration::from_secs(60);

/// Between probes of a silent connection, so that a vanished agent is noticed before a long poll is over.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// How many connections without a request are kept. Together with those in use they must stay below the 200 that a
/// stock agent grants one client, also where a namer and the storage have a token each, and so a pool each.
const IDLE: usize = 8;

/// What the library says of an answer that came before the request. An agent refuses a client's 201st connection with a
/// 429 as soon as it is made.
const UNASKED: &str = "unexpected message from connection";

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

/// Where an agent listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// A name or a literal, IPv6 without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// HTTP/1.1 over a pool of connections.
pub(super) struct Http {
    client: reqwest::Client,
    base: String,
    agent: String,
    host: HeaderValue,
    token: Option<HeaderValue>,
    packed: bool,
    _renewal: Option<AbortOnDropHandle<()>>,
}

/// Finds the agent, whatever name its certificate makes it have in URLs.
struct Found(String);

// === impl Address ===

impl Address {
    /// As it stands in a URL, and in the `Host` of namerd's requests: without the port if that is 80 or 443
    /// (`SetHostFilter`).
    fn authority(&self) -> String {
        let Self { host, port } = self;
        let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        if matches!(port, 80 | 443) { host } else { format!("{host}:{port}") }
    }

    fn is_here(&self) -> bool {
        self.host.eq_ignore_ascii_case("localhost") || self.host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
    }
}

/// `host:port`
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bracket = self.host.contains(':');
        let (open, close) = if bracket { ("[", "]") } else { ("", "") };
        write!(f, "{open}{}{close}:{}", self.host, self.port)
    }
}

// === impl Http ===

impl Http {
    /// A pool for one agent. Nothing is contacted. Must be called within a runtime.
    ///
    /// # Errors
    /// One line, for what only shows now.
    pub(super) fn new(config: &AgentConfig) -> Result<Self, String> {
        let AgentConfig { address, token, tls, max_polls: _ } = config;
        let mut builder = reqwest::Client::builder()
            .no_proxy()
            .http1_only()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT)
            .tcp_keepalive(KEEPALIVE)
            .tcp_keepalive_interval(KEEPALIVE)
            .tcp_nodelay(true)
            .pool_max_idle_per_host(IDLE);
        let (base, renewal) = match tls.clone().map(tls::Client::new) {
            None => {
                builder = builder.tls_backend_preconfigured(no_tls()?);
                (format!("http://{address}"), None)
            }
            Some(tls) => {
                builder = builder.tls_backend_preconfigured(tls.config()?);
                // The library asks the server for the name in the URL (SNI).
                let name = tls.asked_name().map(|name| Address { host: name.to_owned(), port: address.port });
                builder = builder.dns_resolver(Arc::new(Found(address.host.clone())));
                (format!("https://{}", name.as_ref().unwrap_or(address)), Some(tls.keep_current()))
            }
        };
        let client = builder.build().map_err(|error| root_cause(&error))?;
        let no_host = |_| format!("host: {:?} is no host name", address.host);
        let parsed = reqwest::Url::parse(&base).map_err(|error| no_host(error.to_string()))?;
        if !parsed.username().is_empty()
            || parsed.path() != "/"
            || parsed.query().is_some()
            || parsed.fragment().is_some()
        {
            return Err(no_host(String::new()));
        }
        let host = HeaderValue::from_str(&address.authority()).map_err(|error| no_host(error.to_string()))?;
        let token = token.as_ref().map(|token| HeaderValue::from_str(token.expose())).transpose();
        let mut token = token.map_err(|_| "token: it has characters that no header can carry".to_owned())?;
        if let Some(token) = &mut token {
            token.set_sensitive(true);
        }
        // To pack a large answer takes an agent longer than to send it over the loopback.
        let (agent, packed) = (address.to_string(), !address.is_here());
        Ok(Self { client, base, agent, host, token, packed, _renewal: renewal })
    }

    /// Judges an error of the library.
    fn failed(&self, request: &Request, error: &reqwest::Error) -> ConsulError {
        let (agent, cause) = (self.agent.clone(), root_cause(error));
        if is_of_tls(error) {
            return ConsulError::NoSession { agent, cause };
        }
        if cause.contains(UNASKED) {
            return ConsulError::Busy { agent };
        }
        if error.is_connect() {
            return ConsulError::Unreachable { agent, cause };
        }
        ConsulError::Broken { agent, path: request.path().to_owned(), cause }
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

/// Did a handshake fail, or a session break for what came?
fn is_of_tls(error: &reqwest::Error) -> bool {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if error.is::<rustls::Error>() {
            return true;
        }
        // What stands inside an error of the system is not among its sources.
        let inner = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        cause = inner.map_or_else(|| error.source(), |inner| Some(inner));
    }
    false
}

/// Plain text needs none, but the library would read the certificates of the system otherwise.
fn no_tls() -> Result<rustls::ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| error.to_string())?;
    Ok(config.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth())
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
        let mut sent = self.client.request(request.method().clone(), format!("{}{target}", self.base));
        sent = sent.header(HOST, self.host.clone());
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

// === impl Found ===

impl Resolve for Found {
    fn resolve(&self, _name: Name) -> Resolving {
        let host = self.0.clone();
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((host, 0)).await?.collect();
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http").field("agent", &self.agent).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
