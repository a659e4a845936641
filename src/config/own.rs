//! The keys that only rosterd has. They may stand in namerd's file or in one of their own (`--with`).

use std::path::PathBuf;
use std::time::Duration;

use super::tree::Node;
use super::{ClientTls, Fields, FromNode, Report, Secret};
use crate::name;

/// Why keys of what is not built are accepted all the same: a file for the way forward may hold them already.
const NOT_YET: &str = " yet: what it belongs to is not built";

/// rosterd's own keys at the top level of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnKeys {
    /// `stateDir`: the watch ledger, and what else outlasts the process. It is made if it does not exist.
    pub state_dir: Option<PathBuf>,
    /// `drain`.
    pub drain: Drain,
    /// `maxPollAgeMs`: after this time, ± 20 %, a parked poll is answered again.
    pub max_poll_age: Duration,
    /// `limits`.
    pub limits: OwnLimits,
    /// `ledger`.
    pub ledger: Ledger,
    /// `ipFamilies`.
    pub ip_families: IpFamilies,
    /// `fixes`.
    pub fixes: Fixes,
}

impl OwnKeys {
    /// The keys read here. (`interpreter` is rosterd's own too, but has kinds.)
    pub const KEYS: &[&str] = &["stateDir", "drain", "maxPollAgeMs", "limits", "ledger", "ipFamilies", "fixes"];

    /// Reads them, with the defaults for those that are absent.
    pub fn read(fields: &mut Fields<'_>) -> Self {
        let default = Self::default();
        let max_poll_age = fields.within("maxPollAgeMs", 100..=86_400_000_u32, 90_000);
        Self {
            state_dir: fields.opt("stateDir"),
            drain: fields.or("drain", default.drain),
            max_poll_age: Duration::from_millis(max_poll_age.into()),
            limits: fields.or("limits", default.limits),
            ledger: fields.or("ledger", default.ledger),
            ip_families: fields.or("ipFamilies", default.ip_families),
            fixes: fields.or("fixes", default.fixes),
        }
    }
}

impl Default for OwnKeys {
    fn default() -> Self {
        Self {
            state_dir: None,
            drain: Drain::default(),
            max_poll_age: Duration::from_secs(90),
            limits: OwnLimits::default(),
            ledger: Ledger::default(),
            ip_families: IpFamilies::default(),
            fixes: Fixes::default(),
        }
    }
}

/// How the process leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drain {
    /// `lameDuckMs`: time to go on serving after readiness is off.
    pub lame_duck: Duration,
    /// `spreadMs`: time over which the sessions are ended.
    pub spread: Duration,
    /// `pingSilence`: stop answering mux pings instead of sending Tdrain, for a single address in front of all replicas.
    pub ping_silence: bool,
}

impl Default for Drain {
    fn default() -> Self {
        Self { lame_duck: Duration::ZERO, spread: Duration::from_secs(2), ping_silence: false }
    }
}

impl FromNode for Drain {
    fn from_node(node: &Node, report: &Report) -> Option<Self> {
        let default = Self::default();
        Fields::read(node, "drain", report, |fields| {
            Some(Self {
                lame_duck: fields.millis_or("lameDuckMs", default.lame_duck),
                spread: fields.millis_or("spreadMs", default.spread),
                ping_silence: fields.or("pingSilence", default.ping_silence),
            })
        })
    }
}

/// Bounds on what clients may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnLimits {
    /// `connections` at once; none = the process's limit of descriptors less 256.
    pub connections: Option<u32>,
    /// `watchesPerConnection`.
    pub watches_per_connection: u32,
    /// `bodyBytes` of one request.
    pub body_bytes: usize,
    /// `dtabBytes`, `depth` and `pathSegments`.
    pub names: name::Limits,
    /// `requestsPerSecondPerClient`; none = no limit.
    pub requests_per_second_per_client: Option<u32>,
}

impl Default for OwnLimits {
    fn default() -> Self {
        Self {
            connections: None,
            watches_per_connection: 100_000,
            body_bytes: 16 << 20,
            names: name::Limits::DEFAULT,
            requests_per_second_per_client: None,
        }
    }
}

impl FromNode for OwnLimits {
    fn from_node(node: &Node, report: &Report) -> Option<Self> {
        let default = Self::default();
        Fields::read(node, "limits", report, |fields| {
            let names = default.names;
            Some(Self {
                connections: positive(fields, "connections"),
                watches_per_connection: positive(fields, "watchesPerConnection")
                    .unwrap_or(default.watches_per_connection),
                body_bytes: fields.within("bodyBytes", 1 << 10..=1 << 30, default.body_bytes),
                names: name::Limits {
                    // The reader of names takes a level of the stack per level of the name.
                    depth: fields.within("depth", 1..=1_000, names.depth),
                    path_segments: fields.within("pathSegments", 1..=100_000, names.path_segments),
                    dtab_bytes: fields.within("dtabBytes", 1 << 10..=1 << 30, names.dtab_bytes),
                },
                requests_per_second_per_client: positive(fields, "requestsPerSecondPerClient"),
            })
        })
    }
}

fn positive(fields: &mut Fields<'_>, key: &'static str) -> Option<u32> {
    match fields.within(key, 1..=u32::MAX, 0) {
        0 => None,
        number => Some(number),
    }
}

/// The watch ledger: which routers stopped asking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ledger {
    /// `peers`: `host:port` of the admin servers of the other replicas.
    pub peers: Vec<Peer>,
    /// `token`: what replicas show each other.
    pub token: Option<Secret>,
    /// `tls`: how the admin servers of peers are asked; none = in plain text, which needs a token.
    pub tls: Option<ClientTls>,
    /// `clientRetryMaxSeconds`: the longest back-off of the routers (`retry.maxSeconds` of their interpreter).
    pub client_retry_max: Duration,
    /// `maxEntries`.
    pub max_entries: u32,
}

impl Default for Ledger {
    fn default() -> Self {
        let (peers, token, tls) = (Vec::new(), None, None);
        Self { peers, token, tls, client_retry_max: Duration::from_secs(600), max_entries: 1_000_000 }
    }
}

impl FromNode for Ledger {
    fn from_node(node: &Node, report: &Report) -> Option<Self> {
        let default = Self::default();
        Fields::read(node, "ledger", report, |fields| {
            let client_retry_max = fields.within("clientRetryMaxSeconds", 1..=86_400_u32, 600);
            let (token, tls) = (fields.opt("token"), fields.opt("tls").filter(|tls: &ClientTls| tls.enabled));
            if token.as_ref().is_some_and(|token: &Secret| token.expose().is_empty()) {
                let message = "the token is empty, so that anybody could read the ledger: give a long random word, the same \
                               for all replicas, or leave it out";
                fields.report().problem(fields.span_of("token"), message);
            }
            let peers = fields.or("peers", default.peers);
            if !peers.is_empty() && token.is_none() && tls.is_none() {
                let message = "peers answer only who has their `token`, or over `tls`: without either no watch ever counts \
                               as stopped";
                fields.report().warn(fields.span_of("peers"), message);
            }
            Some(Self {
                peers,
                token,
                tls,
                client_retry_max: Duration::from_secs(client_retry_max.into()),
                max_entries: positive(fields, "maxEntries").unwrap_or(default.max_entries),
            })
        })
    }
}

/// `host:port` of another process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer(pub String);

impl FromNode for Peer {
    fn from_node(node: &Node, report: &Report) -> Option<Self> {
        let text = String::from_node(node, report)?;
        let port = text.rsplit_once(':').filter(|(host, _)| !host.is_empty()).map(|(_, port)| port.parse::<u16>());
        if !matches!(port, Some(Ok(1..))) {
            report.problem(node.span, format!("{} is not `host:port`", node.describe()));
            return None;
        }
        Some(Self(text))
    }
}

/// Which families of addresses are looked up. namerd knows IPv4 only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpFamilies {
    /// A records, IPv4 endpoints.
    pub v4: bool,
    /// AAAA records, IPv6 endpoints.
    pub v6: bool,
}

impl Default for IpFamilies {
    fn default() -> Self {
        Self { v4: true, v6: false }
    }
}

impl FromNode for IpFamilies {
    fn from_node(node: &Node, report: &Report) -> Option<Self> {
        let names: Vec<String> = Vec::from_node(node, report)?;
        let has = |family: &str| names.iter().any(|name| name == family);
        let families = Self { v4: has("v4"), v6: has("v6") };
        if names.is_empty() || names.len() != usize::from(families.v4) + usize::from(families.v6) {
            report.problem(node.span, "ipFamilies is a list of v4, v6 or both");
            return None;
        }
        Some(families)
    }
}

/// Fixes of namerd's quirks that change what routers get, each off by default: see docs/differences.md.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fixes {
    /// `loneWeights`: thrift sends an endpoint's weight also when there is neither an authority nor a node name.
    pub lone_weights: bool,
    /// `resolveTransformed`: HTTP `resolve` strips `/%/…` from an id, so that it finds addresses.
    pub resolve_transformed: bool,
    /// `delegateWeights`: HTTP `delegate` shows the weights of the dtab, not rounded to two decimals.
    pub delegate_weights: bool,
    /// `zkLeaderResidual`: the residual path of `io.l5d.zkLeader` in the order of the name.
    pub zk_leader_residual: bool,
    /// `destinationIpv6`: `io.l5d.destination` sends IPv6 addresses too.
    pub destination_ipv6: bool,
}

impl FromNode for Fixes {
    fn from_node(node: &Node, report: &Report) -> Option<Self> {
        Fields::read(node, "fixes", report, |fields| {
            fields.without_effect(&["zkLeaderResidual", "destinationIpv6"], NOT_YET);
            Some(Self {
                lone_weights: fields.or("loneWeights", false),
                resolve_transformed: fields.or("resolveTransformed", false),
                delegate_weights: fields.or("delegateWeights", false),
                zk_leader_residual: fields.or("zkLeaderResidual", false),
                destination_ipv6: fields.or("destinationIpv6", false),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Validation, read_text};
    use super::*;

    fn read(text: &str) -> Result<OwnKeys, String> {
        read_text("f", text, "the test", |fields| Some(OwnKeys::read(fields)))
            .map(|(keys, _)| keys)
            .map_err(|problems| problems.to_string())
    }

    fn refused(text: &str, fragment: &str) {
        let message = read(text).expect_err("must be refused");
        assert!(message.contains(fragment), "{message}");
    }

    #[test]
    fn nothing_gives_the_defaults() {
        assert_eq!(read(""), Ok(OwnKeys::default()));
        assert_eq!(read("drain: {}\nlimits: {}\nledger: {}\nfixes: {}"), Ok(OwnKeys::default()));
    }

    #[test]
    fn every_key_is_read() {
        let keys = read(
            "stateDir: /var/lib/rosterd
drain: {lameDuckMs: 75000, spreadMs: 3000, pingSilence: true}
maxPollAgeMs: 30000
limits: {connections: 1, watchesPerConnection: 2, bodyBytes: 2048, dtabBytes: 4096, depth: 5, pathSegments: 6,
         requestsPerSecondPerClient: 7}
ledger: {peers: ['a:9991', '[::1]:1'], token: t, tls: {commonName: c}, clientRetryMaxSeconds: 8, maxEntries: 9}
ipFamilies: [v6, v4]
fixes: {loneWeights: true, resolveTransformed: true, delegateWeights: true, zkLeaderResidual: true,
        destinationIpv6: true}",
        );
        let limits = name::Limits { depth: 5, path_segments: 6, dtab_bytes: 4096 };
        assert_eq!(
            keys,
            Ok(OwnKeys {
                state_dir: Some("/var/lib/rosterd".into()),
                drain: Drain { lame_duck: Duration::from_secs(75), spread: Duration::from_secs(3), ping_silence: true },
                max_poll_age: Duration::from_secs(30),
                limits: OwnLimits {
                    connections: Some(1),
                    watches_per_connection: 2,
                    body_bytes: 2048,
                    names: limits,
                    requests_per_second_per_client: Some(7),
                },
                ledger: Ledger {
                    peers: vec![Peer("a:9991".to_owned()), Peer("[::1]:1".to_owned())],
                    token: Some(Secret::new("t")),
                    tls: Some(ClientTls {
                        enabled: true,
                        validation: Validation::CommonName("c".to_owned()),
                        trust_certs: Vec::new(),
                        client_auth: None,
                        protocols: None,
                    }),
                    client_retry_max: Duration::from_secs(8),
                    max_entries: 9,
                },
                ip_families: IpFamilies { v4: true, v6: true },
                fixes: Fixes {
                    lone_weights: true,
                    resolve_transformed: true,
                    delegate_weights: true,
                    zk_leader_residual: true,
                    destination_ipv6: true,
                },
            })
        );
    }

    #[test]
    fn every_key_of_the_list_is_known() {
        for key in OwnKeys::KEYS {
            assert_eq!(read(&format!("{key}: ~")), Ok(OwnKeys::default()));
        }
    }

    #[test]
    fn a_fix_that_is_not_known_is_refused_with_the_nearest_one() {
        refused(
            "fixes: {loneWeight: true}",
            "Unrecognized field \"loneWeight\" in fixes; did you mean \"loneWeights\"?",
        );
    }

    #[test]
    fn a_key_whose_part_is_not_built_is_accepted_with_a_warning() {
        let text = "stateDir: /x
drain: {spreadMs: 1, pingSilence: true}
limits: {depth: 5, watchesPerConnection: 2}
ledger: {maxEntries: 5}
fixes: {resolveTransformed: true, zkLeaderResidual: true}
";
        let (_, warnings) = read_text("f", text, "the test", |fields| Some(OwnKeys::read(fields))).expect("valid");
        let warned: Vec<String> = warnings.iter().map(ToString::to_string).collect();
        let at = |place: &str, key: &str| format!("f:{place}: {key} has no effect{NOT_YET}");
        assert_eq!(warned, [at("5:53", "zkLeaderResidual")]);
    }

    #[test]
    fn senseless_values_are_refused() {
        refused("maxPollAgeMs: 0", "0 is not between 100 and 86400000");
        refused("limits: {depth: -3}", "-3 is not between 1 and 1000");
        refused("limits: {connections: 99999999999}", "99999999999 is not between 1 and 4294967295");
        refused("limits: {depth: 0}", "0 is not between 1 and 1000");
        refused("limits: {connections: 0}", "0 is not between 1 and");
        refused("ledger: {peers: [here]}", "'here' is not `host:port`");
        refused("ledger: {peers: ['here:0']}", "'here:0' is not `host:port`");
        refused("ipFamilies: []", "ipFamilies is a list of v4, v6 or both");
        refused("ipFamilies: [v4, v5]", "ipFamilies is a list of v4, v6 or both");
        refused("ipFamilies: v4", "expected a list, found 'v4'");
    }
}
