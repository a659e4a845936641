//! `io.l5d.k8s.external`: the load balancers in front of services.

use std::fmt;
use std::time::Duration;

use super::SERVICES;
use super::backends::{PortRef, is_wanted};
use super::names::{AskedPort, Form};
use super::services::{Service, ServiceKind};
use super::watched::{ServiceKey, WatchedService};
use crate::k8s::{ApiServer, Namespaces};
use crate::name::{Addr, AddrSet, Meta, NameTree, Path};
use crate::namer::hosts::{Hosts, Named};
use crate::namer::{Found, Namer};
use crate::store::{Policy, Reading, Run, Staleness, Table};

/// Names are ports of services, as their load balancers serve them.
pub(super) struct ExternalNamer {
    form: Form,
    services: Table<ServiceKey, WatchedService>,
    hosts: Hosts,
    fall_through_after: Duration,
}

// === impl ExternalNamer ===

impl ExternalNamer {
    /// Asks `server`. Nothing is asked before the first look-up.
    pub(super) fn new(server: &ApiServer, label: Option<Box<str>>, hosts: Hosts, fall_through_after: Duration) -> Self {
        let form = Form { namespace: None, has_label: label.is_some() };
        let policy = Policy { budget: SERVICES, ..Policy::default() };
        let namespaces = Namespaces::new(server.clone(), ServiceKind::new(label));
        let watch = move |key: &ServiceKey, _| WatchedService::watch(&namespaces, key);
        Self { form, services: Table::new("Kubernetes services", policy, watch), hosts, fall_through_after }
    }

    /// Host and port of a name, if there is such a port with something in front.
    fn found(&self, run: &mut Run<'_>, id: &Path) -> Reading<Option<(Box<str>, u16)>> {
        let asked = self.form.read(id).and_then(|asked| asked.key.clone().map(|key| (asked, key)));
        let Some((asked, key)) = asked else { return Reading::Ready(None) };
        let service = match run.observe(&self.services, &key, |watched| &watched.service) {
            Ok(snapshot) => snapshot.reading(self.fall_through_after),
            Err(reason) => Reading::Failed(reason),
        };
        service.map(|service| {
            let service = service.as_ref().as_ref()?;
            if !is_wanted(service.label.as_deref(), asked.label.as_deref()) {
                return None;
            }
            Some((service.ingress.clone()?, port(service, &asked.port)?))
        })
    }
}

/// A number leads to its target, and that, as text, is looked up among the names of the ports (`ServiceNamer.scala`).
fn port(service: &Service, asked: &AskedPort) -> Option<u16> {
    match asked {
        AskedPort::Named(name) => service.named(name),
        AskedPort::Number(number) => match service.target(*number)? {
            PortRef::Named(name) => service.named(name),
            PortRef::Number(number) => service.named(&number.to_string()),
        },
    }
}

impl Namer for ExternalNamer {
    fn lookup(&self, run: &mut Run<'_>, path: &Path) -> Reading<NameTree<Found>> {
        let depth = self.form.depth();
        if path.len() < depth {
            return Reading::Ready(NameTree::Neg);
        }
        // Capitals stay in the id, other than in those of `io.l5d.k8s`.
        let (id, residual) = (path.take(depth), path.drop(depth));
        let found = self.found(run, &id);
        found.map(|found| match found {
            Some(_) => NameTree::Leaf(Found::Bound { id, residual }),
            None => NameTree::Neg,
        })
    }

    fn addresses(&self, run: &mut Run<'_>, id: &Path) -> Reading<Addr> {
        if id.len() != self.form.depth() {
            return Reading::Ready(Addr::Neg);
        }
        self.found(run, id).and_then(|found| {
            let Some((host, port)) = found else { return Reading::Ready(Addr::Neg) };
            let named = [Named { host, port, meta: Meta::default() }];
            self.hosts.with_named(run, &AddrSet::new(Vec::new(), Meta::default()), &named)
        })
    }

    fn staleness(&self) -> Staleness {
        let mut staleness = Staleness::default();
        self.services.visit(|watched| staleness.add(&watched.service.snapshot()));
        staleness
    }
}

impl fmt::Debug for ExternalNamer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExternalNamer").field("services", &self.services).finish_non_exhaustive()
    }
}
