//! Endpoints and EndpointSlices, read as what both have to say: which ports of which addresses serve.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::from_slice;

use super::meta::{RawMeta, shown_port};
use crate::config::IpFamilies;
use crate::k8s::{Kind, Object, Resource, Select, Unread};
use crate::name::{AddrSet, Address, Meta, meta_keys};
use crate::runtime::Seldom;

/// The service that a slice belongs to.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// What the control plane notes on Endpoints that it had to cut after 1,000 addresses: `truncated`.
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";

/// So many pieces of metadata are shared at most; there is one for each node and zone.
const MAX_METAS: usize = 100_000;

/// Key of metadata: the zone of an address. namerd, which knows no slices, has none.
const ZONE: &str = "zone";

/// What one object says. A service has one of Endpoints, or several slices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Backend {
    /// The value of the label that names are selected by.
    pub(super) label: Option<Box<str>>,
    family: Family,
    subsets: Box<[Subset]>,
}

/// Addresses all of which serve the same ports. These belong together: while a rollout changes a port there are
/// addresses with the old one beside addresses with the new one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Subset {
    /// Named ones of TCP.
    ports: Box<[Port]>,
    ready: Box<[Endpoint]>,
    /// Terminating ones that still serve.
    draining: Box<[Endpoint]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Port {
    name: Box<str>,
    number: u16,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Endpoint {
    ip: IpAddr,
    meta: Meta,
}

/// Which addresses an object has. A service of both families has slices of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    Any,
    V4,
    V6,
}

/// Which port of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PortRef {
    /// The one of this name, where there is one.
    Named(Box<str>),
    /// This one, whatever the object says.
    Number(u16),
}

/// All objects of a service, in order of their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Backends(pub(super) Vec<Arc<Backend>>);

/// Which ports there are, under which label. Addresses come and go without changing it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PortNames(Vec<(Option<Box<str>>, Box<str>)>);

/// Where an address is; what is not known is empty.
type NodeAndZone = (Box<str>, Box<str>);

/// Reads the objects.
#[derive(Debug)]
pub(super) struct BackendKind {
    sources: Vec<Resource>,
    label: Option<Box<str>>,
    metas: Mutex<HashMap<NodeAndZone, Meta>>,
    cut: Seldom,
}

// === impl Backends ===

impl Backends {
    pub(super) fn names(&self) -> PortNames {
        let of = |backend: &Arc<Backend>| {
            let ports = backend.subsets.iter().flat_map(|subset| &subset.ports);
            ports.map(|port| (backend.label.clone(), port.name.clone())).collect::<Vec<_>>()
        };
        let mut names: Vec<_> = self.0.iter().flat_map(of).collect();
        names.sort();
        names.dedup();
        PortNames(names)
    }

    /// The addresses of a port; `label` is the value that objects must have, where names have one. Where nothing is ready
    /// those count that are terminating and still serve: a rollout that kills the last old ones before the first new one
    /// is ready would leave nothing.
    pub(super) fn addresses(&self, label: Option<&str>, port: &PortRef, families: IpFamilies) -> AddrSet {
        let wanted: Vec<&Backend> = self
            .0
            .iter()
            .map(|backend| &**backend)
            .filter(|backend| is_wanted(backend.label.as_deref(), label))
            .collect();
        let has = |family| wanted.iter().any(|backend| backend.family == family);
        let family = match (families.v4 && has(Family::V4), families.v6 && has(Family::V6)) {
            (true, _) => Some(Family::V4),
            (false, true) => Some(Family::V6),
            (false, false) => None,
        };
        let wanted =
            wanted.into_iter().filter(|backend| backend.family == Family::Any || Some(backend.family) == family);
        let subsets: Vec<&Subset> = wanted.flat_map(|backend| &backend.subsets).collect();
        let collect = |of: fn(&Subset) -> &[Endpoint]| {
            // Each once: while a pod moves from one slice to another it is in both.
            let mut found: BTreeMap<(IpAddr, u16), &Meta> = BTreeMap::new();
            for subset in &subsets {
                let Some(number) = subset.number(port) else { continue };
                for endpoint in of(subset) {
                    let meta = found.entry((endpoint.ip, number)).or_insert(&endpoint.meta);
                    if meta.is_empty() {
                        *meta = &endpoint.meta;
                    }
                }
            }
            found.into_iter().map(|((ip, port), meta)| Address { ip, port, meta: meta.clone() }).collect::<Vec<_>>()
        };
        let mut found = collect(|subset| &subset.ready);
        if found.is_empty() {
            found = collect(|subset| &subset.draining);
        }
        AddrSet::new(found, Meta::default())
    }
}

// === impl PortNames ===

impl PortNames {
    pub(super) fn has(&self, label: Option<&str>, name: &str) -> bool {
        self.0.iter().any(|(own, port)| **port == *name && is_wanted(own.as_deref(), label))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Does an object with the label `own` count for names that have the value `wanted`? Names without one take all.
pub(super) fn is_wanted(own: Option<&str>, wanted: Option<&str>) -> bool {
    wanted.is_none() || own == wanted
}

// === impl Subset ===

impl Subset {
    fn number(&self, port: &PortRef) -> Option<u16> {
        match port {
            PortRef::Number(number) => Some(*number),
            // Of several with one name the last one counts, as in namerd.
            PortRef::Named(name) => self.ports.iter().rev().find(|port| port.name == *name).map(|port| port.number),
        }
    }
}

// === impl BackendKind ===

impl BackendKind {
    /// Objects are read from the first of `sources` that can be had; `label` is the key by whose values names select.
    pub(super) fn new(sources: Vec<Resource>, label: Option<Box<str>>) -> Self {
        Self { sources, label, metas: Mutex::default(), cut: Seldom::new(Duration::from_secs(600)) }
    }

    /// The metadata of an address, one for all that have the same.
    fn meta(&self, node: Option<Box<str>>, zone: Option<Box<str>>) -> Meta {
        if node.is_none() && zone.is_none() {
            return Meta::default();
        }
        let mut metas = self.metas.lock();
        if metas.len() >= MAX_METAS {
            metas.clear();
        }
        let key = (node.unwrap_or_default(), zone.unwrap_or_default());
        let make = |(node, zone): &NodeAndZone| {
            let named =
                |meta: Meta, key: &str, value: &str| if value.is_empty() { meta } else { meta.with(key, value) };
            named(named(Meta::default(), meta_keys::NODE_NAME, node), ZONE, zone)
        };
        metas.entry(key).or_insert_with_key(make).clone()
    }

    fn endpoints(&self, object: &[u8]) -> Result<Object<Backend>, Unread> {
        let raw: RawEndpoints = from_slice(object).map_err(|error| Unread(error.to_string()))?;
        let meta = raw.metadata.unwrap_or_default();
        if meta.annotation(OVER_CAPACITY) == Some("truncated") && self.cut.due().is_some() {
            tracing::warn!(
                name = meta.name.as_deref(),
                "the Endpoints of a service have more than 1,000 addresses and were cut by Kubernetes: let rosterd read \
                 EndpointSlices (`source: auto`)"
            );
        }
        let label = meta.label(self.label.as_deref());
        let subset = |raw: RawSubset| {
            let endpoint = |raw: RawAddress| {
                let ip = raw.ip?.parse().ok()?;
                Some(Endpoint { ip, meta: self.meta(raw.node_name, None) })
            };
            let ready = raw.addresses.unwrap_or_default().into_iter().filter_map(endpoint).collect();
            Subset { ports: ports(raw.ports), ready, draining: Box::default() }
        };
        let subsets = raw.subsets.unwrap_or_default().into_iter().map(subset).collect();
        let (name, version) = meta.identity()?;
        let value = Backend { label, family: Family::Any, subsets };
        Ok(Object { group: Some(name.clone()), name, version, value })
    }

    fn slice(&self, object: &[u8]) -> Result<Object<Backend>, Unread> {
        let raw: RawSlice = from_slice(object).map_err(|error| Unread(error.to_string()))?;
        let meta = raw.metadata.unwrap_or_default();
        let (label, group) = (meta.label(self.label.as_deref()), meta.label(Some(SERVICE_NAME)));
        let family = match raw.address_type.as_deref() {
            Some("IPv4") | None => Some(Family::V4),
            Some("IPv6") => Some(Family::V6),
            // Host names, which nothing in Kubernetes makes by itself.
            Some(_) => None,
        };
        let (mut ready, mut draining) = (Vec::new(), Vec::new());
        for raw in raw.endpoints.unwrap_or_default() {
            let conditions = raw.conditions.unwrap_or_default();
            let (node, zone) = (raw.node_name, raw.zone);
            // Of several addresses of one endpoint the first counts: the others are the same pod.
            let ip = raw.addresses.unwrap_or_default().into_iter().next().and_then(|ip| ip.parse().ok());
            let Some(ip) = ip.filter(|_| family.is_some()) else { continue };
            let endpoint = Endpoint { ip, meta: self.meta(node, zone) };
            if conditions.ready.unwrap_or(true) {
                ready.push(endpoint);
            } else if conditions.terminating.unwrap_or(false) && conditions.serving.unwrap_or(false) {
                draining.push(endpoint);
            }
        }
        let subset = Subset { ports: ports(raw.ports), ready: ready.into(), draining: draining.into() };
        let (name, version) = meta.identity()?;
        let value = Backend { label, family: family.unwrap_or(Family::Any), subsets: Box::new([subset]) };
        Ok(Object { group, name, version, value })
    }
}

impl Kind for BackendKind {
    type Value = Backend;

    fn sources(&self) -> &[Resource] {
        &self.sources
    }

    fn select(&self, resource: Resource, group: &str) -> Select {
        if resource == Resource::SLICES {
            Select::Label(SERVICE_NAME, group.into())
        } else {
            Select::Name(group.into())
        }
    }

    fn read(&self, resource: Resource, object: &[u8]) -> Result<Object<Backend>, Unread> {
        if resource == Resource::SLICES { self.slice(object) } else { self.endpoints(object) }
    }
}

/// The ports that a name can ask for: those of TCP that have a name. (A missing protocol is TCP.)
fn ports(raw: Option<Vec<RawPort>>) -> Box<[Port]> {
    let port = |raw: RawPort| {
        let is_tcp = raw.protocol.is_none_or(|protocol| protocol.eq_ignore_ascii_case("TCP"));
        let name = raw.name.filter(|name| is_tcp && !name.is_empty())?;
        Some(Port { name, number: shown_port(raw.port)? })
    };
    raw.unwrap_or_default().into_iter().filter_map(port).collect()
}

// === as it is sent ===

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawEndpoints {
    metadata: Option<RawMeta>,
    /// Null, absent and empty mean the same.
    subsets: Option<Vec<RawSubset>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawSubset {
    addresses: Option<Vec<RawAddress>>,
    ports: Option<Vec<RawPort>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawAddress {
    ip: Option<Box<str>>,
    node_name: Option<Box<str>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawPort {
    name: Option<Box<str>>,
    port: Option<i64>,
    protocol: Option<Box<str>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawSlice {
    metadata: Option<RawMeta>,
    address_type: Option<Box<str>>,
    endpoints: Option<Vec<RawEndpoint>>,
    ports: Option<Vec<RawPort>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawEndpoint {
    addresses: Option<Vec<Box<str>>>,
    conditions: Option<RawConditions>,
    node_name: Option<Box<str>>,
    zone: Option<Box<str>>,
}

/// Null is "not known": ready then, by the rules of the API.
#[derive(Default, Deserialize)]
#[serde(default)]
struct RawConditions {
    ready: Option<bool>,
    serving: Option<bool>,
    terminating: Option<bool>,
}
