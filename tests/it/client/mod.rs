//! The client of other name servers: a watch holds what its server has, whatever happens on the way.

mod churn;
mod faults;
mod fleet;
mod leaving;
mod loops;
mod namerd;
mod net;
mod proxy;
mod recipe;
mod refusals;
mod restarts;
mod scripted;
mod storm;
mod streams;
mod world;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use rosterd::client::mux::ThriftMux;
use rosterd::client::{Answer, Ask, ClientMetrics, Connect, Feed, Reason, Timings, Upstream};
use rosterd::name::{Addr, AddrSet, Limits, Meta, Path};
use rosterd::store::{Cell, Key, Live, Mailbox, Snapshot, Standing, Watch};
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout};

use namerd::set;

/// A client whose servers' addresses the test says.
struct Client {
    upstream: Upstream,
    metrics: ClientMetrics,
    servers: Arc<Cell<Addr>>,
}

struct Told;

impl Live for Told {}

impl Client {
    fn new(connect: impl Connect, timings: Timings, servers: &[&str]) -> Self {
        let metrics = ClientMetrics::default();
        let protocol = ThriftMux::new("test", Arc::new(connect), timings, Limits::DEFAULT, metrics.clone());
        let servers = Cell::ready(addresses(servers));
        let addrs = Watch::new(servers.clone(), Arc::new(Told));
        let upstream = Upstream::new("test", Arc::new(protocol), addrs, timings, metrics.clone());
        metrics.show(&upstream);
        Self { upstream, metrics, servers }
    }

    /// The name service has other addresses now.
    fn servers(&self, servers: &[&str]) {
        self.servers.publish(addresses(servers));
    }

    fn addr(&self, id: &str) -> Feed<AddrSet> {
        let ask = Ask::Addr { id: Path::parse(id).expect("an id") };
        let feed = self.upstream.feed(&Handle::current(), ask, |answer| match answer {
            Answer::Addr(Addr::Bound(set)) => Ok(set),
            Answer::Addr(_) => Ok(set(&[])),
            other => Err(format!("no addresses: {other:?}")),
        });
        feed.begun()
    }

    /// How many attempts ended for this reason.
    fn ends(&self, reason: Reason) -> u64 {
        self.metrics.ends(&self.upstream, reason)
    }

    /// Those that ended because something went wrong.
    fn failures(&self) -> u64 {
        let fine = [Reason::Draining, Reason::EndOfStream, Reason::Idle, Reason::Silent];
        Reason::ALL.into_iter().filter(|reason| !fine.contains(reason)).map(|reason| self.ends(reason)).sum()
    }
}

fn addresses(texts: &[&str]) -> Addr {
    let addresses = texts.iter().map(|text| text.parse::<SocketAddr>().expect("an address").into());
    Addr::Bound(AddrSet::new(addresses.collect(), Meta::default()))
}

/// Waits until a feed has this value; the time that took.
async fn holds<T: PartialEq + Send + Sync + std::fmt::Debug + 'static>(
    feed: &Feed<T>,
    wanted: &T,
    limit: Duration,
) -> Duration {
    let began = Instant::now();
    let mailbox = Mailbox::new();
    let (mut snapshot, _subscription) = feed.cell().subscribe(&mailbox, Key(0));
    let mut marked = Vec::new();
    while snapshot.value().is_none_or(|value| **value != *wanted) {
        let left = limit.saturating_sub(began.elapsed());
        if timeout(left, mailbox.marked()).await.is_err() {
            panic!("not {wanted:?} within {limit:?}, but {:?}", feed.cell());
        }
        mailbox.take_marked(&mut marked);
        snapshot = feed.cell().snapshot();
    }
    began.elapsed()
}

fn value<T: Clone>(snapshot: &Snapshot<T>) -> Option<T> {
    snapshot.value().map(|value| (**value).clone())
}

fn is_current<T>(feed: &Feed<T>) -> bool {
    feed.cell().snapshot().standing == Standing::Current
}

/// Seeds of stories that draw what happens; `ROSTERD_TEST_SEED` repeats one.
fn seeds(count: u64) -> Vec<u64> {
    match std::env::var("ROSTERD_TEST_SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => vec![seed],
        None => (0..count).map(|_| rand::rng().random_range(0..1_000_000)).collect(),
    }
}
