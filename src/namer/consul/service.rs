//! One service of one datacenter: how it is asked for, and where the answers go.

use std::sync::Arc;

use super::config::Rules;
use super::nodes::{Instances, Presence, only_passing};
use crate::consul::{Agent, Poll, PollCounters, Query, Request, Rhythm, Sink, WAIT};
use crate::store::{Cell, Reason};
use crate::text::url::component;

/// What is watched: there is one poll for each, whatever names and residual paths lead to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ServiceKey {
    /// The datacenter, as it is asked for.
    pub(super) datacenter: Box<str>,
    /// In small letters.
    pub(super) tag: Option<Box<str>>,
    /// In small letters.
    pub(super) service: Box<str>,
}

/// A watched service.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) key: ServiceKey,
    pub(super) presence: Arc<Cell<Presence>>,
    pub(super) instances: Arc<Cell<Instances>>,
    pub(super) poll: Poll<Instances>,
}

/// Writes both cells of a service.
struct Cells {
    presence: Arc<Cell<Presence>>,
    instances: Arc<Cell<Instances>>,
}

// === impl ServiceKey ===

impl ServiceKey {
    /// Whether it can be asked for: a name of dots would lead out of the path, and Consul refuses it anyway.
    pub(super) fn is_askable(&self) -> bool {
        !matches!(&*self.service, "." | "..")
    }

    pub(super) fn bytes(&self) -> usize {
        self.datacenter.len() + self.service.len() + self.tag.as_ref().map_or(0, |tag| tag.len())
    }

    /// As the state page calls it.
    pub(super) fn shown(&self) -> String {
        let tag = self.tag.as_ref().map(|tag| format!("/{tag}")).unwrap_or_default();
        format!("/{}{tag}/{}", self.datacenter, self.service)
    }

    /// The name under which Consul's DNS knows it (`SvcAddr.scala:153-162`).
    pub(super) fn authority(&self, domain: &str) -> String {
        let tag = self.tag.as_ref().map(|tag| format!("{tag}.")).unwrap_or_default();
        format!("{tag}{}.service.{}.{domain}", self.service, self.datacenter)
    }
}

/// What asks for a service. namerd sends `passing=false`, too, which very old agents took for true.
pub(super) fn request(rules: &Rules, key: &ServiceKey) -> Request {
    let endpoint = if rules.statuses.is_some() { "health" } else { "catalog" };
    let mut request = Request::get(format!("/v1/{endpoint}/service/{}", component(&key.service)))
        .consistency(rules.consistency)
        .datacenter(&key.datacenter);
    if let Some(tag) = &key.tag {
        request = request.with("tag", tag);
    }
    if rules.statuses.as_ref().is_some_and(only_passing) {
        request = request.with("passing", "true");
    }
    request
}

// === impl Service ===

impl Service {
    /// Begins to watch.
    pub(super) fn watch(agent: &Agent, rules: &Arc<Rules>, key: &ServiceKey, counters: PollCounters) -> Self {
        let (presence, instances) = (Cell::new(), Cell::new());
        let cells = Cells { presence: presence.clone(), instances: instances.clone() };
        let (request, rules) = (request(rules, key), rules.clone());
        let decode = move |answer: &_, body: &_| Instances::decode(&rules, answer, body);
        let query = Query::new(request, Rhythm::Blocking(WAIT), decode);
        Self { key: key.clone(), presence, instances, poll: Poll::start(agent, query, cells, counters) }
    }
}

// === impl Cells ===

impl Cells {
    fn presence(&self) -> Option<Arc<Presence>> {
        self.presence.snapshot().value().cloned()
    }
}

impl Sink<Instances> for Cells {
    fn publish(&self, instances: Instances) -> bool {
        let presence = instances.presence();
        // A name that goes away is gone before its addresses are, and one that comes has addresses from the start.
        if presence == Presence::Absent {
            let gone = self.presence.publish(presence);
            return self.instances.publish(instances) || gone;
        }
        let changed = self.instances.publish(instances);
        self.presence.publish(presence) || changed
    }

    fn fail(&self, reason: Reason) {
        self.instances.fail(reason.clone());
        self.presence.fail(reason);
    }

    fn absent(&self, reason: Reason) {
        match self.presence().as_deref() {
            None | Some(Presence::Absent) => {
                self.publish(Instances::none());
            }
            Some(Presence::Present | Presence::Named(_)) => self.fail(reason),
        }
    }

    fn is_nothing(&self, instances: &Instances) -> bool {
        instances.is_empty()
    }
}
