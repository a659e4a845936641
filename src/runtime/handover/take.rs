//! The new process's side.

use std::io;
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use tokio::time::{Instant, sleep};

use super::channel::{Broken, Channel};
use super::message::{Message, VERSION};
use super::{Files, Inherited, SOCKET};

/// The old process answers within this time: it has nothing to do for it.
const PATIENCE: Duration = Duration::from_secs(10);
/// A process that has just taken over itself is not there yet for so long.
const SETTLING: Duration = Duration::from_secs(10);
/// The kernel ends a process within this time.
const ENDING: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(50);

/// A hand-over that is under way. Dropping it leaves everything with the old process.
#[derive(Debug)]
pub struct TakeOver {
    channel: Channel,
    files: Files,
}

/// Why nothing was handed over. The old process serves on.
#[derive(Debug, thiserror::Error)]
#[error("cannot take over from process {pid}: {source}; it serves on")]
pub struct TakeOverError {
    pid: i32,
    source: Broken,
}

// === impl TakeOver ===

impl TakeOver {
    /// Asks the process that has these files for its listening sockets. None if there is no such process. Must be called
    /// within a runtime.
    ///
    /// # Errors
    /// There is one, and it does not hand over.
    pub async fn ask(files: &Files) -> Result<Option<(Self, Inherited)>, TakeOverError> {
        let Some(channel) = connect(files).await? else { return Ok(None) };
        let pid = channel.pid();
        let inherited = sockets(&channel).await.map_err(|source| TakeOverError { pid, source })?;
        Ok(Some((Self { channel, files: files.clone() }, inherited)))
    }

    /// The id of the old process.
    pub fn pid(&self) -> i32 {
        self.channel.pid()
    }

    /// Says that this process could serve now, and waits for its turn.
    ///
    /// # Errors
    /// The old process does not give it.
    pub async fn ready(&self) -> Result<(), TakeOverError> {
        let asked = async {
            self.channel.send(&Message::Ready, &[]).await?;
            self.channel.expect(&Message::GoAhead, PATIENCE).await
        };
        match asked.await {
            Ok(()) => Ok(()),
            // Then the sockets are nobody's but ours.
            Err(Broken::Gone) if self.has_ended().await => {
                tracing::warn!(pid = self.pid(), "the old process has ended before it could leave");
                Ok(())
            }
            Err(source) => Err(TakeOverError { pid: self.pid(), source }),
        }
    }

    /// Says that this process accepts connections, so that the old one leaves. False if it may be there to stay.
    pub async fn serving(self) -> bool {
        let pid = self.pid();
        let told = async {
            self.channel.send(&Message::Serving, &[]).await?;
            self.channel.expect(&Message::Leaving, PATIENCE).await
        };
        match told.await {
            Ok(()) => tracing::info!(pid, "took over; the old process leaves"),
            Err(Broken::Gone) if self.has_ended().await => {
                tracing::warn!(pid, "the old process has ended instead of leaving");
            }
            Err(error) => {
                tracing::error!(pid, %error, "the old process does not say that it leaves: both serve; end one by hand");
                return false;
            }
        }
        true
    }

    /// Has the old process ended, or only given up waiting for this one? Its end of the connection closes a moment before
    /// its lock goes.
    async fn has_ended(&self) -> bool {
        let until = Instant::now() + ENDING;
        while self.files.are_taken() {
            if Instant::now() >= until {
                return false;
            }
            sleep(TICK).await;
        }
        true
    }
}

/// None if nobody has the files.
async fn connect(files: &Files) -> Result<Option<Channel>, TakeOverError> {
    let until = Instant::now() + SETTLING;
    loop {
        match Channel::connect(&files.directory().path().join(SOCKET)) {
            Ok(channel) => return Ok(Some(channel)),
            Err(Broken::System(Errno::NOENT | Errno::CONNREFUSED | Errno::AGAIN))
                if files.are_taken() && Instant::now() < until =>
            {
                sleep(TICK).await;
            }
            Err(Broken::System(Errno::NOENT | Errno::CONNREFUSED)) if !files.are_taken() => return Ok(None),
            // Nothing that is wrong with the directory keeps anybody from an ordinary start.
            Err(error) if !files.are_taken() => {
                tracing::warn!(%error, "it cannot be asked whether there is a process to take over from");
                return Ok(None);
            }
            Err(source) => return Err(TakeOverError { pid: 0, source }),
        }
    }
}

async fn sockets(channel: &Channel) -> Result<Inherited, Broken> {
    channel.send(&Message::Hello { version: VERSION }, &[]).await?;
    let (message, sockets) = channel.receive(PATIENCE).await?;
    let Message::Listeners { listeners } = message else {
        return Err(Broken::Nonsense(format!("{message:?} in place of sockets")));
    };
    if listeners.len() != sockets.len() {
        return Err(Broken::Nonsense(format!("{} sockets, and {} of them came", listeners.len(), sockets.len())));
    }
    let mut inherited = Inherited::default();
    for (passed, socket) in listeners.into_iter().zip(sockets) {
        let name = format!("socket {} of process {}", passed.key, channel.pid());
        inherited.add(TcpListener::from(socket), Some(passed), name).map_err(Broken::Nonsense)?;
    }
    Ok(inherited)
}

/// Removes what a process has left there.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
