//! `io.l5d.port`: another port for every address.

use std::sync::Arc;

use super::{Effect, MapAddresses, PortConfig, Transformer, TransformerConfig, TransformerParts, id_prefix};
use crate::name::{Addr, AddrSet, Address, Path};
use crate::store::{Reading, Run};

#[derive(Debug)]
struct SetPort(u16);

impl TransformerConfig for PortConfig {
    fn build(&self, prefix: Option<&Path>, _: &TransformerParts) -> Result<Transformer, String> {
        let id_prefix = id_prefix(prefix, &["io.l5d.port", &self.port.to_string()]);
        Ok(Transformer { id_prefix, effect: Effect::Addresses(Arc::new(SetPort(self.port))) })
    }
}

impl MapAddresses for SetPort {
    /// Metadata stay. Addresses that become equal merge, and an empty set stays one.
    fn map(&self, _: &mut Run<'_>, set: &AddrSet) -> Reading<Addr> {
        let moved = set.addrs().iter().map(|address| Address { port: self.0, ..address.clone() }).collect();
        Reading::Ready(Addr::Bound(AddrSet::new(moved, set.meta().clone())))
    }
}
