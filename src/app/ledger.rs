//! The watch ledger, with what feeds and keeps it.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use crate::config::OwnKeys;
use crate::ledger::{KeptFile, Ledger, Puller, Rules, StateFile};
use crate::runtime::handover::Files;
use crate::runtime::heavy;

/// A process that was taken over ends about as long after the one before it as it served.
const PREDECESSOR: Duration = Duration::from_secs(15);

/// The ledger while it is looked after.
pub(super) struct KeptLedger {
    /// The ledger itself.
    pub(super) ledger: Ledger,
    /// Who asks the peers, if there are some.
    pub(super) peers: Option<Puller>,
    _turns: AbortOnDropHandle<()>,
    _pulls: Option<AbortOnDropHandle<()>>,
    /// Takes the file up when it is ours.
    heir: Option<AbortOnDropHandle<()>>,
    files: Option<Files>,
    file: Arc<Mutex<Option<KeptFile>>>,
}

impl KeptLedger {
    /// Begins to look after the ledger, and after its file among `files` from when they are ours. Must be called within a
    /// runtime.
    ///
    /// # Errors
    /// One line: what is wrong with the way to peers.
    pub(super) async fn start(own: &OwnKeys, files: Option<&Files>) -> Result<Self, String> {
        let settings = &own.ledger;
        let rules = Rules { retry_max: settings.client_retry_max, most_entries: settings.max_entries as usize };
        let ledger = Ledger::new(rules, settings.peers.len());
        let file = Arc::new(Mutex::new(None));
        let heir = match files.cloned() {
            // What was known comes before what is seen.
            Some(files) if files.are_ours() => {
                *file.lock() = take_up(&ledger, &files).await;
                None
            }
            Some(files) => {
                let (ledger, file) = (ledger.clone(), file.clone());
                Some(AbortOnDropHandle::new(tokio::spawn(async move {
                    files.ours().await;
                    let taken = take_up(&ledger, &files).await;
                    *file.lock() = taken;
                })))
            }
            None => None,
        };
        let peers = match &settings.peers[..] {
            [] => None,
            peers => {
                let peers = peers.iter().map(|peer| peer.0.clone());
                let puller = Puller::new(ledger.clone(), peers, settings.token.clone(), settings.tls.clone());
                let puller = puller.map_err(|problem| format!("ledger.tls: {problem}"))?;
                Some(puller)
            }
        };
        let pulls = peers.clone().map(|puller| AbortOnDropHandle::new(tokio::spawn(puller.run())));
        let turns = AbortOnDropHandle::new(tokio::spawn(ledger.clone().run()));
        Ok(Self { ledger, peers, _turns: turns, _pulls: pulls, heir, files: files.cloned(), file })
    }

    /// All sessions are over: what they left is written. If the file is still the process's that was here before, its end is
    /// waited for, or what this one has seen would be lost.
    pub(super) async fn finish(self) {
        if let (Some(heir), Some(files)) = (self.heir, self.files)
            && (files.are_to_be_ours() || files.are_ours())
            && timeout(PREDECESSOR, heir).await.is_err()
        {
            tracing::warn!("the process before has not ended: what this one knows of watches is not kept");
        }
        let file = self.file.lock().take();
        if let Some(file) = file {
            file.finish().await;
        }
    }
}

/// None after a panic, which has been logged: it is not kept, then.
async fn take_up(ledger: &Ledger, files: &Files) -> Option<KeptFile> {
    let (ledger, directory) = (ledger.clone(), files.directory().to_owned());
    heavy(move || StateFile::open(ledger, &directory)).await.map(StateFile::keep)
}
