//! What people are told.

use std::cmp::Ordering;
use std::net::IpAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::book::Book;
use super::entry::{Counts, Mark, Moment, Standing};
#[cfg(test)]
use super::judge::FIRST;
use super::judge::Place;
use super::key::WatchKey;

/// A watch that is missing, or several with the same client and key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Suspect {
    /// The client.
    pub client: IpAddr,
    /// What it watched.
    #[serde(flatten)]
    pub key: Arc<WatchKey>,
    /// How it stands.
    pub standing: Standing,
    /// How many loops are missing.
    pub watches: u16,
    /// For how long.
    pub missing_seconds: u64,
    /// How long ago anything was heard of the client.
    pub heard_seconds_ago: u64,
    /// How many sessions the client has here.
    pub sessions: u32,
    /// It has closed its last session since.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub parted: bool,
}

/// All that there is to tell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// How many watches there are.
    pub watches: Counts,
    /// How many clients.
    pub clients: usize,
    /// Peers that cannot be asked, of all peers; nothing is stopped for certain while there are any.
    pub peers_away: usize,
    /// All peers.
    pub peers: usize,
    /// Routers come with stamps of servers that are not peers.
    pub unlisted_servers: bool,
    /// The suspects: those that have stopped first, then those that are missing for longest.
    pub suspects: Vec<Suspect>,
    /// So many more there are.
    pub left_out: usize,
}

/// The suspects that are worth telling, as many as are wanted.
#[derive(Debug)]
pub(super) struct Worst {
    most: usize,
    found: Vec<Suspect>,
    left_out: usize,
}

// === impl Suspect ===

impl Suspect {
    /// Late, and its client has no session here, or has closed its last one since.
    pub fn is_gone(&self) -> bool {
        self.standing == Standing::Late && (self.sessions == 0 || self.parted)
    }
}

// === impl Worst ===

impl Worst {
    pub(super) fn new(most: usize) -> Self {
        Self { most, found: Vec::new(), left_out: 0 }
    }

    /// Keeps no more than twice as many as are wanted.
    pub(super) fn cut(&mut self) {
        if self.found.len() > 2 * self.most + 1_000 {
            self.found.select_nth_unstable_by(self.most, order);
            self.left_out += self.found.len() - self.most;
            self.found.truncate(self.most);
        }
    }

    /// The worst first; and how many more there are.
    pub(super) fn sorted(mut self) -> (Vec<Suspect>, usize) {
        self.found.sort_by(order);
        self.left_out += self.found.len().saturating_sub(self.most);
        self.found.truncate(self.most);
        (self.found, self.left_out)
    }
}

/// Those that have stopped first, then those that are missing for longest.
fn order(a: &Suspect, b: &Suspect) -> Ordering {
    let worst = |suspect: &Suspect| (suspect.standing, suspect.missing_seconds);
    worst(b).cmp(&worst(a)).then_with(|| (a.client, &a.key).cmp(&(b.client, &b.key)))
}

// === impl Book ===

impl Book {
    /// What there is to tell; at most `most` suspects.
    #[cfg(test)]
    pub fn report(&self, now: Moment, most: usize) -> Report {
        let (mut worst, mut from) = (Worst::new(most), Some(FIRST));
        while let Some(place) = from {
            from = self.tell_some(now, place, &mut worst);
        }
        let (suspects, left_out) = worst.sorted();
        Report { watches: self.counts(now), suspects, left_out, ..self.summary(now) }
    }

    /// All but the suspects and their number.
    pub(super) fn summary(&self, now: Moment) -> Report {
        let others = || self.peers.iter().filter(|peer| !peer.is_self);
        Report {
            watches: Counts::default(),
            clients: self.clients.len(),
            peers_away: others().filter(|peer| peer.is_away(now)).count(),
            peers: others().count(),
            unlisted_servers: self.has_strangers(now),
            suspects: Vec::new(),
            left_out: 0,
        }
    }

    /// Tells some suspects, from a place on; the place of the next one, if there are more.
    pub(super) fn tell_some(&self, now: Moment, from: Place, worst: &mut Worst) -> Option<Place> {
        self.some_suspects(from, |id| {
            worst.found.extend(self.suspects_of(now, id).filter(|suspect| suspect.standing != Standing::Live));
        })
    }

    pub(super) fn suspects_of(&self, now: Moment, id: u32) -> impl Iterator<Item = Suspect> + use<'_> {
        let entry = &self.entries[id as usize];
        let (client, key) = (&self.clients[entry.client as usize], self.keys.get(entry.key));
        self.standings(now, entry).map(move |(standing, watches, since)| Suspect {
            client: client.ip,
            key: key.clone(),
            standing,
            watches,
            missing_seconds: now.since(since).as_secs(),
            heard_seconds_ago: now.since(client.polled).as_secs(),
            sessions: client.sessions,
            parted: entry.mark == Mark::Parted,
        })
    }
}
