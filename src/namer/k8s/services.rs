//! Services: which port leads where, and what is in front of them.

use serde::Deserialize;
use serde_json::{Value, from_slice};

use super::backends::PortRef;
use super::meta::{RawMeta, shown_port};
use crate::k8s::{Kind, Object, Resource, Select, Unread};

/// What matters of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Service {
    /// The value of the label that names are selected by.
    pub(super) label: Option<Box<str>>,
    ports: Box<[ServicePort]>,
    /// The host in front of it. Of several the last one counts: namerd writes one over the other (`ServiceNamer.scala:90-113`).
    pub(super) ingress: Option<Box<str>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct ServicePort {
    name: Option<Box<str>>,
    number: u16,
    target: PortRef,
    is_tcp: bool,
}

/// Reads services.
#[derive(Debug)]
pub(super) struct ServiceKind {
    label: Option<Box<str>>,
}

// === impl Service ===

impl Service {
    /// Where a port leads to.
    pub(super) fn target(&self, number: i32) -> Option<&PortRef> {
        let of = |is_tcp: bool| {
            self.ports.iter().rev().find(move |port| i32::from(port.number) == number && port.is_tcp == is_tcp)
        };
        // Names are of TCP; another protocol may have the same port.
        of(true).or_else(|| of(false)).map(|port| &port.target)
    }

    /// The number of the port of this name.
    pub(super) fn named(&self, name: &str) -> Option<u16> {
        let found = self.ports.iter().rev().find(|port| port.name.as_deref() == Some(name));
        found.map(|port| port.number)
    }
}

// === impl ServiceKind ===

impl ServiceKind {
    /// `label` is the key by whose values names select.
    pub(super) fn new(label: Option<Box<str>>) -> Self {
        Self { label }
    }
}

impl Kind for ServiceKind {
    type Value = Service;

    fn sources(&self) -> &[Resource] {
        &[Resource::SERVICES]
    }

    fn select(&self, _: Resource, group: &str) -> Select {
        Select::Name(group.into())
    }

    /// A service without ports (one of type ExternalName, for example) leads nowhere.
    fn read(&self, _: Resource, object: &[u8]) -> Result<Object<Service>, Unread> {
        let raw: RawService = from_slice(object).map_err(|error| Unread(error.to_string()))?;
        let meta = raw.metadata.unwrap_or_default();
        let label = meta.label(self.label.as_deref());
        let ports = raw.spec.and_then(|spec| spec.ports).unwrap_or_default();
        let ports = ports.into_iter().filter_map(ServicePort::of).collect();
        let balancer = raw.status.and_then(|status| status.load_balancer);
        let ingress = balancer.and_then(|balancer| balancer.ingress).unwrap_or_default().into_iter().next_back();
        let ingress = ingress.and_then(|ingress| ingress.hostname.or(ingress.ip)).filter(|host| !host.is_empty());
        let (name, version) = meta.identity()?;
        let value = Service { label, ports, ingress };
        Ok(Object { group: Some(name.clone()), name, version, value })
    }
}

// === impl ServicePort ===

impl ServicePort {
    /// A target is a number or the name of a port; without one it is the port itself (`v1.scala:214-222`).
    fn of(raw: RawPort) -> Option<Self> {
        let number = shown_port(raw.port)?;
        let target = match raw.target_port {
            None | Some(Value::Null) => PortRef::Number(number),
            Some(Value::Number(target)) => PortRef::Number(shown_port(target.as_i64())?),
            Some(Value::String(target)) => match target.parse::<u16>() {
                Ok(target) => PortRef::Number(target),
                Err(_) => PortRef::Named(target.into()),
            },
            Some(_) => return None,
        };
        let is_tcp = raw.protocol.is_none_or(|protocol| protocol.eq_ignore_ascii_case("TCP"));
        Some(Self { name: raw.name, number, target, is_tcp })
    }
}

// === as it is sent ===

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawService {
    metadata: Option<RawMeta>,
    spec: Option<RawSpec>,
    status: Option<RawStatus>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawSpec {
    ports: Option<Vec<RawPort>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawPort {
    name: Option<Box<str>>,
    port: Option<i64>,
    target_port: Option<Value>,
    protocol: Option<Box<str>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawStatus {
    load_balancer: Option<RawBalancer>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawBalancer {
    ingress: Option<Vec<RawIngress>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawIngress {
    ip: Option<Box<str>>,
    hostname: Option<Box<str>>,
}
