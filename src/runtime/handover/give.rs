//! The old process's side.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Weak;
use std::time::Duration;

use rustix::fs::{Mode, chmod};
use rustix::net::{SocketAddrUnix, bind, listen};
use tokio::net::{TcpListener, UnixListener};
use tokio_util::task::AbortOnDropHandle;

use super::channel::{Broken, Channel, unconnected};
use super::message::{Message, Passed, VERSION};
use super::take::remove;
use super::{Files, SOCKET};
use crate::runtime::{Drain, Listener, Request};

/// The first word comes with the connection.
const HELLO: Duration = Duration::from_secs(5);
/// A new process is ready after five seconds, or after a while longer on a machine that is busy.
const START: Duration = Duration::from_secs(60);
/// And then it serves at once.
const SERVING: Duration = Duration::from_secs(10);
/// Pause after an accept that failed.
const PAUSE: Duration = Duration::from_millis(100);

/// The sockets of this process, for whoever takes over. They are not kept open by this.
#[derive(Debug, Default)]
pub struct Offer {
    sockets: Vec<(Passed, Weak<TcpListener>)>,
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
        self.sockets.push((passed, std::sync::Arc::downgrade(&listener.socket)));
    }

    /// Hands the sockets over to the first process that asks for them and proves to serve, and has `drain` end this one.
    /// Goes on until that is dropped. Must be called within a runtime, by who has the files or is about to inherit them.
    pub fn keep(self, files: &Files, drain: Drain) -> Option<AbortOnDropHandle<()>> {
        let path = files.directory().path().join(SOCKET);
        match Door::open(&path) {
            Ok(door) => Some(AbortOnDropHandle::new(tokio::spawn(self.wait(door, drain)))),
            Err(error) => {
                // Most likely the path is longer than the 107 bytes that a socket may have.
                tracing::warn!(path = %path.display(), %error, "nobody can take over: no socket can be made there");
                None
            }
        }
    }

    async fn wait(self, door: Door, drain: Drain) {
        loop {
            let asked = match door.next().await {
                Ok(asked) => asked,
                Err(error) => {
                    tracing::warn!(%error, "a process that wants to take over cannot be heard");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            let pid = asked.pid();
            tracing::info!(pid, "a new process asks for the sockets");
            match self.hand_over(&asked, &drain).await {
                Ok(()) => return,
                Err(error) => tracing::warn!(pid, %error, "the hand-over has failed; serving on"),
            }
        }
    }

    async fn hand_over(&self, channel: &Channel, drain: &Drain) -> Result<(), Broken> {
        let (hello, _) = channel.receive(HELLO).await?;
        let Message::Hello { version } = hello else {
            return Err(Broken::Nonsense(format!("{hello:?} in place of a greeting")));
        };
        if version != VERSION {
            return refuse(channel, format!("it speaks version {VERSION} of the hand-over, and not {version}")).await;
        }
        self.pass(channel).await?;
        channel.expect(&Message::Ready, START).await?;
        channel.send(&Message::GoAhead, &[]).await?;
        channel.expect(&Message::Serving, SERVING).await?;
        drain.request(Request::hand_over(&format!("a hand-over to process {}", channel.pid())));
        // It serves, whatever comes of this.
        let _ = channel.send(&Message::Leaving, &[]).await;
        Ok(())
    }

    async fn pass(&self, channel: &Channel) -> Result<(), Broken> {
        let sockets: Option<Vec<_>> = self.sockets.iter().map(|(_, socket)| socket.upgrade()).collect();
        let Some(sockets) = sockets else {
            return refuse(channel, "it has closed its ports, and is about to end".to_owned()).await;
        };
        let listeners = self.sockets.iter().map(|(passed, _)| passed.clone()).collect();
        let sockets: Vec<BorrowedFd<'_>> = sockets.iter().map(AsFd::as_fd).collect();
        channel.send(&Message::Listeners { listeners }, &sockets).await
    }
}

async fn refuse(channel: &Channel, reason: String) -> Result<(), Broken> {
    channel.send(&Message::Refused { reason: reason.clone() }, &[]).await?;
    Err(Broken::Nonsense(reason))
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

    async fn next(&self) -> Result<Channel, Broken> {
        let (accepted, _) = self.socket.accept().await?;
        Channel::on(accepted.into_std()?.into())
    }
}
