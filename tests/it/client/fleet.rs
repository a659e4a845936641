//! A fleet of clients in a simulated world: servers that are killed, come back, are cut off and move, and a name service
//! that tells so late.
//!
//! What happens is drawn from a seed that is printed; `ROSTERD_TEST_SEED` repeats one, `ROSTERD_TEST_FLEETS` runs more of
//! them, and `ROSTERD_TEST_FLEET=full` makes each a hundred clients of fifty names, which takes minutes.

use std::future::pending;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rosterd::client::{Connect, Failure, Feed, Reason, Stream, Timings};
use rosterd::name::{Addr, AddrSet};
use rosterd::store::Cell;
use turmoil::net::{TcpListener, TcpStream};
use turmoil::{Builder, Sim};

use super::namerd::{Namerd, Registry, set};
use super::{Client, addresses, seeds, value};

const PORT: u16 = 4100;
/// Hosts that may be servers; three of them are at a time.
const HOSTS: usize = 5;
const SERVERS: usize = 3;
/// Machines that clients run on.
const MACHINES: usize = 10;

/// How long it is rough.
const ROUGH: Duration = Duration::from_secs(60);
/// The name service is right after this time.
const TOLD: Duration = Duration::from_secs(5);
/// Then every watch is fresh within the longest delay, or the time in which a dead connection is noticed and a new one
/// made, and two seconds.
const CALM: Duration = Duration::from_secs(9 + 8 + 2);

/// The simulated network.
struct Simulated;

#[async_trait]
impl Connect for Simulated {
    async fn connect(&self, address: SocketAddr) -> Result<Box<dyn Stream>, Failure> {
        match TcpStream::connect(address).await {
            Ok(stream) => Ok(Box::new(stream)),
            Err(error) => Err(Failure::new(Reason::Connect, error.to_string())),
        }
    }
}

/// What the driver of a simulation sees of it.
#[derive(Clone, Default)]
struct Seen {
    feeds: Arc<Mutex<Vec<Feed<AddrSet>>>>,
    /// What each machine's name service says.
    names: Arc<Mutex<Vec<Arc<Cell<Addr>>>>>,
    keep: Arc<Mutex<Vec<Client>>>,
}

fn host(n: usize) -> String {
    format!("host{n}")
}

fn machine(n: usize) -> String {
    format!("machine{n}")
}

struct World<'a> {
    sim: Sim<'a>,
    rng: StdRng,
    registry: Registry,
    seen: Seen,
    generation: u32,
    names: usize,
    /// Which hosts are servers.
    serving: Vec<usize>,
    down: Vec<usize>,
    apart: Vec<(usize, usize)>,
    ips: Vec<IpAddr>,
}

impl World<'_> {
    /// All names change.
    fn change(&mut self) -> AddrSet {
        self.generation += 1;
        let [_, a, b, c] = self.generation.to_be_bytes();
        let address = format!("10.{a}.{b}.{c}:80");
        for name in 0..self.names {
            self.registry.addr(&format!("/#/fs/{name}"), &[&address]);
        }
        set(&[&address])
    }

    fn run_for(&mut self, time: Duration) {
        let until = self.sim.elapsed() + time;
        while self.sim.elapsed() < until {
            self.sim.step().expect("no host fails");
        }
    }

    /// The name service says where the servers are.
    fn tell(&self) {
        let at: Vec<String> = self.serving.iter().map(|host| format!("{}:{PORT}", self.ips[*host])).collect();
        let at: Vec<&str> = at.iter().map(String::as_str).collect();
        self.seen.names.lock().iter().for_each(|cell| {
            cell.publish(addresses(&at));
        });
    }

    fn happen(&mut self) {
        match self.rng.random_range(0..8) {
            0 => {
                let host = self.rng.random_range(0..HOSTS);
                if !self.down.contains(&host) {
                    self.sim.crash(self::host(host));
                    self.down.push(host);
                }
            }
            1 => {
                if let Some(host) = self.down.pop() {
                    self.sim.bounce(self::host(host));
                }
            }
            2 => {
                let host = self.rng.random_range(0..HOSTS);
                if !self.down.contains(&host) {
                    self.sim.bounce(self::host(host)); // killed and there again at once
                }
            }
            3 | 4 => {
                let (host, machine) = (self.rng.random_range(0..HOSTS), self.rng.random_range(0..MACHINES));
                self.sim.partition(self::host(host), self::machine(machine));
                self.apart.push((host, machine));
            }
            5 => {
                if let Some((host, machine)) = self.apart.pop() {
                    self.sim.repair(self::host(host), self::machine(machine));
                }
            }
            6 => {
                let mut all: Vec<usize> = (0..HOSTS).collect();
                all.shuffle(&mut self.rng);
                self.serving = all.into_iter().take(SERVERS).collect();
                self.tell();
            }
            _ => {}
        }
    }

    fn calm_down(&mut self) {
        for host in std::mem::take(&mut self.down) {
            self.sim.bounce(self::host(host));
        }
        for (host, machine) in std::mem::take(&mut self.apart) {
            self.sim.repair(self::host(host), self::machine(machine));
        }
        self.run_for(TOLD);
        self.tell();
    }
}

fn simulate(seed: u64, clients: usize, names: usize) {
    let sim = Builder::new()
        .simulation_duration(Duration::from_secs(3_600))
        .tick_duration(Duration::from_millis(10))
        .min_message_latency(Duration::from_millis(1))
        .max_message_latency(Duration::from_millis(80))
        .tcp_capacity(1 << 16)
        .rng_seed(seed)
        .build();
    let rng = StdRng::seed_from_u64(seed);
    let (serving, down, apart) = ((0..SERVERS).collect(), Vec::new(), Vec::new());
    let (registry, seen) = (Registry::default(), Seen::default());
    let mut world = World { sim, rng, registry, seen, generation: 0, names, serving, down, apart, ips: Vec::new() };
    world.change();
    for n in 0..HOSTS {
        let registry = world.registry.clone();
        world.sim.host(host(n), move || {
            let namerd = Namerd::new(&registry); // another one after each crash
            async move {
                let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT)).await?;
                loop {
                    let (stream, _) = listener.accept().await?;
                    tokio::spawn(namerd.clone().serve(stream));
                }
            }
        });
        world.ips.push(world.sim.lookup(host(n)));
    }
    for n in 0..MACHINES {
        let seen = world.seen.clone();
        let first: Vec<String> = world.ips.iter().take(SERVERS).map(|ip| format!("{ip}:{PORT}")).collect();
        world.sim.client(machine(n), async move {
            let first: Vec<&str> = first.iter().map(String::as_str).collect();
            for _ in 0..clients / MACHINES {
                let client = Client::new(Simulated, Timings::default(), &first);
                let feeds = (0..names).map(|name| client.addr(&format!("/#/fs/{name}")));
                seen.feeds.lock().extend(feeds);
                seen.names.lock().push(client.servers.clone());
                seen.keep.lock().push(client);
            }
            pending::<()>().await;
            Ok(())
        });
    }
    world.run_for(Duration::from_secs(2));
    let until = world.sim.elapsed() + ROUGH;
    while world.sim.elapsed() < until {
        world.happen();
        world.change();
        let pause = world.rng.random_range(100..2_000);
        world.run_for(Duration::from_millis(pause));
    }
    world.calm_down();
    world.change();
    world.run_for(CALM);
    // They are fresh, and changes go through.
    for _ in 0..2 {
        let wanted = world.change();
        world.run_for(Duration::from_secs(1));
        let feeds = world.seen.feeds.lock();
        let stale = feeds.iter().filter(|feed| value(&feed.cell().snapshot()).as_ref() != Some(&wanted)).count();
        if stale > 0 {
            let keep = world.seen.keep.lock();
            let pages: Vec<String> = keep.iter().map(|client| client.upstream.page().to_string()).collect();
            let page = pages.iter().find(|page| page.contains("stale")).or(pages.first());
            panic!("seed {seed}: {stale} of {} watches are stale: {}", feeds.len(), page.expect("there are clients"));
        }
    }
}

#[test]
fn every_watch_of_a_fleet_is_fresh_when_the_weather_is_fine_again() {
    let fleets: Option<u64> = std::env::var("ROSTERD_TEST_FLEETS").ok().and_then(|count| count.parse().ok());
    let seeds = seeds(fleets.unwrap_or(2));
    let (clients, names) = if std::env::var_os("ROSTERD_TEST_FLEET").is_some() { (100, 50) } else { (20, 10) };
    let began = std::time::Instant::now();
    for (done, seed) in (1..).zip(seeds) {
        println!("seed {seed}");
        simulate(seed, clients, names);
        println!("{done} fleets of {clients} clients of {names} names in {} s", began.elapsed().as_secs());
    }
}
