//! What people are told.

use std::net::IpAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::book::Book;
use super::entry::{Counts, Moment, Standing};
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

// === impl Book ===

impl Book {
    /// What there is to tell; at most `most` suspects.
    pub fn report(&self, now: Moment, most: usize) -> Report {
        let mut suspects: Vec<Suspect> = self
            .suspects
            .iter()
            .flat_map(|id| self.suspects_of(now, *id))
            .filter(|suspect| suspect.standing != Standing::Live)
            .collect();
        suspects.sort_by(|a, b| {
            let order = |suspect: &Suspect| (suspect.standing, suspect.missing_seconds);
            order(b).cmp(&order(a)).then_with(|| (a.client, &a.key).cmp(&(b.client, &b.key)))
        });
        let left_out = suspects.len().saturating_sub(most);
        suspects.truncate(most);
        let others = || self.peers.iter().filter(|peer| !peer.is_self);
        Report {
            watches: self.counts(now),
            clients: self.clients.len(),
            peers_away: others().filter(|peer| peer.is_away(now)).count(),
            peers: others().count(),
            unlisted_servers: self.has_strangers(now),
            suspects,
            left_out,
        }
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
        })
    }
}
