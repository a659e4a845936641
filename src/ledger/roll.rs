//! Who has the newest dtab of a namespace.
//!
//! Nobody keeps books of that, since what changes with every answer costs too much: when somebody wants to know, all
//! sessions are called, by a cell that each of them follows, and say what their watches have. A watch has the newest dtab
//! if its poll waits and its client has seen the present value, whether or not the dtab has changed that.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::{Instant, timeout_at};

use super::{Asks, Ledger, Standing, WatchKey};
use crate::store::{Cell, Key, Mailbox, Subscription, Version};

/// How long sessions may take to say what they have.
const PATIENCE: Duration = Duration::from_secs(1);
/// So many watches that are behind are named by one session, and by all.
pub const MOST_BEHIND: usize = 1_000;
/// So many earlier versions of a dtab are known, of so many namespaces.
const MOST_VERSIONS: usize = 16;
const MOST_NAMESPACES: usize = 1_000;

/// All sessions are asked.
#[derive(Debug)]
pub struct Call {
    id: u64,
    ns: Box<str>,
    said: UnboundedSender<Said>,
}

/// What one session says.
#[derive(Debug)]
pub struct Said {
    /// Its client.
    pub client: IpAddr,
    /// Watches that have the newest dtab.
    pub current: usize,
    /// Those that have not, and the version that their client has seen of what they watch; at most [`MOST_BEHIND`].
    pub behind: Vec<(Arc<WatchKey>, u64)>,
    /// How many more of those.
    pub more: usize,
}

/// How far the dtab of a namespace has come at one replica.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reach {
    /// The replica: as `ledger.peers` calls it, and empty for the one that was asked.
    pub replica: String,
    /// Its process.
    pub instance: String,
    /// The version of the dtab there; none if there is no dtab.
    pub version: Option<String>,
    /// Watches of the namespace, by the version that they have: an earlier one at least, where it is another one.
    pub watches: BTreeMap<String, usize>,
    /// Those that do not have the newest one.
    pub behind: Vec<Behind>,
    /// So many more of those.
    pub left_out: usize,
    /// Sessions that did not say what they have.
    pub silent: usize,
    /// Why it cannot be asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A watch that does not have the newest dtab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Behind {
    /// Its client.
    pub client: IpAddr,
    /// What it watches.
    #[serde(flatten)]
    pub key: Arc<WatchKey>,
    /// By how many versions it is behind, at most: those since its client's value was made. None: it is missing.
    pub versions_behind: Option<usize>,
    /// If it is missing: how it stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standing: Option<Standing>,
}

/// Calls sessions.
#[derive(Debug)]
pub(super) struct Roll {
    call: Arc<Cell<Call>>,
    ids: AtomicU64,
    /// One call at a time.
    turn: Semaphore,
    /// Versions of dtabs by namespace, each with a number that was not used before it was seen.
    versions: Mutex<HashMap<String, VecDeque<(u64, String)>>>,
}

// === impl Call ===

impl Call {
    /// The namespace in question.
    pub fn ns(&self) -> &str {
        &self.ns
    }

    /// Says what a session has; too late, that is nobody's business.
    pub fn answer(&self, said: Said) {
        let _ = self.said.send(said);
    }
}

impl PartialEq for Call {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

// === impl Reach ===

impl Reach {
    /// A replica that could not be asked.
    pub fn unknown(replica: &str, problem: String) -> Self {
        Self { replica: replica.to_owned(), problem: Some(problem), ..Self::default() }
    }

    /// How many watches there are; and how many have this version.
    pub fn having(&self, version: Option<&str>) -> (usize, usize) {
        let having = version.and_then(|version| self.watches.get(version)).copied().unwrap_or(0);
        (self.watches.values().sum::<usize>(), having)
    }
}

// === impl Roll ===

impl Roll {
    pub(super) fn new() -> Self {
        Self { call: Cell::new(), ids: AtomicU64::new(0), turn: Semaphore::new(1), versions: Mutex::default() }
    }

    /// Remembers that this is the version of a dtab now; the earlier ones.
    fn remember(&self, ns: &str, version: &str) -> Vec<(u64, String)> {
        let mut all = self.versions.lock();
        if all.len() >= MOST_NAMESPACES && !all.contains_key(ns) {
            all.clear();
        }
        let known = all.entry(ns.to_owned()).or_default();
        if known.back().is_none_or(|(_, last)| last != version) {
            known.push_back((Version::given().1, version.to_owned()));
            if known.len() > MOST_VERSIONS {
                known.pop_front();
            }
        }
        known.iter().cloned().collect()
    }
}

// === impl Ledger ===

impl Ledger {
    /// Has `key` of a session's mailbox marked when it is called.
    pub fn follow_calls(&self, mailbox: &Mailbox, key: Key) -> Subscription {
        self.shared.roll.call.subscribe(mailbox, key).1
    }

    /// The last call.
    pub fn call(&self) -> Option<Arc<Call>> {
        self.shared.roll.call.snapshot().value().cloned()
    }

    /// Asks all sessions how far the dtab of a namespace has come, the version of which was `version` before this.
    pub async fn reach(&self, ns: &str, version: Option<String>) -> Reach {
        let roll = &self.shared.roll;
        let known = version.as_deref().map(|version| roll.remember(ns, version)).unwrap_or_default();
        let mut reach = Reach { version, ..self.missing_in(ns) };
        // The semaphore is never closed.
        let Ok(_turn) = roll.turn.acquire().await else { return reach };
        let (said, mut all) = unbounded_channel();
        let mut left = self.shared.book.lock().sessions();
        roll.call.publish(Call { id: roll.ids.fetch_add(1, Ordering::Relaxed), ns: ns.into(), said });
        let until = Instant::now() + PATIENCE;
        while left > 0
            && let Ok(Some(said)) = timeout_at(until, all.recv()).await
        {
            left -= 1;
            reach.take(said, &known);
        }
        reach.silent = left;
        reach
    }

    /// The watches of a namespace that are missing.
    fn missing_in(&self, ns: &str) -> Reach {
        let suspects = self.report(MOST_BEHIND).suspects.into_iter();
        let mut reach = Reach { instance: self.shared.book.lock().name(), ..Reach::default() };
        for missing in suspects.filter(|suspect| suspect.key.asks != Asks::Addr && *suspect.key.ns == *ns) {
            *reach.watches.entry("missing".to_owned()).or_default() += usize::from(missing.watches);
            let (client, key, standing) = (missing.client, missing.key, Some(missing.standing));
            reach.behind.push(Behind { client, key, versions_behind: None, standing });
        }
        reach
    }
}

impl Reach {
    fn take(&mut self, said: Said, known: &[(u64, String)]) {
        if said.current > 0 {
            *self.watches.entry(self.version.clone().unwrap_or_default()).or_default() += said.current;
        }
        for (key, seen) in said.behind {
            // The newest one that is known to be older than what its client has.
            let older = known.iter().rposition(|(number, _)| *number <= seen);
            let older = older.filter(|place| place + 1 < known.len());
            let (version, behind) = match older {
                Some(place) => (known[place].1.clone(), known.len() - 1 - place),
                None => ("older".to_owned(), known.len().saturating_sub(1).max(1)),
            };
            *self.watches.entry(version).or_default() += 1;
            if self.behind.len() < MOST_BEHIND {
                self.behind.push(Behind { client: said.client, key, versions_behind: Some(behind), standing: None });
            } else {
                self.left_out += 1;
            }
        }
        if said.more > 0 {
            *self.watches.entry("older".to_owned()).or_default() += said.more;
            self.left_out += said.more;
        }
    }
}
