//! A client of the HTTP controller and the admin server.

mod error;
mod follow;
mod lines;

use std::time::Duration;

use http::header::{ACCEPT, CONTENT_TYPE, ETAG, IF_MATCH};
use http::{Method, StatusCode};
use serde::de::DeserializeOwned;

pub(super) use error::ClientError;
use error::{broken_hint, unreachable_hint};
pub(super) use follow::{Follow, News};
use lines::Lines;

use crate::text::root_cause;
pub(super) use crate::text::url::Target;
use crate::text::url::without_userinfo;

const CONNECT: Duration = Duration::from_secs(5);
/// Between probes of a silent watch, so that a vanished server is noticed.
const KEEPALIVE: Duration = Duration::from_secs(15);
/// Bytes taken of one answer, or of one line of a watch: a dtab of the greatest size, with room for JSON.
const LARGEST: usize = 64 << 20;

/// Where a client looks, and how to tell it to look elsewhere.
#[derive(Clone, Copy, Debug)]
pub(super) struct Port {
    /// What listens there.
    pub(super) what: &'static str,
    /// How to name another address.
    pub(super) option: &'static str,
    /// How long to wait for an answer.
    pub(super) patience: Duration,
}

impl Port {
    /// The HTTP controller.
    pub(super) const CONTROLLER: Self = Self {
        what: "the HTTP controller (4180 by default)",
        option: "--server URL or ROSTERD_SERVER",
        // Longer than a server waits for its backends (30 s), so that its reason arrives.
        patience: Duration::from_secs(35),
    };
    /// The admin server of a Linkerd 1.
    pub(super) const ROUTER: Self = Self {
        what: "the admin server of a Linkerd (9990 by default)",
        option: "the URLs behind `routers check`",
        patience: Duration::from_secs(10),
    };
    /// The admin server, which waits for nothing.
    pub(super) const ADMIN: Self = Self {
        what: "the admin server (9991 by default)",
        option: "--admin URL or ROSTERD_ADMIN",
        patience: Duration::from_secs(5),
    };
}

/// One server.
#[derive(Clone, Debug)]
pub(super) struct Client {
    http: reqwest::Client,
    /// What requests are sent to, perhaps with a user and a password.
    base: String,
    /// The same for people, without them.
    shown: String,
    port: Port,
}

/// An answer with a status of success.
#[derive(Debug)]
pub(super) struct Answer {
    url: String,
    port: Port,
    /// The body.
    pub(super) body: Vec<u8>,
    /// `ETag`, without the quotes that a proxy may have added.
    pub(super) version: Option<String>,
}

impl Client {
    /// A client of the server at `address`, which may go without `http://`. Nothing is sent yet.
    pub(super) fn new(address: &str, port: Port) -> Result<Self, ClientError> {
        let refuse = |reason: String| {
            let url = without_userinfo(address).into_owned();
            ClientError::Address { url, reason, option: port.option }
        };
        let base = if address.contains("://") { address.to_owned() } else { format!("http://{address}") };
        let base = base.trim_end_matches('/').to_owned();
        let parsed = reqwest::Url::parse(&base).map_err(|error| refuse(error.to_string()))?;
        let secure = match parsed.scheme() {
            "http" => false,
            "https" => true,
            scheme => return Err(refuse(format!("{scheme} is not spoken here"))),
        };
        if parsed.query().is_some() || parsed.fragment().is_some() {
            return Err(refuse("it has a ? or #".to_owned()));
        }
        let mut builder = reqwest::Client::builder()
            .no_proxy()
            .http1_only()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT)
            .tcp_keepalive(KEEPALIVE)
            .tcp_keepalive_interval(KEEPALIVE);
        if secure && let Some(problem) = unreadable_authorities() {
            return Err(refuse(problem));
        }
        if !secure {
            // The certificates of the system are not read for nothing; a small image has none.
            builder = builder.tls_certs_only([]);
        }
        let http = builder.build().map_err(|error| refuse(root_cause(&error)))?;
        let shown = without_userinfo(&base).into_owned();
        Ok(Self { http, base, shown, port })
    }

    /// The address, for messages.
    pub(super) fn address(&self) -> &str {
        &self.shown
    }

    /// Reads.
    pub(super) async fn get(&self, target: &Target) -> Result<Answer, ClientError> {
        let request = self.http.get(self.url(target)).header(ACCEPT, "application/json");
        self.once(Method::GET, target, request).await
    }

    /// Writes a dtab. With `version`, only over that version.
    pub(super) async fn put(&self, target: &Target, dtab: String, version: Option<&str>) -> Result<(), ClientError> {
        let mut request = self.http.put(self.url(target)).header(CONTENT_TYPE, "application/dtab").body(dtab);
        if let Some(version) = version {
            request = request.header(IF_MATCH, version);
        }
        self.once(Method::PUT, target, request).await.map(drop)
    }

    /// Makes a namespace.
    pub(super) async fn post(&self, target: &Target, dtab: String) -> Result<(), ClientError> {
        let request = self.http.post(self.url(target)).header(CONTENT_TYPE, "application/dtab").body(dtab);
        self.once(Method::POST, target, request).await.map(drop)
    }

    /// Removes a namespace.
    pub(super) async fn delete(&self, target: &Target) -> Result<(), ClientError> {
        self.once(Method::DELETE, target, self.http.delete(self.url(target))).await.map(drop)
    }

    /// Opens a watch.
    pub(super) async fn watch(&self, target: &Target) -> Result<Lines, ClientError> {
        let url = self.url(target);
        let request = self.http.get(&url).header(ACCEPT, "application/json");
        let response = tokio::time::timeout(self.port.patience, request.send())
            .await
            .map_err(|_| self.slow(target))?
            .map_err(|error| self.failed(target, &error))?;
        if response.status() == StatusCode::OK {
            return Ok(Lines::new(response));
        }
        self.read(Method::GET, target, response).await?;
        Err(self.nonsense(target, "a watch", "it ended at once"))
    }

    fn url(&self, target: &Target) -> String {
        format!("{}{target}", self.base)
    }

    /// The same for people.
    fn shown(&self, target: &Target) -> String {
        format!("{}{target}", self.shown)
    }

    async fn once(
        &self,
        method: Method,
        target: &Target,
        request: reqwest::RequestBuilder,
    ) -> Result<Answer, ClientError> {
        let answer = async {
            let response = request.send().await.map_err(|error| self.failed(target, &error))?;
            self.read(method, target, response).await
        };
        tokio::time::timeout(self.port.patience, answer).await.unwrap_or_else(|_| Err(self.slow(target)))
    }

    /// The whole answer; a refusal is an error.
    async fn read(
        &self,
        method: Method,
        target: &Target,
        mut response: reqwest::Response,
    ) -> Result<Answer, ClientError> {
        let status = response.status();
        let version = response.headers().get(ETAG).and_then(|tag| tag.to_str().ok());
        let version = version.map(|tag| tag.trim_matches('"').to_owned());
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.failed(target, &error))? {
            if body.len() + chunk.len() > LARGEST {
                return Err(self.nonsense(target, "of a sensible size", &format!("more than {LARGEST} bytes")));
            }
            body.extend_from_slice(&chunk);
        }
        if status.is_success() {
            return Ok(Answer { url: self.shown(target), port: self.port, body, version });
        }
        let text = String::from_utf8_lossy(&body).into_owned();
        Err(ClientError::Refused { method, url: self.shown(target), status, text, version })
    }

    fn failed(&self, target: &Target, error: &reqwest::Error) -> ClientError {
        let reason = root_cause(error);
        if error.is_connect() {
            let hint = unreachable_hint(&reason);
            return ClientError::Unreachable { url: self.shown.clone(), reason, hint, option: self.port.option };
        }
        let hint = broken_hint(&self.shown, &reason);
        ClientError::Broken { url: self.shown(target), reason, port: self.port.what, hint }
    }

    fn slow(&self, target: &Target) -> ClientError {
        ClientError::Slow { url: self.shown(target), seconds: self.port.patience.as_secs() }
    }

    fn nonsense(&self, target: &Target, expected: &'static str, reason: &str) -> ClientError {
        ClientError::Nonsense { url: self.shown(target), expected, reason: reason.to_owned(), port: self.port.what }
    }
}

/// A file or folder of authorities that the environment names and that is not there is skipped without a word otherwise.
fn unreadable_authorities() -> Option<String> {
    ["SSL_CERT_FILE", "SSL_CERT_DIR"].iter().find_map(|name| {
        let path = std::env::var_os(name)?;
        let error = std::fs::metadata(&path).err()?;
        Some(format!("{name} names {}, which cannot be read: {error}", path.display()))
    })
}

impl Answer {
    /// The body as JSON of a known shape.
    pub(super) fn json<T: DeserializeOwned>(&self, expected: &'static str) -> Result<T, ClientError> {
        serde_json::from_slice(&self.body).map_err(|error| ClientError::Nonsense {
            url: self.url.clone(),
            expected,
            reason: error.to_string(),
            port: self.port.what,
        })
    }
}
