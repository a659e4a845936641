//! Which addresses are near each other: in one IPv4 network, or on one node.

use std::net::{IpAddr, Ipv4Addr};

use crate::name::{Address, meta_keys};

/// A node of a cluster has a network of this size for its pods, as namerd supposes.
pub(super) const NODE_MASK: Ipv4Addr = Ipv4Addr::new(255, 255, 255, 0);

/// Are both in one network? IPv6 never is: namerd compares under an IPv4 mask (`Netmask.scala`).
#[must_use]
pub fn same_network(mask: Ipv4Addr, one: IpAddr, other: IpAddr) -> bool {
    match (one, other) {
        (IpAddr::V4(one), IpAddr::V4(other)) => one & mask == other & mask,
        _ => false,
    }
}

/// The node that an address is on, if it is known.
pub(super) fn node(address: &Address) -> Option<&str> {
    address.meta.get(meta_keys::NODE_NAME)?.as_str()
}
