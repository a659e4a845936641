//! Names from Consul: how soon a change is seen, how soon many names are known, and what it costs to wait.
//!
//! `cargo bench --bench consul`, or some parts of it: `-- changes names large shared idle`. The first three start a real Consul
//! (`tests/backends`); what is counted is asked of a stand-in.

#![expect(clippy::print_stdout, reason = "a bench tells what it measured")]

#[allow(dead_code, unused_imports, reason = "shared with the tests")]
#[path = "../tests/it/support/mod.rs"]
mod support;

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use support::thrift::Value;
use support::{Agent, Consul, Frames, PATIENCE, Reply, Rosterd, StandIn, Wire, get, mux};

const NAMES: usize = 1_000;
const CLIENTS: usize = 16;

fn main() {
    // Cargo adds `--bench`.
    let parts: Vec<String> = std::env::args().skip(1).filter(|part| !part.starts_with('-')).collect();
    let wanted = |part: &str| parts.is_empty() || parts.iter().any(|wanted| wanted == part);
    let real: Vec<fn(&Consul)> =
        [("changes", changes as fn(&Consul)), ("names", thousand_names), ("large", large_service)]
            .into_iter()
            .filter_map(|(part, run)| wanted(part).then_some(run))
            .collect();
    if !real.is_empty() {
        let consul = Consul::start_with(&[Agent::Server]);
        real.iter().for_each(|run| run(&consul));
    }
    if wanted("shared") {
        shared_polls();
    }
    if wanted("idle") {
        idle_polls();
    }
}

fn rosterd(port: u16) -> Rosterd {
    Rosterd::start(&format!(
        "storage: {{kind: io.l5d.inMemory, namespaces: {{default: /svc => /#/io.l5d.consul/dc1}}}}\n\
         namers: [{{kind: io.l5d.consul, host: 127.0.0.1, port: {port}, useHealthCheck: true}}]\n\
         interfaces: [{{kind: io.l5d.httpController, port: 0}}, {{kind: io.l5d.thriftNameInterpreter, port: 0}}]\n"
    ))
}

/// A router that polls the addresses of a service.
struct Follow {
    session: Frames,
    service: String,
    stamp: Vec<u8>,
}

impl Follow {
    fn open(rosterd: &Rosterd, service: &str) -> Self {
        let session = mux::session(rosterd.port("io.l5d.thriftNameInterpreter"));
        let mut follow = Self { session, service: service.to_owned(), stamp: Vec::new() };
        follow.poll();
        follow
    }

    fn poll(&mut self) {
        let call = mux::addr(&self.stamp, &["#", "io.l5d.consul", "dc1", &self.service], "default");
        self.session.send(&mux::tdispatch(1, &call.write()));
    }

    /// Waits for an answer with this address, polling on as a router does. The last poll stays with rosterd.
    fn until(&mut self, ip: &str) {
        let ip: Ipv4Addr = ip.parse().expect("an address");
        let ip = Value::Binary(ip.octets().to_vec());
        loop {
            let reply = mux::reply(&self.session.frame_within(3 * PATIENCE));
            self.stamp = mux::stamp(&reply);
            let found = holds(&reply.body, &ip);
            self.poll();
            if found {
                return;
            }
        }
    }
}

fn holds(value: &Value, wanted: &Value) -> bool {
    match value {
        Value::Struct(fields) => fields.iter().any(|(_, value)| holds(value, wanted)),
        Value::List(_, values) | Value::Set(_, values) => values.iter().any(|value| holds(value, wanted)),
        plain => plain == wanted,
    }
}

fn register(consul: &Consul, name: &str, ip: &str) {
    consul.register(&json!({ "Name": name, "ID": name, "Address": ip, "Port": 80 }));
}

/// From the moment at which Consul has acknowledged a change until a client has read it.
fn changes(consul: &Consul) {
    let rosterd = rosterd(consul.port());
    register(consul, "quiet", "10.0.0.1");
    let mut follow = Follow::open(&rosterd, "quiet");
    follow.until("10.0.0.1");
    let times = |rounds: usize, pause: Duration, follow: &mut Follow, name: &str, from: usize| {
        let mut times: Vec<Duration> = (from..from + rounds)
            .map(|n| {
                std::thread::sleep(pause);
                let ip = format!("10.1.{}.{}", n / 250, n % 250 + 1);
                register(consul, name, &ip);
                let began = Instant::now();
                follow.until(&ip);
                began.elapsed()
            })
            .collect();
        times.sort();
        (times[rounds / 2], times[rounds - 1])
    };
    let (median, worst) = times(20, Duration::from_millis(1_100), &mut follow, "quiet", 0);
    println!("a thrift client sees a change after a quiet second after {median:.1?}, worst of 20 {worst:.1?}");
    assert!(worst < Duration::from_millis(200), "{worst:?}");

    // Another instance of the service changes all the time.
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0.. {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                consul.register(
                    &json!({ "Name": "quiet", "ID": "restless", "Address": "10.2.0.1", "Port": 1 + n % 60_000 }),
                );
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let (median, worst) = times(20, Duration::from_millis(70), &mut follow, "quiet", 100);
        stop.store(true, Ordering::Relaxed);
        println!("under constant change after {median:.1?}, worst of 20 {worst:.1?}");
        assert!(worst < Duration::from_millis(1_200), "{worst:?}");
    });
}

fn put_all(consul: &Consul, operations: &[serde_json::Value]) {
    for part in operations.chunks(64) {
        consul.expect("PUT", "/v1/txn", &serde_json::to_vec(part).expect("JSON"));
    }
}

fn instance(service: &str, n: usize) -> serde_json::Value {
    let address = format!("10.{}.{}.{}", n / 62_500, n / 250 % 250, n % 250 + 1);
    let service = json!({ "ID": format!("{service}-{n}"), "Service": service, "Address": address, "Port": 8080 });
    json!({ "Service": { "Verb": "set", "Node": "bench", "Service": service } })
}

/// From exec until 95 % of the names are known, over the 200 connections that a stock agent grants.
fn thousand_names(consul: &Consul) {
    let node = json!({ "Node": { "Verb": "set", "Node": { "Node": "bench", "Address": "10.9.9.9" } } });
    let services = (0..NAMES).map(|n| instance(&format!("many-{n}"), n));
    put_all(consul, &std::iter::once(node).chain(services).collect::<Vec<_>>());
    let began = Instant::now();
    let rosterd = rosterd(consul.port());
    let names: Vec<usize> = (0..NAMES).collect();
    let mut times: Vec<Duration> = std::thread::scope(|scope| {
        let clients = names.chunks(NAMES.div_ceil(CLIENTS)).map(|part| {
            let rosterd = &rosterd;
            scope.spawn(move || {
                let mut wire = Wire::open(rosterd.http());
                let ask = |n: &usize| {
                    wire.send(
                        format!("GET /api/1/resolve/default?path=/svc/many-{n} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes(),
                    );
                    let answer = wire.answer(false);
                    assert!(answer.text().contains("\"bound\""), "{answer:?}");
                    began.elapsed()
                };
                part.iter().map(ask).collect::<Vec<_>>()
            })
        });
        let clients: Vec<_> = clients.collect();
        clients.into_iter().flat_map(|client| client.join().expect("all are answered")).collect()
    });
    times.sort();
    let (most, all) = (times[NAMES * 95 / 100], times[NAMES - 1]);
    println!("{NAMES} services on a stock agent, from exec: 95 % are known after {most:.1?}, all after {all:.1?}");
    assert!(most < Duration::from_secs(2), "{most:?}");
    std::thread::sleep(Duration::from_secs(10));
    let metrics = get(rosterd.admin(), "/metrics").text().to_owned();
    let refused = metrics.lines().find(|line| line.contains("reason=\"busy\""));
    assert!(refused.is_none(), "the agent refused connections: {refused:?}");
}

/// A service of 20,000 instances: the first answer, and a change.
fn large_service(consul: &Consul) {
    put_all(consul, &(0..20_000).map(|n| instance("large", n)).collect::<Vec<_>>());
    let rosterd = rosterd(consul.port());
    let began = Instant::now();
    let mut follow = Follow::open(&rosterd, "large");
    follow.until("10.0.0.1");
    let first = began.elapsed();
    std::thread::sleep(Duration::from_millis(1_500));
    put_all(consul, &[instance("large", 100_000)]);
    let began = Instant::now();
    follow.until("10.1.150.1");
    let (change, resident) = (began.elapsed(), rosterd.resident() >> 20);
    println!("20,000 instances: known after {first:.1?}, a change after {change:.1?}, {resident} MB resident");
    assert!(change < Duration::from_secs(3), "{change:?}");
}

/// What polls cost that bring nothing: with more names than polls each waits for a second.
fn idle_polls() {
    let agent = StandIn::start();
    let entry = json!([{ "Node": { "Node": "n", "Address": "10.0.0.1" }, "Service": { "ID": "s", "Port": 80 } }]);
    agent.set_default(Reply::ok(7, &entry.to_string()));
    let rosterd = rosterd(agent.port());
    let mut wire = Wire::open(rosterd.http());
    for n in 0..NAMES {
        wire.send(format!("GET /api/1/resolve/default?path=/svc/s{n} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes());
        wire.answer(false);
    }
    // The first polls began while there was room for all, and would wait for minutes; a change ends them.
    agent.set_default(Reply::ok(8, &entry.to_string()));
    std::thread::sleep(Duration::from_secs(20));
    let figures = || (agent.asked().len(), agent.accepted(), rosterd.cpu(), rosterd.cpu_parts()[1]);
    let (asked, accepted, used, kernel) = figures();
    std::thread::sleep(Duration::from_secs(40));
    let (asked, accepted, used, kernel) = {
        let now = figures();
        (now.0 - asked, now.1 - accepted, now.2 - used, now.3 - kernel)
    };
    let share = 100.0 * kernel.as_secs_f64() / used.as_secs_f64();
    let each = used.mul_f64(10_000.0 / asked as f64);
    println!(
        "10,000 idle polls take {each:.2?} of one processor, {share:.0} % of it in the kernel ({asked} polls and \
         {accepted} new connections were made)"
    );
    assert!(each < Duration::from_secs(1), "{each:?}");
    assert!(agent.most_connections() <= 200, "{}", agent.most_connections());
}

/// A hundred clients with the same fifty names: one poll a name.
fn shared_polls() {
    let agent = StandIn::start();
    let entry = json!([{ "Node": { "Node": "n", "Address": "10.0.0.1" }, "Service": { "ID": "s", "Port": 80 } }]);
    agent.set_default(Reply::ok(7, &entry.to_string()));
    let rosterd = rosterd(agent.port());
    let call = |n: u32, stamp: &[u8]| {
        let call = mux::addr(stamp, &["#", "io.l5d.consul", "dc1", &format!("s{n}")], "default");
        mux::tdispatch(n + 1, &call.write())
    };
    let mut clients: Vec<Frames> =
        (0..100).map(|_| mux::session(rosterd.port("io.l5d.thriftNameInterpreter"))).collect();
    for session in &mut clients {
        (0..50).for_each(|n| session.send(&call(n, b"")));
        for _ in 0..50 {
            let frame = session.frame_within(PATIENCE);
            let stamp = mux::stamp(&mux::reply(&frame));
            session.send(&call(mux::tag(&frame) - 1, &stamp));
        }
    }
    std::thread::sleep(Duration::from_secs(2));
    let (held, asked) = (agent.held(), agent.asked().len());
    println!("100 clients with 50 names each: {held} polls at the agent, {asked} requests so far");
    assert!(held == 50 && asked <= 100, "{held} polls, {asked} requests");
}
