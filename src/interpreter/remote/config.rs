//! `interpreter:`, rosterd's own key for relay mode: the name server that a relay asks.

use std::sync::Arc;
use std::time::Duration;

use super::keeper::{Begun, Keeper};
use super::snapshot::Snapshot;
use super::{Remote, RemoteDtabs};
use crate::client::http::{Controller, Http};
use crate::client::{ClientMetrics, Speaks, Tcp, Upstream, UpstreamConfig};
use crate::config::tree::Node;
use crate::config::{Fields, FromNode, Kind, Report};
use crate::interpreter::Local;
use crate::name::{Limits, Path};
use crate::runtime::Probe;
use crate::runtime::handover::Files;
use crate::storage::Storage;

/// How long each probe may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// All kinds of interpreters: the words are those of Linkerd's configuration, whose block can be copied.
pub const KINDS: &[Kind<RelayConfig>] = &[
    Kind::built("io.l5d.namerd", |fields| RelayConfig::read(fields, Speaks::ThriftMux)),
    Kind::built("io.l5d.namerd.http", |fields| RelayConfig::read(fields, Speaks::Http)),
    Kind::not_yet("io.l5d.mesh"),
];

/// The value of `interpreter:`.
#[derive(Debug)]
pub struct InterpreterBlock {
    /// The kind.
    pub kind: &'static str,
    /// Its keys.
    pub config: RelayConfig,
}

/// Keys of a relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayConfig {
    /// The name server.
    pub upstream: UpstreamConfig,
    /// `controller`: where lists and writes go.
    pub controller: Option<ControllerUrl>,
}

/// `http://host:port[/path]`, or `https://…`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerUrl {
    /// As it was given.
    pub text: String,
    /// `https`: TLS is spoken there, as the `tls` of the name server says.
    pub tls: bool,
    /// `host:port`
    pub authority: String,
    /// What goes before `/api`, without a `/` at its end.
    pub base: String,
    /// The name of its servers, under `/$/inet`.
    pub dst: Path,
}

/// What a relay is built from besides its keys.
#[derive(Clone, Debug)]
pub struct RelayParts {
    /// Finds the servers.
    pub local: Local,
    /// What is read of dtabs.
    pub names: Limits,
    /// Counts.
    pub metrics: ClientMetrics,
    /// `stateDir`: where last good values are kept, for as long as that is ours.
    pub files: Option<Files>,
}

/// A relay: what interfaces are served from.
#[derive(Clone)]
pub struct Relay {
    /// Answers names.
    pub interpreter: Remote,
    /// Passes on lists and writes.
    pub storage: Arc<dyn Storage>,
    /// The name servers: the one that is asked, and the one that is written to.
    pub upstreams: Vec<Upstream>,
    keeper: Option<Arc<Keeper>>,
}

// === impl Relay ===

impl Relay {
    /// What `rosterd check --connect` tries: the name server, and its controller.
    pub fn probes(&self) -> Vec<Probe> {
        let upstream = self.interpreter.upstream().clone();
        let mut probes = vec![Probe::new(upstream.name().to_string(), async move { upstream.probe(PATIENCE).await })];
        if let Some(controller) = self.upstreams.get(1) {
            let lists = self.storage.namespaces();
            let ask = async move {
                match lists.answer(PATIENCE).await {
                    Ok((names, _)) => Ok(format!("namespaces that can be read: {}", names.len())),
                    Err(wrong) => Err(format!("{wrong}; is this the HTTP controller of a name server?")),
                }
            };
            probes.push(Probe::new(format!("controller {}", controller.name()), ask));
        }
        probes
    }

    /// Writes the last good values, if they are kept at all, so that the next process has them.
    pub async fn save(&self) {
        if let Some(keeper) = &self.keeper {
            keeper.write().await;
        }
    }
}

// === impl InterpreterBlock ===

impl InterpreterBlock {
    /// Reads the value. None only if a problem was reported.
    #[must_use]
    pub fn read(node: &Node, report: &Report) -> Option<Self> {
        Fields::read(node, "the interpreter", report, |fields| {
            let kind = Kind::choose(fields, "interpreter", KINDS)?;
            let config = kind.reader(fields)?(fields)?;
            Some(Self { kind: kind.name, config })
        })
    }
}

// === impl ControllerUrl ===

impl FromNode for ControllerUrl {
    fn from_node(node: &Node, report: &Report) -> Option<Self> {
        let text = String::from_node(node, report)?;
        match Self::parse(&text) {
            Ok(url) => Some(url),
            Err(why) => {
                report.problem(node.span, format!("'{text}' is not `http://host:port` or `https://host:port`: {why}"));
                None
            }
        }
    }
}

impl ControllerUrl {
    fn parse(text: &str) -> Result<Self, &'static str> {
        let (tls, rest) = match text.split_once("://") {
            Some(("http", rest)) => (false, rest),
            Some(("https", rest)) => (true, rest),
            _ => return Err("it has to begin with http:// or https://"),
        };
        let (authority, base) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if base.contains(['?', '#', ' ']) || authority.contains('@') {
            return Err("it has more than a host, a port and a path");
        }
        let (host, port) = authority.rsplit_once(':').ok_or("there is no port")?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if host.is_empty() || !matches!(port.parse::<u16>(), Ok(1..)) {
            return Err("there is no host, or no port");
        }
        let dst = Path::from_elems(["$", "inet", host, port]).map_err(|_| "there is no host, or no port")?;
        let (authority, base) = (authority.to_owned(), base.trim_end_matches('/').to_owned());
        Ok(Self { text: text.to_owned(), tls, authority, base, dst })
    }
}

// === impl RelayConfig ===

impl RelayConfig {
    fn read(fields: &mut Fields<'_>, speaks: Speaks) -> Option<Self> {
        let upstream = UpstreamConfig::read(fields, speaks);
        let controller: Option<ControllerUrl> = fields.opt("controller");
        let plain = upstream.as_ref().is_some_and(|upstream| upstream.tls.is_none());
        if plain && controller.as_ref().is_some_and(|url| url.tls) {
            let message = "https needs `tls`: with `commonName`, the name in the server's certificate";
            fields.report().problem(fields.span_of("controller"), message);
        }
        fields.without_effect(&["namespace"], ": a relay takes it from each request");
        Some(Self { upstream: upstream?, controller })
    }

    /// Builds the relay. Nothing is contacted. Must be called within a runtime.
    ///
    /// # Errors
    /// One line: what cannot be built, and why.
    pub fn build(&self, parts: &RelayParts) -> Result<Relay, String> {
        let RelayParts { local, names, metrics, files } = parts;
        let name = self.upstream.dst.to_string();
        let timings = self.upstream.timings();
        let protocol = self.upstream.protocol(&name, *names, metrics)?;
        let kind = protocol.name();
        let upstream = Upstream::new(&*name, protocol, local.servers(&self.upstream.dst), timings, metrics.clone());
        metrics.show(&upstream);
        let mut upstreams = vec![upstream.clone()];
        let controller = match &self.controller {
            None => None,
            Some(ControllerUrl { text, tls, authority, base, dst }) => {
                let place = (&**authority, &**base);
                let connect = if *tls { self.upstream.connect()? } else { Arc::new(Tcp) };
                let http = Http::new(&**text, connect, timings, *names, metrics.clone(), place)?;
                let http = Arc::new(http);
                let at = Upstream::new(&**text, http.clone(), local.servers(dst), timings, metrics.clone());
                metrics.show(&at);
                upstreams.push(at.clone());
                Some(Controller::new(at, http))
            }
        };
        let begun = files.as_ref().map(|files| {
            let snapshot = Snapshot::open(files.directory(), kind, &self.upstream.dst, *names);
            if files.are_ours() {
                snapshot.is_ours();
            }
            Arc::new(Begun::new(snapshot, files.clone()))
        });
        let interpreter = Remote::new(upstream, controller.clone(), local.clone(), begun.clone());
        let keeper = begun.map(|begun| Arc::new(Keeper::start(interpreter.clone(), begun)));
        let storage: Arc<dyn Storage> = Arc::new(RemoteDtabs::new(interpreter.clone(), controller));
        Ok(Relay { interpreter, storage, upstreams, keeper })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Timings;
    use crate::config::read_text;

    fn read(interpreter: &str) -> Result<RelayConfig, Vec<String>> {
        read_text("f", &format!("i: {interpreter}"), "the test", |fields| {
            let node = fields.node("i")?;
            InterpreterBlock::read(node, fields.report())
        })
        .map(|(block, _)| block.config)
        .map_err(|problems| problems.list().iter().map(|problem| problem.message.clone()).collect())
    }

    #[test]
    fn the_block_of_a_linkerd_can_be_copied() {
        let config = read(
            "{kind: io.l5d.namerd, dst: /$/inet/namerd.example/4100, namespace: default, experimental: true,
              retry: {baseSeconds: 2, maxSeconds: 20}, failureThreshold: {minPeriodMs: 1000, closeTimeoutMs: 500}}",
        )
        .expect("valid");
        assert_eq!(config.upstream.dst.to_string(), "/$/inet/namerd.example/4100");
        let timings = config.upstream.timings();
        assert_eq!((timings.retry.base, timings.retry.max), (Duration::from_secs(2), Duration::from_secs(20)));
        assert_eq!((timings.ping_period.as_millis(), timings.ping_deadline.as_millis()), (1_000, 500));
        assert_eq!(config.controller, None);
    }

    #[test]
    fn retry_and_pings_have_defaults_and_dst_has_none() {
        let config = read("{kind: io.l5d.namerd.http, dst: /#/io.l5d.fs/namerd}").expect("valid");
        assert_eq!(config.upstream.timings(), Timings::default());
        assert_eq!(config.upstream.speaks, Speaks::Http);
        let problems = read("{kind: io.l5d.namerd}").expect_err("refused");
        assert!(problems[0].starts_with("`dst` is a required field"), "{problems:?}");
        let problems = read("{kind: io.l5d.namerd, dst: /a, failureThreshold: {minPeriodMs: 0}}").expect_err("refused");
        assert_eq!(problems, ["minPeriodMs must be more than 0"]);
        assert_eq!(read("{kind: io.l5d.mesh, dst: /a}"), Err(vec!["io.l5d.mesh: not built yet".to_owned()]));
    }

    #[test]
    fn a_controller_is_a_url_with_a_port() {
        let url = |text: &str| {
            read(&format!("{{kind: io.l5d.namerd, dst: /a, controller: '{text}'}}")).map(|config| config.controller)
        };
        let controller = url("http://namerd.example:4180/names/").expect("valid").expect("given");
        assert_eq!((&*controller.authority, &*controller.base), ("namerd.example:4180", "/names"));
        assert_eq!(controller.dst.to_string(), "/$/inet/namerd.example/4180");
        let controller = url("http://[::1]:4180").expect("valid").expect("given");
        assert_eq!((&*controller.authority, &*controller.base), ("[::1]:4180", ""));
        for (text, why) in [
            ("namerd:4180", "it has to begin with http:// or https://"),
            ("http://namerd", "there is no port"),
            ("http://:4180", "there is no host, or no port"),
            ("http://namerd:0", "there is no host, or no port"),
            ("http://namerd:4180/?x", "it has more than a host, a port and a path"),
        ] {
            assert_eq!(
                url(text),
                Err(vec![format!("'{text}' is not `http://host:port` or `https://host:port`: {why}")])
            );
        }
        let problems = url("https://namerd:4180").expect_err("refused");
        assert!(problems[0].starts_with("https needs `tls`"), "{problems:?}");
        let tls = "{kind: io.l5d.namerd, dst: /a, tls: {commonName: namerd, caCert: ca.pem}, controller: 'https://namerd:4180'}";
        let config = read(tls).expect("valid");
        assert!(config.controller.is_some_and(|url| url.tls && url.authority == "namerd:4180"));
        let trusted = config.upstream.tls.expect("given").trust_certs;
        assert_eq!(trusted, [std::path::PathBuf::from("ca.pem")], "as Linkerd has it");
    }
}
