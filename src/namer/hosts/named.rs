//! Addresses some of which have a host name in place of an ip.

use super::{HostAddrs, Hosts};
use crate::name::{Addr, AddrSet, Address, Meta};
use crate::store::{Reading, Reason, Run, Wait};

/// A host that has to be looked up, and what its addresses have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Named {
    /// The host.
    pub host: Box<str>,
    /// The port of each of its addresses.
    pub port: u16,
    /// What to keep with each of its addresses.
    pub meta: Meta,
}

impl Hosts {
    /// The addresses of `named` together with `literal`, whose metadata is that of the whole set. Hosts that are unknown,
    /// cannot be looked up, or for which there is no room, do not count as long as there are other addresses; one that is looked up for the first
    /// time is waited for, but not for long. `Neg` if nobody knows any of the hosts, and there is nothing else.
    pub fn with_named(&self, run: &mut Run<'_>, literal: &AddrSet, named: &[Named]) -> Reading<Addr> {
        if named.is_empty() {
            return Reading::Ready(Addr::Bound(literal.clone()));
        }
        let mut found = literal.addrs().to_vec();
        let (mut first_time, mut unanswered): (Option<Wait>, Option<Wait>) = (None, None);
        let mut failed: Option<Reason> = None;
        for Named { host, port, meta } in named {
            match self.lookup(run, host) {
                Reading::Ready(HostAddrs::Found(ips)) => {
                    found.extend(ips.into_iter().map(|ip| Address { ip, port: *port, meta: meta.clone() }));
                }
                Reading::Ready(HostAddrs::Unknown) => {}
                Reading::Pending(wait)
                    if wait.reason.is_none() && wait.pass_over_at.is_some_and(|at| at > run.now()) =>
                {
                    first_time = first_time.or(Some(wait));
                }
                Reading::Pending(wait) => unanswered = unanswered.or(Some(wait)),
                Reading::Failed(reason) => failed = failed.or(Some(reason)),
            }
        }
        match (first_time, unanswered, failed) {
            (Some(wait), ..) => {
                if let Some(at) = wait.pass_over_at {
                    run.again_at(at);
                }
                Reading::Pending(wait)
            }
            (None, Some(wait), _) if found.is_empty() => Reading::Pending(wait),
            (None, None, Some(reason)) if found.is_empty() => Reading::Failed(reason),
            // Nobody knows any of its hosts.
            (None, None, None) if found.is_empty() => Reading::Ready(Addr::Neg),
            (None, ..) => Reading::Ready(Addr::Bound(AddrSet::new(found, literal.meta().clone()))),
        }
    }
}
