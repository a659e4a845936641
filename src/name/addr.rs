//! Addresses: what a bound name resolves to.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use serde_json::Value;

/// Keys of metadata that namers set and interfaces read.
pub mod meta_keys {
    /// The weight of one address, a number.
    pub const ENDPOINT_ADDR_WEIGHT: &str = "endpoint_addr_weight";
    /// The Kubernetes node an address lives on.
    pub const NODE_NAME: &str = "nodeName";
    /// The authority a client is to send to this set.
    pub const AUTHORITY: &str = "authority";
    /// The innermost union weight above a bound leaf, a number. Only the HTTP bind answer shows it.
    pub const NAMER_NAMETREE_WEIGHT: &str = "namer_nametree_weight";
}

/// The state of the addresses of one bound id. "Not known yet" is a state of whoever holds this value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Addr {
    /// These addresses, possibly none.
    Bound(AddrSet),
    /// The name does not exist.
    Neg,
    /// The addresses could not be determined, with the reason if there is one.
    Failed(Option<Arc<str>>),
}

/// A set of addresses with metadata of its own. Cloning shares the addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddrSet {
    addrs: Arc<[Address]>,
    meta: Meta,
}

impl AddrSet {
    /// Puts addresses in the stable order of (ip, port) and merges equal ones. The same ip and port under different
    /// metadata stay apart, as they do in namerd.
    pub fn new(mut addrs: Vec<Address>, meta: Meta) -> Self {
        addrs.sort();
        addrs.dedup();
        Self { addrs: addrs.into(), meta }
    }

    /// The same addresses under other metadata.
    #[must_use]
    pub fn with_meta(&self, meta: Meta) -> Self {
        Self { addrs: self.addrs.clone(), meta }
    }

    /// The addresses, ordered by (ip, port).
    pub fn addrs(&self) -> &[Address] {
        &self.addrs
    }

    /// The metadata of the set.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// The number of addresses.
    pub fn len(&self) -> usize {
        self.addrs.len()
    }

    /// Whether there are no addresses.
    pub fn is_empty(&self) -> bool {
        self.addrs.is_empty()
    }
}

/// One address. At most 32 bytes: sets of 100,000 are usual.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The host.
    pub ip: IpAddr,
    /// The port.
    pub port: u16,
    /// What the namer knows about this address.
    pub meta: Meta,
}

impl Address {
    /// An address without metadata.
    pub fn new(ip: IpAddr, port: u16) -> Self {
        Self { ip, port, meta: Meta::default() }
    }
}

impl From<SocketAddr> for Address {
    fn from(addr: SocketAddr) -> Self {
        Self::new(addr.ip(), addr.port())
    }
}

impl Ord for Address {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.ip, self.port).cmp(&(other.ip, other.port)).then_with(|| self.meta.cmp(&other.meta))
    }
}

impl PartialOrd for Address {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Metadata by key. Cloning shares it; without entries it costs a null pointer.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Meta {
    /// Never an empty map.
    entries: Option<Arc<BTreeMap<String, Value>>>,
}

impl Meta {
    /// The value under a key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.entries.as_deref()?.get(key)
    }

    /// The same metadata with one key set.
    #[must_use]
    pub fn with(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        Arc::make_mut(self.entries.get_or_insert_default()).insert(key.into(), value.into());
        self
    }

    /// All entries, ordered by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.entries.iter().flat_map(|entries| entries.iter()).map(|(key, value)| (key.as_str(), value))
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_none()
    }
}

impl<K: Into<String>, V: Into<Value>> FromIterator<(K, V)> for Meta {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let entries: BTreeMap<_, _> = entries.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        Self { entries: (!entries.is_empty()).then(|| Arc::new(entries)) }
    }
}

impl Ord for Meta {
    /// Any order will do as long as it is a stable one: it decides only between equal ips and ports.
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.entries, &other.entries) {
            (Some(left), Some(right)) if Arc::ptr_eq(left, right) || left == right => Ordering::Equal,
            (Some(left), Some(right)) => {
                let text = |(key, value): (&String, &Value)| (key.clone(), value.to_string());
                left.iter().map(text).cmp(right.iter().map(text))
            }
            (left, right) => left.is_some().cmp(&right.is_some()),
        }
    }
}

impl PartialOrd for Meta {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Debug for Meta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Address {
        text.parse::<SocketAddr>().unwrap().into()
    }

    #[test]
    fn an_address_stays_small() {
        assert!(size_of::<Address>() <= 32, "{} bytes", size_of::<Address>());
        assert_eq!(size_of::<Meta>(), size_of::<usize>());
    }

    #[test]
    fn the_order_of_arrival_does_not_show() {
        let texts = ["192.0.2.10:80", "192.0.2.9:81", "192.0.2.9:80", "192.0.2.9:81"];
        let set = AddrSet::new(texts.iter().map(|text| address(text)).collect(), Meta::default());
        let shown: Vec<u16> = set.addrs().iter().map(|address| address.port).collect();
        assert_eq!(shown, [80, 81, 80]);
        let reversed = AddrSet::new(texts.iter().rev().map(|text| address(text)).collect(), Meta::default());
        assert_eq!(set, reversed);
    }

    #[test]
    fn equal_addresses_merge_only_with_equal_metadata() {
        let heavy =
            Address { meta: Meta::default().with(meta_keys::ENDPOINT_ADDR_WEIGHT, 2.0), ..address("192.0.2.1:80") };
        let plain = address("192.0.2.1:80");
        let one = AddrSet::new(vec![heavy.clone(), plain.clone(), heavy.clone()], Meta::default());
        let other = AddrSet::new(vec![plain, heavy.clone(), heavy], Meta::default());
        assert_eq!(one.len(), 2);
        assert_eq!(one, other);
    }

    #[test]
    fn setting_a_key_leaves_the_shared_copy_alone() {
        let one = Meta::default().with("a", 1);
        let two = one.clone().with("a", 2).with("b", "x");
        assert_eq!(one.get("a"), Some(&Value::from(1)));
        assert_eq!(two.iter().map(|(key, _)| key).collect::<Vec<_>>(), ["a", "b"]);
        assert!(Meta::from_iter(Vec::<(String, Value)>::new()).is_empty());
    }
}
