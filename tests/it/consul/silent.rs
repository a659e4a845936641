//! A datacenter that falls silent, with many names in it.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Follow, rosterd, shown};
use crate::support::{Agent, Consul, get};

const FAR: usize = 300;

fn put(consul: &Consul, agent: Agent, name: &str, ip: &str) {
    let service = json!({ "ID": name, "Service": name, "Address": ip, "Port": 80 });
    let body = json!({ "Node": "elsewhere", "Address": "10.9.9.9", "Service": service }).to_string();
    let answer = consul.ask(agent, "PUT", "/v1/catalog/register", "", body.as_bytes());
    assert_eq!(answer.head.status(), 200, "{answer:?}");
}

fn far_ip(n: usize) -> String {
    format!("10.2.{}.{}", n / 250, n % 250 + 1)
}

/// Connections to it stay open and bring nothing, so that every request about it takes all the time it may.
#[test]
fn a_datacenter_that_falls_silent_keeps_its_300_names_and_holds_up_none_of_the_others() {
    let consul = Consul::start_with(&[Agent::Server, Agent::Dc2]);
    (0..FAR).for_each(|n| put(&consul, Agent::Dc2, &format!("far-{n}"), &far_ip(n)));
    put(&consul, Agent::Server, "near", "10.0.0.1");
    put(&consul, Agent::Server, "unheard", "10.0.1.1");
    let rosterd = rosterd(consul.port(), "");
    let mut near = Follow::addr(&rosterd, "/#/io.l5d.consul/dc1/near");
    near.until_addrs(&["10.0.0.1:80"]);
    let mut far: Vec<Follow> =
        (0..FAR).map(|n| Follow::addr(&rosterd, &format!("/#/io.l5d.consul/dc2/far-{n}"))).collect();
    for (n, addrs) in far.iter_mut().enumerate() {
        addrs.until_addrs(&[&format!("{}:80", far_ip(n))]);
    }

    consul.line().cut();
    let (began, mut slowest) = (Instant::now(), Duration::ZERO);
    for n in 2_u8.. {
        if began.elapsed() > Duration::from_secs(40) {
            break;
        }
        // Fresh, as it would be with so many names of its own: they take turns.
        let ip = format!("10.0.0.{n}");
        put(&consul, Agent::Server, "near", &ip);
        slowest = slowest.max(near.until_addrs(&[&format!("{ip}:80")]));
        std::thread::sleep(Duration::from_secs(1));
    }
    println!("while {FAR} names were silent, a change of another one was seen after {slowest:?} at most");
    assert!(slowest < Duration::from_secs(10), "{slowest:?}");
    let asked = Instant::now();
    let answer = get(rosterd.http(), "/api/1/addr/default?path=/%23/io.l5d.consul/dc1/unheard");
    let answer: Value = serde_json::from_slice(&answer.body).expect("JSON");
    assert_eq!(shown(&answer), ["10.0.1.1:80"], "a name that was not known before");
    assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
    far.iter_mut().for_each(|addrs| addrs.stays(Duration::from_millis(1)));

    consul.line().mend();
    put(&consul, Agent::Dc2, "far-7", "10.2.9.9");
    far[7].until_at_most(Duration::from_secs(90), "the new address", |value| shown(value) == ["10.2.9.9:80"]);
    for (n, addrs) in far.iter_mut().enumerate().filter(|(n, _)| *n != 7) {
        let seen = addrs.seen.len();
        assert_eq!(seen, 1, "far-{n}: {:?}", addrs.seen);
    }
}
