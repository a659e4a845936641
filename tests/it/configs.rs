//! Configuration files: those that people run load, and those that namerd refuses are refused.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rosterd::app::Config;
use serde_yaml::Value;

/// What is built so far. A kind that is not must be the only reason to refuse a file that namerd loads.
const BUILT: &[(&str, &[&str])] = &[
    ("storage", &["io.l5d.inMemory", "io.l5d.consul"]),
    (
        "namers",
        &[
            "io.l5d.fs",
            "io.l5d.consul",
            "io.l5d.k8s",
            "io.l5d.k8s.external",
            "io.l5d.k8s.ns",
            "io.l5d.rewrite",
            "io.rosterd.namerd",
        ],
    ),
    (
        "transformers",
        &[
            "io.l5d.port",
            "io.l5d.localhost",
            "io.l5d.specificHost",
            "io.l5d.replace",
            "io.l5d.const",
            "io.l5d.k8s.daemonset",
            "io.l5d.k8s.localnode",
        ],
    ),
    ("interfaces", &["io.l5d.httpController", "io.l5d.mesh", "io.l5d.thriftNameInterpreter"]),
    (
        "telemetry",
        &["io.l5d.prometheus", "io.l5d.influxdb", "io.l5d.recentRequests", "io.l5d.tracelog", "io.l5d.zipkin"],
    ),
    ("interpreter", &["io.l5d.namerd", "io.l5d.namerd.http"]),
];

fn is_built(key: &str, kind: &str) -> bool {
    BUILT.iter().any(|(family, kinds)| *family == key && kinds.contains(&kind))
}

/// Adds the kinds below a value that are not built, as the messages that must name them.
fn missing(key: &str, value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Sequence(items) => items.iter().for_each(|item| missing(key, item, found)),
        Value::Mapping(entries) => {
            if let Some(kind) = value.get("kind").and_then(Value::as_str)
                && BUILT.iter().any(|(family, _)| *family == key)
                && !is_built(key, kind)
            {
                return found.push(format!("{kind}: not built yet"));
            }
            for (key, value) in entries {
                missing(key.as_str().unwrap_or_default(), value, found);
            }
        }
        _ => {}
    }
}

/// Loads a text, which must be accepted, or be refused for the kinds that are not built and nothing else.
fn check(name: &str, text: &str) -> Result<(), String> {
    let tree: Value = if text.trim_start().starts_with('{') {
        serde_json::from_str(text).map_err(|error| format!("{name}: {error}"))?
    } else {
        serde_yaml::from_str(text).map_err(|error| format!("{name}: {error}"))?
    };
    let mut expected = Vec::new();
    missing("", &tree, &mut expected);
    expected.sort();
    let mut refused: Vec<String> = match Config::load(name, text, None) {
        Ok(_) => Vec::new(),
        Err(problems) => problems.list().iter().map(|problem| problem.message.clone()).collect(),
    };
    refused.sort();
    if refused == expected { Ok(()) } else { Err(format!("{name}: refused for {refused:#?}, expected {expected:#?}")) }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("the folder can be read")
        .map(|file| file.expect("the folder can be read").path())
        .filter(|path| path.is_file() && path.extension().is_some_and(|extension| extension != "md"))
        .collect();
    files.sort();
    files
}

fn check_all(configurations: Vec<(String, String)>) {
    let wrong: Vec<String> = configurations.iter().filter_map(|(name, text)| check(name, text).err()).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn configurations_in_the_shapes_people_run_load_or_name_exactly_what_is_not_built_yet() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/configs");
    let configurations: Vec<(String, String)> = files(&folder)
        .iter()
        .map(|file| (file.display().to_string(), std::fs::read_to_string(file).expect("a file of text")))
        .collect();
    assert!(configurations.len() >= 12, "{} files", configurations.len());
    check_all(configurations);
}

/// A mistake: the keys of a file, a part of the message that namerd prints where it prints one of its own, and the kind
/// that must be built for the mistake to be seen.
struct Mistake(&'static str, &'static str, Option<(&'static str, &'static str)>);

const NO_KIND: Option<(&str, &str)> = None;

const MISTAKES: &[Mistake] = &[
    Mistake("foo: 1", "Unrecognized field \"foo\"", NO_KIND),
    Mistake("usage: {orgId: x}", "Unrecognized field \"usage\"", NO_KIND),
    Mistake("routers: []", "Unrecognized field \"routers\"", NO_KIND),
    Mistake("admin: {foo: 1}", "Unrecognized field \"foo\"", NO_KIND),
    Mistake("admin: {security: {foo: 1}}", "Unrecognized field \"foo\"", NO_KIND),
    Mistake("storage: {kind: io.l5d.inMemory, foo: 1}", "Unrecognized field \"foo\"", NO_KIND),
    Mistake(
        "interfaces: [{kind: io.l5d.httpController, socketOptions: {foo: 1}}]",
        "Unrecognized field \"foo\"",
        NO_KIND,
    ),
    Mistake("storage: {kind: io.l5d.nope}", "Could not resolve type id 'io.l5d.nope'", NO_KIND),
    Mistake("namers: [{kind: io.l5d.nope}]", "Could not resolve type id 'io.l5d.nope'", NO_KIND),
    Mistake("interfaces: [{kind: io.l5d.nope}]", "Could not resolve type id 'io.l5d.nope'", NO_KIND),
    Mistake("storage: {}", "missing type id property 'kind'", NO_KIND),
    Mistake("namers: [{prefix: /a}]", "missing type id property 'kind'", NO_KIND),
    Mistake("admin: {port: 1, port: 2}", "Duplicate field 'port'", NO_KIND),
    Mistake("admin: {}\nadmin: {}", "Duplicate field 'admin'", NO_KIND),
    Mistake("interfaces:", "'interfaces' field is required", NO_KIND),
    Mistake("interfaces: []", "One or more interfaces must be specified", NO_KIND),
    Mistake("storage:", "'storage' is required", NO_KIND),
    Mistake("admin: {port: 70000}", "70000 outside valid range for ports", NO_KIND),
    Mistake("admin: {port: \"4100\"}", "not numeric", NO_KIND),
    Mistake("interfaces: [{kind: io.l5d.httpController, ip: localhost}]", "is not an IP string literal", NO_KIND),
    Mistake("namers: [{kind: io.l5d.fs, rootDir: /nope}]", "/nope is not a directory", NO_KIND),
    Mistake("namers: [{kind: io.l5d.fs}]", "'rootDir' is required for the io.l5d.fs namer", NO_KIND),
    Mistake(
        "storage: {kind: io.l5d.inMemory, namespaces: {default: /svc >= /a}}",
        "'=' expected but '>' found at '/svc [>]= /a'",
        NO_KIND,
    ),
    Mistake(
        "namers: [{kind: io.l5d.consul, healthStatuses: [ok]}]",
        "Illegal Consul health status: ok",
        Some(("namers", "io.l5d.consul")),
    ),
    Mistake(
        "namers: [{kind: io.l5d.consul, consistencyMode: x}]",
        "Illegal Consul consistency mode level: x",
        Some(("namers", "io.l5d.consul")),
    ),
    Mistake(
        "namers: [{kind: io.l5d.consul, tls: {}}]",
        "tls is configured with validation but `commonName` is not set",
        Some(("namers", "io.l5d.consul")),
    ),
    Mistake(
        "storage: {kind: io.l5d.consul, backoff: {kind: jittered, maxMs: 1}}",
        "'minMs' must be specified",
        Some(("storage", "io.l5d.consul")),
    ),
    Mistake(
        "storage: {kind: io.l5d.zk, zkAddrs: [{host: a, port: 1}], acls: [{scheme: a, id: b, perms: cc}]}",
        "cc is not a valid permission string",
        Some(("storage", "io.l5d.zk")),
    ),
    Mistake(
        "storage: {kind: io.l5d.zk, zkAddrs: [{host: a}]}",
        "port must be specified",
        Some(("storage", "io.l5d.zk")),
    ),
    Mistake(
        "namers: [{kind: io.l5d.zkLeader, zkAddrs: [{host: a}]}]",
        "port must be specified",
        Some(("namers", "io.l5d.zkLeader")),
    ),
    Mistake("storage: {kind: io.l5d.etcd}", "storage is experimental", NO_KIND),
    Mistake("telemetry: [{kind: io.l5d.statsd}]", "telemeter is experimental", NO_KIND),
    Mistake("telemetry: [{kind: io.l5d.recentRequests}]", "sampleRate must be between 0.0 and 1.0", NO_KIND),
    Mistake("namers: [{kind: io.l5d.rewrite, pattern: /a, name: /b}]", "The 'prefix' property is required", NO_KIND),
    Mistake("namers: [{kind: io.l5d.rewrite, prefix: /a, name: /b}]", "'pattern' is required", NO_KIND),
    Mistake(
        "namers: [{kind: io.l5d.k8s.ns, envVar: ROSTERD_TEST_UNSET}]",
        "could not find namespace for envVar",
        Some(("namers", "io.l5d.k8s.ns")),
    ),
    Mistake(
        "namers: [{kind: io.l5d.fs, rootDir: src, prefix: /a}, {kind: io.l5d.fs, rootDir: src, prefix: /a/b}]",
        "Namers must not have overlapping prefixes: /#/a & /#/a/b",
        NO_KIND,
    ),
    Mistake(
        "namers: [{kind: io.l5d.fs, rootDir: src}, {kind: io.l5d.fs, rootDir: src}]",
        "Namers must not have overlapping prefixes: /#/io.l5d.fs & /#/io.l5d.fs",
        NO_KIND,
    ),
    Mistake("namers: [{kind: io.l5d.curator}]", "Could not resolve type id 'io.l5d.curator'", NO_KIND),
    Mistake("namers: [{kind: io.l5d.k8s.istio}]", "Could not resolve type id 'io.l5d.k8s.istio'", NO_KIND),
    Mistake("telemetry: [{kind: io.l5d.commonMetrics}]", "Could not resolve type id 'io.l5d.commonMetrics'", NO_KIND),
    Mistake("telemetry: [{kind: io.l5d.usage}]", "Could not resolve type id 'io.l5d.usage'", NO_KIND),
];

#[test]
fn every_mistake_that_namerd_refuses_is_refused_with_its_place() {
    for Mistake(keys, fragment, needs) in MISTAKES {
        let mut text = format!("{keys}\n");
        for (key, value) in [("storage", "{kind: io.l5d.inMemory}"), ("interfaces", "[{kind: io.l5d.httpController}]")]
        {
            if !keys.lines().any(|line| line.starts_with(key)) {
                text.push_str(&format!("{key}: {value}\n"));
            }
        }
        let problems = Config::load("namerd.yaml", &text, None).expect_err(keys);
        assert_eq!(problems.list().len(), 1, "{keys}: {problems}");
        let expected = match needs {
            Some((key, kind)) if !is_built(key, kind) => format!("{kind}: not built yet"),
            _ => (*fragment).to_owned(),
        };
        let problem = &problems.list()[0];
        assert!(problem.message.contains(&expected), "{keys}: {problems}");
        let head = format!("namerd.yaml:{}:{}: {}", problem.span.line, problem.span.column, problem.message);
        assert_eq!(problems.to_string().lines().next(), Some(head.as_str()));
    }
}

#[test]
fn what_only_looks_wrong_loads() {
    for (keys, warnings) in [
        ("namers: [{kind: io.l5d.fs, rootDir: src, experimental: true}]", 0),
        ("namers: [{kind: io.l5d.fs, rootDir: src, experimental: false}]", 0),
        ("telemetry: [{kind: io.l5d.prometheus, experimental: true}]", 0),
        ("telemetry: [{kind: io.l5d.zipkin}, {kind: io.l5d.tracelog}]", 2),
        ("admin: {httpIdentifierPort: 1}", 1),
        ("namers:\ntelemetry: ~\nadmin: null", 0),
        ("interpreter:", 0),
    ] {
        let text = format!(
            "{keys}\nstorage: {{kind: io.l5d.inMemory, experimental: true, namespaces: {{1: /svc=>/a, default: \"\"}}}}\n\
             interfaces: [{{kind: io.l5d.httpController}}]\n---\nanother: document\n"
        );
        let (_, found) =
            Config::load("namerd.yaml", &text, None).unwrap_or_else(|problems| panic!("{keys}: {problems}"));
        assert_eq!(found.len(), warnings, "{keys}: {found:?}");
    }
}

#[test]
fn environment_variables_stay_as_they_are_written() {
    let text = "storage: {kind: io.l5d.inMemory, namespaces: {\"${HOME}\": /svc => /$/inet/$HOME/80}}\n\
                interfaces: [{kind: io.l5d.httpController}]";
    let (config, _) = Config::load("namerd.yaml", text, None).expect("the text is valid");
    assert!(format!("{:?}", config.storage).contains("${HOME}"));
}

#[test]
fn kinds_are_known_for_every_family() {
    // namerd's own list, so that a kind cannot be forgotten: each is either built or said to be not built yet.
    for (key, kinds) in [
        ("storage", vec!["inMemory", "zk", "etcd", "consul", "k8s"]),
        (
            "namers",
            vec![
                "fs",
                "consul",
                "k8s",
                "k8s.external",
                "k8s.ns",
                "marathon",
                "serversets",
                "zkLeader",
                "dnssrv",
                "rancher",
                "rewrite",
            ],
        ),
        ("interfaces", vec!["thriftNameInterpreter", "httpController", "mesh", "destination"]),
        ("telemetry", vec!["prometheus", "influxdb", "statsd", "recentRequests", "tracelog", "zipkin"]),
    ] {
        let mut named = BTreeSet::new();
        let block = |kind: &str| {
            let block = format!("{{kind: io.l5d.{kind}}}");
            if key == "storage" { format!("storage: {block}") } else { format!("{key}: [{block}]") }
        };
        for kind in &kinds {
            if let Err(problems) = Config::load("f", &block(kind), None) {
                let unknown = problems.list().iter().any(|problem| problem.message.contains("Could not resolve"));
                assert!(!unknown, "{problems}");
            }
            named.insert(format!("io.l5d.{kind}"));
        }
        let problems = Config::load("f", &block("nope"), None).expect_err("no such kind");
        let message = problems.list().iter().find(|problem| problem.message.contains("Could not resolve"));
        let message = &message.expect("the kind is not known").message;
        let (_, known) = message.split_once("(known: ").expect("the known kinds are listed");
        // rosterd's own kinds have names of another beginning.
        let known = known.trim_end_matches(')').replace("; not built yet: ", ", ");
        let known = known.split(", ").filter(|kind| kind.starts_with("io.l5d."));
        let known: BTreeSet<String> = known.map(str::to_owned).collect();
        assert_eq!(known, named, "{key}");
    }
}
