//! Three servers are restarted in turn, on a clock of its own: for how long the worst watch is behind.

#![allow(clippy::print_stdout, reason = "the figures are for whoever reads the output of the tests")]

use std::time::Duration;

use rand::RngExt;
use rosterd::client::{Feed, Timings};
use rosterd::name::AddrSet;
use tokio::time::{Instant, sleep};

use super::loops::{A, B, C};
use super::namerd::{Namerd, Registry, set};
use super::net::{Link, Net};
use super::{Client, value};

const WATCHES: usize = 20;

/// So often all addresses change.
const CHANGE: Duration = Duration::from_millis(100);

/// So late the name service hears that a server is gone, and that it is there again.
const HEARSAY: Duration = Duration::from_millis(300);

/// No watch is further behind at any time, planned or not. A server that is there again, or never was away, is asked
/// within half a second of the need.
const LIMIT: Duration = Duration::from_secs(1);

/// Three servers, a client with its watches, and what the addresses were and since when.
struct Storm {
    registry: Registry,
    net: Net,
    servers: [Namerd; 3],
    client: Client,
    feeds: Vec<Feed<AddrSet>>,
    history: Vec<(Instant, AddrSet)>,
    worst: Duration,
}

impl Storm {
    async fn begin() -> Self {
        let (registry, net) = (Registry::default(), Net::default());
        let servers = [A, B, C].map(|at| {
            let server = Namerd::new(&registry);
            net.host(at, &server);
            server
        });
        let client = Client::new(net.clone(), Timings::default(), &[A, B, C]);
        let feeds = (0..WATCHES).map(|name| client.addr(&format!("/#/fs/{name}"))).collect();
        let history = Vec::new();
        let mut storm = Self { registry, net, servers, client, feeds, history, worst: Duration::ZERO };
        storm.pass(Duration::from_secs(1)).await;
        storm
    }

    /// Lets time pass while addresses change, and looks at all watches meanwhile.
    async fn pass(&mut self, time: Duration) {
        let until = Instant::now() + time;
        while Instant::now() < until {
            if self.history.last().is_none_or(|(at, _)| at.elapsed() >= CHANGE) {
                let [a, b] = u16::try_from(self.history.len()).expect("not so many").to_be_bytes();
                let address = format!("10.0.{a}.{b}:80");
                (0..WATCHES).for_each(|name| self.registry.addr(&format!("/#/fs/{name}"), &[&address]));
                self.history.push((Instant::now(), set(&[&address])));
            }
            sleep(Duration::from_millis(10)).await;
            for feed in &self.feeds {
                let has = value(&feed.cell().snapshot());
                let place = self.history.iter().rposition(|(_, value)| Some(value) == has.as_ref());
                if let Some((replaced, _)) = self.history.get(place.map_or(0, |place| place + 1)) {
                    self.worst = self.worst.max(replaced.elapsed());
                }
            }
        }
    }

    /// How far behind the worst watch has been since this was asked last.
    fn worst(&mut self) -> Duration {
        std::mem::take(&mut self.worst)
    }

    async fn restart(&mut self, which: usize, planned: bool) {
        let at = [A, B, C][which];
        if planned {
            self.servers[which].behave(|manners| manners.drains_at_once = true);
            self.servers[which].drain();
            self.pass(Duration::from_millis(100)).await;
        }
        self.net.link(at, Link::Refuses);
        self.net.cut(at);
        self.pass(HEARSAY).await;
        let others: Vec<&str> = [A, B, C].into_iter().filter(|other| *other != at).collect();
        self.client.servers(&others);
        self.pass(HEARSAY).await;
        self.servers[which] = Namerd::new(&self.registry);
        self.net.host(at, &self.servers[which]);
        self.client.servers(&[A, B, C]);
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_is_left_is_asked_at_once_when_servers_are_restarted_one_right_after_the_other() {
    let mut storm = Storm::begin().await;
    storm.worst();
    let mut behind = [Vec::new(), Vec::new()];
    for restart in 0..90 {
        let planned = rand::rng().random_bool(0.5);
        storm.restart(restart % 3, planned).await;
        let calm = rand::rng().random_range(0..800);
        storm.pass(Duration::from_millis(calm)).await;
        behind[usize::from(!planned)].push(storm.worst());
    }
    for (kind, behind) in ["planned", "killed"].into_iter().zip(&mut behind) {
        behind.sort_unstable();
        let at = |part: f64| behind[((behind.len() - 1) as f64 * part) as usize].as_millis();
        assert!(at(1.0) < LIMIT.as_millis(), "{kind}: {behind:?}");
        println!(
            "{} restarts, {kind}: ms behind {} (p50) {} (p99) {} (most)",
            behind.len(),
            at(0.5),
            at(0.99),
            at(1.0)
        );
    }
}
