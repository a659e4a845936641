//! `io.l5d.localhost` and `io.l5d.specificHost`: only the addresses of certain hosts.

use std::collections::HashSet;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;

use super::{
    Effect, LocalhostConfig, MapAddresses, SpecificHostConfig, Transformer, TransformerConfig, TransformerParts,
    id_prefix,
};
use crate::name::{Addr, AddrSet, Address, Path};
use crate::namer::hosts::{HostAddrs, known_host};
use crate::store::{Reading, Run};

/// Keeps addresses of these hosts. None of them is IPv6: namerd compares under an IPv4 mask, which no IPv6 address
/// passes.
#[derive(Debug)]
struct Keep(HashSet<IpAddr>);

impl Keep {
    fn effect(hosts: impl IntoIterator<Item = IpAddr>) -> Effect {
        Effect::Addresses(Arc::new(Self(hosts.into_iter().filter(IpAddr::is_ipv4).collect())))
    }
}

impl MapAddresses for Keep {
    fn map(&self, _: &mut Run<'_>, set: &AddrSet) -> Reading<Addr> {
        Reading::Ready(only(set, |address| self.0.contains(&address.ip)))
    }
}

/// The addresses that `keeps` is true of. A set that ends up empty, or was empty already, says that the name does not exist.
pub(super) fn only(set: &AddrSet, keeps: impl Fn(&Address) -> bool) -> Addr {
    let kept: Vec<_> = set.addrs().iter().filter(|address| keeps(address)).cloned().collect();
    if kept.is_empty() { Addr::Neg } else { Addr::Bound(AddrSet::new(kept, set.meta().clone())) }
}

impl TransformerConfig for LocalhostConfig {
    /// The addresses of all interfaces that are up now; later changes do not count, as in namerd.
    fn build(&self, prefix: Option<&Path>, _: &TransformerParts) -> Result<Transformer, String> {
        let interfaces = if_addrs::get_if_addrs()
            .map_err(|error| format!("io.l5d.localhost: the addresses of this host cannot be listed: {error}"))?;
        let up = interfaces.iter().filter(|interface| interface.is_oper_up()).map(if_addrs::Interface::ip);
        Ok(Transformer { id_prefix: id_prefix(prefix, &["io.l5d.localhost"]), effect: Keep::effect(up) })
    }
}

impl TransformerConfig for SpecificHostConfig {
    /// A name is looked up now, once and for all, and its first address counts, as in namerd.
    fn build(&self, prefix: Option<&Path>, _: &TransformerParts) -> Result<Transformer, String> {
        let known = match known_host(&self.host) {
            Some(HostAddrs::Found(addrs)) => addrs,
            Some(HostAddrs::Unknown) => Vec::new(),
            None => look_up(&self.host).map_err(|error| self.unusable(&error.to_string()))?,
        };
        let host = *known.first().ok_or_else(|| self.unusable("it has no IPv4 address"))?;
        if host.is_ipv6() {
            tracing::warn!(%host, "io.l5d.specificHost keeps nothing: an IPv6 `host` never matches");
        }
        Ok(Transformer { id_prefix: id_prefix(prefix, &["io.l5d.specificHost"]), effect: Keep::effect([host]) })
    }
}

impl SpecificHostConfig {
    fn unusable(&self, reason: &str) -> String {
        let host = &self.host;
        format!("io.l5d.specificHost: `host: {host}` cannot be resolved, which is done at start: {reason}")
    }
}

/// The IPv4 addresses of a name. Blocks.
fn look_up(host: &str) -> std::io::Result<Vec<IpAddr>> {
    Ok((host, 0).to_socket_addrs()?.map(|addr| addr.ip()).filter(IpAddr::is_ipv4).collect())
}
