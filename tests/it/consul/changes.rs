//! What happens in a catalog, seen through rosterd.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Follow, is_neg, rosterd, service, shown};
use crate::support::{Agent, Consul, Rosterd, get, in_project, unique};

const HEALTH: &str = ", useHealthCheck: true";

#[test]
fn instances_come_and_go_within_a_moment() {
    let consul = Consul::shared();
    let web = unique("web");
    let rosterd = rosterd(consul.port(), HEALTH);
    let id = format!("/#/io.l5d.consul/dc1/{web}");
    let mut tree = Follow::bind(&rosterd, &format!("/svc/{web}/r"));
    let mut addrs = Follow::addr(&rosterd, &id);
    tree.until("neg", is_neg);
    addrs.until("neg", is_neg);
    let mut slowest = Duration::ZERO;
    let mut quiet = |addrs: &mut Follow, change: &dyn Fn(), wanted: &[&str]| {
        addrs.stays(Duration::from_millis(1_100));
        change();
        slowest = slowest.max(addrs.until_addrs(wanted));
    };
    let up = |n: u8| consul.register(&service(&web, &format!("{web}-{n}"), &format!("10.0.0.{n}"), 80));
    quiet(&mut addrs, &|| up(1), &["10.0.0.1:80"]);
    quiet(&mut addrs, &|| up(2), &["10.0.0.1:80", "10.0.0.2:80"]);
    quiet(&mut addrs, &|| consul.deregister(&format!("{web}-1")), &["10.0.0.2:80"]);
    tree.until("a leaf", |value| value["bound"]["id"] == id.as_str());
    consul.deregister(&format!("{web}-2"));
    addrs.until("neg", is_neg);
    tree.until("neg", is_neg);
    assert_eq!(tree.seen.len(), 3, "addresses do not touch the tree: {:?}", tree.seen);
    assert!(slowest < Duration::from_secs(1), "{slowest:?}");
}

#[test]
fn maintenance_and_failing_checks_take_instances_out() {
    let consul = Consul::shared();
    let web = unique("web");
    consul.register(&service(&web, &format!("{web}-1"), "10.0.0.1", 80));
    consul.register(&service(&web, &format!("{web}-2"), "10.0.0.2", 80));
    let passing = rosterd(consul.port(), HEALTH);
    let warned = rosterd(consul.port(), ", useHealthCheck: true, healthStatuses: [passing, warning]");
    let catalog = rosterd(consul.port(), "");
    let id = format!("/#/io.l5d.consul/dc1/{web}");
    let mut all = [&passing, &warned, &catalog].map(|rosterd| Follow::addr(rosterd, &id));
    let both: &[&str] = &["10.0.0.1:80", "10.0.0.2:80"];
    for addrs in &mut all {
        addrs.until_addrs(both);
    }
    let [passing, warned, catalog] = &mut all;

    consul.expect("PUT", &format!("/v1/agent/check/warn/check-{web}-1"), b"");
    passing.until_addrs(&["10.0.0.2:80"]);
    consul.expect("PUT", &format!("/v1/agent/check/fail/check-{web}-1"), b"");
    warned.until_addrs(&["10.0.0.2:80"]);
    consul.expect("PUT", &format!("/v1/agent/check/pass/check-{web}-1"), b"");
    passing.until_addrs(both);
    warned.until_addrs(both);

    let maintenance = |on: bool| {
        consul.expect("PUT", &format!("/v1/agent/service/maintenance/{web}-2?enable={on}"), b"");
    };
    maintenance(true);
    passing.until_addrs(&["10.0.0.1:80"]);
    warned.until_addrs(&["10.0.0.1:80"]);
    maintenance(false);
    passing.until_addrs(both);
    catalog.stays(Duration::from_secs(1));
}

#[test]
fn a_name_without_healthy_instances_gives_way_to_the_next_branch_and_comes_back() {
    let consul = Consul::shared();
    let web = unique("web");
    consul.register(&service(&web, &web, "10.0.0.1", 80));
    let rosterd = Rosterd::start(&format!(
        "storage: {{kind: io.l5d.inMemory, namespaces: {{default: /svc => /#/io.l5d.consul/dc1/{web} | /$/inet/10.9.9.9/80}}}}
namers: [{{kind: io.l5d.consul, host: 127.0.0.1, port: {}, useHealthCheck: true}}]
interfaces: [{{kind: io.l5d.httpController, port: 0}}]\n",
        consul.port()
    ));
    let mut tree = Follow::bind(&rosterd, "/svc");
    let is = |id: String| move |value: &Value| value["bound"]["id"] == id.as_str();
    let (here, instead) = (format!("/#/io.l5d.consul/dc1/{web}"), "/$/inet/10.9.9.9/80".to_owned());
    tree.until("the first branch", is(here.clone()));
    consul.expect("PUT", &format!("/v1/agent/check/fail/check-{web}"), b"");
    tree.until("the second branch", is(instead));
    consul.expect("PUT", &format!("/v1/agent/check/pass/check-{web}"), b"");
    tree.until("the first branch again", is(here));
}

#[test]
fn half_of_240_instances_change_their_tag_and_nothing_is_lost_on_the_way() {
    let consul = Consul::shared();
    let web = unique("web");
    let tag = |n: usize, tag: &str| catalog_entry(&web, n, &[tag]);
    put_all(consul, (0..240).map(|n| tag(n, "blue")));
    let rosterd = rosterd(consul.port(), ", includeTag: true");
    let follow = |tag: &str| Follow::addr(&rosterd, &format!("/#/io.l5d.consul/dc1/{tag}/{web}"));
    let (mut blue, mut green) = (follow("blue"), follow("green"));
    blue.until("240", |value| shown(value).len() == 240);
    green.until("neg", is_neg);
    put_all(consul, (0..240).filter(|n| n % 2 == 0).map(|n| tag(n, "green")));
    let among = |value: &Value| (1..=240).contains(&shown(value).len());
    let began = Instant::now();
    blue.until("120", |value| {
        assert!(among(value), "it never empties: {value}");
        shown(value).len() == 120
    });
    green.until("120", |value| shown(value).len() == 120);
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    let mut both = [last(&rosterd, &format!("blue/{web}")), last(&rosterd, &format!("green/{web}"))].concat();
    both.sort();
    both.dedup();
    assert_eq!(both.len(), 240);
}

#[test]
fn a_service_of_20_000_instances_is_followed() {
    let consul = Consul::start_with(&[Agent::Server]);
    let web = unique("web");
    put_all(&consul, (0..20_000).map(|n| catalog_entry(&web, n, &[])));
    let rosterd = rosterd(consul.port(), HEALTH);
    let began = Instant::now();
    let mut addrs = Follow::addr(&rosterd, &format!("/#/io.l5d.consul/dc1/{web}"));
    addrs.until("20,000 addresses", |value| shown(value).len() == 20_000);
    println!("20,000 instances are known after {:?}", began.elapsed());
    addrs.stays(Duration::from_secs(2));
    let began = Instant::now();
    let gone = json!({ "Node": node_of(&web, 0), "ServiceID": format!("{web}-0") });
    consul.expect("PUT", "/v1/catalog/deregister", gone.to_string().as_bytes());
    addrs.until("19,999 addresses", |value| shown(value).len() == 19_999);
    println!("a change is known after {:?}", began.elapsed());
    assert!(rosterd.resident() < 400 << 20, "{} MB", rosterd.resident() >> 20);
}

#[test]
fn names_with_blanks_slashes_and_letters_of_all_kinds_are_found() {
    let consul = Consul::shared();
    let rosterd = rosterd(consul.port(), "");
    for (name, elem) in [("My Service/x", r"My%5Cx20Service%5Cx2fx"), ("ünïcode", r"%5Cxc3%5Cxbcn%5Cxc3%5Cxafcode")] {
        consul.register(&json!({ "Name": name, "ID": unique("odd"), "Address": "10.1.1.1", "Port": 5 }));
        let answer = get(rosterd.http(), &format!("/api/1/addr/default?path=/%23/io.l5d.consul/.local/{elem}"));
        assert!(answer.text().contains("10.1.1.1"), "{name}: {answer:?}");
    }
}

#[test]
fn the_projects_own_configuration_serves_names_of_the_agents_datacenter() {
    let consul = Consul::shared();
    let web = unique("web");
    consul.register(&service(&web, &web, "10.0.0.1", 80));
    let text = std::fs::read_to_string(in_project("config/consul.yaml")).expect("it is there");
    let text = text.replace("8500", &consul.port().to_string()).replace("9991", "0").replace("4180", "0");
    let rosterd = Rosterd::start(&text);
    let answer = get(rosterd.http(), &format!("/api/1/resolve/default?path=/svc/{web}"));
    assert_eq!(shown(&serde_json::from_str(answer.text()).expect("JSON")), ["10.0.0.1:80"]);
}

/// As it is run with Nomad: namespaces with numbers for names, and a server that need not be the leader.
#[test]
fn a_configuration_with_numbered_namespaces_and_stale_reads_serves_thrift_and_http() {
    let consul = Consul::shared();
    let web = unique("web");
    consul.register(&service(&web, &web, "10.0.0.1", 80));
    let rosterd = Rosterd::start(&format!(
        "admin: {{port: 0, ip: 0.0.0.0}}
telemetry:
- kind: io.l5d.prometheus
  path: /metrics
interfaces:
- {{kind: io.l5d.thriftNameInterpreter, port: 0, ip: 0.0.0.0}}
- {{kind: io.l5d.httpController, port: 0}}
namers:
- kind: io.l5d.consul
  host: 127.0.0.1
  port: {port}
  includeTag: false
  useHealthCheck: true
  healthStatuses:
  - passing
  consistencyMode: stale
storage:
  kind: io.l5d.inMemory
  namespaces:
    1: /svc => /#/io.l5d.consul/dc1/{web}
    2: /svc => /#/io.l5d.consul/dc1/other
",
        port = consul.port()
    ));
    assert_eq!(get(rosterd.http(), "/api/1/dtabs").text(), "[\"1\",\"2\"]\n");
    let answer = get(rosterd.http(), "/api/1/resolve/1?path=/svc");
    assert_eq!(shown(&serde_json::from_str(answer.text()).expect("JSON")), ["10.0.0.1:80"]);
    assert!(rosterd.output().contains("serving io.l5d.thriftNameInterpreter interface"));
}

/// The addresses of an id at this moment.
fn last(rosterd: &Rosterd, id: &str) -> Vec<String> {
    let answer = get(rosterd.http(), &format!("/api/1/addr/default?path=/%23/io.l5d.consul/dc1/{id}"));
    shown(&serde_json::from_str(answer.text()).expect("JSON"))
}

fn node_of(service: &str, n: usize) -> String {
    format!("{service}-node-{}", n / 500)
}

/// An instance on one of several external nodes, as a transaction of the catalog takes it.
fn catalog_entry(service: &str, n: usize, tags: &[&str]) -> [Value; 2] {
    let node = node_of(service, n);
    let address = format!("10.{}.{}.{}", n / 62_500, n / 250 % 250, n % 250 + 1);
    [
        json!({ "Node": { "Verb": "set", "Node": { "Node": node, "Address": "10.9.9.9" } } }),
        json!({ "Service": { "Verb": "set", "Node": node, "Service": {
            "ID": format!("{service}-{n}"), "Service": service, "Tags": tags, "Address": address, "Port": 8080 } } }),
    ]
}

/// Puts instances into the catalog, as many at once as a transaction takes.
fn put_all(consul: &Consul, entries: impl Iterator<Item = [Value; 2]>) {
    let entries: Vec<[Value; 2]> = entries.collect();
    let mut known = Vec::new();
    for part in entries.chunks(60) {
        let mut operations = Vec::new();
        for [node, service] in part {
            if !known.contains(&node) {
                known.push(node);
                operations.push(node);
            }
            operations.push(service);
        }
        let body = serde_json::to_vec(&operations).expect("JSON");
        consul.expect("PUT", "/v1/txn", &body);
    }
}
