//! The place of the process: its addresses and its files, which may have been another process's.

use std::path::Path;
use std::time::Duration;

use tokio_util::task::AbortOnDropHandle;

use crate::runtime::handover::{Files, Inherited, Offer, TakeOver};
use crate::runtime::{
    Drain, Endpoint, Listener, Pending, Phase, Readiness, Request, StateDir, bind_all, tell_main_process,
};

/// In a hand-over the storage has to answer within this time. An ordinary start goes on without, as there is nobody else to
/// serve; here is somebody who knows what it last said.
const STORAGE: Duration = Duration::from_secs(20);

/// How the process comes to its place.
#[derive(Debug, Default)]
pub struct Start {
    /// It takes that of the process that is running with its `stateDir`.
    pub take_over: bool,
    /// Sockets that a supervisor has opened.
    pub activated: Inherited,
}

/// What a process holds of its place.
pub(super) struct Place {
    files: Option<Files>,
    take_over: Option<TakeOver>,
    /// Blocks of the old process whose sockets were not taken.
    left: Vec<String>,
    offer: Offer,
}

/// Looks after the place: whoever comes next is waited for.
pub(super) struct Kept {
    _task: Option<AbortOnDropHandle<()>>,
}

// === impl Place ===

impl Place {
    /// Comes to the addresses. Those that another process has are shared with it from now on, and nothing is accepted yet.
    ///
    /// # Errors
    /// One line: an address that is not to be had, or another process that does not hand over what it has.
    pub(super) async fn take(
        endpoints: Vec<Endpoint>,
        state_dir: Option<&Path>,
        Start { take_over, activated }: Start,
    ) -> Result<(Self, Vec<Listener>), String> {
        let files = state_dir.map(|path| Files::of(StateDir::open(path)));
        let (mut taken, mut inherited) = (None, activated);
        if take_over && let Some(files) = &files {
            match TakeOver::ask(files).await.map_err(|error| error.to_string())? {
                Some((take_over, sockets)) => {
                    tracing::info!(from = take_over.from(), "taking over from the running process");
                    (taken, inherited) = (Some(take_over), sockets.and(inherited));
                }
                None => {
                    let directory = files.directory().path().display();
                    tracing::info!(%directory, "no process to take over from: an ordinary start");
                }
            }
        }
        let listeners = bind_all(endpoints, &mut inherited).map_err(|error| error.to_string())?;
        let left = inherited.finish()?;
        if let (Some(files), None) = (&files, &taken) {
            files.claim().await?;
        }
        let mut offer = Offer::default();
        listeners.iter().for_each(|listener| offer.add(listener));
        Ok((Self { files, take_over: taken, left, offer }, listeners))
    }

    /// The files in `stateDir`.
    pub(super) fn files(&self) -> Option<&Files> {
        self.files.as_ref()
    }

    /// Has its turn to accept: at once in an ordinary start. In a hand-over the clients are another process's, which
    /// serves them well, until this one has all that it needs; `started` was the last to hold it back, and `storage` waits
    /// for the storage's answer.
    ///
    /// # Errors
    /// One line: the hand-over has failed.
    pub(super) async fn ready(
        self,
        readiness: &Readiness,
        started: Pending,
        storage: impl Future<Output = ()>,
        drain: &Drain,
    ) -> Result<Self, String> {
        drop(started);
        if let Some(take_over) = &self.take_over {
            let able = async {
                readiness.ready().await;
                tokio::time::timeout(STORAGE, storage).await.map_err(|_| {
                    format!(
                        "the storage has not answered for {} s, and {} knows what it last said: that one serves on; see \
                         what is wrong with the storage, or stop it and start this one without --take-over",
                        STORAGE.as_secs(),
                        take_over.from()
                    )
                })
            };
            let told = |request: Request| Err(format!("Received {} before the hand-over", request.by));
            let is_orphan = tokio::select! {
                able = able => able.map(|()| false)?,
                () = take_over.orphaned() => true,
                request = drain.requested() => return told(request),
            };
            if is_orphan {
                tracing::warn!("{} has ended; serving at once", take_over.from());
                return Ok(self);
            }
            tokio::select! {
                ready = take_over.ready() => ready.map_err(|error| error.to_string())?,
                request = drain.requested() => return told(request),
            }
        }
        Ok(self)
    }

    /// The process accepts: whoever was here before may leave, and whoever comes next is waited for.
    pub(super) fn settle(self, drain: Drain) -> Kept {
        let Self { files, take_over, left, offer } = self;
        let task = files.map(|files| {
            AbortOnDropHandle::new(tokio::spawn(async move {
                let mut before = None;
                if let Some(take_over) = take_over {
                    // Who is told to end already leaves everything where it is.
                    if drain.way().is_some() {
                        return std::future::pending().await;
                    }
                    before = take_over.serving(left).await;
                    if before.is_none() {
                        return std::future::pending().await;
                    }
                    tell_main_process().await;
                }
                let _kept = offer.keep(&files, drain.clone());
                let owned = async {
                    if let Some(before) = before {
                        before.ended().await;
                    }
                    if !files.are_ours() {
                        files.inherit().await;
                    }
                    files.lock_when_mended().await;
                };
                let closed = async {
                    drain.reached(Phase::Close).await;
                    files.leave();
                };
                tokio::join!(owned, closed);
                std::future::pending().await
            }))
        });
        Kept { _task: task }
    }
}
