//! `io.l5d.k8s.localnode`: only the addresses on the node that rosterd runs on.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use super::subnet::{NODE_MASK, node, same_network};
use super::{Effect, LocalNodeConfig, MapAddresses, Transformer, TransformerConfig, TransformerParts, id_prefix, keep};
use crate::name::{Addr, AddrSet, Address, Path};
use crate::store::{Reading, Run};

/// What makes an address one of this node.
#[derive(Clone, Debug, PartialEq, Eq)]
enum LocalNode {
    /// It is in the network of the node's pods, in which this address is.
    Network(IpAddr),
    /// Its metadata name the node.
    Name(String),
}

// === impl LocalNode ===

impl LocalNode {
    fn has(&self, address: &Address) -> bool {
        match self {
            Self::Network(pod) => same_network(NODE_MASK, *pod, address.ip),
            Self::Name(name) => node(address) == Some(name),
        }
    }

    /// What the variables of the pod say.
    fn of(config: &LocalNodeConfig, variable: impl Fn(&str) -> Option<String>) -> Result<(Self, String), String> {
        if config.host_network {
            let name = variable("NODE_NAME").ok_or("NODE_NAME env variable must be set to the node's name")?;
            return Ok((Self::Name(name.clone()), name));
        }
        let pod = variable("POD_IP").ok_or("POD_IP env variable must be set to the pod's IP")?;
        let ip: Ipv4Addr = pod.trim().parse().map_err(|_| format!("POD_IP is no IPv4 address: {pod}"))?;
        Ok((Self::Network(ip.into()), pod))
    }
}

impl MapAddresses for LocalNode {
    fn map(&self, _: &mut Run<'_>, set: &AddrSet) -> Reading<Addr> {
        Reading::Ready(keep::only(set, |address| self.has(address)))
    }
}

impl TransformerConfig for LocalNodeConfig {
    fn build(&self, prefix: Option<&Path>, _: &TransformerParts) -> Result<Transformer, String> {
        self.on_node(prefix, |name| std::env::var(name).ok().filter(|value| !value.is_empty()))
    }
}

impl LocalNodeConfig {
    fn on_node(&self, prefix: Option<&Path>, variable: impl Fn(&str) -> Option<String>) -> Result<Transformer, String> {
        let (local, shown) = LocalNode::of(self, variable)?;
        // Also behind a prefix of the block's own: ids of two nodes are never the same (LocalNodeTransformer).
        let shown = Path::from_elems([&shown]).map_err(|_| format!("{shown:?} cannot be part of an id"))?;
        let id_prefix = id_prefix(prefix, &["io.l5d.k8s.localnode"]).concat(&shown);
        Ok(Transformer { id_prefix, effect: Effect::Addresses(Arc::new(local)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variables_of_the_pod_say_where_it_is() {
        let of = |host_network, value: Option<&str>| {
            LocalNode::of(&LocalNodeConfig { host_network }, |_| value.map(str::to_owned))
        };
        let pod = Ipv4Addr::new(10, 1, 2, 3);
        assert_eq!(of(false, Some("10.1.2.3")), Ok((LocalNode::Network(pod.into()), "10.1.2.3".to_owned())));
        assert_eq!(of(true, Some("n1")), Ok((LocalNode::Name("n1".to_owned()), "n1".to_owned())));
        assert_eq!(of(false, None), Err("POD_IP env variable must be set to the pod's IP".to_owned()));
        assert_eq!(of(true, None), Err("NODE_NAME env variable must be set to the node's name".to_owned()));
        assert_eq!(of(false, Some("n1")), Err("POD_IP is no IPv4 address: n1".to_owned()));
    }

    #[test]
    fn ids_say_which_node_it_is_behind_a_prefix_of_their_own_too() {
        let id_prefix = |prefix: Option<&str>| {
            let prefix = prefix.map(|prefix| Path::parse(prefix).expect("a path"));
            let config = LocalNodeConfig { host_network: false };
            let built = config.on_node(prefix.as_ref(), |_| Some("10.1.2.3".to_owned()));
            built.expect("the variable is there").id_prefix.to_string()
        };
        assert_eq!(id_prefix(None), "/%/io.l5d.k8s.localnode/10.1.2.3");
        assert_eq!(id_prefix(Some("/ln")), "/%/ln/10.1.2.3");
    }
}
