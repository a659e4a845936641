//! `io.l5d.namerd.http`: streams of the HTTP controller, each on a connection of its own.
//!
//! The protocol has no sign of life, so that a server that has vanished looks like one that has nothing to say. A stream
//! is therefore opened anew before it gets old ([`Timings::stream_age`]).

mod controller;
mod exchange;
mod json;
mod lines;

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, ETAG};
use http::{HeaderValue, Method, Request, StatusCode};
use http_body_util::Full;
use tokio::time::Instant;

use super::{
    Ages, Answer, Ask, ClientMetrics, Connect, End, Explain, Explained, Failure, News, Protocol, Reason, Server,
    Timings,
};
use crate::name::{DelegateTree, Dtab, Limits, NameTree};
use crate::runtime::heavy;
use crate::text::url::Target;
use exchange::{Exchange, Exchanges, Patience, Unsent};
use json::Said;
use lines::Lines;

pub use controller::{Controller, Refused, Written};

/// What is longer is not read on the runtime's own threads.
const HEAVY_FROM: usize = 256 << 10;

/// How long a server may take that has to ask its own backends: longer than it waits for them.
const ANSWER: Duration = Duration::from_secs(35);

/// The namespace of questions for which servers do not look at it.
const ANY_NAMESPACE: &str = "default";

/// Where the names of namespaces are listed, and their dtabs kept.
const DTABS: &str = "/api/1/dtabs";

/// The HTTP controller's watches.
pub struct Http {
    exchanges: Exchanges,
    /// What goes before `/api`.
    base: String,
    limits: Limits,
}

// === impl Http ===

impl Http {
    /// Speaks over connections that `connect` makes. `upstream` is the label of metrics, `host` the header of that name;
    /// `base` goes before the paths of requests, without a `/` at its end; dtabs are read under `limits`.
    ///
    /// # Errors
    /// `host` cannot be a header.
    pub fn new(
        upstream: impl Into<Arc<str>>,
        connect: Arc<dyn Connect>,
        timings: Timings,
        limits: Limits,
        metrics: ClientMetrics,
        (host, base): (&str, &str),
    ) -> Result<Self, String> {
        let host = HeaderValue::from_str(host).map_err(|_| format!("{host:?} is no host name"))?;
        let exchanges = Exchanges::new(upstream.into(), connect, timings, metrics, host);
        Ok(Self { exchanges, base: base.to_owned(), limits })
    }

    fn request(&self, method: Method, target: &Target) -> http::request::Builder {
        Request::builder().method(method).uri(format!("{}{target}", self.base)).header(ACCEPT, "application/json")
    }

    /// Sends a GET and waits for the head of its answer, within `patience`.
    async fn get(&self, server: &Arc<Server>, target: &Target, patience: Duration) -> Result<Exchange, Failure> {
        let request = self.request(Method::GET, target).body(Full::new(Bytes::new()));
        let request = request.map_err(|error| Failure::new(Reason::BadAnswer, error.to_string()))?;
        // Whoever asks bounds the time; this is for the sake of the server's turns.
        let patience = Patience { until: Instant::now() + 2 * ANSWER, answer: patience };
        let exchange = self.exchanges.begin(server, request, patience).await;
        exchange.map_err(|Unsent { failure, .. }| failure)
    }

    /// Follows a stream until something ends it.
    async fn stream(&self, server: &Arc<Server>, ask: &Ask, news: &News) -> Result<Infallible, End> {
        news.asked();
        if let Ask::Dtab { ns } = ask {
            // Its stream says nothing of a namespace that is not there.
            news.tell(Answer::Dtab(self.dtab(server, ns).await?))?;
        }
        // The head of a stream comes at once, whenever its first value does.
        let mut exchange = self.get(server, &target(ask), self.exchanges.timings.handshake).await?;
        if exchange.head.status != StatusCode::OK {
            return Err(refused(&mut exchange, self.exchanges.timings).await.into());
        }
        readable(&exchange)?;
        let mut lines = Lines::new(exchange);
        while let Some(line) = lines.next().await? {
            match ask {
                // The line has no version.
                Ask::Dtab { ns } => news.tell(Answer::Dtab(self.dtab(server, ns).await?))?,
                _ => match said(ask, line).await? {
                    Said::Answer(answer) => news.tell(answer)?,
                    Said::Declared(reason) => news.declined(Failure::new(Reason::Declared, reason)),
                    Said::Pending => {}
                },
            }
        }
        Err(End::Gone(Reason::EndOfStream))
    }

    /// What is stored now.
    async fn read(&self, server: &Arc<Server>, ask: &Ask) -> Result<Answer, Failure> {
        match ask {
            Ask::Dtab { ns } => self.dtab(server, ns).await.map(Answer::Dtab),
            _ => self.namespaces(server).await,
        }
    }

    async fn namespaces(&self, server: &Arc<Server>) -> Result<Answer, Failure> {
        let timings = self.exchanges.timings;
        let mut exchange = self.get(server, &Target::route(DTABS), ANSWER).await?;
        if exchange.head.status != StatusCode::OK {
            return Err(refused(&mut exchange, timings).await);
        }
        match said(&Ask::Namespaces, exchange.whole(timings.handshake).await?).await? {
            Said::Answer(names) => Ok(names),
            other => Err(Failure::new(Reason::BadAnswer, format!("no list of namespaces: {other:?}"))),
        }
    }

    /// A stored dtab with its version.
    async fn dtab(&self, server: &Arc<Server>, ns: &str) -> Result<Option<(Dtab, Bytes)>, Failure> {
        let timings = self.exchanges.timings;
        let mut exchange = self.get(server, &Target::namespace(DTABS, ns), ANSWER).await?;
        match exchange.head.status {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND => return Ok(None),
            _ => return Err(refused(&mut exchange, timings).await),
        }
        let version = version_of(&exchange)?;
        let body = exchange.whole(timings.handshake).await?;
        let limits = self.limits;
        let dtab = off_runtime(body, move |body| json::dtab(body, &limits)).await?;
        Ok(Some((dtab, version)))
    }
}

#[async_trait]
impl Protocol for Http {
    fn name(&self) -> &'static str {
        "io.l5d.namerd.http"
    }

    fn ages(&self, timings: &Timings) -> Ages {
        Ages { quiet: None, whole: timings.stream_age }
    }

    async fn follow(&self, server: &Arc<Server>, ask: &Ask, news: &News) -> End {
        match self.stream(server, ask, news).await {
            Err(end) => end,
            Ok(never) => match never {},
        }
    }

    async fn explain(&self, server: &Arc<Server>, ask: &Explain) -> Result<DelegateTree<Explained>, Failure> {
        let NameTree::Leaf(path) = &ask.tree else {
            return Err(Failure::new(Reason::Declared, "the HTTP controller explains nothing but one path"));
        };
        let target = Target::namespace("/api/1/delegate", &ask.ns).with("path", &path.to_string());
        let target = if ask.dtab.is_empty() { target } else { target.with("dtab", &ask.dtab) };
        let mut exchange = self.get(server, &target, ANSWER).await?;
        let timings = self.exchanges.timings;
        match exchange.head.status {
            StatusCode::OK => {}
            StatusCode::INTERNAL_SERVER_ERROR => {
                let failure = refused(&mut exchange, timings).await;
                return Err(Failure::new(Reason::Declared, failure.text));
            }
            _ => return Err(refused(&mut exchange, timings).await),
        }
        let body = exchange.whole(timings.handshake).await?;
        off_runtime(body, json::explained).await
    }
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http").field("base", &self.base).finish_non_exhaustive()
    }
}

/// What is asked, as Linkerd's interpreter asks it.
fn target(ask: &Ask) -> Target {
    match ask {
        Ask::Bind { ns, dtab, path } => {
            let target = Target::namespace("/api/1/bind", ns).with("path", &path.to_string()).with("watch", "1");
            if dtab.is_empty() { target } else { target.with("dtab", dtab) }
        }
        Ask::Addr { id } => {
            Target::namespace("/api/1/addr", ANY_NAMESPACE).with("path", &id.to_string()).with("watch", "1")
        }
        Ask::Dtab { ns } => Target::namespace(DTABS, ns).with("watch", "1"),
        Ask::Namespaces => Target::route(DTABS).with("watch", "1"),
        Ask::Names => Target::route("/api/1/bound-names").with("watch", "1"),
    }
}

async fn said(ask: &Ask, line: Bytes) -> Result<Said, Failure> {
    let ask = ask.clone();
    off_runtime(line, move |line| json::said(&ask, line)).await
}

/// Reads a text, a long one where it holds up nobody.
async fn off_runtime<T: Send + 'static>(
    text: Bytes,
    read: impl FnOnce(&[u8]) -> Result<T, String> + Send + 'static,
) -> Result<T, Failure> {
    let read = if text.len() < HEAVY_FROM {
        read(&text)
    } else {
        heavy(move || read(&text)).await.unwrap_or_else(|| Err("it could not be read".to_owned()))
    };
    read.map_err(|bad| Failure::new(Reason::BadAnswer, format!("an answer without sense: {bad}")))
}

/// What a proxy in between says is no answer: lines of plain text are taken for what the server says.
fn readable(exchange: &Exchange) -> Result<(), Failure> {
    let kind = exchange.head.headers.get(CONTENT_TYPE).map(|kind| String::from_utf8_lossy(kind.as_bytes()));
    match kind {
        Some(kind) if kind.trim_start().to_ascii_lowercase().starts_with("text/html") => {
            Err(Failure::new(Reason::BadAnswer, format!("an answer without sense: {kind}")))
        }
        _ => Ok(()),
    }
}

/// The version that an answer tells; empty if it tells none. Proxies may have put it in quotes, or marked it as weak.
fn version_of(exchange: &Exchange) -> Result<Bytes, Failure> {
    let Some(tag) = exchange.head.headers.get(ETAG) else { return Ok(Bytes::new()) };
    let text = String::from_utf8_lossy(tag.as_bytes());
    let plain = text.trim().trim_start_matches("W/").trim_matches('"');
    let version = STANDARD.decode(plain).map_err(|_| {
        // Whoever edits what he reads would replace whatever is there.
        Failure::new(Reason::BadAnswer, format!("an answer without sense: Etag {text} is no version"))
    })?;
    Ok(version.into())
}

/// What a server says that does not answer with success.
async fn refused(exchange: &mut Exchange, timings: Timings) -> Failure {
    let status = exchange.head.status;
    let text = match exchange.whole(timings.handshake).await {
        Ok(body) => String::from_utf8_lossy(&body).trim().to_owned(),
        Err(failure) => failure.to_string(),
    };
    let text = if text.is_empty() { format!("HTTP status {status}") } else { format!("HTTP status {status}: {text}") };
    // It is not there for anybody, or not for now.
    let reason = match status {
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT => Reason::Nack,
        _ => Reason::Status,
    };
    Failure::new(reason, text)
}
