//! `io.l5d.consul`: addresses from the catalog of a Consul cluster, or from its health checks.
//!
//! Names are `/<datacenter>/<service>`, with `includeTag` `/<datacenter>/<tag>/<service>`. There is one long poll for
//! each service that somebody asks about ([`crate::consul`]), whatever the number of names that lead to it.

mod config;
mod nodes;
mod own;
mod page;
mod probe;
mod service;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::hosts::{HostAddrs, Hosts};
use super::{Found, Namer, NamerParts};
use crate::consul::{Agent, PollCounters};
use crate::name::{Addr, NameTree, Path, meta_keys};
use crate::store::{Policy, Reading, Reason, Run, Staleness, Table, Wait};

pub use config::ConsulConfig;
use config::Rules;
use nodes::Presence;
use own::{Own, WatchedOwn};
use service::{Service, ServiceKey};

/// How many services may be watched at once, missing ones included: clients choose the names, and each is a poll.
const SERVICES: usize = 100_000;

/// The datacenter of the agent itself.
const LOCAL: &str = ".local";

/// Names are services of a catalog.
pub struct ConsulNamer {
    rules: Arc<Rules>,
    services: Table<ServiceKey, Service>,
    own: Table<(), WatchedOwn>,
    hosts: Hosts,
    fall_through_after: Duration,
}

// === impl ConsulNamer ===

impl ConsulNamer {
    /// Asks `agent`. Nothing is asked before the first look-up.
    fn new(agent: Agent, rules: Rules, parts: &NamerParts) -> Self {
        let rules = Arc::new(rules);
        // namerd names the prefix twice.
        let scope = parts.scope.scope(parts.prefix.to_string().trim_start_matches('/'));
        let (looked_up, service) = (scope.counter("lookups"), scope.scope("service"));
        let cached = service.counter("cached");
        let counters = PollCounters {
            opens: service.counter("opens"),
            closes: service.counter("closes"),
            errors: service.counter("errors"),
            updates: service.counter("updates"),
        };
        let policy = Policy { budget: SERVICES, ..Policy::default() };
        let (asked, of_services) = (agent.clone(), rules.clone());
        let services = Table::weighed(
            "Consul services",
            policy,
            |key: &ServiceKey| 1 + key.bytes() / 512,
            move |key, _| {
                looked_up.inc();
                cached.inc();
                Service::watch(&asked, &of_services, key, counters.clone())
            },
        );
        let own = Table::new("Consul agents", policy, move |(), _| WatchedOwn::watch(&agent));
        let (hosts, fall_through_after) = (parts.hosts.clone(), parts.fall_through_after);
        Self { rules, services, own, hosts, fall_through_after }
    }

    /// How many elements of a path name a service.
    fn depth(&self) -> usize {
        if self.rules.include_tag { 3 } else { 2 }
    }

    fn own(&self, run: &mut Run<'_>) -> Reading<Arc<Own>> {
        match run.observe(&self.own, &(), |own| &own.own) {
            Ok(snapshot) => snapshot.reading(self.fall_through_after),
            Err(reason) => Reading::Failed(reason),
        }
    }

    /// The service that `id` names, and what the agent says of itself where that matters. None: no service can have
    /// that name.
    fn key(&self, run: &mut Run<'_>, id: &Path) -> Reading<Option<(ServiceKey, Option<Arc<Own>>)>> {
        // Bytes that are no UTF-8 are shown as namerd reads them; capitals stay in the id alone.
        let mut elems = id.utf8_elems();
        let Some(datacenter) = elems.next() else { return Reading::Ready(None) };
        let small = |elem: std::borrow::Cow<'_, str>| Box::<str>::from(elem.to_lowercase());
        let tag = if self.rules.include_tag { elems.next().map(small) } else { None };
        let Some(service) = elems.next().map(small) else { return Reading::Ready(None) };
        let is_local = datacenter == LOCAL;
        let own = if is_local || self.rules.set_host { self.own(run).map(Some) } else { Reading::Ready(None) };
        own.map(|own| {
            let local = own.as_ref().and_then(|own| own.datacenter.clone()).filter(|_| is_local);
            let key = ServiceKey { datacenter: local.unwrap_or_else(|| datacenter.as_ref().into()), tag, service };
            key.is_askable().then_some((key, own))
        })
    }

    /// Does anybody know one of the hosts?
    fn any_known(&self, run: &mut Run<'_>, hosts: &[Box<str>]) -> Reading<bool> {
        let (mut unanswered, mut failed): (Option<Wait>, Option<Reason>) = (None, None);
        let mut known = false;
        // Each is looked up, whatever the others gave: this keeps all of them followed.
        for host in hosts {
            match self.hosts.lookup(run, host) {
                Reading::Ready(HostAddrs::Found(_)) => known = true,
                Reading::Ready(HostAddrs::Unknown) => {}
                Reading::Pending(wait) => unanswered = unanswered.or(Some(wait)),
                Reading::Failed(reason) => failed = failed.or(Some(reason)),
            }
        }
        match (known, unanswered, failed) {
            (false, Some(wait), _) => Reading::Pending(wait),
            (false, None, Some(reason)) => Reading::Failed(reason),
            _ => Reading::Ready(known),
        }
    }
}

impl Namer for ConsulNamer {
    fn lookup(&self, run: &mut Run<'_>, path: &Path) -> Reading<NameTree<Found>> {
        if path.len() < self.depth() {
            return Reading::Ready(NameTree::Neg);
        }
        let (id, residual) = (path.take(self.depth()), path.drop(self.depth()));
        let key = match self.key(run, &id) {
            Reading::Ready(Some((key, _))) => key,
            Reading::Ready(None) => return Reading::Ready(NameTree::Neg),
            Reading::Pending(wait) => return Reading::Pending(wait),
            Reading::Failed(reason) => return Reading::Failed(reason),
        };
        let presence = match run.observe(&self.services, &key, |service| &service.presence) {
            Ok(snapshot) => snapshot.reading(self.fall_through_after),
            Err(reason) => Reading::Failed(reason),
        };
        let is_there = presence.and_then(|presence| match &*presence {
            Presence::Absent => Reading::Ready(false),
            Presence::Present => Reading::Ready(true),
            Presence::Named(hosts) => self.any_known(run, hosts),
        });
        is_there.map(|is_there| if is_there { NameTree::Leaf(Found::Bound { id, residual }) } else { NameTree::Neg })
    }

    fn addresses(&self, run: &mut Run<'_>, id: &Path) -> Reading<Addr> {
        if id.len() != self.depth() {
            return Reading::Ready(Addr::Neg);
        }
        self.key(run, id).and_then(|key| {
            let Some((key, own)) = key else { return Reading::Ready(Addr::Neg) };
            let instances = match run.observe(&self.services, &key, |service| &service.instances) {
                Ok(snapshot) => snapshot.reading(self.fall_through_after),
                Err(reason) => Reading::Failed(reason),
            };
            instances.and_then(|instances| {
                if instances.is_empty() {
                    return Reading::Ready(Addr::Neg);
                }
                let mut literal = instances.literal.clone();
                if let Some(own) = own.filter(|_| self.rules.set_host) {
                    // Metadata of the service wins over it.
                    if literal.meta().get(meta_keys::AUTHORITY).is_none() {
                        let meta = literal.meta().clone().with(meta_keys::AUTHORITY, key.authority(&own.domain));
                        literal = literal.with_meta(meta);
                    }
                }
                self.hosts.with_named(run, &literal, &instances.named)
            })
        })
    }

    fn staleness(&self) -> Staleness {
        let mut staleness = Staleness::default();
        self.services.visit(|service| staleness.add(&service.presence.snapshot()));
        staleness
    }

    fn state(&self) -> Option<serde_json::Value> {
        Some(page::page(&self.services))
    }
}

impl fmt::Debug for ConsulNamer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConsulNamer").field("services", &self.services).finish_non_exhaustive()
    }
}
