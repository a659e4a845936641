//! `io.l5d.k8s` and `io.l5d.k8s.ns`: the addresses behind services.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::backends::is_wanted;
use super::backends::{BackendKind, PortRef};
use super::names::{Asked, AskedPort, Form, small};
use super::services::ServiceKind;
use super::watched::{ServiceKey, WatchedBackends, WatchedService};
use super::{SERVICES, Source, page};
use crate::config::IpFamilies;
use crate::k8s::{ApiServer, Namespaces};
use crate::name::{Addr, NameTree, Path};
use crate::namer::{Found, Namer};
use crate::store::{Policy, Reading, Run, Staleness, Table};

/// Names are ports of services, by name or by number.
pub(crate) struct EndpointsNamer {
    form: Form,
    backends: Table<ServiceKey, WatchedBackends>,
    services: Table<ServiceKey, WatchedService>,
    families: IpFamilies,
    fall_through_after: Duration,
}

/// What decides names and addresses.
#[derive(Clone, Debug)]
pub(crate) struct EndpointsRules {
    /// The namespace of all names; none: names begin with it.
    pub(crate) namespace: Option<Box<str>>,
    /// `labelSelector`: a key; names end with a value of it.
    pub(crate) label: Option<Box<str>>,
    /// `source`.
    pub(crate) source: Source,
    /// `ipFamilies`.
    pub(crate) families: IpFamilies,
    /// After this time without any answer an alt may pass a name over.
    pub(crate) fall_through_after: Duration,
}

// === impl EndpointsNamer ===

impl EndpointsNamer {
    /// Asks `server`. Nothing is asked before the first look-up.
    pub(crate) fn new(server: &ApiServer, rules: EndpointsRules) -> Self {
        let EndpointsRules { namespace, label, source, families, fall_through_after } = rules;
        let policy = Policy { budget: SERVICES, ..Policy::default() };
        let of_backends = Namespaces::new(server.clone(), BackendKind::new(source.resources(), label.clone()));
        let of_services = Namespaces::new(server.clone(), ServiceKind::new(label.clone()));
        Self {
            form: Form { namespace, has_label: label.is_some() },
            backends: Table::new("Kubernetes endpoints", policy, move |key, _| {
                WatchedBackends::watch(&of_backends, key)
            }),
            services: Table::new("Kubernetes services", policy, move |key, _| WatchedService::watch(&of_services, key)),
            families,
            fall_through_after,
        }
    }

    /// Where the port of a name leads to. None: there is no such port.
    fn port(&self, run: &mut Run<'_>, key: &ServiceKey, asked: &Asked) -> Reading<Option<PortRef>> {
        let number = match &asked.port {
            AskedPort::Named(name) => return Reading::Ready(Some(PortRef::Named(name.clone()))),
            AskedPort::Number(number) => *number,
        };
        let service = match run.observe(&self.services, key, |watched| &watched.service) {
            Ok(snapshot) => snapshot.reading(self.fall_through_after),
            Err(reason) => Reading::Failed(reason),
        };
        service.map(|service| {
            let service = service.as_ref().as_ref()?;
            is_wanted(service.label.as_deref(), asked.label.as_deref()).then(|| service.target(number).cloned())?
        })
    }

    /// Whether the port is there. A number that leads to a number is, whatever addresses there are.
    fn is_there(&self, run: &mut Run<'_>, asked: &Asked) -> Reading<bool> {
        let Some(key) = &asked.key else { return Reading::Ready(false) };
        let names = match run.observe(&self.backends, key, |watched| &watched.names) {
            Ok(snapshot) => snapshot.reading(self.fall_through_after),
            Err(reason) => Reading::Failed(reason),
        };
        let port = self.port(run, key, asked);
        names.and_then(|names| {
            port.map(|port| match port {
                None => false,
                Some(PortRef::Number(_)) => true,
                Some(PortRef::Named(name)) => names.has(asked.label.as_deref(), &name),
            })
        })
    }
}

impl Namer for EndpointsNamer {
    fn lookup(&self, run: &mut Run<'_>, path: &Path) -> Reading<NameTree<Found>> {
        let depth = self.form.depth();
        if path.len() < depth {
            return Reading::Ready(NameTree::Neg);
        }
        // Small letters also in the id, and even in the value of the label.
        let (id, residual) = (small(&path.take(depth)), path.drop(depth));
        let Some(asked) = self.form.read(&id) else { return Reading::Ready(NameTree::Neg) };
        let is_there = self.is_there(run, &asked);
        is_there.map(|is_there| if is_there { NameTree::Leaf(Found::Bound { id, residual }) } else { NameTree::Neg })
    }

    fn addresses(&self, run: &mut Run<'_>, id: &Path) -> Reading<Addr> {
        let asked = (id.len() == self.form.depth()).then(|| self.form.read(&small(id))).flatten();
        let Some((asked, key)) = asked.and_then(|asked| asked.key.clone().map(|key| (asked, key))) else {
            return Reading::Ready(Addr::Neg);
        };
        self.is_there(run, &asked).and_then(|is_there| {
            if !is_there {
                return Reading::Ready(Addr::Neg);
            }
            let backends = match run.observe(&self.backends, &key, |watched| &watched.backends) {
                Ok(snapshot) => snapshot.reading(self.fall_through_after),
                Err(reason) => Reading::Failed(reason),
            };
            let port = self.port(run, &key, &asked);
            backends.and_then(|backends| {
                port.map(|port| match port {
                    Some(port) => Addr::Bound(backends.addresses(asked.label.as_deref(), &port, self.families)),
                    None => Addr::Neg,
                })
            })
        })
    }

    fn staleness(&self) -> Staleness {
        let mut staleness = Staleness::default();
        self.backends.visit(|watched| staleness.add(&watched.backends.snapshot()));
        self.services.visit(|watched| staleness.add(&watched.service.snapshot()));
        staleness
    }

    fn state(&self) -> Option<serde_json::Value> {
        Some(page::page(&self.backends, &self.services))
    }
}

impl fmt::Debug for EndpointsNamer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndpointsNamer").field("backends", &self.backends).finish_non_exhaustive()
    }
}

impl From<EndpointsNamer> for Arc<dyn Namer> {
    fn from(namer: EndpointsNamer) -> Self {
        Arc::new(namer)
    }
}
