//! Three servers, of which the leader is killed, followed through one that is not.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Follow, shown};
use crate::support::{Agent, Consul, PATIENCE, Rosterd, Wire, get};

const MODES: [&str; 3] = ["default", "stale", "consistent"];

/// One rosterd that asks in one mode, with what its watchers and readers are told. What is told is numbered, and the
/// numbers only go up.
struct Told {
    mode: &'static str,
    rosterd: Rosterd,
    addrs: Follow,
    route: Follow,
    addr: u16,
    port: u16,
}

impl Told {
    fn start(consul: &Consul, at: Agent, mode: &'static str) -> Self {
        let agent = format!("host: 127.0.0.1, port: {}", consul.port_of(at));
        let rosterd = Rosterd::start(&format!(
            "storage: {{kind: io.l5d.consul, {agent}, pathPrefix: /dtabs, readConsistencyMode: {mode}}}\n\
             namers: [{{kind: io.l5d.consul, {agent}, useHealthCheck: true, consistencyMode: {mode}}}]\n\
             interfaces: [{{kind: io.l5d.httpController, port: 0}}]\n"
        ));
        let addrs = Follow::addr(&rosterd, "/#/io.l5d.consul/dc1/web");
        let route = Follow::bind(&rosterd, "/n");
        Self { mode, rosterd, addrs, route, addr: 0, port: 0 }
    }

    /// Waits until both are told of this number.
    fn until(&mut self, number: u16) {
        let Self { mode, addrs, route, addr, port, .. } = self;
        let newer = |what: &str, last: &mut u16, told: Option<u16>| {
            let told = told.unwrap_or(0);
            assert!(told >= *last, "{mode}: {what} went back from {last} to {told}");
            *last = told;
        };
        while *addr < number {
            let told = addrs.next(6 * PATIENCE).unwrap_or_else(|| panic!("{mode}: no address after {addr}"));
            newer("the address", addr, addr_in(&told));
        }
        while *port < number {
            let told = route.next(6 * PATIENCE).unwrap_or_else(|| panic!("{mode}: no route after {port}"));
            newer("the route", port, port_in(&told));
        }
    }

    /// Writes the number through this rosterd, and reads it back there.
    fn write(&self, number: u16) {
        let dtab = format!("/n=>/$/inet/127.0.0.1/{number}");
        let deadline = Instant::now() + 6 * PATIENCE;
        loop {
            let mut wire = Wire::open(self.rosterd.http()).with_patience(3 * PATIENCE);
            let head = format!("Host: x\r\nContent-Type: application/dtab\r\nContent-Length: {}\r\n\r\n", dtab.len());
            wire.send(format!("PUT /api/1/dtabs/default HTTP/1.1\r\n{head}{dtab}").as_bytes());
            let answer = wire.answer(false);
            if answer.head.status() == 204 {
                break;
            }
            // While there is no leader.
            assert_eq!(answer.head.status(), 503, "{}: {answer:?}", self.mode);
            assert!(Instant::now() < deadline, "{}: {answer:?}", self.mode);
        }
        let read = crate::support::request(
            self.rosterd.http(),
            "GET /api/1/dtabs/default HTTP/1.1\r\nHost: x\r\nAccept: application/dtab\r\n\r\n",
        );
        assert_eq!(read.text().trim_end(), dtab, "{}: what was written is read", self.mode);
    }

    /// What is bound now, by who asks once.
    fn bound(&self) -> Option<u16> {
        let answer = get(self.rosterd.http(), "/api/1/bind/default?path=/n");
        port_in(&serde_json::from_slice(&answer.body).ok()?)
    }
}

fn addr_in(value: &Value) -> Option<u16> {
    let all = shown(value);
    assert!(all.len() <= 1, "{value}");
    all.first()?.split(['.', ':']).nth(3)?.parse().ok()
}

fn port_in(value: &Value) -> Option<u16> {
    value["bound"]["id"].as_str()?.rsplit('/').next()?.parse().ok()
}

/// Puts the only instance of the service at an address with this number.
fn register(consul: &Consul, at: Agent, number: u16) {
    let service = json!({ "ID": "web", "Service": "web", "Address": format!("10.0.0.{number}"), "Port": 80 });
    let body = json!({ "Node": "elsewhere", "Address": "10.9.9.9", "Service": service }).to_string();
    let deadline = Instant::now() + 6 * PATIENCE;
    loop {
        let answer = consul.ask(at, "PUT", "/v1/catalog/register", "", body.as_bytes());
        if answer.head.status() == 200 {
            return;
        }
        assert!(Instant::now() < deadline, "{answer:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn leader(consul: &Consul, at: Agent, but: Option<Agent>) -> Agent {
    let deadline = Instant::now() + 6 * PATIENCE;
    loop {
        if let Some(leader) = consul.leader(at).filter(|leader| Some(*leader) != but) {
            return leader;
        }
        assert!(Instant::now() < deadline, "{at:?} knows no leader");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// In every mode of reading, also in the one that is content with a server that lags behind.
#[test]
fn the_leader_of_three_servers_is_killed_and_nobody_is_told_of_less_or_of_anything_older() {
    let consul = Consul::start_with(&Agent::THREE);
    let killed = leader(&consul, Agent::First, None);
    let at = Agent::THREE.into_iter().find(|agent| *agent != killed).expect("three");
    assert_eq!(leader(&consul, at, None), killed);
    let mut all = MODES.map(|mode| Told::start(&consul, at, mode));
    for number in 1..=15 {
        all[usize::from(number) % MODES.len()].write(number);
        register(&consul, at, number);
    }
    all.iter_mut().for_each(|told| told.until(15));

    consul.kill(killed);
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(1) {
        for told in &all {
            assert_eq!(told.bound(), Some(15), "{}", told.mode);
        }
    }
    leader(&consul, at, Some(killed));
    for number in 16..=30 {
        all[usize::from(number) % MODES.len()].write(number);
        register(&consul, at, number);
    }
    all.iter_mut().for_each(|told| told.until(30));

    // The one that was killed comes back with what it had.
    consul.restart(killed);
    for number in 31..=40 {
        all[usize::from(number) % MODES.len()].write(number);
        register(&consul, at, number);
    }
    all.iter_mut().for_each(|told| told.until(40));
    for told in &all {
        assert_eq!(get(told.rosterd.admin(), "/ready").text(), "ready\n", "{}", told.mode);
    }
}
