//! Every fault alone, and many in a row, between a client and real servers; both protocols, with and without TLS.
//!
//! Afterwards every watch holds the server's current value within the longest delay or the time of detection, and two
//! seconds. What was stale for how long meanwhile is printed (`--nocapture`). `ROSTERD_TEST_SEED` repeats one sequence,
//! `ROSTERD_TEST_SEQUENCES` makes more of them.

#![allow(clippy::print_stdout, reason = "the table of staleness is for whoever reads the output of the tests")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::RngExt;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rosterd::client::http::Http;
use rosterd::client::mux::ThriftMux;
use rosterd::client::{Answer, Ask, ClientMetrics, Connect, Feed, Protocol, Retry, Tcp, Timings, Tls, Upstream};
use rosterd::config::{ClientTls, Validation};
use rosterd::name::{Addr, AddrSet, Limits, Path};
use rosterd::store::{Cell, Watch};
use tempfile::TempDir;
use tokio::runtime::Handle;
use tokio::time::sleep;

use super::churn::{NAMES, Names};
use super::proxy::{End, Mode, Proxy};
use super::{Told, addresses, seeds, value};
use crate::support::{Authority, PATIENCE, Rosterd, folder};

/// Everything a second instead of ten, so that the stories are short.
fn timings() -> Timings {
    Timings {
        retry: Retry { base: Duration::from_millis(100), max: Duration::from_secs(1) },
        connect: Duration::from_millis(500),
        handshake: Duration::from_millis(500),
        ping_period: Duration::from_millis(300),
        ping_deadline: Duration::from_millis(400),
        first_answer: Duration::from_secs(1),
        poll_age: Duration::from_secs(4),
        seat_age: Duration::from_secs(6),
        stream_age: Duration::from_secs(1),
        spread: Duration::from_millis(100),
        linger: Duration::from_secs(2),
    }
}

/// The longest delay, or the age of a stream with its jitter and the handshake of the next: the longer of the two.
const LIMIT: Duration = Duration::from_millis(1_700 + 2_000);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Speaks {
    Thrift,
    Http,
}

/// What a fault does while it lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Refuse,
    Rst,
    Fin,
    BlackHole,
    Delay,
    HalfOpen,
    StallInHandshake,
    Truncate,
    Garbage,
    Duplicate,
    Drain,
    LeavesWhileConnecting,
}

const FAULTS: [Fault; 12] = [
    Fault::Refuse,
    Fault::Rst,
    Fault::Fin,
    Fault::BlackHole,
    Fault::Delay,
    Fault::HalfOpen,
    Fault::StallInHandshake,
    Fault::Truncate,
    Fault::Garbage,
    Fault::Duplicate,
    Fault::Drain,
    Fault::LeavesWhileConnecting,
];

/// Two servers that know the same names.
struct Servers {
    names: Names,
    processes: [Rosterd; 2],
    ca: TempDir,
}

impl Servers {
    fn start() -> Self {
        let (names, ca) = (Names::changing_every(Duration::from_millis(200)), folder());
        let authority = Authority::new();
        std::fs::write(ca.path().join("ca.pem"), &authority.pem).expect("written");
        authority.issue().write_to(ca.path());
        let tls = format!("{{certPath: {0}/cert.pem, keyPath: {0}/key.pem}}", ca.path().display());
        let interfaces = format!(
            "{{kind: io.l5d.thriftNameInterpreter, port: 0}}, {{kind: io.l5d.httpController, port: 0}}, \
             {{kind: io.l5d.thriftNameInterpreter, port: 0, tls: {tls}}}, {{kind: io.l5d.httpController, port: 0, tls: {tls}}}"
        );
        let processes = [names.server(&interfaces), names.server(&interfaces)];
        Self { names, processes, ca }
    }

    fn addresses(&self, speaks: Speaks, tls: bool) -> Vec<SocketAddr> {
        let kind = match speaks {
            Speaks::Thrift => "io.l5d.thriftNameInterpreter",
            Speaks::Http => "io.l5d.httpController",
        };
        let port = |process: &Rosterd| process.ports(kind)[usize::from(tls)];
        self.processes.iter().map(|process| ([127, 0, 0, 1], port(process)).into()).collect()
    }

    fn tls(&self) -> ClientTls {
        ClientTls {
            enabled: true,
            validation: Validation::CommonName("localhost".to_owned()),
            trust_certs: vec![self.ca.path().join("ca.pem")],
            client_auth: None,
            protocols: None,
        }
    }
}

/// A client with its watches, and the two proxies that it knows the servers by.
struct World<'s> {
    names: &'s Names,
    upstream: Upstream,
    servers: Arc<Cell<Addr>>,
    proxies: [Proxy; 2],
    feeds: Vec<Feed<AddrSet>>,
    speaks: Speaks,
    /// How long watches had been stale, each time they were looked at.
    stale: Vec<Duration>,
}

impl<'s> World<'s> {
    async fn new(servers: &'s Servers, speaks: Speaks, tls: bool, watches: usize, seed: u64) -> Self {
        let connect: Arc<dyn Connect> = match tls {
            false => Arc::new(Tcp),
            true => Arc::new(Tls::new(&servers.tls()).expect("a good block")),
        };
        let at = servers.addresses(speaks, tls);
        let proxies = [Proxy::start(at[0], seed).await, Proxy::start(at[1], seed).await];
        let metrics = ClientMetrics::default();
        let protocol: Arc<dyn Protocol> = match speaks {
            Speaks::Thrift => Arc::new(ThriftMux::new("x", connect, timings(), Limits::DEFAULT, metrics.clone())),
            Speaks::Http => Arc::new(
                Http::new("x", connect, timings(), Limits::DEFAULT, metrics.clone(), ("namerd.example", ""))
                    .expect("a host"),
            ),
        };
        let known = Cell::ready(both(&proxies));
        let upstream =
            Upstream::new("x", protocol, Watch::new(known.clone(), Arc::new(Told)), timings(), metrics.clone());
        let feeds = (0..watches)
            .map(|watch| {
                let name = watch % NAMES;
                let ask = Ask::Addr { id: Path::parse(&format!("/#/io.l5d.fs/{name}")).expect("an id") };
                upstream.follow(&Handle::current(), ask, |answer| match answer {
                    Answer::Addr(Addr::Bound(set)) => Ok(set),
                    other => Err(format!("not bound: {other:?}")),
                })
            })
            .collect();
        Self { names: &servers.names, upstream, servers: known, proxies, feeds, speaks, stale: Vec::new() }
    }

    /// Lets time pass, and looks at every watch meanwhile.
    async fn pass(&mut self, time: Duration) {
        let until = Instant::now() + time;
        while Instant::now() < until {
            self.look();
            sleep(Duration::from_millis(25)).await;
        }
    }

    /// Notes for each watch how long ago what it has was replaced at the servers.
    fn look(&mut self) {
        let behind = self.feeds.iter().map(|feed| self.names.behind(value(&feed.cell().snapshot()).as_ref()));
        self.stale.extend(behind);
    }

    async fn begin(&self, fault: Fault, rng: &mut StdRng) {
        let both = |act: &dyn Fn(&Proxy)| self.proxies.iter().for_each(act);
        match fault {
            Fault::Refuse => both(&|proxy| {
                proxy.refuse();
                proxy.end(End::Rst);
            }),
            Fault::Rst => both(&|proxy| proxy.end(End::Rst)),
            Fault::Fin => both(&|proxy| proxy.end(End::Fin)),
            Fault::BlackHole => both(&|proxy| proxy.mode(Mode::Stall)),
            Fault::Delay => both(&|proxy| proxy.mode(Mode::Delay(Duration::from_millis(150)))),
            Fault::HalfOpen => both(&|proxy| proxy.mode(Mode::HalfOpen)),
            Fault::StallInHandshake => both(&|proxy| {
                proxy.mode(Mode::StallNew);
                proxy.end(End::Fin);
            }),
            Fault::Truncate => {
                let most = rng.random_range(1..300);
                both(&|proxy| proxy.mode(Mode::Truncate(most)));
            }
            Fault::Garbage => both(&|proxy| proxy.mode(Mode::Garbage)),
            Fault::Duplicate => both(&|proxy| proxy.mode(Mode::Duplicate)),
            Fault::Drain => {
                let words: &[u8] = match self.speaks {
                    Speaks::Thrift => b"\0\0\0\x04\x40\0\0\x01", // Tdrain
                    Speaks::Http => b"0\r\n\r\n",                // the final chunk
                };
                both(&|proxy| proxy.end(End::Words(words)));
            }
            // What ends watches of Linkerd's for good.
            Fault::LeavesWhileConnecting => {
                let [stays, leaves] = &self.proxies;
                leaves.mode(Mode::StallNew);
                self.servers.publish(addresses(&[&leaves.address.to_string()]));
                both(&|proxy| proxy.end(End::Rst));
                sleep(Duration::from_millis(rng.random_range(50..400))).await;
                self.servers.publish(addresses(&[&stays.address.to_string()]));
            }
        }
    }

    async fn heal(&self) {
        for proxy in &self.proxies {
            proxy.heal().await;
        }
        self.servers.publish(both(&self.proxies));
    }

    /// Waits until every watch holds something that became true since now; the time that took.
    async fn settle(&mut self, what: &str, limit: Duration) -> Duration {
        let began = Instant::now();
        let mut left: Vec<usize> = (0..self.feeds.len()).collect();
        while !left.is_empty() {
            self.look();
            left.retain(|at| !self.names.is_since(began, value(&self.feeds[*at].cell().snapshot()).as_ref()));
            assert!(
                began.elapsed() < limit,
                "{what}: {} of {} watches are not fresh after {limit:?}: {}",
                left.len(),
                self.feeds.len(),
                self.upstream.page()
            );
            sleep(Duration::from_millis(10)).await;
        }
        began.elapsed()
    }

    /// Waits until some server vouches for every watch.
    async fn is_vouched_for(&self, what: &str) {
        let began = Instant::now();
        while self.upstream.staleness().count > 0 {
            assert!(began.elapsed() < LIMIT, "{what}: {}", self.upstream.page());
            sleep(Duration::from_millis(10)).await;
        }
    }
}

fn both(proxies: &[Proxy; 2]) -> Addr {
    addresses(&[&proxies[0].address.to_string(), &proxies[1].address.to_string()])
}

/// Runs a story while all names change five times a second. Nothing may be left of it.
fn while_names_change(story: impl AsyncFnOnce(&Servers)) {
    let servers = Servers::start();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("threads");
    runtime.block_on(async {
        story(&servers).await;
        let metrics = Handle::current().metrics();
        let deadline = Instant::now() + PATIENCE;
        while metrics.num_alive_tasks() > 0 {
            assert!(Instant::now() < deadline, "{} tasks are left", metrics.num_alive_tasks());
            sleep(Duration::from_millis(10)).await;
        }
    });
}

fn shown(stale: &mut [Duration]) -> String {
    stale.sort_unstable();
    let at = |part: f64| stale[((stale.len() - 1) as f64 * part) as usize].as_millis();
    format!("{:>7} {:>7} {:>7}", at(0.5), at(0.99), at(1.0))
}

/// How many watches a story has. Handshakes of many streams each second are much for machines that make them without
/// optimisation.
fn watches(speaks: Speaks, tls: bool) -> usize {
    if tls && speaks == Speaks::Http { NAMES / 4 } else { NAMES }
}

fn every_fault_alone(speaks: Speaks, tls: bool) {
    while_names_change(async |servers| {
        let stories = FAULTS.map(|fault| async move {
            let mut rng = StdRng::seed_from_u64(7);
            let mut world = World::new(servers, speaks, tls, watches(speaks, tls), 7).await;
            world.settle(&format!("{speaks:?} before {fault:?}"), PATIENCE).await;
            world.stale.clear();
            world.begin(fault, &mut rng).await;
            world.pass(Duration::from_secs(1)).await;
            world.heal().await;
            let took = world.settle(&format!("{speaks:?} {fault:?}"), LIMIT).await;
            world.is_vouched_for(&format!("{speaks:?} {fault:?}")).await;
            let (mut stale, name) = (std::mem::take(&mut world.stale), format!("{fault:?}"));
            format!("{name:<22} {} {:>7}", shown(&mut stale), took.as_millis())
        });
        let rows = futures_util::future::join_all(stories).await;
        let kind = if tls { "TLS" } else { "plain" };
        println!("{speaks:?} {kind}: ms stale, of all watches at all times (p50, p99, most), and until all were fresh");
        rows.iter().for_each(|row| println!("  {row}"));
    });
}

fn many_faults_in_a_row(speaks: Speaks, tls: bool) {
    let more = std::env::var("ROSTERD_TEST_SEQUENCES").ok().and_then(|count| count.parse().ok());
    let seeds = seeds(more.unwrap_or(3));
    println!("{speaks:?}, TLS {tls}: seeds {seeds:?}");
    while_names_change(async |servers| {
        let stories = seeds.iter().map(|seed| async move {
            let mut rng = StdRng::seed_from_u64(*seed);
            let mut world = World::new(servers, speaks, tls, watches(speaks, tls), *seed).await;
            for _ in 0..4 {
                let fault = FAULTS[rng.random_range(0..FAULTS.len())];
                world.begin(fault, &mut rng).await;
                world.pass(Duration::from_millis(rng.random_range(0..900))).await;
                if rng.random_bool(0.7) {
                    world.heal().await;
                    world.pass(Duration::from_millis(rng.random_range(0..500))).await;
                }
            }
            world.heal().await;
            world.settle(&format!("seed {seed}"), LIMIT).await;
            world.is_vouched_for(&format!("seed {seed}")).await;
        });
        futures_util::future::join_all(stories).await;
    });
}

/// What stops all watches of a Linkerd 1.7.5 over TLS, two tries of two: a second address behind the name accepts
/// connections and never finishes the handshake, and then leaves the name. And what stops some of them without TLS: it
/// refuses connections, all watches come again and again, and it leaves the name. The other server is well throughout.
fn the_recipe(tls: bool) {
    const WATCHES: usize = 40;
    while_names_change(async |servers| {
        let mut world = World::new(servers, Speaks::Thrift, tls, WATCHES, 7).await;
        world.settle("before", PATIENCE).await;
        for round in 0..if tls { 2 } else { 10 } {
            let [good, bad] = &world.proxies;
            if tls {
                bad.mode(Mode::StallNew)
            } else {
                bad.refuse()
            }
            bad.end(End::Rst);
            world.servers.publish(addresses(&[&bad.address.to_string()]));
            good.end(End::Rst); // so that all of them go to the bad one
            let stay = Duration::from_millis(if tls { 900 } else { 350 });
            world.pass(stay).await;
            world.servers.publish(addresses(&[&world.proxies[0].address.to_string()]));
            let took = world.settle(&format!("round {round}"), LIMIT).await;
            println!("TLS {tls}, round {round}: {WATCHES} of {WATCHES} alive after {} ms", took.as_millis());
            world.heal().await;
            world.settle("healed", PATIENCE).await;
        }
    });
}

#[test]
fn an_address_that_stalls_in_the_tls_handshake_and_leaves_stops_no_watch() {
    the_recipe(true);
}

#[test]
fn an_address_that_refuses_and_leaves_stops_no_watch() {
    the_recipe(false);
}

#[test]
fn every_fault_alone_over_thrift() {
    every_fault_alone(Speaks::Thrift, false);
}

#[test]
fn every_fault_alone_over_thrift_with_tls() {
    every_fault_alone(Speaks::Thrift, true);
}

#[test]
fn every_fault_alone_over_http() {
    every_fault_alone(Speaks::Http, false);
}

#[test]
fn every_fault_alone_over_http_with_tls() {
    every_fault_alone(Speaks::Http, true);
}

#[test]
fn many_faults_in_a_row_over_thrift() {
    many_faults_in_a_row(Speaks::Thrift, false);
}

#[test]
fn many_faults_in_a_row_over_http_with_tls() {
    many_faults_in_a_row(Speaks::Http, true);
}

#[test]
fn many_faults_in_a_row_over_thrift_with_tls() {
    many_faults_in_a_row(Speaks::Thrift, true);
}

#[test]
fn many_faults_in_a_row_over_http() {
    many_faults_in_a_row(Speaks::Http, false);
}
