//! Asking peers for what has changed.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::{BadChanges, Changes, Ledger, Reach, TURN};
use crate::config::{ClientTls, Secret};
use crate::runtime::{Seldom, heavy, tls};
use crate::text::root_cause;
use crate::text::url::Target;

/// How long a peer may take to answer.
const PATIENCE: Duration = Duration::from_secs(4);
/// Bytes taken of one answer.
const LARGEST: usize = 32 << 20;
/// Answers taken in one turn, before the next one.
const MOST_PAGES: usize = 100;
/// One in so many turns this process asks itself, if it is in the list.
const SELF_EVERY: u32 = 60;

/// One of the other replicas.
#[derive(Debug)]
pub struct Peer {
    /// Its place in the list.
    place: usize,
    address: Arc<str>,
    url: String,
    complaints: Seldom,
}

/// Asks all peers, again and again.
#[derive(Clone)]
pub struct Puller {
    ledger: Ledger,
    http: reqwest::Client,
    peers: Vec<Arc<Peer>>,
    token: Option<Secret>,
    _renewal: Option<Arc<AbortOnDropHandle<()>>>,
}

// === impl Puller ===

impl Puller {
    /// Asks the admin servers at `peers`, each `host:port`. Nothing is contacted yet. Must be called within a runtime.
    ///
    /// # Errors
    /// One line, for what only shows now.
    pub fn new(
        ledger: Ledger,
        peers: impl IntoIterator<Item = String>,
        token: Option<Secret>,
        tls: Option<ClientTls>,
    ) -> Result<Self, String> {
        let builder = reqwest::Client::builder()
            .no_proxy()
            .http1_only()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(PATIENCE);
        let (builder, scheme, renewal) = match tls.map(tls::Client::new) {
            None => (builder.tls_certs_only([]), "http", None),
            Some(tls) => {
                (builder.tls_backend_preconfigured(tls.config()?), "https", Some(Arc::new(tls.keep_current())))
            }
        };
        let http = builder.build().map_err(|error| root_cause(&error))?;
        let peers = peers.into_iter().enumerate().map(|(place, address)| {
            let (url, complaints) =
                (format!("{scheme}://{address}/admin/ledger"), Seldom::new(Duration::from_secs(600)));
            Arc::new(Peer { place, url, address: address.into(), complaints })
        });
        Ok(Self { ledger, http, peers: peers.collect(), token, _renewal: renewal })
    }

    /// Asks until it is dropped; each peer by itself, so that one that is slow holds up no other.
    pub async fn run(self) {
        let mut asking = JoinSet::new();
        for peer in self.peers.clone() {
            let this = self.clone();
            asking.spawn(async move { this.follow(&peer).await });
        }
        while asking.join_next().await.is_some() {} // they do not end
    }

    async fn follow(&self, peer: &Peer) {
        let mut turns = interval(TURN);
        turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut turn = 0_u32;
        loop {
            turns.tick().await;
            // Somebody else may have got the address meanwhile.
            if turn.is_multiple_of(SELF_EVERY) || !self.ledger.is_self(peer.place) {
                self.ask(peer).await;
            }
            turn = turn.wrapping_add(1);
        }
    }

    /// How far the dtab of a namespace has come at all peers.
    pub async fn reach(&self, ns: &str) -> Vec<Reach> {
        let others = self.peers.iter().filter(|peer| !self.ledger.is_self(peer.place));
        join_all(others.map(|peer| async move {
            let asked = timeout(PATIENCE, self.reach_at(peer, ns)).await;
            let told = asked.unwrap_or_else(|_| Err(format!("no answer within {} s", PATIENCE.as_secs())));
            told.unwrap_or_else(|problem| Reach::unknown(&peer.address, problem))
        }))
        .await
    }

    async fn reach_at(&self, peer: &Peer, ns: &str) -> Result<Reach, String> {
        let body = self.get(Target::route(&format!("{}/dtab", peer.url)).with("namespace", ns).to_string()).await?;
        let told: Result<Reach, _> = serde_json::from_slice(&body);
        let told = told.map_err(|error| format!("its answer makes no sense: {error}"))?;
        Ok(Reach { replica: peer.address.to_string(), ..told })
    }

    /// Takes all that a peer has to tell now.
    async fn ask(&self, peer: &Peer) {
        let (mut since, mut gone) = (self.ledger.asked_until(peer.place), None);
        for _ in 0..MOST_PAGES {
            let told = match timeout(PATIENCE, self.once(peer, since, gone)).await {
                Ok(told) => told,
                Err(_) => Err(format!("no answer within {} s", PATIENCE.as_secs())),
            };
            let merged = told.and_then(|(changes, merged)| {
                gone = Some(changes);
                merged.map_err(|error| error.to_string())
            });
            match merged {
                Ok(Some(next)) => since = next,
                Ok(None) => return,
                Err(reason) => {
                    if peer.complaints.due().is_some() {
                        tracing::warn!(
                            peer = &*peer.address,
                            reason,
                            "this peer of the watch ledger cannot be asked; while it is away no watch counts as stopped"
                        );
                    }
                    return;
                }
            }
        }
    }

    /// Takes one answer, which may be long; what had gone by then, and what came of it.
    async fn once(
        &self,
        peer: &Peer,
        since: u64,
        gone: Option<u64>,
    ) -> Result<(u64, Result<Option<u64>, BadChanges>), String> {
        let reads_on = gone.map_or(String::new(), |gone| format!("&gone={gone}"));
        let body = self.get(format!("{}?since={since}{reads_on}", peer.url)).await?;
        let (ledger, place) = (self.ledger.clone(), peer.place);
        let merged = heavy(move || {
            let changes: Changes = serde_json::from_slice(&body)?;
            Ok((changes.gone, ledger.merge(place, &changes)))
        });
        let merged: Result<_, serde_json::Error> =
            merged.await.ok_or("what it tells could not be taken; see the log")?;
        merged.map_err(|error| format!("its answer makes no sense: {error}"))
    }

    async fn get(&self, url: String) -> Result<Vec<u8>, String> {
        let mut request = self.http.get(url);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token.expose());
        }
        let mut response = request.send().await.map_err(|error| root_cause(&error))?;
        let status = response.status();
        match status.as_u16() {
            200 => {}
            401 | 403 => return Err(format!("{status}: is `ledger.token` the same on both sides?")),
            404 => return Err(format!("{status}: it keeps no ledger; is it a namerd?")),
            _ => return Err(status.to_string()),
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| root_cause(&error))? {
            if body.len() + chunk.len() > LARGEST {
                return Err(format!("an answer of more than {LARGEST} bytes"));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }
}
