use super::*;
use crate::client::{ClientMetrics, End, Explain, Explained, Failure, News, Protocol, Reason, Server, Timings};
use crate::name::{AddrSet, DelegateTree, Meta, Weighted};
use crate::namer::hosts::Hosts;
use crate::namer::testing::{Addresses, Lookup, parts};
use crate::store::{Derived, Evaluators, Unanswered, Watch};

/// A server that knows one name, under a transformer.
struct Played;

fn p(text: &str) -> Path {
    Path::parse(text).expect("a path")
}

fn one() -> AddrSet {
    let address: std::net::SocketAddr = ([10, 0, 0, 1], 80).into();
    AddrSet::new(vec![address.into()], Meta::default())
}

#[async_trait::async_trait]
impl Protocol for Played {
    fn name(&self) -> &'static str {
        "played"
    }

    fn ages(&self, timings: &Timings) -> crate::client::Ages {
        crate::client::Ages { quiet: None, whole: timings.seat_age }
    }

    async fn follow(&self, _: &Arc<Server>, ask: &Ask, news: &News) -> End {
        let named = |id: &str, residual: &str| Named { id: p(id), residual: p(residual), weight: None };
        let answer = match ask {
            Ask::Bind { ns, path, .. } if &**ns == "bridged" && *path == p("/#/plugin/web/rest") => {
                let leaf = NameTree::Leaf(named("/%/io.l5d.port/4140/#/plugin/web", "/rest"));
                Answer::Tree(NameTree::Union(vec![Weighted::new(0.5, leaf), Weighted::new(0.5, NameTree::Neg)]))
            }
            Ask::Bind { .. } => Answer::Tree(NameTree::Neg),
            Ask::Addr { id } if *id == p("/%/io.l5d.port/4140/#/plugin/web") => Answer::Addr(Addr::Bound(one())),
            _ => Answer::Addr(Addr::Neg),
        };
        match news.tell(answer) {
            Ok(()) => std::future::pending().await,
            Err(failure) => failure.into(),
        }
    }

    async fn explain(&self, _: &Arc<Server>, _: &Explain) -> Result<DelegateTree<Explained>, Failure> {
        Err(Failure::new(Reason::Declared, "not played"))
    }
}

async fn answer<T: Send + Sync + 'static>(watch: Watch<T>) -> Result<Arc<T>, Unanswered> {
    watch.answer(Duration::from_secs(1)).await.map(|(value, _)| value)
}

#[tokio::test(start_paused = true)]
async fn names_and_ids_are_those_of_the_other_name_server() {
    let evaluators = Evaluators::start(1);
    let parts = parts("/#/plugin", Hosts::new(crate::config::IpFamilies::default()));
    let there = Watch::constant(Addr::Bound(one()));
    let upstream = Upstream::new("x", Arc::new(Played), there, Timings::default(), ClientMetrics::default());
    let namer = Arc::new(NamerdNamer::new(upstream, "bridged".into(), &parts));
    let lookup = |path: &str| {
        let formula = Lookup(namer.clone(), p(path));
        answer(Derived::new(&evaluators, crate::store::Client::INTERNAL, formula).into())
    };
    let addresses = |id: &str| {
        let formula = Addresses(namer.clone(), p(id));
        answer(Derived::new(&evaluators, crate::store::Client::INTERNAL, formula).into())
    };
    let id = p("/%/io.l5d.port/4140/#/plugin/web");
    let found = NameTree::Leaf(Found::Whole { id: id.clone(), residual: p("/rest") });
    let expected = NameTree::Union(vec![Weighted::new(0.5, found), Weighted::new(0.5, NameTree::Neg)]);
    assert_eq!(*lookup("/web/rest").await.expect("known"), expected);
    assert_eq!(*lookup("/gone").await.expect("known"), NameTree::Neg);
    assert_eq!(*addresses(&id.to_string()).await.expect("known"), Addr::Bound(one()));
    assert_eq!(*addresses("/#/plugin/gone").await.expect("known"), Addr::Neg);
    assert_eq!(namer.staleness(), Staleness::default());
    assert_eq!(namer.state().expect("a page")["servers"][0]["watches"], 4);
}
