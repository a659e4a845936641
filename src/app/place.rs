//! The place of the process: its addresses and its files, which may have been another process's.

use std::path::Path;

use tokio_util::task::AbortOnDropHandle;

use crate::runtime::handover::{Files, Inherited, Offer, TakeOver};
use crate::runtime::{Drain, Endpoint, Listener, Pending, Readiness, StateDir, bind_all};

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
                    tracing::info!(pid = take_over.pid(), "taking over from the running process");
                    (taken, inherited) = (Some(take_over), sockets.and(inherited));
                }
                None => {
                    let directory = files.directory().path().display();
                    tracing::info!(%directory, "no process to take over from: an ordinary start");
                }
            }
        }
        let listeners = bind_all(endpoints, &mut inherited).map_err(|error| error.to_string())?;
        inherited.finish()?;
        if let (Some(files), None) = (&files, &taken) {
            files.claim().await?;
        }
        let mut offer = Offer::default();
        listeners.iter().for_each(|listener| offer.add(listener));
        Ok((Self { files, take_over: taken, offer }, listeners))
    }

    /// The files in `stateDir`.
    pub(super) fn files(&self) -> Option<&Files> {
        self.files.as_ref()
    }

    /// Has its turn to accept: at once in an ordinary start. In a hand-over the clients are another process's, which
    /// serves them well, until this one has all that it needs; `started` was the last to hold it back.
    ///
    /// # Errors
    /// One line: the hand-over has failed.
    pub(super) async fn ready(self, readiness: &Readiness, started: Pending, drain: &Drain) -> Result<Self, String> {
        drop(started);
        if let Some(take_over) = &self.take_over {
            let ready = async {
                readiness.ready().await;
                take_over.ready().await
            };
            tokio::select! {
                ready = ready => ready.map_err(|error| error.to_string())?,
                request = drain.requested() => return Err(format!("Received {} before the hand-over", request.by)),
            }
        }
        Ok(self)
    }

    /// The process accepts: whoever was here before may leave, and whoever comes next is waited for.
    pub(super) fn settle(self, drain: Drain) -> Kept {
        let Self { files, take_over, offer } = self;
        let task = files.map(|files| {
            AbortOnDropHandle::new(tokio::spawn(async move {
                let mut inheriting = None;
                if let Some(take_over) = take_over {
                    // Who is told to end already leaves everything where it is.
                    if drain.way().is_some() || !take_over.serving().await {
                        return std::future::pending().await;
                    }
                    let files = files.clone();
                    inheriting = Some(AbortOnDropHandle::new(tokio::spawn(async move { files.inherit().await })));
                }
                let _kept = (inheriting, offer.keep(&files, drain));
                std::future::pending().await
            }))
        });
        Kept { _task: task }
    }
}
