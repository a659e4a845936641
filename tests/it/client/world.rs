//! A client, real servers, and proxies between them that do what networks do; both protocols, with and without TLS.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::RngExt;
use rand::rngs::StdRng;
use rosterd::client::http::Http;
use rosterd::client::mux::ThriftMux;
use rosterd::client::{
    Answer, Ask, ClientMetrics, Connect, Feed, Protocol, Reason, Retry, Tcp, Timings, Tls, Upstream,
};
use rosterd::config::{ClientTls, Validation};
use rosterd::name::{Addr, AddrSet, Limits, Path};
use rosterd::store::{Cell, Watch};
use tempfile::TempDir;
use tokio::runtime::Handle;
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;

use super::churn::{NAMES, Names};
use super::proxy::{End, Mode, Proxy};
use super::{Told, addresses, value};
use crate::support::{Authority, PATIENCE, Rosterd, folder};

/// How a client and the servers speak with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    Plain,
    /// TLS from end to end: faults happen to its records.
    Tls,
    /// TLS with the proxy: faults happen to what is within.
    TlsToProxy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaks {
    Thrift,
    Http,
}

/// Everything a second instead of ten, so that the stories are short. Streams over TLS live three: each new one is a
/// handshake, and without optimisation a machine makes but a few dozens of them in a second. Where it is given more than
/// that it finishes none in its time, begins all anew, and is busy with nothing else.
pub fn timings(speaks: Speaks, over: Over) -> Timings {
    let timings = Timings {
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
    };
    match (speaks, over) {
        (Speaks::Http, Over::Tls | Over::TlsToProxy) => Timings {
            connect: timings.connect * 3,
            handshake: timings.handshake * 3,
            first_answer: timings.first_answer * 3,
            stream_age: timings.stream_age * 3,
            ..timings
        },
        _ => timings,
    }
}

/// The longest delay or the time of detection, and two seconds. What is detected is a connection that is dead: by a ping
/// that is not answered, or by the age of a stream with its jitter; and the next one begins with a handshake.
pub fn limit(timings: &Timings, speaks: Speaks) -> Duration {
    let detection = match speaks {
        Speaks::Thrift => timings.ping_period + timings.ping_deadline,
        Speaks::Http => timings.stream_age.mul_f64(1.2),
    };
    timings.retry.max.max(detection + timings.handshake) + Duration::from_secs(2)
}

/// What a fault does while it lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
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

pub const FAULTS: [Fault; 12] = [
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
pub struct Servers {
    names: Names,
    processes: [Rosterd; 2],
    ca: TempDir,
    proxy: TlsAcceptor,
}

impl Servers {
    fn start() -> Self {
        let (names, ca) = (Names::changing_every(Duration::from_millis(200)), folder());
        let authority = Authority::new();
        std::fs::write(ca.path().join("ca.pem"), &authority.pem).expect("written");
        let issued = authority.issue();
        issued.write_to(ca.path());
        let tls = format!("{{certPath: {0}/cert.pem, keyPath: {0}/key.pem}}", ca.path().display());
        let interfaces = format!(
            "{{kind: io.l5d.thriftNameInterpreter, port: 0}}, {{kind: io.l5d.httpController, port: 0}}, \
             {{kind: io.l5d.thriftNameInterpreter, port: 0, tls: {tls}}}, {{kind: io.l5d.httpController, port: 0, tls: {tls}}}"
        );
        let processes = [names.server(&interfaces), names.server(&interfaces)];
        Self { names, processes, ca, proxy: issued.server().into() }
    }

    /// Where the proxies connect to.
    fn addresses(&self, speaks: Speaks, over: Over) -> Vec<SocketAddr> {
        let kind = match speaks {
            Speaks::Thrift => "io.l5d.thriftNameInterpreter",
            Speaks::Http => "io.l5d.httpController",
        };
        let port = |process: &Rosterd| process.ports(kind)[usize::from(over == Over::Tls)];
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
pub struct World<'s> {
    names: &'s Names,
    pub upstream: Upstream,
    metrics: ClientMetrics,
    pub servers: Arc<Cell<Addr>>,
    pub proxies: [Proxy; 2],
    feeds: Vec<Feed<AddrSet>>,
    speaks: Speaks,
    pub limit: Duration,
    /// How long watches had been stale, each time they were looked at.
    pub stale: Vec<Duration>,
}

impl<'s> World<'s> {
    /// One watch for each name, which both servers are known for.
    pub async fn new(servers: &'s Servers, speaks: Speaks, over: Over, seed: u64) -> Self {
        Self::with(servers, (speaks, over), timings(speaks, over), (NAMES, both), seed).await
    }

    pub async fn with(
        servers: &'s Servers,
        (speaks, over): (Speaks, Over),
        timings: Timings,
        (watches, at_first): (usize, fn(&[Proxy; 2]) -> Addr),
        seed: u64,
    ) -> Self {
        let connect: Arc<dyn Connect> = match over {
            Over::Plain => Arc::new(Tcp),
            Over::Tls | Over::TlsToProxy => Arc::new(Tls::new(&servers.tls()).expect("a good block")),
        };
        let at = servers.addresses(speaks, over);
        let proxy = async |at| {
            let tls = (over == Over::TlsToProxy).then(|| servers.proxy.clone());
            Proxy::start(at, tls, seed).await
        };
        let proxies = [proxy(at[0]).await, proxy(at[1]).await];
        let metrics = ClientMetrics::default();
        let protocol: Arc<dyn Protocol> = match speaks {
            Speaks::Thrift => Arc::new(ThriftMux::new("x", connect, timings, Limits::DEFAULT, metrics.clone())),
            Speaks::Http => Arc::new(
                Http::new("x", connect, timings, Limits::DEFAULT, metrics.clone(), ("namerd.example", ""))
                    .expect("a host"),
            ),
        };
        let known = Cell::ready(at_first(&proxies));
        let upstream =
            Upstream::new("x", protocol, Watch::new(known.clone(), Arc::new(Told)), timings, metrics.clone());
        let feeds = (0..watches)
            .map(|watch| {
                let name = watch % NAMES;
                let ask = Ask::Addr { id: Path::parse(&format!("/#/io.l5d.fs/{name}")).expect("an id") };
                let feed = upstream.feed(&Handle::current(), ask, |answer| match answer {
                    Answer::Addr(Addr::Bound(set)) => Ok(set),
                    other => Err(format!("not bound: {other:?}")),
                });
                feed.begun()
            })
            .collect();
        let (names, limit) = (&servers.names, limit(&timings, speaks));
        Self { names, upstream, metrics, servers: known, proxies, feeds, speaks, limit, stale: Vec::new() }
    }

    /// Lets time pass, and looks at every watch meanwhile.
    pub async fn pass(&mut self, time: Duration) {
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

    pub async fn begin(&self, fault: Fault, rng: &mut StdRng) {
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
            // The goodbye of a server, whose connection then ends as the client leaves.
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

    pub async fn heal(&self) {
        for proxy in &self.proxies {
            proxy.heal().await;
        }
        self.servers.publish(both(&self.proxies));
    }

    /// Waits until every watch holds something that became true since now; the time that took.
    pub async fn settle(&mut self, what: &str, limit: Duration) -> Duration {
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

    /// How many attempts ended for this reason.
    pub fn ends(&self, reason: Reason) -> u64 {
        self.metrics.ends(&self.upstream, reason)
    }

    /// Waits until some server vouches for every watch.
    pub async fn is_vouched_for(&self, what: &str) {
        let began = Instant::now();
        while self.upstream.staleness().count > 0 {
            assert!(began.elapsed() < self.limit, "{what}: {}", self.upstream.page());
            sleep(Duration::from_millis(10)).await;
        }
    }
}

/// The name has the first address.
pub fn first(proxies: &[Proxy; 2]) -> Addr {
    addresses(&[&proxies[0].address.to_string()])
}

/// The name has both addresses.
pub fn both(proxies: &[Proxy; 2]) -> Addr {
    addresses(&[&proxies[0].address.to_string(), &proxies[1].address.to_string()])
}

/// Runs a story while all names change five times a second. Nothing may be left of it.
pub fn while_names_change(story: impl AsyncFnOnce(&Servers)) {
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
