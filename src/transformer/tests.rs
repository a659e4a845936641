//! What the transformers make of ids and addresses.

use std::net::SocketAddr;
use std::time::Duration;

use super::*;
use crate::config::IpFamilies;
use crate::k8s::ApiServers;
use crate::name::{Address, Meta};
use crate::store::{Client, Derived, Evaluators, Formula, Policy, Table, Watch};

/// Applies a transformer to one set.
struct Apply(Arc<dyn MapAddresses>, AddrSet);

impl Formula for Apply {
    type Value = Addr;

    fn compute(&self, run: &mut Run<'_>) -> Reading<Addr> {
        self.0.map(run, &self.1)
    }
}

fn parts() -> TransformerParts {
    TransformerParts { servers: ApiServers::new(), ip_families: IpFamilies::default() }
}

fn set(addrs: &[&str]) -> AddrSet {
    let address = |text: &&str| Address {
        meta: Meta::default().with("zone", "a"),
        ..text.parse::<SocketAddr>().expect("an address").into()
    };
    AddrSet::new(addrs.iter().map(address).collect(), Meta::default().with("authority", "web"))
}

async fn applied(config: &dyn TransformerConfig, to: AddrSet) -> Addr {
    let Effect::Addresses(map) = config.build(None, &parts()).expect("built").effect else {
        panic!("not of this kind")
    };
    let evaluators = Evaluators::start(1);
    let table = Table::new("the test", Policy::default(), move |(), client| {
        Derived::new(&evaluators, client, Apply(map.clone(), to.clone()))
    });
    let watch: Watch<_> = table.observe(Client::INTERNAL, &()).expect("room").into();
    (*watch.answer(Duration::from_secs(1)).await.expect("an answer").0).clone()
}

fn specific(host: &str) -> SpecificHostConfig {
    SpecificHostConfig { host: host.to_owned() }
}

#[tokio::test]
async fn only_the_addresses_of_that_host_are_kept_with_all_metadata() {
    let all = set(&["192.0.2.1:80", "192.0.2.1:81", "192.0.2.2:80", "[2001:db8::1]:80"]);
    assert_eq!(applied(&specific("192.0.2.1"), all.clone()).await, Addr::Bound(set(&["192.0.2.1:80", "192.0.2.1:81"])));
    assert_eq!(applied(&specific("192.0.2.3"), all.clone()).await, Addr::Neg);
    assert_eq!(applied(&specific("2001:db8::1"), all).await, Addr::Neg, "IPv6 never matches");
}

#[tokio::test]
async fn a_set_that_was_empty_already_becomes_neg_too() {
    assert_eq!(applied(&specific("192.0.2.1"), set(&[])).await, Addr::Neg);
    assert_eq!(applied(&PortConfig { port: 1 }, set(&[])).await, Addr::Bound(set(&[])), "a port leaves it alone");
}

#[tokio::test]
async fn the_loopback_address_is_one_of_this_host() {
    let kept = applied(&LocalhostConfig, set(&["127.0.0.1:80", "192.0.2.1:80"])).await;
    assert_eq!(kept, Addr::Bound(set(&["127.0.0.1:80"])));
}

#[tokio::test]
async fn a_port_takes_the_place_of_all_and_equal_addresses_merge() {
    let moved = applied(&PortConfig { port: 4140 }, set(&["192.0.2.1:80", "192.0.2.1:81", "[2001:db8::1]:80"])).await;
    assert_eq!(moved, Addr::Bound(set(&["192.0.2.1:4140", "[2001:db8::1]:4140"])));
}

#[tokio::test]
async fn short_addresses_and_names_are_resolved_at_start() {
    for host in ["127.1", "localhost", ""] {
        specific(host).build(None, &parts()).expect("loopback");
    }
}

#[tokio::test]
async fn a_host_that_cannot_be_resolved_is_refused_at_start() {
    let error = specific(&"a".repeat(300)).build(None, &parts()).expect_err("no name is so long");
    assert!(error.starts_with("io.l5d.specificHost: `host: aaa"), "{error}");
    assert!(error.ends_with("cannot be resolved, which is done at start: it has no IPv4 address"), "{error}");
}

fn path(text: &str) -> Path {
    text.parse().expect("a path")
}

#[tokio::test]
async fn ids_carry_the_kind_or_the_prefix_of_the_block() {
    let kinds: [(&dyn TransformerConfig, &str); 5] = [
        (&PortConfig { port: 4140 }, "/%/io.l5d.port/4140"),
        (&LocalhostConfig, "/%/io.l5d.localhost"),
        (&SpecificHostConfig { host: "127.0.0.1".to_owned() }, "/%/io.l5d.specificHost"),
        (&ReplaceConfig { path: path("/$/inet/1") }, "/%/io.l5d.replace"),
        (&ConstConfig { path: path("/$/inet/1") }, "/%/io.l5d.const"),
    ];
    for (config, prefix) in kinds {
        assert_eq!(config.build(None, &parts()).expect("built").id_prefix, path(prefix));
        assert_eq!(config.build(Some(&path("/p/q")), &parts()).expect("built").id_prefix, path("/%/p/q"));
    }
}
