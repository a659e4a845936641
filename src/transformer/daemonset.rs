//! `io.l5d.k8s.daemonset`: in the place of each address, the gateways on its node.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use super::subnet::{NODE_MASK, node};
use super::{DaemonSetConfig, Effect, MapAddresses, Transformer, TransformerConfig, TransformerParts, id_prefix};
use crate::k8s::ApiConfig;
use crate::name::{Addr, AddrSet, Address, Path};
use crate::namer::Namer;
use crate::namer::k8s::{EndpointsNamer, EndpointsRules, Source};
use crate::store::{Reading, Run};

/// After this time without any answer an alt may pass a name over, as in a namer's own block.
const FALL_THROUGH: Duration = Duration::from_secs(2);

/// The gateways: the endpoints of a daemon set, one on each node.
struct DaemonSet {
    gateways: EndpointsNamer,
    id: Path,
    host_network: bool,
}

/// What makes two addresses one of a node.
#[derive(PartialEq, Eq, Hash)]
enum Place<'a> {
    Network(Ipv4Addr),
    /// The node of addresses that do not tell it is one and the same.
    Node(Option<&'a str>),
}

// === impl DaemonSet ===

impl DaemonSet {
    fn place<'a>(&self, address: &'a Address) -> Option<Place<'a>> {
        match address.ip {
            _ if self.host_network => Some(Place::Node(node(address))),
            IpAddr::V4(ip) => Some(Place::Network(ip & NODE_MASK)),
            IpAddr::V6(_) => None,
        }
    }

    /// The union of the gateways on the nodes of a set; metadata of the set stay.
    fn replaced(&self, gateways: &AddrSet, set: &AddrSet) -> Addr {
        let mut on_node: HashMap<Place<'_>, Vec<&Address>> = HashMap::new();
        for gateway in gateways.addrs() {
            if let Some(place) = self.place(gateway) {
                on_node.entry(place).or_default().push(gateway);
            }
        }
        let mut found = Vec::new();
        for place in set.addrs().iter().filter_map(|address| self.place(address)) {
            // Once taken they are there, whoever else is on the node.
            found.extend(on_node.remove(&place).into_iter().flatten().cloned());
        }
        if found.is_empty() { Addr::Neg } else { Addr::Bound(AddrSet::new(found, set.meta().clone())) }
    }
}

impl MapAddresses for DaemonSet {
    /// The tree of a name is known when that of the daemon set is.
    fn ready(&self, run: &mut Run<'_>) -> Reading<()> {
        self.gateways.lookup(run, &self.id).map(drop)
    }

    /// Gateways that are not known yet count as none.
    fn map(&self, run: &mut Run<'_>, set: &AddrSet) -> Reading<Addr> {
        Reading::Ready(match self.gateways.addresses(run, &self.id) {
            Reading::Ready(Addr::Bound(gateways)) => self.replaced(&gateways, set),
            Reading::Ready(Addr::Neg | Addr::Failed(_)) | Reading::Pending(_) | Reading::Failed(_) => Addr::Neg,
        })
    }
}

impl fmt::Debug for DaemonSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DaemonSet").field("id", &self.id).finish_non_exhaustive()
    }
}

impl TransformerConfig for DaemonSetConfig {
    fn build(&self, prefix: Option<&Path>, parts: &TransformerParts) -> Result<Transformer, String> {
        let Self { host, port, namespace, service, gateway_port, host_network } = self;
        let server = parts.servers.server(&ApiConfig::proxy(host, *port))?;
        let rules = EndpointsRules {
            namespace: None,
            label: None,
            source: Source::Endpoints,
            families: parts.ip_families,
            fall_through_after: FALL_THROUGH,
        };
        let id = Path::from_elems([namespace, gateway_port, service])
            .map_err(|_| "io.l5d.k8s.daemonset: namespace, port and service must not be empty".to_owned())?;
        let id_prefix = id_prefix(prefix, &["io.l5d.k8s.daemonset", namespace, gateway_port, service]);
        let gateways = EndpointsNamer::new(&server, rules);
        let effect = Effect::Addresses(Arc::new(DaemonSet { gateways, id, host_network: *host_network }));
        Ok(Transformer { id_prefix, effect })
    }
}
