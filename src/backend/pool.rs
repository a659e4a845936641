//! Connections to one backend.

use std::error::Error;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use http::header::{HOST, HeaderValue};
use reqwest::RequestBuilder;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio_util::task::AbortOnDropHandle;

use super::Address;
use crate::config::Secret;
use crate::runtime::tls;
use crate::text::root_cause;

/// How long a connection may take to be made.
pub(super) const CONNECT: Duration = Duration::from_secs(5);

/// Between probes of a silent connection, so that a vanished server is noticed before a long request is over.
pub(super) const KEEPALIVE: Duration = Duration::from_secs(15);

/// What the library says of an answer that came before the request, as from a server that refuses a connection with a
/// status as soon as it is made.
const UNASKED: &str = "unexpected message from connection";

/// HTTP/1.1 over a pool of connections.
pub struct Pool {
    client: reqwest::Client,
    base: String,
    host: HeaderValue,
    _renewal: Option<AbortOnDropHandle<()>>,
}

/// What an error of the library is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A TLS handshake failed, or a session broke for what came.
    NoSession,
    /// The server answered before it was asked: it refuses connections.
    Unasked,
    /// No connection came to be.
    Unreachable,
    /// A connection ended in the middle of an exchange.
    Broken,
}

/// Finds the server, whatever name its certificate makes it have in URLs.
struct Found(String);

// === impl Pool ===

impl Pool {
    /// A pool for one server that keeps `idle` connections without a request. Nothing is contacted. Must be called
    /// within a runtime.
    ///
    /// # Errors
    /// One line, for what only shows now.
    pub fn new(address: &Address, tls: Option<Arc<tls::Client>>, idle: usize) -> Result<Self, String> {
        let mut builder = reqwest::Client::builder()
            .no_proxy()
            .http1_only()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT)
            .tcp_keepalive(KEEPALIVE)
            .tcp_keepalive_interval(KEEPALIVE)
            .tcp_nodelay(true)
            .pool_max_idle_per_host(idle);
        let (base, renewal) = match tls {
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
        Ok(Self { client, base, host, _renewal: renewal })
    }

    /// A request for `target`, the path with its parameters, with the `Host` of namerd's.
    pub fn request(&self, method: Method, target: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{target}", self.base)).header(HOST, self.host.clone())
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("base", &self.base).finish_non_exhaustive()
    }
}

/// The value of a header that no log may show.
///
/// # Errors
/// It has characters that no header can carry.
pub fn secret(key: &str, text: &Secret) -> Result<HeaderValue, String> {
    let value = HeaderValue::from_str(text.expose());
    let mut value = value.map_err(|_| format!("{key}: it has characters that no header can carry"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// What an error of the library is about, and its innermost cause.
pub fn fault(error: &reqwest::Error) -> (Fault, String) {
    let cause = root_cause(error);
    let fault = if is_of_tls(error) {
        Fault::NoSession
    } else if is_unasked(&cause) {
        Fault::Unasked
    } else if error.is_connect() {
        Fault::Unreachable
    } else {
        Fault::Broken
    };
    (fault, cause)
}

/// Is it an answer that came before the request?
pub(super) fn is_unasked(cause: &str) -> bool {
    cause.contains(UNASKED)
}

/// Did a handshake fail, or a session break for what came?
pub(super) fn is_of_tls(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
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
