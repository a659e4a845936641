//! Lists of `host:port`, as `/$/inet` spells them, to addresses.

use std::net::IpAddr;

use super::HostAddrs;
use crate::name::{Addr, AddrSet, Address, Meta};
use crate::store::Reading;
use crate::text::java::{parse_int, split};

/// The addresses of all hosts in `hosts`, each looked up with `lookup`.
///
/// Hosts that are unknown, or failed to be looked up, do not count as long as another one has addresses; otherwise the
/// first such host decides. A host that is being looked up for the first time is waited for.
pub(super) fn addresses(hosts: &str, mut lookup: impl FnMut(&str) -> Reading<HostAddrs>) -> Reading<Addr> {
    let parsed = match parse(hosts) {
        Ok(parsed) => parsed,
        Err(message) => return Reading::Ready(failed(message)),
    };
    let mut found = Vec::new();
    let mut first_lost = None;
    let (mut outstanding, mut unanswered) = (None, None);
    let mut over_budget = None;
    // Every host is looked up, whatever the others gave: this keeps all of them followed.
    for (host, port) in parsed {
        match lookup(host) {
            Reading::Ready(HostAddrs::Found(addrs)) => match u16::try_from(port) {
                Ok(port) => found.extend(addrs.into_iter().map(|ip: IpAddr| Address::new(ip, port))),
                Err(_) => {
                    first_lost.get_or_insert_with(|| failed(format!("port out of range:{port}")));
                }
            },
            Reading::Ready(HostAddrs::Unknown) => {
                first_lost.get_or_insert(Addr::Neg);
            }
            Reading::Pending(wait) if wait.reason.is_none() => {
                outstanding.get_or_insert(wait);
            }
            Reading::Pending(wait) => {
                unanswered.get_or_insert(wait);
            }
            Reading::Failed(reason) => {
                over_budget.get_or_insert(reason);
            }
        }
    }
    if let Some(reason) = over_budget {
        return Reading::Failed(reason);
    }
    if let Some(wait) = outstanding {
        return Reading::Pending(wait);
    }
    if !found.is_empty() {
        return Reading::Ready(Addr::Bound(AddrSet::new(found, Meta::default())));
    }
    if let Some(wait) = unanswered {
        return Reading::Pending(wait);
    }
    Reading::Ready(first_lost.unwrap_or_else(|| Addr::Bound(AddrSet::new(Vec::new(), Meta::default()))))
}

fn failed(message: String) -> Addr {
    Addr::Failed(Some(message.into()))
}

/// Hosts and ports, or namerd's message. A port may still be out of range; `*` is 0.
fn parse(hosts: &str) -> Result<Vec<(&str, i32)>, String> {
    let pairs: Vec<_> = hosts.split([' ', ',']).filter(|pair| !pair.is_empty()).map(|pair| split(pair, ':')).collect();
    if pairs.iter().any(|pair| pair.len() != 2) {
        return Err(format!("requirement failed: You must specify host and port in hosts: {hosts}"));
    }
    pairs
        .iter()
        .map(|pair| match pair[1] {
            "*" => Ok((pair[0], 0)),
            port => parse_int(port).map(|port| (pair[0], port)).ok_or_else(|| format!("For input string: \"{port}\"")),
        })
        .collect()
}
