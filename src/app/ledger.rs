//! The watch ledger, with what feeds and keeps it.

use tokio_util::task::AbortOnDropHandle;

use crate::config::OwnKeys;
use crate::ledger::{KeptFile, Ledger, Puller, Rules, StateFile};
use crate::runtime::{StateDir, heavy};

/// The ledger while it is looked after.
pub(super) struct KeptLedger {
    /// The ledger itself.
    pub(super) ledger: Ledger,
    _turns: AbortOnDropHandle<()>,
    _pulls: Option<AbortOnDropHandle<()>>,
    file: Option<KeptFile>,
}

impl KeptLedger {
    /// Begins to look after the ledger, which is kept in `state_dir`. Must be called within a runtime.
    ///
    /// # Errors
    /// One line: what is wrong with the way to peers.
    pub(super) async fn start(own: &OwnKeys, state_dir: Option<&StateDir>) -> Result<Self, String> {
        let settings = &own.ledger;
        let rules = Rules { retry_max: settings.client_retry_max, most_entries: settings.max_entries as usize };
        let ledger = Ledger::new(rules, settings.peers.len());
        let file = match state_dir.cloned() {
            Some(directory) => {
                let ledger = ledger.clone();
                // None after a panic, which has been logged: it is not kept, then.
                heavy(move || StateFile::open(ledger, &directory)).await.map(StateFile::keep)
            }
            None => None,
        };
        let pulls = match &settings.peers[..] {
            [] => None,
            peers => {
                let peers = peers.iter().map(|peer| peer.0.clone());
                let puller = Puller::new(ledger.clone(), peers, settings.token.clone(), settings.tls.clone());
                let puller = puller.map_err(|problem| format!("ledger.tls: {problem}"))?;
                Some(AbortOnDropHandle::new(tokio::spawn(puller.run())))
            }
        };
        let turns = AbortOnDropHandle::new(tokio::spawn(ledger.clone().run()));
        Ok(Self { ledger, _turns: turns, _pulls: pulls, file })
    }

    /// All sessions are over: what they left is written.
    pub(super) async fn finish(self) {
        if let Some(file) = self.file {
            file.finish().await;
        }
    }
}
