//! From the instances of a service, as Consul lists them, to addresses.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Deserialize;

use super::config::Rules;
use crate::consul::{Answer, Undecoded};
use crate::name::{AddrSet, Address, Meta, meta_keys};
use crate::namer::hosts::{HostAddrs, Named, known_host};

/// How an instance is, worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Health {
    Passing,
    Warning,
    Critical,
    Maintenance,
}

/// Whether a service is there. Addresses may come and go without changing it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    /// No instance.
    Absent,
    /// At least one with an ip address.
    Present,
    /// Only instances with host names: whether it is there depends on whether those are known.
    Named(Vec<Box<str>>),
}

/// The instances that count.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Instances {
    /// Those with an ip address, under the metadata of the service.
    pub(super) literal: AddrSet,
    /// Those with a host name, each once and in order.
    pub(super) named: Box<[Named]>,
}

/// One instance. What a server leaves out, or gives as null, is none.
struct Node<'a> {
    node: Text<'a>,
    id: Text<'a>,
    node_address: Text<'a>,
    service_address: Text<'a>,
    port: Option<i64>,
    tags: Tags<'a>,
    service_meta: Entries<'a>,
    node_meta: Entries<'a>,
}

type Text<'a> = Option<Str<'a>>;
type Tags<'a> = Option<Vec<Str<'a>>>;
type Entries<'a> = Option<BTreeMap<Str<'a>, Text<'a>>>;

/// A text that stays in the body unless it holds escapes.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(transparent)]
struct Str<'a>(#[serde(borrow)] Cow<'a, str>);

/// An element of `/v1/catalog/service/…`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct CatalogEntry<'a> {
    #[serde(borrow)]
    node: Text<'a>,
    #[serde(borrow)]
    address: Text<'a>,
    #[serde(borrow, rename = "ServiceID")]
    service_id: Text<'a>,
    #[serde(borrow)]
    service_tags: Tags<'a>,
    #[serde(borrow)]
    service_address: Text<'a>,
    service_port: Option<i64>,
    #[serde(borrow)]
    service_meta: Entries<'a>,
    #[serde(borrow)]
    node_meta: Entries<'a>,
}

/// An element of `/v1/health/service/…`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct HealthEntry<'a> {
    #[serde(borrow)]
    node: Option<HealthNode<'a>>,
    #[serde(borrow)]
    service: Option<HealthService<'a>>,
    #[serde(borrow)]
    checks: Option<Vec<Check<'a>>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct HealthNode<'a> {
    #[serde(borrow)]
    node: Text<'a>,
    #[serde(borrow)]
    address: Text<'a>,
    #[serde(borrow)]
    meta: Entries<'a>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct HealthService<'a> {
    #[serde(borrow, rename = "ID")]
    id: Text<'a>,
    #[serde(borrow)]
    tags: Tags<'a>,
    #[serde(borrow)]
    address: Text<'a>,
    port: Option<i64>,
    #[serde(borrow)]
    meta: Entries<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Check<'a> {
    #[serde(borrow)]
    status: Text<'a>,
}

// === impl Health ===

impl Health {
    /// The words of namerd's configuration, small letters only.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        match text {
            "passing" => Ok(Self::Passing),
            "warning" => Ok(Self::Warning),
            "critical" => Ok(Self::Critical),
            "maintenance" => Ok(Self::Maintenance),
            _ => Err(format!("Illegal Consul health status: {text} (known: passing, warning, critical, maintenance)")),
        }
    }

    /// That of the worst check; an instance without checks passes, and so does a word that nobody knows
    /// (`HealthStatus.scala:9-20`).
    fn of(checks: &[Check<'_>]) -> Self {
        let statuses = checks.iter().filter_map(|check| Self::parse(text(&check.status)).ok());
        statuses.max().unwrap_or(Self::Passing)
    }
}

// === impl Instances ===

impl Instances {
    /// None at all.
    pub(super) fn none() -> Self {
        Self { literal: AddrSet::new(Vec::new(), Meta::default()), named: Box::default() }
    }

    /// Reads an answer to what [`super::service::request`] asks.
    pub(super) fn decode(rules: &Rules, answer: &Answer, body: &[u8]) -> Result<Self, Undecoded> {
        if !answer.found {
            return Err(Undecoded::Unreadable("it is a 404".to_owned()));
        }
        let unreadable = |error: serde_json::Error| Undecoded::Unreadable(error.to_string());
        // What is left out for want of a permission is told only where nothing is left, since only then it matters.
        let filtered = |left: usize| if left == 0 && answer.filtered { Err(Undecoded::Filtered) } else { Ok(()) };
        let nodes: Vec<Node<'_>> = match &rules.statuses {
            None => {
                let entries: Vec<CatalogEntry<'_>> = serde_json::from_slice(body).map_err(unreadable)?;
                filtered(entries.len())?;
                entries.into_iter().map(Node::from).collect()
            }
            Some(statuses) => {
                let entries: Vec<HealthEntry<'_>> = serde_json::from_slice(body).map_err(unreadable)?;
                filtered(entries.len())?;
                let wanted = |entry: &HealthEntry<'_>| is_wanted(statuses, entry.checks.as_deref().unwrap_or_default());
                entries.into_iter().filter(wanted).map(Node::from).collect()
            }
        };
        Ok(Self::new(rules, nodes))
    }

    fn new(rules: &Rules, mut nodes: Vec<Node<'_>>) -> Self {
        // Servers list in whatever order, and what depends on the first must not flap. This is the catalog's order.
        nodes.sort_by(|one, other| (&one.node, &one.id).cmp(&(&other.node, &other.id)));
        let mut metas = Metas::default();
        let (mut literal, mut named) = (Vec::new(), Vec::new());
        for node in &nodes {
            let Some(port) = node.port.and_then(|port| u16::try_from(port).ok()) else { continue };
            let service_address = text(&node.service_address);
            let prefers_node = !rules.prefer_service_address || service_address.is_empty();
            let host = if prefers_node { text(&node.node_address) } else { service_address };
            if host.is_empty() {
                continue;
            }
            let meta = metas.of(rules, node);
            match known_host(host) {
                Some(HostAddrs::Found(ips)) => {
                    literal.extend(ips.into_iter().map(|ip| Address { ip, port, meta: meta.clone() }));
                }
                Some(HostAddrs::Unknown) => {}
                None => named.push(Named { host: host.into(), port, meta }),
            }
        }
        named.sort();
        named.dedup();
        let first = nodes.first().filter(|_| rules.transfer_metadata).and_then(|node| node.service_meta.as_ref());
        Self { literal: AddrSet::new(literal, first.map(meta).unwrap_or_default()), named: named.into() }
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.literal.is_empty() && self.named.is_empty()
    }

    /// Whether there is one.
    pub(super) fn presence(&self) -> Presence {
        if !self.literal.is_empty() {
            return Presence::Present;
        }
        if self.is_empty() {
            return Presence::Absent;
        }
        let mut hosts: Vec<Box<str>> = self.named.iter().map(|named| named.host.clone()).collect();
        hosts.dedup();
        Presence::Named(hosts)
    }
}

/// Consul itself leaves out what does not pass if that alone is wanted.
fn is_wanted(statuses: &BTreeSet<Health>, checks: &[Check<'_>]) -> bool {
    only_passing(statuses) || statuses.contains(&Health::of(checks))
}

/// Is passing the one wanted status?
pub(super) fn only_passing(statuses: &BTreeSet<Health>) -> bool {
    statuses.len() == 1 && statuses.contains(&Health::Passing)
}

fn text<'t>(text: &'t Text<'_>) -> &'t str {
    text.as_ref().map_or("", |text| &text.0)
}

fn meta(entries: &BTreeMap<Str<'_>, Text<'_>>) -> Meta {
    entries.iter().map(|(key, value)| (key.0.as_ref(), text(value))).collect()
}

// === impl Node ===

impl<'a> From<CatalogEntry<'a>> for Node<'a> {
    fn from(entry: CatalogEntry<'a>) -> Self {
        Self {
            node: entry.node,
            id: entry.service_id,
            node_address: entry.address,
            service_address: entry.service_address,
            port: entry.service_port,
            tags: entry.service_tags,
            service_meta: entry.service_meta,
            node_meta: entry.node_meta,
        }
    }
}

impl<'a> From<HealthEntry<'a>> for Node<'a> {
    fn from(entry: HealthEntry<'a>) -> Self {
        let (node, service) = (entry.node.unwrap_or_default(), entry.service.unwrap_or_default());
        Self {
            node: node.node,
            id: service.id,
            node_address: node.address,
            service_address: service.address,
            port: service.port,
            tags: service.tags,
            service_meta: service.meta,
            node_meta: node.meta,
        }
    }
}

/// One shared piece of metadata for each weight, as long as nodes add nothing of their own.
#[derive(Default)]
struct Metas(HashMap<u64, Meta>);

impl Metas {
    /// Every address has a weight: the greatest of its tags', or 1.
    fn of(&mut self, rules: &Rules, node: &Node<'_>) -> Meta {
        let tags = node.tags.as_deref().unwrap_or_default();
        let weights = tags.iter().filter_map(|tag| rules.weights.get(tag.0.as_ref())).copied();
        let weight = weights.max_by(f64::total_cmp).unwrap_or(1.0);
        let weighted = self
            .0
            .entry(weight.to_bits())
            .or_insert_with(|| Meta::default().with(meta_keys::ENDPOINT_ADDR_WEIGHT, weight));
        match &node.node_meta {
            Some(entries) if rules.transfer_metadata && !entries.is_empty() => {
                meta(entries).with(meta_keys::ENDPOINT_ADDR_WEIGHT, weight)
            }
            _ => weighted.clone(),
        }
    }
}
