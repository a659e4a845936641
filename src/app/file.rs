//! The whole configuration file: namerd's keys and rosterd's own.

use std::net::SocketAddr;

use super::{shown, with};
use crate::admin::AdminConfig;
use crate::config::tree::{self, Node, Value};
use crate::config::{Fields, OwnKeys, Problems, Report, Span, Warning};
use crate::iface::InterfaceBlock;
use crate::interpreter::remote::InterpreterBlock;
use crate::name::{NameTree, Path};
use crate::namer::system::{self, SystemName};
use crate::namer::{self, NamerBlock};
use crate::storage::StorageBlock;
use crate::telemetry::TelemeterBlock;

/// A checked configuration.
#[derive(Debug)]
pub struct Config {
    /// `admin`.
    pub admin: AdminConfig,
    /// `storage`; none in a relay, whose dtabs are those of the other name server.
    pub storage: Option<StorageBlock>,
    /// `namers`, in the order in which they are tried; their prefixes do not overlap.
    pub namers: Vec<NamerBlock>,
    /// `interfaces`: at least one.
    pub interfaces: Vec<InterfaceBlock>,
    /// `telemetry`.
    pub telemetry: Vec<TelemeterBlock>,
    /// The keys that only rosterd has.
    pub own: OwnKeys,
    /// `interpreter`: what makes this process a relay.
    pub interpreter: Option<InterpreterBlock>,
    /// All keys as JSON, secrets masked: what `/config.json` shows.
    pub shown: serde_json::Value,
}

impl Config {
    /// Reads the text of a configuration, and that of a second file with keys that only rosterd has, each with the
    /// name that messages call it.
    ///
    /// Nothing is opened or contacted, but the directories that namers read must exist. Environment variables are not
    /// replaced in the text, as in namerd.
    ///
    /// # Errors
    /// Everything that is wrong in both files.
    pub fn load(name: &str, text: &str, with: Option<(&str, &str)>) -> Result<(Self, Vec<Warning>), Problems> {
        let mut report = Report::default();
        let file = report.add_source(name, text);
        let with = with.map(|(name, text)| (report.add_source(name, text), text));
        let mut root = tree::parse(text, file, &report);
        let own = with.and_then(|(file, text)| tree::parse(text, file, &report));
        if let (Some(root), Some(own)) = (&mut root, own) {
            if root.is_null() {
                root.value = Value::Map(Vec::new());
            }
            with::merge(root, &own, &report);
        }
        let config = root.and_then(|root| Self::read(&root, &report));
        report.finish(config)
    }

    fn read(root: &Node, report: &Report) -> Option<Self> {
        if let Some((span, message)) = other_file(root) {
            report.problem(span, message);
            return None;
        }
        Fields::read(root, "the configuration", report, |fields| {
            // namerd's keys come first where messages list what is known.
            for key in ["admin", "storage", "namers", "interfaces", "telemetry"] {
                fields.node(key);
            }
            let own = OwnKeys::read(fields);
            report.limit_names(own.limits.names);
            let admin = fields.or("admin", AdminConfig::default());
            let is_relay = fields.node("interpreter").is_some();
            let storage = match fields.node("storage") {
                Some(node) if is_relay => {
                    // namerd's own file may serve a relay, too, with the key in a second one.
                    fields.without_effect(&["storage"], ": a relay has the dtabs of the name server that it asks");
                    StorageBlock::read(node, report).map(|_| None)
                }
                Some(node) => StorageBlock::read(node, report).map(Some),
                None if is_relay => Some(None),
                None => fields.missing("storage"),
            };
            let namers = fields.each("namers", NamerBlock::read).unwrap_or_default();
            namer::check_overlaps(&namers, report);
            let interfaces = match fields.node("interfaces").map(|node| &node.value) {
                None => {
                    report.problem(fields.span_of("interfaces"), "'interfaces' field is required");
                    None
                }
                Some(Value::List(items)) if items.is_empty() => {
                    report.problem(fields.span_of("interfaces"), "One or more interfaces must be specified");
                    None
                }
                Some(_) => fields.each("interfaces", InterfaceBlock::read),
            };
            let telemetry = fields.each("telemetry", TelemeterBlock::read).unwrap_or_default();
            let interpreter = match fields.node("interpreter") {
                Some(node) => Some(InterpreterBlock::read(node, report)?),
                None => None,
            };
            // A namer that was reported has been left out, and may be the one that is meant.
            let all_namers = match fields.node("namers").map(|node| &node.value) {
                Some(Value::List(items)) => items.len() == namers.len(),
                _ => true,
            };
            if let Some(block) = interpreter.as_ref().filter(|_| all_namers) {
                check_dst(root, &block.config.upstream.dst, &namers, report);
            }
            let (storage, interfaces) = (storage?, interfaces?);
            check_ports(root, &admin, &interfaces, report);
            Some(Self { admin, storage, namers, interfaces, telemetry, own, interpreter, shown: shown::show(root) })
        })
    }
}

/// What a file is that has nothing of a configuration of namerd, and is often taken for one.
fn other_file(root: &Node) -> Option<(Span, &'static str)> {
    let has = |key: &str| root.get(key).is_some_and(|entry| !entry.value.is_null());
    if has("storage") || has("interfaces") || has("interpreter") {
        return None;
    }
    let (key, message) = if has("routers") {
        let message = "this is the configuration of a Linkerd, the client: rosterd reads that of the namerd which its \
                       `interpreter` asks, with `storage` and `interfaces`";
        ("routers", message)
    } else if has("apiVersion") && has("kind") {
        let message = "this is an object of Kubernetes: rosterd reads the text that stands in it, in a ConfigMap below \
                       a key of `data`";
        ("apiVersion", message)
    } else {
        return None;
    };
    root.get(key).map(|entry| (entry.key_span, message))
}

/// Reports a `dst` of a relay that no look-up can find: there is no dtab where it is looked up.
fn check_dst(root: &Node, dst: &Path, namers: &[NamerBlock], report: &Report) {
    let wrong = match system::lookup(dst) {
        _ if namers.iter().any(|namer| dst.starts_with(&namer.prefix)) => return,
        Ok(NameTree::Leaf(SystemName::Bound { .. })) => return,
        // What it stands for is looked up like itself, and may be a name of a namer.
        Ok(NameTree::Leaf(SystemName::Path(_))) => return,
        Ok(_) if dst.first() == Some(b"$") => format!("{dst} has no addresses: `/$/inet/host/port` has"),
        Err(unknown) => format!("{dst}: {unknown}; `/$/inet/host/port` is the name of a host"),
        Ok(_) => {
            let known: Vec<String> = namers.iter().map(|namer| namer.prefix.to_string()).collect();
            let known = if known.is_empty() { "there are none".to_owned() } else { known.join(", ") };
            format!(
                "{dst} is looked up without a dtab, and nobody knows it: write `/$/inet/host/port`, or a name of one of \
                 `namers` ({known})"
            )
        }
    };
    let dst = root.get("interpreter").and_then(|interpreter| interpreter.value.get("dst"));
    report.problem(dst.map_or(root.span, |dst| dst.value.span), wrong);
}

/// Reports servers that want the place of one that comes before them; the first is the admin server.
fn check_ports(root: &Node, admin: &AdminConfig, interfaces: &[InterfaceBlock], report: &Report) {
    let clash = |one: SocketAddr, other: SocketAddr| {
        let same_ip = one.ip() == other.ip()
            || (one.is_ipv4() == other.is_ipv4() && (one.ip().is_unspecified() || other.ip().is_unspecified()));
        same_ip && one.port() == other.port() && one.port() != 0
    };
    let admin_port = root.get("admin").and_then(|admin| admin.value.get("port"));
    let admin_place = match admin_port {
        Some(port) => format!("the admin server at {}", report.place(port.value.span)),
        None => "the admin server, which has port 9991 by default".to_owned(),
    };
    for (index, interface) in interfaces.iter().enumerate() {
        let earlier = interfaces[..index].iter().find(|earlier| {
            let shared = earlier.socket_options.reuse_port && interface.socket_options.reuse_port;
            clash(earlier.address, interface.address) && !shared
        });
        let taken_by = match earlier {
            Some(earlier) => format!("the {} at {}", earlier.kind, report.place(earlier.port_span)),
            None if clash(admin.address, interface.address) => admin_place.clone(),
            None => continue,
        };
        let message = format!("{} is taken by {taken_by}: give one of them another `port`", interface.address);
        report.problem(interface.port_span, message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINIMAL: &str = "storage: {kind: io.l5d.inMemory}\ninterfaces: [{kind: io.l5d.httpController}]\n";

    fn load(text: &str) -> Result<Config, Vec<String>> {
        Config::load("namerd.yaml", text, None).map(|(config, _)| config).map_err(|problems| {
            problems.list().iter().map(|p| format!("{}:{}: {}", p.span.line, p.span.column, p.message)).collect()
        })
    }

    #[test]
    fn a_storage_and_an_interface_are_enough() {
        let config = load(MINIMAL).expect("valid");
        assert_eq!(config.admin.address, SocketAddr::from(([127, 0, 0, 1], 9991)));
        assert_eq!(config.storage.map(|storage| storage.kind), Some("io.l5d.inMemory"));
        assert_eq!(config.interfaces.len(), 1);
        assert!(config.namers.is_empty() && config.telemetry.is_empty());
        assert_eq!(config.own, OwnKeys::default());
    }

    #[test]
    fn storage_and_interfaces_are_required() {
        for text in ["", "{}", "storage:\ninterfaces:\n"] {
            let problems = load(text).expect_err("must be refused").join("\n");
            assert!(problems.contains("'storage' is required for the configuration"), "{problems}");
            assert!(problems.contains("'interfaces' field is required"), "{problems}");
        }
        assert_eq!(
            load("storage: {kind: io.l5d.inMemory}\ninterfaces: []").expect_err("must be refused"),
            ["2:13: One or more interfaces must be specified"]
        );
    }

    #[test]
    fn two_servers_on_one_port_are_refused_with_both_places() {
        let with = |admin: &str, interfaces: &str| {
            load(&format!("admin: {admin}\nstorage: {{kind: io.l5d.inMemory}}\ninterfaces:\n{interfaces}"))
        };
        let http = "- {kind: io.l5d.httpController}\n";
        assert_eq!(
            with("{}", &format!("{http}{http}")).expect_err("refused"),
            [
                "5:3: 127.0.0.1:4180 is taken by the io.l5d.httpController at namerd.yaml:4:3: give one of them another `port`"
            ]
        );
        let ports =
            "- {kind: io.l5d.httpController, port: 4100, ip: 0.0.0.0}\n- {kind: io.l5d.thriftNameInterpreter}\n";
        assert_eq!(
            with("{}", ports).expect_err("refused"),
            [
                "5:3: 127.0.0.1:4100 is taken by the io.l5d.httpController at namerd.yaml:4:39: give one of them another `port`"
            ]
        );
        assert_eq!(
            with("{port: 4180}", http).expect_err("refused"),
            ["4:3: 127.0.0.1:4180 is taken by the admin server at namerd.yaml:1:15: give one of them another `port`"]
        );
        for fine in [
            "- {kind: io.l5d.httpController, port: 0}\n- {kind: io.l5d.httpController, port: 0}\n",
            "- {kind: io.l5d.httpController}\n- {kind: io.l5d.httpController, ip: 127.0.0.2}\n",
            "- {kind: io.l5d.httpController, ip: '::1'}\n- {kind: io.l5d.httpController}\n",
        ] {
            assert!(with("{port: 0}", fine).is_ok(), "{fine}");
        }
    }

    #[test]
    fn a_file_that_is_no_configuration_of_namerd_at_all_is_told_what_it_is() {
        let linkerd =
            load("admin: {port: 9990}\nrouters:\n- {protocol: http}\nusage: {orgId: x}").expect_err("refused");
        assert!(
            linkerd.len() == 1 && linkerd[0].starts_with("2:1: this is the configuration of a Linkerd"),
            "{linkerd:?}"
        );
        let object = load("kind: ConfigMap\napiVersion: v1\ndata: {namerd.yaml: x}").expect_err("refused");
        assert!(object.len() == 1 && object[0].starts_with("2:1: this is an object of Kubernetes"), "{object:?}");
    }

    #[test]
    fn all_that_is_wrong_is_said_at_once() {
        let problems = load(
            "admin: {port: 70000}
storage: {kind: io.l5d.zk, pathPrefix: [x]}
namers:
- {kind: io.l5d.marathon, prot: 1}
- {kind: io.l5d.fs}
interfaces:
- {kind: io.l5d.destination}
- {kind: io.l5d.httpController, ip: localhost}
telemetry: [{kind: io.l5d.prometheus, prefix: {}}]
interpreter: {kind: io.l5d.mesh, dst: /$/inet/x/4321}
routers: []
",
        )
        .expect_err("must be refused");
        let starts = [
            "1:15: 70000 outside valid range for ports",
            "2:17: io.l5d.zk: not built yet",
            "4:10: io.l5d.marathon: not built yet",
            "5:3: 'rootDir' is required for the io.l5d.fs namer",
            "7:10: io.l5d.destination: not built yet",
            "8:37: 'localhost' is not an IP string literal.",
            "9:47: expected text, found a mapping",
            "10:21: io.l5d.mesh: not built yet",
            "11:1: Unrecognized field \"routers\" in the configuration (known here: admin, storage, namers, ",
        ];
        assert_eq!(problems.len(), starts.len(), "{problems:#?}");
        for (problem, start) in problems.iter().zip(starts) {
            assert!(problem.starts_with(start), "{problem}");
        }
    }

    #[test]
    fn limits_hold_for_the_dtabs_of_the_file_too() {
        let with = |dtab: &str, limits: &str| {
            load(&format!(
                "storage: {{kind: io.l5d.inMemory, namespaces: {{a: '{dtab}'}}}}
interfaces: [{{kind: io.l5d.httpController}}]
limits: {{{limits}}}"
            ))
        };
        let deep = format!("/a=>{}/b{}", "(".repeat(100), ")".repeat(100));
        let refused = with(&deep, "").expect_err("must be refused").join("");
        assert!(refused.starts_with("1:") && refused.contains("limits.depth"), "{refused}");
        assert!(with(&deep, "depth: 100").is_ok());
        assert!(with("/a=>/b/c", "pathSegments: 1").is_err());
    }

    #[test]
    fn a_relay_needs_no_storage_and_has_no_use_for_one() {
        let relay = "interpreter: {kind: io.l5d.namerd, dst: /$/inet/namerd/4100}\n";
        let interfaces = "interfaces: [{kind: io.l5d.httpController}]\n";
        let config = load(&format!("{relay}{interfaces}")).expect("valid");
        assert!(config.storage.is_none());
        assert_eq!(config.interpreter.map(|block| block.kind), Some("io.l5d.namerd"));
        let (config, warnings) = Config::load("namerd.yaml", MINIMAL, Some(("own.yaml", relay))).expect("valid");
        assert!(config.storage.is_none() && config.interpreter.is_some());
        let warned: Vec<String> = warnings.iter().map(ToString::to_string).collect();
        let why = "a relay has the dtabs of the name server that it asks";
        assert_eq!(warned, [format!("namerd.yaml:1:10: storage has no effect: {why}")]);
    }

    #[test]
    fn the_servers_of_a_relay_are_named_in_a_way_that_can_be_looked_up() {
        let with = |dst: &str, namers: &str| {
            let interfaces = "interfaces: [{kind: io.l5d.httpController}]\n";
            load(&format!("interpreter: {{kind: io.l5d.namerd, dst: {dst}}}\nnamers: {namers}\n{interfaces}"))
        };
        let namers = "[{kind: io.l5d.fs, rootDir: src}]";
        for dst in ["/$/inet/namerd/4100", "/$/io.buoyant.rinet/4100/namerd", "/$/inet/4100"] {
            assert!(with(dst, "[]").is_ok(), "{dst}");
        }
        assert!(with("/#/io.l5d.fs/namerd", namers).is_ok());
        for (dst, start) in [
            ("/svc/x", "1:41: /svc/x is looked up without a dtab, and nobody knows it: "),
            ("/#/io.l5d.consul/dc1/namerd", "1:41: /#/io.l5d.consul/dc1/namerd is looked up without a dtab"),
            ("/$/nil", "1:41: /$/nil has no addresses: "),
            ("/$/inet/namerd", "1:41: /$/inet/namerd: "),
        ] {
            let refused = with(dst, namers).expect_err("refused");
            assert!(refused.len() == 1 && refused[0].starts_with(start), "{refused:?}");
        }
    }

    #[test]
    fn rosterds_own_keys_may_stand_in_the_same_file() {
        let config =
            load(&format!("{MINIMAL}stateDir: /var/lib/rosterd\nfixes: {{loneWeights: true}}\n")).expect("valid");
        assert_eq!(config.own.state_dir, Some("/var/lib/rosterd".into()));
        assert!(config.own.fixes.lone_weights);
    }
}
