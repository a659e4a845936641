//! Stories of a relay on a clock of its own.

use std::net::SocketAddr;

use tokio::sync::watch;

use super::*;
use crate::client::{Ages, ClientMetrics, End, Explain, Explained, Failure, News, Protocol, Reason, Server, Timings};
use crate::config::IpFamilies;
use crate::interpreter::Namers;
use crate::interpreter::local::Settings;
use crate::name::{AddrSet, DelegateTree, Meta};
use crate::namer::hosts::Hosts;
use crate::storage::memory::MemoryStorage;
use crate::store::{Evaluators, Snapshot};

/// A name server that knows every id, while it is there.
struct Names(watch::Sender<bool>);

#[async_trait]
impl Protocol for Names {
    fn name(&self) -> &'static str {
        "names"
    }

    fn ages(&self, timings: &Timings) -> Ages {
        Ages { quiet: None, whole: timings.seat_age }
    }

    async fn follow(&self, server: &Arc<Server>, _: &Ask, news: &News) -> End {
        let mut there = self.0.subscribe();
        if *there.borrow_and_update() {
            news.tell(Answer::Addr(addresses(80))).expect("addresses");
            server.answered();
            there.changed().await.expect("it lives");
        }
        let failure = Failure::new(Reason::Connect, "refused");
        server.failed(&failure);
        End::Failed(failure)
    }

    async fn explain(&self, _: &Arc<Server>, _: &Explain) -> Result<DelegateTree<Explained>, Failure> {
        Err(Failure::new(Reason::Declared, "not here"))
    }
}

fn addresses(port: u16) -> Addr {
    Addr::Bound(AddrSet::new(vec![SocketAddr::from(([192, 0, 2, 1], port)).into()], Meta::default()))
}

fn relay() -> (Remote, Arc<Names>) {
    let names = Arc::new(Names(watch::Sender::new(true)));
    let timings = Timings::default();
    let servers = Watch::constant(addresses(4100));
    let upstream = Upstream::new("test", names.clone(), servers, timings, ClientMetrics::default());
    let namers = Namers::new(Vec::new(), Hosts::new(IpFamilies::default())).expect("none");
    let storage = Arc::new(MemoryStorage::new([]));
    let local = Local::new(storage, namers, Evaluators::start(1), Settings::default());
    (Remote::new(upstream, None, local, None), names)
}

/// What is known of an id, some time after it was asked for.
async fn asked(relay: &Remote, id: &str) -> Snapshot<Addr> {
    let id = Path::parse(id).expect("an id");
    let watch = relay.addr(Client::INTERNAL, &id).expect("room");
    tokio::time::sleep(Duration::from_secs(5)).await;
    watch.current()
}

#[tokio::test(start_paused = true)]
async fn a_last_good_value_stays_through_an_outage_however_seldom_it_is_asked_for() {
    const HOUR: Duration = Duration::from_secs(3_600);
    let (relay, names) = relay();
    asked(&relay, "/#/fs/web").await;
    tokio::time::sleep(HOUR / 12).await;
    names.0.send_replace(false);
    tokio::time::sleep(2 * HOUR).await;
    let known = asked(&relay, "/#/fs/web").await;
    assert_eq!(known.value().map(|addr| (**addr).clone()), Some(addresses(80)));
    asked(&relay, "/#/fs/new").await;
    tokio::time::sleep(HOUR).await;
    assert_eq!(relay.usage().1.len, 1, "what never had a value goes as ever");
    names.0.send_replace(true);
    tokio::time::sleep(HOUR).await;
    assert_eq!(relay.usage().1.len, 0, "and once it can be had anew, so does the rest");
}
