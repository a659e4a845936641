//! What tests of interfaces share: parts over a namer whose answers the test sets.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::registry::Registry;

use super::{Core, IfaceMetrics, NameReader, Sessions};
use crate::config::{Fixes, IpFamilies, OwnLimits};
use crate::interpreter::{ConfiguredNamer, Local, Namers, Settings};
use crate::ledger::{Ledger, Rules};
use crate::name::{Addr, AddrSet, Dtab, Meta, NameTree, Path};
use crate::namer::hosts::Hosts;
use crate::namer::{Found, Namer};
use crate::runtime::{Connections, Drain, LimitCounts, RateLimit};
use crate::storage::memory::MemoryStorage;
use crate::store::{Cell, Evaluators, Reading, Run};
use crate::telemetry::Legacy;

/// Names of one element; a cell each for presence and addresses.
#[derive(Default)]
pub(super) struct Fixture {
    pub(super) presence: Mutex<BTreeMap<Path, Arc<Cell<bool>>>>,
    pub(super) addresses: Mutex<BTreeMap<Path, Arc<Cell<Addr>>>>,
    pub(super) names: Arc<Cell<BTreeSet<Path>>>,
}

impl Fixture {
    pub(super) fn presence(&self, id: &Path) -> Arc<Cell<bool>> {
        self.presence.lock().entry(id.clone()).or_default().clone()
    }

    pub(super) fn address(&self, id: &Path) -> Arc<Cell<Addr>> {
        self.addresses.lock().entry(id.clone()).or_default().clone()
    }
}

impl Namer for Fixture {
    fn lookup(&self, run: &mut Run<'_>, path: &Path) -> Reading<NameTree<Found>> {
        let (id, residual) = (path.take(1), path.drop(1));
        run.read(&self.presence(&id), ()).reading(Duration::from_secs(2)).map(|present| match *present {
            true => NameTree::Leaf(Found::Bound { id, residual }),
            false => NameTree::Neg,
        })
    }

    fn addresses(&self, run: &mut Run<'_>, id: &Path) -> Reading<Addr> {
        run.read(&self.address(id), ()).reading(Duration::from_secs(2)).map(|addr| Addr::clone(&addr))
    }

    fn enumerates(&self) -> bool {
        true
    }

    fn names(&self, run: &mut Run<'_>) -> Reading<BTreeSet<Path>> {
        run.read(&self.names, ()).reading(Duration::from_secs(2)).map(|names| names.as_ref().clone())
    }
}

impl Fixture {
    /// Makes a name exist, with these addresses.
    pub(super) fn serve(&self, name: &str, addrs: &[&str]) {
        let addrs = addrs.iter().map(|text| text.parse::<SocketAddr>().expect("address").into()).collect();
        self.address(&path(name)).publish(Addr::Bound(AddrSet::new(addrs, Meta::default())));
        self.presence(&path(name)).publish(true);
    }

    /// Makes it go.
    pub(super) fn remove(&self, name: &str) {
        self.presence(&path(name)).publish(false);
        self.address(&path(name)).publish(Addr::Neg);
    }
}

/// What an interface is served from: these dtabs, and the fixture as the namer `/#/t`.
pub(super) fn core(dtabs: &[(&str, &str)], limits: &OwnLimits) -> (Arc<Fixture>, Core) {
    let fixture = Arc::new(Fixture::default());
    let namer = ConfiguredNamer { prefix: path("/#/t"), namer: fixture.clone(), transformers: Vec::new() };
    let namers = Namers::new(vec![namer], Hosts::new(IpFamilies::default())).expect("one namer");
    let dtabs = dtabs.iter().map(|(name, text)| ((*name).to_owned(), Dtab::parse(text).expect("dtab")));
    let storage = Arc::new(MemoryStorage::new(dtabs));
    let interpreter = Local::new(storage.clone(), namers, Evaluators::start(1), Settings::default());
    let counts = LimitCounts::default();
    let core = Core {
        interpreter: Arc::new(interpreter),
        storage,
        names: NameReader::new(limits.names, counts.clone()),
        body_bytes: limits.body_bytes,
        rate: limits.requests_per_second_per_client.map(RateLimit::new).map(Arc::new),
        limits: counts,
        fixes: Fixes::default(),
        sessions: Sessions {
            max_poll_age: Duration::from_secs(90),
            watches: limits.watches_per_connection as usize,
            spread: Duration::from_secs(2),
            ping_silence: false,
        },
        connections: Connections::new(100),
        drain: Drain::new(),
        ledger: Ledger::new(Rules { retry_max: Duration::from_secs(600), most_entries: 1_000_000 }, 0),
        legacy: Legacy::default(),
        metrics: IfaceMetrics::register(&mut Registry::default()),
    };
    (fixture, core)
}

pub(super) fn path(text: &str) -> Path {
    Path::parse(text).expect("path")
}
