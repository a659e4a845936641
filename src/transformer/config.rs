//! `transformers:` of a namer in the configuration: the kinds there are, their keys and the one that all have.

use super::TransformerConfig;
use crate::config::tree::Node;
use crate::config::{Fields, Kind, Port, Report};
use crate::name::Path;

/// All kinds of transformers.
pub const KINDS: &[Kind<Box<dyn TransformerConfig>>] = &[
    Kind::built("io.l5d.port", |fields| Some(Box::new(PortConfig::read(fields)?))),
    Kind::built("io.l5d.localhost", |_| Some(Box::new(LocalhostConfig))),
    Kind::built("io.l5d.specificHost", |fields| Some(Box::new(SpecificHostConfig::read(fields)?))),
    Kind::built("io.l5d.replace", |fields| Some(Box::new(ReplaceConfig::read(fields)?))),
    Kind::built("io.l5d.const", |fields| Some(Box::new(ConstConfig::read(fields)?))),
    Kind::built("io.l5d.k8s.daemonset", |fields| Some(Box::new(DaemonSetConfig::read(fields)?))),
    Kind::built("io.l5d.k8s.localnode", |fields| Some(Box::new(LocalNodeConfig::read(fields)))),
];

/// One element of `transformers:`.
#[derive(Debug)]
pub struct TransformerBlock {
    /// The kind.
    pub kind: &'static str,
    /// `prefix`, without `/%`; none = the kind's own.
    pub prefix: Option<Path>,
    /// The keys of the kind.
    pub config: Box<dyn TransformerConfig>,
}

impl TransformerBlock {
    /// Reads one element. None only if a problem was reported.
    #[must_use]
    pub fn read(node: &Node, report: &Report) -> Option<Self> {
        Fields::read(node, "the transformer", report, |fields| {
            let kind = Kind::choose(fields, "transformer", KINDS)?;
            let config = kind.reader(fields)?(fields);
            let prefix = fields.opt("prefix");
            Some(Self { kind: kind.name, prefix, config: config? })
        })
    }
}

/// `io.l5d.port`: every address gets this port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortConfig {
    /// `port`.
    pub port: u16,
}

impl PortConfig {
    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let Port(port) = fields.req("port")?;
        Some(Self { port })
    }
}

/// `io.l5d.localhost`: keeps the addresses of this host. It has no keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalhostConfig;

/// `io.l5d.specificHost`: keeps the addresses of one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecificHostConfig {
    /// `host`: an address, or a name that is looked up once at the start.
    pub host: String,
}

impl SpecificHostConfig {
    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let host: String = fields.req_or("host", "io.l5d.specificHost: host property is required")?;
        if host.parse::<std::net::IpAddr>().is_err() {
            let message = format!(
                "the host {host} is looked up once, at the start, which fails if it is not found: give its address"
            );
            fields.report().warn(fields.span_of("host"), message);
        }
        Some(Self { host })
    }
}

/// `io.l5d.replace`: every leaf becomes the binding of another name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplaceConfig {
    /// `path`: that name. Only `/$/…` is found.
    pub path: Path,
}

impl ReplaceConfig {
    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        Some(Self { path: system_path(fields)? })
    }
}

/// `io.l5d.const`: the whole tree becomes the binding of another name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConstConfig {
    /// `path`: that name. Only `/$/…` is found.
    pub path: Path,
}

impl ConstConfig {
    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        Some(Self { path: system_path(fields)? })
    }
}

/// `io.l5d.k8s.localnode`: keeps the addresses on the node of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalNodeConfig {
    /// `hostNetwork`: pods share the addresses of their nodes, so that these are told by name.
    pub host_network: bool,
}

impl LocalNodeConfig {
    fn read(fields: &mut Fields<'_>) -> Self {
        Self { host_network: fields.or("hostNetwork", false) }
    }
}

/// `io.l5d.k8s.daemonset`: in the place of each address, the gateways on its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaemonSetConfig {
    /// `k8sHost`: of a kubectl proxy.
    pub host: String,
    /// `k8sPort`: its port.
    pub port: u16,
    /// `namespace` of the daemon set's service.
    pub namespace: String,
    /// `service`: its name.
    pub service: String,
    /// `port`: name or number of its port.
    pub gateway_port: String,
    /// `hostNetwork`: gateways are found by the names of nodes, not by their networks.
    pub host_network: bool,
}

impl DaemonSetConfig {
    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let host = fields.or("k8sHost", "localhost".to_owned());
        let Port(port) = fields.or("k8sPort", Port(8001));
        let host_network = fields.or("hostNetwork", false);
        let mut required = |key: &'static str| {
            let message = format!("assertion failed: io.l5d.k8s.daemonset: {key} property is required");
            fields.req_or::<String>(key, message)
        };
        let (namespace, service, gateway_port) = (required("namespace"), required("service"), required("port"));
        Some(Self { host, port, namespace: namespace?, service: service?, gateway_port: gateway_port?, host_network })
    }
}

/// `path`: namerd takes any, and finds those under `/$/` only.
fn system_path(fields: &mut Fields<'_>) -> Option<Path> {
    let path: Path = fields.req("path")?;
    if path.first() != Some(b"$") {
        let message = format!("only names under /$/ are found here, so that {path} always comes to neg");
        fields.report().warn(fields.span_of("path"), message);
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read_text;

    /// The `Debug` forms of the elements, or the messages.
    fn read(transformer: &str) -> Result<String, Vec<String>> {
        read_text("f", &format!("t: [{transformer}]"), "the test", |fields| fields.each("t", TransformerBlock::read))
            .map(|(blocks, _)| blocks.iter().map(|block| format!("{:?} {:?}", block.config, block.prefix)).collect())
            .map_err(|problems| problems.list().iter().map(|problem| problem.message.clone()).collect())
    }

    #[test]
    fn each_kind_reads_its_keys() {
        for (transformer, config) in [
            ("{kind: io.l5d.port, port: 4140}", "PortConfig { port: 4140 } None"),
            ("{kind: io.l5d.localhost, prefix: /here}", "LocalhostConfig Some(Path(/here))"),
            ("{kind: io.l5d.specificHost, host: 192.0.2.1}", "SpecificHostConfig { host: \"192.0.2.1\" } None"),
            ("{kind: io.l5d.replace, path: /$/nil}", "ReplaceConfig { path: Path(/$/nil) } None"),
            ("{kind: io.l5d.const, path: /$/nil}", "ConstConfig { path: Path(/$/nil) } None"),
        ] {
            assert_eq!(read(transformer), Ok(config.to_owned()), "{transformer}");
        }
    }

    #[test]
    fn what_can_come_to_nothing_only_is_warned_of() {
        let text = "t:
- {kind: io.l5d.replace, path: /svc/x}
- {kind: io.l5d.const, path: /svc/x}
- {kind: io.l5d.specificHost, host: foo}
";
        let read = read_text("f", text, "the test", |fields| fields.each("t", TransformerBlock::read));
        let warnings: Vec<String> = read.expect("namerd takes it").1.iter().map(ToString::to_string).collect();
        let neg = "only names under /$/ are found here, so that /svc/x always comes to neg";
        let host = "the host foo is looked up once, at the start, which fails if it is not found: give its address";
        assert_eq!(warnings, [format!("f:2:32: {neg}"), format!("f:3:30: {neg}"), format!("f:4:37: {host}")]);
    }

    #[test]
    fn a_missing_key_is_named() {
        for (kind, message) in [
            ("port", "'port' is required for the io.l5d.port transformer"),
            ("specificHost", "io.l5d.specificHost: host property is required"),
            ("replace", "'path' is required for the io.l5d.replace transformer"),
            ("const", "'path' is required for the io.l5d.const transformer"),
        ] {
            assert_eq!(read(&format!("{{kind: io.l5d.{kind}}}")), Err(vec![message.to_owned()]));
        }
    }

    #[test]
    fn a_daemon_set_needs_all_that_names_it() {
        let daemon_set = "{kind: io.l5d.k8s.daemonset, namespace: ns, service: l5d, port: incoming, hostNetwork: true}";
        let config = "DaemonSetConfig { host: \"localhost\", port: 8001, namespace: \"ns\", service: \"l5d\", \
                      gateway_port: \"incoming\", host_network: true } None";
        assert_eq!(read(daemon_set), Ok(config.to_owned()));
        let missing = |key: &str| format!("assertion failed: io.l5d.k8s.daemonset: {key} property is required");
        let all = ["namespace", "service", "port"].map(missing).to_vec();
        assert_eq!(read("{kind: io.l5d.k8s.daemonset}"), Err(all));
    }

    #[test]
    fn a_key_of_another_kind_is_unknown() {
        let messages = read("{kind: io.l5d.localhost, host: a}").expect_err("refused");
        assert!(messages[0].starts_with("Unrecognized field \"host\" in the io.l5d.localhost transformer"));
    }
}
