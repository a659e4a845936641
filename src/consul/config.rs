//! The keys that everything has which asks a Consul agent.

use super::Consistency;
use crate::backend::Address;
use crate::config::{ClientTls, Fields, Port, Secret};
use crate::runtime::tls;

/// How to reach an agent, and as whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentConfig {
    /// `host` and `port`: where it listens.
    pub address: Address,
    /// `token`: sent as `X-Consul-Token`.
    pub token: Option<Secret>,
    /// `tls`: none for plain text.
    pub tls: Option<ClientTls>,
    /// `maxPolls`: how many polls may be open at this address at once, over all that is asked there. Of several limits
    /// for one address the lowest counts.
    pub max_polls: Option<usize>,
}

impl AgentConfig {
    /// Reads `host`, `port`, `token`, `maxPolls`, `failFast` and `tls`. None only if a problem was reported.
    #[must_use]
    pub fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let host = fields.parsed("host", Address::read_host).unwrap_or_else(|| "localhost".to_owned());
        let Port(port) = fields.or("port", Port(8500));
        let token = fields.opt("token");
        if fields.or("failFast", false) {
            fields.without_effect(&["failFast"], ": a failed request is repeated with growing delays in any case");
        }
        let tls = fields.opt("tls").filter(|tls: &ClientTls| tls.enabled);
        if let Some(tls) = &tls {
            tls::Client::check(tls, fields);
        }
        let max_polls = fields.node("maxPolls").map(|_| fields.within("maxPolls", 1..=100_000, 1));
        Some(Self { address: Address::new(&host, port), token, tls, max_polls })
    }

    /// Whether both are the same to the agent, so that they can share connections.
    pub(super) fn is_same_client(&self, other: &Self) -> bool {
        let Self { address, token, tls, max_polls: _ } = self;
        *address == other.address && *token == other.token && *tls == other.tls
    }
}

/// Reads the consistency mode under `key`; namerd's default sends no parameter.
pub fn read_consistency(fields: &mut Fields<'_>, key: &'static str) -> Consistency {
    fields.parsed(key, Consistency::parse).unwrap_or_default()
}
