//! The keys by which another name server is configured, whoever asks it. The words are those of Linkerd.

use std::sync::Arc;
use std::time::Duration;

use super::http::Http;
use super::mux::ThriftMux;
use super::{ClientMetrics, Connect, Protocol, Retry, Tcp, Timings, Tls};
use crate::config::tree::Node;
use crate::config::{ClientTls, Fields, FromNode, Millis, Report, Validation};
use crate::name::{Limits, Path};
use crate::runtime::tls;

/// Longer delays cost more than they spare.
const LONG: Duration = Duration::from_secs(30);

/// How another name server is asked, whoever asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamConfig {
    /// The protocol.
    pub speaks: Speaks,
    /// `dst`: the name of its servers.
    pub dst: Path,
    /// `retry`: between attempts.
    pub retry: Retry,
    /// `failureThreshold`: pings.
    pub threshold: Threshold,
    /// `tls`: none for plain text.
    pub tls: Option<ClientTls>,
}

/// The protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaks {
    /// The thrift interface.
    ThriftMux,
    /// The HTTP controller.
    Http,
}

/// `failureThreshold`: how a connection shows that it is dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threshold {
    /// `minPeriodMs`: between pings.
    pub period: Duration,
    /// `closeTimeoutMs`: until a ping is answered.
    pub deadline: Duration,
}

// === impl UpstreamConfig ===

impl UpstreamConfig {
    /// Reads the keys. None only if a problem was reported.
    pub fn read(fields: &mut Fields<'_>, speaks: Speaks) -> Option<Self> {
        // The text is Linkerd's (NamerdInterpreterInitializer.scala:32-121).
        let missing = "`dst` is a required field: the name of the servers, such as /$/inet/namerd/4100";
        let dst: Option<Path> = fields.req_or("dst", missing);
        let retry = fields.or("retry", Retry::default());
        if retry.max > LONG {
            let (most, long) = (retry.max.as_secs(), LONG.as_secs());
            let message =
                format!("maxSeconds: {most}: a server that is well again may go unasked for so long; {long} is enough");
            fields.report().warn(fields.span_of("retry"), message);
        }
        let threshold = fields.or("failureThreshold", Threshold::default());
        // The word of Linkerd's namerd interpreters for what is `trustCertsBundle` elsewhere.
        let tls = fields.section("tls", "tls", |fields| ClientTls::read(fields, Some("caCert")));
        let tls = tls.filter(|tls| tls.enabled);
        if let Some(tls) = &tls {
            tls::Client::check(tls, fields);
        }
        let _: bool = fields.or("experimental", false);
        Some(Self { speaks, dst: dst?, retry, threshold, tls })
    }

    /// How long things take.
    pub fn timings(&self) -> Timings {
        let Threshold { period, deadline } = self.threshold;
        Timings { retry: self.retry, ping_period: period, ping_deadline: deadline, ..Timings::default() }
    }

    /// What makes connections.
    ///
    /// # Errors
    /// One line, for what only shows now.
    pub fn connect(&self) -> Result<Arc<dyn Connect>, String> {
        Ok(match &self.tls {
            None => Arc::new(Tcp),
            Some(tls) => Arc::new(Tls::new(tls)?),
        })
    }

    /// The protocol, ready to be used under the label `name`.
    ///
    /// # Errors
    /// One line, for what only shows now.
    pub fn protocol(&self, name: &str, names: Limits, metrics: &ClientMetrics) -> Result<Arc<dyn Protocol>, String> {
        let connect = self.connect()?;
        let timings = self.timings();
        Ok(match self.speaks {
            Speaks::ThriftMux => Arc::new(ThriftMux::new(name, connect, timings, names, metrics.clone())),
            Speaks::Http => {
                // Without TLS Linkerd sends no Host; with it, the name in the certificate (TlsFilter.scala:12).
                let host = match self.tls.as_ref().map(|tls| &tls.validation) {
                    Some(Validation::CommonName(name) | Validation::Off { server_name: Some(name) }) => name,
                    Some(Validation::Off { server_name: None }) | None => "namerd",
                };
                Arc::new(Http::new(name, connect, timings, names, metrics.clone(), (host, ""))?)
            }
        })
    }
}

// === impl Threshold ===

impl Default for Threshold {
    fn default() -> Self {
        let Timings { ping_period: period, ping_deadline: deadline, .. } = Timings::default();
        Self { period, deadline }
    }
}

impl FromNode for Threshold {
    fn from_node(node: &Node, report: &Report) -> Option<Self> {
        let default = Self::default();
        Fields::read(node, "failureThreshold", report, |fields| {
            let mut millis = |key, default: Duration| {
                let Millis(given) = fields.opt(key).unwrap_or(Millis(default));
                if given.is_zero() {
                    fields.report().problem(fields.span_of(key), format!("{key} must be more than 0"));
                }
                given
            };
            Some(Self {
                period: millis("minPeriodMs", default.period),
                deadline: millis("closeTimeoutMs", default.deadline),
            })
        })
    }
}
