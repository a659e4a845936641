//! Stories of services that come, change and go, on a paused clock.

mod answers;
mod names;
mod outages;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};

use super::config::Rules;
use super::*;
use crate::consul::testing::{FakeConsul, Step};
use crate::name::AddrSet;
use crate::namer::hosts::{Answer, Resolve, Unresolved};
use crate::namer::testing::{Addresses, Lookup, Told, parts, path, show, show_tree};
use crate::store::{Client, Derived, Evaluators, Formula, Watch};
use crate::telemetry::Legacy;

const WEB: &str = "/v1/catalog/service/web";
const SELF: &str = "/v1/agent/self";

/// A namer of a stand-in for an agent, with somebody who evaluates.
struct World {
    consul: FakeConsul,
    namer: Arc<ConsulNamer>,
    evaluators: Evaluators,
    legacy: Legacy,
}

/// Knows two hosts.
#[derive(Debug)]
struct FakeDns;

#[async_trait]
impl Resolve for FakeDns {
    async fn resolve(&self, host: &str) -> Result<Answer, Unresolved> {
        let ips: &[&str] = match host {
            "three.example" => &["192.0.2.1", "192.0.2.2", "192.0.2.3"],
            "one.example" => &["192.0.2.9"],
            "silent.example" => std::future::pending().await,
            _ => return Err(Unresolved::NoSuchHost),
        };
        let addrs = ips.iter().map(|ip| ip.parse().expect("an ip")).collect();
        Ok(Answer { addrs, ttl: Duration::from_secs(60) })
    }
}

// === impl World ===

impl World {
    fn new(rules: Rules) -> Self {
        let consul = FakeConsul::default();
        let legacy = Legacy::default();
        let mut parts = parts("/#/io.l5d.consul", Hosts::with_resolver(Arc::new(FakeDns)));
        parts.scope = legacy.scope("namer").scope("#/io.l5d.consul");
        let namer = Arc::new(ConsulNamer::new(consul.agent(), rules, &parts));
        consul.set(SELF, &agent_self("dc1", "consul.").to_string(), 1);
        Self { consul, namer, evaluators: Evaluators::start(1), legacy }
    }

    fn plain() -> Self {
        Self::new(Rules::default())
    }

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

    /// namerd's counters: lookups, cached, opens, closes, errors, updates.
    fn counts(&self) -> [u64; 6] {
        let scope = self.legacy.scope("namer").scope("#/io.l5d.consul").scope("#/io.l5d.consul");
        let names =
            ["lookups", "service/cached", "service/opens", "service/closes", "service/errors", "service/updates"];
        names.map(|name| scope.counter(name).get())
    }

    /// The requests so far.
    fn asked(&self) -> Vec<String> {
        self.consul.log().into_iter().map(|(target, _)| target).collect()
    }
}

fn agent_self(datacenter: &str, domain: &str) -> Value {
    json!({ "Config": { "Datacenter": datacenter }, "DebugConfig": { "DNSDomain": domain } })
}

/// An instance as the catalog lists it.
fn node(ip: &str, port: u16) -> Value {
    json!({
        "Node": format!("node-{ip}"), "Address": ip, "ServiceID": "web", "ServiceName": "web", "ServiceTags": [],
        "ServiceAddress": "", "ServicePort": port,
        "ServiceMeta": { "srv_meta": "some_srv_meta" }, "NodeMeta": { "nd_meta": "some_nd_meta" },
    })
}

/// The same with some keys set.
fn with(mut node: Value, more: Value) -> Value {
    let (Value::Object(node_keys), Value::Object(more)) = (&mut node, more) else { panic!("objects") };
    node_keys.extend(more);
    node
}

fn list(nodes: &[Value]) -> String {
    Value::from(nodes).to_string()
}

async fn sleep(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}
