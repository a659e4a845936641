//! Stories of services that come, change and go, on a paused clock.

mod loops;
mod names;
mod owner_records;
mod sources;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::external::ExternalNamer;
use super::*;
use crate::config::IpFamilies;
use crate::k8s::testing::FakeApi;
use crate::name::{Addr, AddrSet, NameTree};
use crate::namer::hosts::Hosts;
use crate::namer::testing::{Addresses, Lookup, Told, path, show, show_tree};
use crate::namer::{Found, Namer};
use crate::store::{Client, Derived, Evaluators, Formula, Watch};

const ENDPOINTS: &str = "/api/v1/namespaces/srv/endpoints";
const SERVICES: &str = "/api/v1/namespaces/srv/services";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/srv/endpointslices";

/// A namer of a stand-in for an API server, with somebody who evaluates.
struct World<N> {
    api: FakeApi,
    namer: Arc<N>,
    evaluators: Evaluators,
}

// === impl World ===

impl World<EndpointsNamer> {
    fn new(rules: EndpointsRules) -> Self {
        let api = FakeApi::default();
        let namer = Arc::new(EndpointsNamer::new(&api.server(), rules));
        Self { api, namer, evaluators: Evaluators::start(1) }
    }

    fn plain() -> Self {
        Self::new(rules())
    }

    fn of_source(source: Source) -> Self {
        Self::new(EndpointsRules { source, ..rules() })
    }
}

impl<N: Namer> World<N> {
    fn watch<F: Formula>(&self, formula: F) -> Watch<F::Value> {
        Derived::new(&self.evaluators, Client::INTERNAL, formula).into()
    }

    fn tree(&self, name: &str) -> Told<NameTree<Found>> {
        Told::by(self.watch(Lookup(self.namer.clone(), path(name))), show_tree)
    }

    fn addrs(&self, id: &str) -> Told<Addr> {
        Told::by(self.watch(Addresses(self.namer.clone(), path(id))), show)
    }

    /// The address set of an id, metadata and all.
    async fn set(&self, id: &str) -> AddrSet {
        let watch = self.watch(Addresses(self.namer.clone(), path(id)));
        let (addr, _) = watch.answer(Duration::from_secs(5)).await.expect("an answer");
        match &*addr {
            Addr::Bound(set) => set.clone(),
            other => panic!("{other:?}"),
        }
    }
}

fn rules() -> EndpointsRules {
    EndpointsRules {
        namespace: None,
        label: None,
        source: Source::Endpoints,
        families: IpFamilies::default(),
        fall_through_after: Duration::from_secs(2),
    }
}

/// Endpoints with these addresses, all of which serve these ports.
fn endpoints(ips: &[&str], ports: &[(&str, u16)]) -> Value {
    json!({ "subsets": [subset(ips, ports)] })
}

fn subset(ips: &[&str], ports: &[(&str, u16)]) -> Value {
    let address = |ip: &&str| json!({ "ip": ip, "nodeName": format!("node-{ip}") });
    let port = |(name, number): &(&str, u16)| json!({ "name": name, "port": number, "protocol": "TCP" });
    json!({
        "addresses": ips.iter().map(address).collect::<Value>(),
        "ports": ports.iter().map(port).collect::<Value>(),
    })
}

/// A slice of a service: each address with its conditions.
fn slice(service: &str, endpoints: &[(&str, Value)], ports: &[(&str, u16)]) -> Value {
    let endpoint = |(ip, conditions): &(&str, Value)| json!({ "addresses": [ip], "conditions": conditions, "nodeName": format!("node-{ip}"), "zone": "a" });
    let port = |(name, number): &(&str, u16)| json!({ "name": name, "port": number, "protocol": "TCP" });
    json!({
        "metadata": { "labels": { "kubernetes.io/service-name": service } },
        "addressType": "IPv4",
        "endpoints": endpoints.iter().map(endpoint).collect::<Value>(),
        "ports": ports.iter().map(port).collect::<Value>(),
    })
}

fn ready() -> Value {
    json!({ "ready": true })
}

fn service(ports: Value) -> Value {
    json!({ "spec": { "ports": ports }, "status": { "loadBalancer": {} } })
}

async fn sleep(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}
