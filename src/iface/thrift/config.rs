//! Keys of `io.l5d.thriftNameInterpreter`.

use std::time::Duration;

use crate::config::tree::Node;
use crate::config::{Fields, FromNode, Report};
use crate::iface::{Core, InterfaceConfig, Serving};
use crate::runtime::Listener;

/// How many keys there may be where the configuration says nothing. namerd's own default is 1,000 and counts keys that
/// nobody waits for, so that a fleet runs into it.
const DEFAULT_KEYS: usize = 50_000;
/// How long an idle key is kept where the configuration says nothing.
const DEFAULT_TTL: Duration = Duration::from_secs(600);

/// The `io.l5d.thriftNameInterpreter` interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThriftConfig {
    /// Of the names that are bound: `bindingCacheActive`, `bindingCacheInactive` and `bindingCacheInactiveTTLSecs`.
    pub bindings: CacheLimits,
    /// Of the ids whose addresses are asked for: `addrCacheActive`, `addrCacheInactive` and `addrCacheInactiveTTLSecs`.
    pub addresses: CacheLimits,
}

/// How many keys of a sort there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheLimits {
    /// Keys that somebody waits for.
    pub active: usize,
    /// Keys that nobody waits for and that are kept ready all the same.
    pub inactive: usize,
    /// How long these are kept.
    pub ttl: Duration,
}

impl Default for CacheLimits {
    fn default() -> Self {
        Self { active: DEFAULT_KEYS, inactive: DEFAULT_KEYS, ttl: DEFAULT_TTL }
    }
}

impl ThriftConfig {
    /// Reads the keys. None only if a problem was reported.
    pub fn read(fields: &mut Fields<'_>) -> Option<Self> {
        Some(fields.or("cache", Self::default()))
    }
}

impl FromNode for ThriftConfig {
    /// Reads the mapping below `cache`.
    fn from_node(node: &Node, report: &Report) -> Option<Self> {
        Fields::read(node, "cache", report, |fields| {
            let mut limits = |active, inactive, ttl| CacheLimits {
                active: fields.within(active, 1..=usize::MAX, DEFAULT_KEYS),
                inactive: fields.within(inactive, 0..=usize::MAX, DEFAULT_KEYS),
                ttl: fields.opt(ttl).map_or(DEFAULT_TTL, |seconds: u32| Duration::from_secs(seconds.into())),
            };
            let bindings = limits("bindingCacheActive", "bindingCacheInactive", "bindingCacheInactiveTTLSecs");
            let addresses = limits("addrCacheActive", "addrCacheInactive", "addrCacheInactiveTTLSecs");
            Some(Self { bindings, addresses })
        })
    }
}

impl InterfaceConfig for ThriftConfig {
    fn default_port(&self) -> u16 {
        4100
    }

    fn serve(&self, core: &Core, kind: &'static str, listener: Listener) -> Serving {
        super::serve(core, kind, self, listener)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read_text;

    fn read(text: &str) -> Result<ThriftConfig, String> {
        read_text("f", text, "the test", ThriftConfig::read)
            .map(|(config, _)| config)
            .map_err(|problems| problems.to_string())
    }

    #[test]
    fn each_key_of_the_cache_may_be_given_alone() {
        assert_eq!(read(""), Ok(ThriftConfig::default()));
        let config = read(
            "cache: {bindingCacheActive: 5000, bindingCacheInactive: 1000, bindingCacheInactiveTTLSecs: 3600,
                     addrCacheActive: 6000}",
        );
        let bindings = CacheLimits { active: 5_000, inactive: 1_000, ttl: Duration::from_secs(3_600) };
        let addresses = CacheLimits { active: 6_000, ..CacheLimits::default() };
        assert_eq!(config, Ok(ThriftConfig { bindings, addresses }));
    }

    #[test]
    fn senseless_sizes_are_refused() {
        let message = read("cache: {addrCacheActive: 0}").expect_err("refused");
        assert!(message.contains("0 is not between 1 and"), "{message}");
        let message = read("cache: {addrCacheActiv: 1}").expect_err("refused");
        assert!(message.contains("did you mean \"addrCacheActive\"?"), "{message}");
    }
}
