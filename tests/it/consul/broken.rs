//! A Consul that is not there, dies, loses its state or its servers.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Follow, is_neg, rosterd};
use crate::support::{Agent, Consul, PATIENCE, Rosterd, StandIn, Wire, get, mux};

const WEB: &str = "/#/io.l5d.consul/dc1/web";

/// An instance without checks, which passes: one whose time-to-live an agent forgets in a crash comes back as critical.
fn instance(name: &str, n: u8, ip: &str) -> Value {
    json!({ "Name": name, "ID": format!("{name}-{n}"), "Address": ip, "Port": 80 })
}

fn up(consul: &Consul, n: u8) {
    consul.register(&instance("web", n, &format!("10.0.0.{n}")));
}

#[test]
fn a_crash_takes_nothing_away_and_a_snapshot_that_comes_back_is_seen() {
    let consul = Consul::start_with(&[Agent::Server]);
    for n in 1..=3 {
        up(&consul, n);
    }
    let rosterd = rosterd(consul.port(), ", useHealthCheck: true");
    let (mut tree, mut addrs) = (Follow::bind(&rosterd, "/svc/web"), Follow::addr(&rosterd, WEB));
    tree.until("a leaf", |value| value["bound"]["id"] == WEB);
    let all: &[&str] = &["10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80"];
    addrs.until_addrs(all);

    // Killed and back with its data.
    consul.kill(Agent::Server);
    addrs.stays(Duration::from_secs(2));
    let page = get(rosterd.admin(), "/namer_state/io.l5d.consul.json").text().to_owned();
    assert!(page.contains("staleSince") && page.contains("no connection to Consul"), "{page}");
    assert!(get(rosterd.admin(), "/ready").text().starts_with("degraded: /#/io.l5d.consul: stale since"));
    consul.restart(Agent::Server);
    up(&consul, 4);
    addrs.until("the fourth", |value| super::shown(value).contains(&"10.0.0.4:80".to_owned()));

    // A snapshot of an older state comes back under the polls.
    let four = ["10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80", "10.0.0.4:80"];
    let snapshot = consul.snapshot();
    for n in 10..=20 {
        up(&consul, n);
    }
    addrs.until("fifteen", |value| super::shown(value).len() == 15);
    for n in 10..=20 {
        consul.deregister(&format!("web-{n}"));
    }
    addrs.until_addrs(&four);
    up(&consul, 21);
    addrs.until("the fifth", |value| super::shown(value).contains(&"10.0.0.21:80".to_owned()));
    consul.restore(&snapshot);
    up(&consul, 22);
    addrs.until("the newest", |value| super::shown(value).contains(&"10.0.0.22:80".to_owned()));
    assert!(addrs.seen.iter().all(|value| value.contains("10.0.0.1")), "never through empty: {:#?}", addrs.seen);
}

#[test]
fn a_lost_state_is_seen_as_it_is() {
    let consul = Consul::start_with(&[Agent::Server]);
    for n in 1..=3 {
        up(&consul, n);
    }
    let rosterd = rosterd(consul.port(), ", useHealthCheck: true");
    let mut addrs = Follow::addr(&rosterd, WEB);
    addrs.until_addrs(&["10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80"]);
    // An outage before that: what was learnt from it must not stand in the way.
    consul.kill(Agent::Server);
    consul.restart(Agent::Server);
    up(&consul, 4);
    addrs.until("the fourth", |value| super::shown(value).contains(&"10.0.0.4:80".to_owned()));
    // The index begins anew, far below the old one.
    consul.kill(Agent::Server);
    consul.wipe(Agent::Server);
    consul.restart(Agent::Server);
    up(&consul, 9);
    // On a busy machine the agent itself may take its time, which does not count.
    let deadline = Instant::now() + 6 * PATIENCE;
    let known = || consul.expect("GET", "/v1/health/service/web?passing=true", b"").text().contains("10.0.0.9");
    while !known() {
        assert!(Instant::now() < deadline, "the agent does not tell its server");
        std::thread::sleep(Duration::from_millis(50));
    }
    // No request may have been under way in that moment, so that nothing told of the loss: then it takes some seconds.
    let seen = addrs.within(PATIENCE, |value| super::shown(value) == ["10.0.0.9:80"]);
    let Some(late) = seen else {
        let page = get(rosterd.admin(), "/namer_state/io.l5d.consul.json");
        let catalog = consul.expect("GET", "/v1/health/service/web?passing=true", b"");
        panic!("it was not seen: {:#?}\n{}\nthe agent: {}", addrs.seen, page.text(), catalog.text());
    };
    println!("a lost state was seen {late:?} after it was there");
    let deadline = Instant::now() + PATIENCE;
    while get(rosterd.admin(), "/ready").text() != "ready\n" {
        assert!(Instant::now() < deadline, "{:?}", get(rosterd.admin(), "/ready").text());
    }
}

#[test]
fn it_starts_before_consul_and_needs_no_restart() {
    let consul = Consul::start_with(&[]);
    let config = |port: u16| {
        format!(
            "storage: {{kind: io.l5d.inMemory, namespaces: {{default: /svc => /#/io.l5d.consul/.local | /$/inet/10.9.9.9}}}}\n\
             namers: [{{kind: io.l5d.consul, host: 127.0.0.1, port: {port}}}]\n\
             interfaces: [{{kind: io.l5d.httpController, port: 0}}]\n"
        )
    };
    let rosterd = Rosterd::start(&config(consul.port()));
    let mut tree = Follow::bind(&rosterd, "/svc/80");
    let fallback = tree.until("the branch that is ready", |value| value["bound"]["id"] == "/$/inet/10.9.9.9/80");
    assert!(fallback < Duration::from_secs(3), "{fallback:?}");
    consul.restart(Agent::Server);
    consul.register(&instance("80", 1, "10.0.0.1"));
    let back = tree.until("the first branch", |value| value["bound"]["id"] == "/#/io.l5d.consul/.local/80");
    assert!(back < Duration::from_secs(8), "a backoff at most: {back:?}");
}

#[test]
fn servers_that_are_lost_behind_an_agent_take_nothing_away() {
    let consul = Consul::start_with(&[Agent::Server, Agent::Client]);
    up(&consul, 1);
    for mode in ["default", "stale", "consistent"] {
        // One after the other: each has to survive the loss with a value.
        let rosterd =
            rosterd(consul.port_of(Agent::Client), &format!(", useHealthCheck: true, consistencyMode: {mode}"));
        let mut addrs = Follow::addr(&rosterd, WEB);
        addrs.until_addrs(&["10.0.0.1:80"]);
        consul.kill(Agent::Server);
        addrs.stays(Duration::from_secs(3));
        consul.restart(Agent::Server);
        up(&consul, 2);
        addrs.until_addrs(&["10.0.0.1:80", "10.0.0.2:80"]);
        consul.deregister("web-2");
        addrs.until_addrs(&["10.0.0.1:80"]);
    }
}

#[test]
fn another_datacenter_that_is_cut_off_keeps_its_last_addresses() {
    let consul = Consul::start_with(&[Agent::Server, Agent::Dc2]);
    let register = |n: u8| {
        let body = instance("far", n, &format!("10.2.0.{n}")).to_string();
        let answer = consul.ask(Agent::Dc2, "PUT", "/v1/agent/service/register", "", body.as_bytes());
        assert_eq!(answer.head.status(), 200, "{answer:?}");
    };
    register(1);
    let rosterd = rosterd(consul.port(), ", useHealthCheck: true");
    let mut addrs = Follow::addr(&rosterd, "/#/io.l5d.consul/dc2/far");
    addrs.until_addrs(&["10.2.0.1:80"]);
    let mut nowhere = Follow::bind(&rosterd, "/#/io.l5d.consul/dc9/web");
    nowhere.until("no path to it: neg", is_neg);
    consul.pause(Agent::Dc2);
    addrs.stays(Duration::from_secs(5));
    consul.resume(Agent::Dc2);
    register(2);
    addrs.until_addrs(&["10.2.0.1:80", "10.2.0.2:80"]);
    consul.kill(Agent::Dc2);
    addrs.stays(Duration::from_secs(10));
    consul.restart(Agent::Dc2);
    register(3);
    addrs.until_at_most(Duration::from_secs(60), "the third", |value| super::shown(value).len() == 3);
}

/// Packets are lost, and connections stay open and silent, until Consul itself gives the other side up.
#[test]
fn a_partition_to_another_datacenter_takes_nothing_away_and_holds_nothing_up() {
    let consul = Consul::start_with(&[Agent::Server, Agent::Dc2]);
    let register = |n: u8| {
        let body = instance("far", n, &format!("10.2.0.{n}")).to_string();
        let answer = consul.ask(Agent::Dc2, "PUT", "/v1/agent/service/register", "", body.as_bytes());
        assert_eq!(answer.head.status(), 200, "{answer:?}");
    };
    register(1);
    up(&consul, 1);
    let rosterd = rosterd(consul.port(), ", useHealthCheck: true");
    let mut far = Follow::addr(&rosterd, "/#/io.l5d.consul/dc2/far");
    far.until_addrs(&["10.2.0.1:80"]);
    consul.line().cut();
    register(2);
    let mut near = Follow::addr(&rosterd, WEB);
    near.until_addrs(&["10.0.0.1:80"]);
    up(&consul, 2);
    near.until_addrs(&["10.0.0.1:80", "10.0.0.2:80"]);
    far.stays(Duration::from_secs(40));
    up(&consul, 3);
    near.until("the third", |value| super::shown(value).len() == 3);
    consul.line().mend();
    far.until_at_most(Duration::from_secs(90), "the second", |value| super::shown(value).len() == 2);
    assert_eq!(far.seen.len(), 2, "{:?}", far.seen);
}

/// Each kind of client is told in its own way, and in its own time.
#[test]
fn a_name_for_which_consul_never_answered_is_told_as_that_in_time() {
    let agent = StandIn::start();
    agent.silence(Some(""));
    let rosterd = Rosterd::start(&format!(
        "storage: {{kind: io.l5d.inMemory, namespaces: {{default: /svc => /#/io.l5d.consul/dc1}}}}\n\
         namers: [{{kind: io.l5d.consul, host: 127.0.0.1, port: {}}}]\n\
         interfaces: [{{kind: io.l5d.httpController, port: 0}}, {{kind: io.l5d.thriftNameInterpreter, port: 0}}]\n\
         maxPollAgeMs: 1000\n",
        agent.port()
    ));
    let mut watch = Follow::bind(&rosterd, "/svc/web");
    let began = Instant::now();
    let mut thrift = mux::session(rosterd.port("io.l5d.thriftNameInterpreter"));
    thrift.send(&mux::tdispatch(1, &mux::bind("", b"", &["svc", "web"], "default").write()));
    let reply = mux::reply(&thrift.frame());
    assert!(reply.body.field(1).is_some(), "the declared failure: {}", reply.to_json());
    assert!(began.elapsed() >= Duration::from_millis(800), "{:?}", began.elapsed());

    let mut once = Wire::open(rosterd.http()).with_patience(Duration::from_secs(60));
    let began = Instant::now();
    once.send(b"GET /api/1/bind/default?path=/svc/web HTTP/1.1\r\nHost: x\r\n\r\n");
    let answer = once.answer(false);
    assert_eq!(answer.head.status(), 503, "{answer:?}");
    assert!(answer.text().contains("Consul at 127.0.0.1:"), "{answer:?}");
    assert!(began.elapsed() >= Duration::from_secs(29), "{:?}", began.elapsed());
    watch.stays(Duration::from_millis(100));
}
