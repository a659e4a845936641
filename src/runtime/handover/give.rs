//! The old process's side.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use rustix::fs::{Mode, chmod};
use rustix::net::{SocketAddrUnix, bind, listen};
use tokio::net::{TcpListener, UnixListener};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::channel::{Broken, Channel, unconnected};
use super::message::{Message, Passed, VERSION};
use super::take::remove;
use super::{Files, SOCKET};
use crate::runtime::{Drain, Listener, Request};

/// The first word comes with the connection.
const HELLO: Duration = Duration::from_secs(5);
/// A new process is ready after some seconds, or after a while longer on a machine that is busy.
const START: Duration = Duration::from_secs(60);
/// And then it serves at once.
const SERVING: Duration = Duration::from_secs(10);
/// Pause after an accept that failed.
const PAUSE: Duration = Duration::from_millis(100);
/// Who has gone is noticed within this time, before somebody else is turned away for it.
const MOMENT: Duration = Duration::from_millis(100);
/// So many are told at a time that another one was first.
const MOST_TURNED_AWAY: usize = 16;

/// The sockets of this process, for whoever takes over. They are not kept open by this.
#[derive(Debug, Default)]
pub struct Offer {
    sockets: Vec<Offered>,
}

#[derive(Debug)]
struct Offered {
    passed: Passed,
    socket: Weak<TcpListener>,
    /// See [`Listener::is_left`].
    left: Arc<AtomicBool>,
}

/// Where a new process asks. The path stays when it closes: what is there may be another process's by then.
struct Door {
    socket: UnixListener,
}

// === impl Offer ===

impl Offer {
    /// Adds a socket.
    pub fn add(&mut self, listener: &Listener) {
        let (key, configured) = listener.place();
        let what = listener.what().to_owned();
        let passed = Passed { key: key.to_owned(), what, configured, lives_on: listener.lives_on };
        let (socket, left) = (Arc::downgrade(&listener.socket), listener.left.clone());
        self.sockets.push(Offered { passed, socket, left });
    }

    /// Hands the sockets over to the first process that asks for them and proves to serve, and has `drain` end this one.
    /// Goes on until that is dropped. Must be called within a runtime, by who has the files or is about to inherit them.
    pub fn keep(self, files: &Files, drain: Drain) -> Option<AbortOnDropHandle<()>> {
        let path = files.directory().path().join(SOCKET);
        match Door::open(&path) {
            Ok(door) => Some(AbortOnDropHandle::new(tokio::spawn(self.wait(door, files.clone(), drain)))),
            Err(error) => {
                // Most likely the path is longer than the 107 bytes that a socket may have.
                tracing::warn!(path = %path.display(), %error, "nobody can take over: no socket can be made there");
                None
            }
        }
    }

    async fn wait(self, door: Door, files: Files, drain: Drain) {
        let (mut turned_away, mut next) = (JoinSet::new(), None);
        loop {
            let asked = match next.take() {
                Some(next) => next,
                None => door.next().await,
            };
            tracing::info!("{} asks for the sockets", asked.peer());
            let since = Instant::now();
            let mut handing = std::pin::pin!(self.hand_over(&asked, &files, &drain));
            let outcome = loop {
                tokio::select! {
                    biased;
                    outcome = &mut handing => break outcome,
                    other = door.next() => {
                        if let Ok(outcome) = timeout(MOMENT, &mut handing).await {
                            next = Some(other);
                            break outcome;
                        }
                        let reason = format!("{} is taking over since {} s", asked.peer(), since.elapsed().as_secs());
                        tracing::warn!("{} asks for the sockets, too: {reason}", other.peer());
                        while turned_away.try_join_next().is_some() {}
                        if turned_away.len() < MOST_TURNED_AWAY {
                            turned_away.spawn(async move { turn_away(&other, reason).await });
                        }
                    }
                }
            };
            match outcome {
                Ok(()) => {
                    drop(door);
                    // The new one knows by the end of this connection that it is the turn of its own files.
                    return std::future::pending().await;
                }
                Err(error) => tracing::warn!(%error, "the hand-over to {} has failed; serving on", asked.peer()),
            }
        }
    }

    async fn hand_over(&self, channel: &Channel, files: &Files, drain: &Drain) -> Result<(), Broken> {
        let (hello, _) = channel.receive(HELLO).await?;
        let Message::Hello { version } = hello else {
            return Err(Broken::Nonsense(format!("{hello:?} in place of a greeting")));
        };
        if version != VERSION {
            return refuse(channel, format!("it speaks version {VERSION} of the hand-over, and not {version}")).await;
        }
        self.pass(channel, files).await?;
        channel.expect(&Message::Ready, START).await?;
        channel.send(&Message::GoAhead, &[]).await?;
        let left = match channel.receive(SERVING).await? {
            (Message::Serving { left }, _) => left,
            (other, _) => return Err(Broken::Nonsense(format!("{other:?} in place of its serving"))),
        };
        for Offered { passed, left: is_left, .. } in &self.sockets {
            is_left.store(left.contains(&passed.key), Ordering::Release);
        }
        drain.request(Request::hand_over(&format!("a hand-over to {}", channel.peer())));
        files.leave();
        // It serves, whatever comes of this.
        let _ = channel.send(&Message::Leaving, &[]).await;
        Ok(())
    }

    /// Passes the sockets that are open: at the end of a process that is the one of the admin server, and then none.
    async fn pass(&self, channel: &Channel, files: &Files) -> Result<(), Broken> {
        let open = self.sockets.iter().filter_map(|Offered { passed, socket, .. }| Some((passed, socket.upgrade()?)));
        let open: Vec<_> = open.collect();
        if open.is_empty() {
            files.leave();
            channel.send(&Message::Ending, &[]).await?;
            return Err(Broken::Ending);
        }
        let listeners = open.iter().map(|(passed, _)| (*passed).clone()).collect();
        let sockets: Vec<BorrowedFd<'_>> = open.iter().map(|(_, socket)| socket.as_fd()).collect();
        channel.send(&Message::Listeners { listeners }, &sockets).await
    }
}

async fn refuse(channel: &Channel, reason: String) -> Result<(), Broken> {
    channel.send(&Message::Refused { reason: reason.clone() }, &[]).await?;
    Err(Broken::Refused(reason))
}

/// What was said must be read before the connection ends, or the answer is lost with it.
async fn turn_away(channel: &Channel, reason: String) {
    if channel.receive(HELLO).await.is_ok() {
        let _ = refuse(channel, reason).await;
    }
}

// === impl Door ===

impl Door {
    /// Takes the place of whatever is there.
    fn open(path: &Path) -> Result<Self, Broken> {
        let new = path.with_extension("new");
        remove(&new)?;
        let socket = unconnected()?;
        bind(&socket, &SocketAddrUnix::new(&new)?)?;
        // Nobody can connect before it listens.
        chmod(&new, Mode::RUSR | Mode::WUSR)?;
        listen(&socket, 4)?;
        std::fs::rename(&new, path)?;
        let socket = UnixListener::from_std(socket.into())?;
        Ok(Self { socket })
    }

    /// The next one that may ask. Cancel safe.
    async fn next(&self) -> Channel {
        loop {
            let error = match self.socket.accept().await {
                Ok((accepted, _)) => match accepted.into_std().map_err(Broken::from).map(Into::into) {
                    Ok(socket) => match Channel::on(socket) {
                        Ok(channel) => return channel,
                        Err(error) => error,
                    },
                    Err(error) => error,
                },
                Err(error) => error.into(),
            };
            tracing::warn!(%error, "a process that wants to take over cannot be heard");
            tokio::time::sleep(PAUSE).await;
        }
    }
}
