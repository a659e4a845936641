//! Host names: one look-up loop per host, shared by everything that needs its addresses.
//!
//! A host is looked up anew when its record's TTL ends, but not sooner than after 5 s and at the latest after 60 s. A
//! name server that says "no such host" is believed at once about a host that never had addresses, and otherwise when
//! it still says so 5 s later. One that does not answer, or cannot, changes nothing. (namerd looks every name up every
//! 5 s, whatever the TTL, and drops the addresses at the first failure of any kind.)

mod dns;
mod follow;
mod inet;
mod literal;
mod named;
mod resolve;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio_util::task::AbortOnDropHandle;

pub use literal::known_host;
pub use named::Named;
pub use resolve::{Answer, Resolve, Unresolved};

use crate::config::IpFamilies;
use crate::name::Addr;
use crate::store::{Cell, Client, Derived, Evaluators, Formula, Policy, Reading, Run, Staleness, Table, Watch};

/// How many look-ups are under way at once, as in namerd; the others wait their turn.
const AT_ONCE: usize = 100;

/// From when on an alt may pass over a host that never had an answer.
const PASS_OVER: Duration = Duration::from_secs(2);

/// How many hosts are followed at once: each is a task, and clients choose the names.
const FOLLOWED_MAX: usize = 100_000;

/// How many hosts are remembered for good, as in namerd.
const FIXED_MAX: usize = 16_000;

/// What is known of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostAddrs {
    /// These addresses, each once and in order.
    Found(Vec<IpAddr>),
    /// There is no such host, or it has no address of the families that are used.
    Unknown,
}

/// Looks up host names. Cloning shares the loops.
#[derive(Clone)]
pub struct Hosts {
    followed: Table<String, Followed>,
    fixed: Table<String, Followed>,
}

/// A host's cell, and the task that keeps it current.
struct Followed {
    addrs: Arc<Cell<HostAddrs>>,
    _writer: Option<AbortOnDropHandle<()>>,
}

// === impl Hosts ===

impl Hosts {
    /// Asks the name servers of `/etc/resolv.conf`, and `/etc/hosts` before them, for records of these families.
    ///
    /// Must be called within a runtime.
    pub fn new(families: IpFamilies) -> Self {
        Self::with_resolver(Arc::new(dns::SystemDns::new(families)))
    }

    /// Asks `resolver`.
    ///
    /// Must be called within a runtime.
    pub fn with_resolver(resolver: Arc<dyn Resolve>) -> Self {
        let runtime = Handle::current();
        let policy = Policy { budget: FOLLOWED_MAX, ..Policy::default() };
        let turns = Arc::new(Semaphore::new(AT_ONCE));
        let weight = |host: &String| 1 + host.len() / 512; // what clients call a host may be long
        let fixed = {
            let (runtime, turns, resolver) = (runtime.clone(), turns.clone(), resolver.clone());
            let known: Arc<Mutex<HashMap<String, HostAddrs>>> = Arc::default();
            Table::weighed("hosts looked up once", policy, weight, move |host: &String, _| {
                if let Some(addrs) = known.lock().get(host) {
                    return Followed { addrs: Cell::ready(addrs.clone()), _writer: None };
                }
                let addrs = Cell::new();
                let follower = follow::Follower::new(host, addrs.clone(), resolver.clone(), turns.clone());
                let (host, known) = (host.clone(), known.clone());
                let writer = runtime.spawn(async move {
                    let found = follower.until_found().await;
                    let mut known = known.lock();
                    if known.len() < FIXED_MAX {
                        known.insert(host, HostAddrs::Found(found));
                    }
                });
                Followed { addrs, _writer: Some(AbortOnDropHandle::new(writer)) }
            })
        };
        let followed = Table::weighed("hosts", policy, weight, move |host: &String, _| {
            let addrs = Cell::new();
            let follower = follow::Follower::new(host, addrs.clone(), resolver.clone(), turns.clone());
            let writer = runtime.spawn(async move { match follower.for_ever().await {} });
            Followed { addrs, _writer: Some(AbortOnDropHandle::new(writer)) }
        });
        Self { followed, fixed }
    }

    /// The addresses of a host. Literals, `localhost` and the empty name, which stand for 127.0.0.1, need no look-up.
    ///
    /// Pending, with the reason if there is one, until the first answer.
    pub fn lookup(&self, run: &mut Run<'_>, host: &str) -> Reading<HostAddrs> {
        lookup_in(&self.followed, run, host)
    }

    /// How many hosts keep their last addresses because no name server says anything that can be relied on.
    pub fn staleness(&self) -> Staleness {
        let mut staleness = Staleness::default();
        self.followed.visit(|followed| staleness.add(&followed.addrs.snapshot()));
        staleness
    }

    /// The addresses of `host:port`, or of several of them separated by commas or blanks, as `/$/inet` spells them.
    ///
    /// Failed addresses for text that does not read so, with namerd's message.
    pub fn inet(&self, run: &mut Run<'_>, hosts: &str) -> Reading<Addr> {
        inet::addresses(hosts, |host| self.lookup(run, host))
    }

    /// The same, kept current by one of `evaluators` for as long as somebody holds the handle.
    pub fn watch(&self, evaluators: &Evaluators, hosts: Arc<str>) -> Watch<Addr> {
        Derived::new(evaluators, Client::INTERNAL, Inet { all: self.clone(), hosts }).into()
    }

    /// As [`Hosts::inet`], but a host that was found keeps its addresses for as long as the process lives.
    pub fn fixed_inet(&self, run: &mut Run<'_>, hosts: &str) -> Reading<Addr> {
        inet::addresses(hosts, |host| lookup_in(&self.fixed, run, host))
    }
}

/// The addresses of some hosts.
struct Inet {
    all: Hosts,
    hosts: Arc<str>,
}

impl Formula for Inet {
    type Value = Addr;

    fn compute(&self, run: &mut Run<'_>) -> Reading<Addr> {
        self.all.inet(run, &self.hosts)
    }
}

fn lookup_in(table: &Table<String, Followed>, run: &mut Run<'_>, host: &str) -> Reading<HostAddrs> {
    if let Some(known) = literal::known_host(host) {
        return Reading::Ready(known);
    }
    // DNS does not tell capitals from small letters; ids keep them.
    match run.observe(table, &host.to_ascii_lowercase(), |followed| &followed.addrs) {
        Ok(snapshot) => snapshot.reading(PASS_OVER).map(|addrs| (*addrs).clone()),
        Err(reason) => Reading::Failed(reason),
    }
}

impl fmt::Debug for Hosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hosts").field("hosts", &self.followed.usage().len).finish_non_exhaustive()
    }
}
