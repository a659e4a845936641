//! A service that somebody asks about: its cells, of which its namespace is the only writer.

use std::sync::Arc;

use super::backends::{Backend, BackendKind, Backends, PortNames};
use super::services::{Service, ServiceKind};
use crate::k8s::{Member, Namespaces, Room};
use crate::store::{Cell, Reason};

/// What is watched: there is one watch for each, whatever ports, labels and residual paths lead to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ServiceKey {
    pub(super) namespace: Box<str>,
    pub(super) service: Box<str>,
}

/// The addresses of a service.
#[derive(Debug)]
pub(super) struct WatchedBackends {
    pub(super) key: ServiceKey,
    pub(super) names: Arc<Cell<PortNames>>,
    pub(super) backends: Arc<Cell<Backends>>,
    pub(super) member: Member<BackendKind>,
}

/// The service itself; none if there is none.
#[derive(Debug)]
pub(super) struct WatchedService {
    pub(super) key: ServiceKey,
    pub(super) service: Arc<Cell<Option<Arc<Service>>>>,
    pub(super) member: Member<ServiceKind>,
}

struct BackendRoom {
    names: Arc<Cell<PortNames>>,
    backends: Arc<Cell<Backends>>,
}

struct ServiceRoom(Arc<Cell<Option<Arc<Service>>>>);

// === impl ServiceKey ===

impl ServiceKey {
    /// None for what can be the name of nothing: it need not be asked for.
    pub(super) fn new(namespace: &str, service: &str) -> Option<Self> {
        let is_name = |text: &str| {
            let ok = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.';
            !text.is_empty() && text.len() <= 253 && text.bytes().all(ok) && !matches!(text, "." | "..")
        };
        (is_name(namespace) && is_name(service)).then(|| Self { namespace: namespace.into(), service: service.into() })
    }

    /// As the state page calls it.
    pub(super) fn shown(&self) -> String {
        format!("{}/{}", self.namespace, self.service)
    }
}

// === impl WatchedBackends ===

impl WatchedBackends {
    /// Begins to watch.
    pub(super) fn watch(namespaces: &Namespaces<BackendKind>, key: &ServiceKey) -> Self {
        let (names, backends) = (Cell::new(), Cell::new());
        let room = BackendRoom { names: names.clone(), backends: backends.clone() };
        let member = namespaces.join(&key.namespace, &key.service, Arc::new(room));
        Self { key: key.clone(), names, backends, member }
    }
}

// === impl WatchedService ===

impl WatchedService {
    /// Begins to watch.
    pub(super) fn watch(namespaces: &Namespaces<ServiceKind>, key: &ServiceKey) -> Self {
        let service = Cell::new();
        let member = namespaces.join(&key.namespace, &key.service, Arc::new(ServiceRoom(service.clone())));
        Self { key: key.clone(), service, member }
    }
}

// === impl Room ===

impl Room<Backend> for BackendRoom {
    fn publish(&self, members: &[Arc<Backend>]) -> bool {
        let backends = Backends(members.to_vec());
        let names = backends.names();
        // A port that goes away is gone before its addresses are, and one that comes has addresses from the start.
        if names.is_empty() {
            let gone = self.names.publish(names);
            return self.backends.publish(backends) || gone;
        }
        let changed = self.backends.publish(backends);
        self.names.publish(names) || changed
    }

    fn fail(&self, reason: Reason) {
        self.backends.fail(reason.clone());
        self.names.fail(reason);
    }
}

impl Room<Service> for ServiceRoom {
    fn publish(&self, members: &[Arc<Service>]) -> bool {
        self.0.publish(members.first().cloned())
    }

    fn fail(&self, reason: Reason) {
        self.0.fail(reason);
    }
}
