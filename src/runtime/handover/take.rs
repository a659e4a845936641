//! The new process's side.

use std::io;
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use tokio::time::{Instant, sleep};

use super::channel::{Broken, Channel};
use super::files::Holder;
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

/// The process that was here before, and leaves.
#[derive(Debug)]
pub struct Predecessor(Channel);

/// Why nothing was handed over.
#[derive(Debug, thiserror::Error)]
#[error("cannot take over from {from}: {source}; {outlook}")]
pub struct TakeOverError {
    from: String,
    source: Broken,
    outlook: &'static str,
}

/// It has said something, or holds its files, after all.
const SERVES_ON: &str = "it serves on";
const UNHEARD: &str = "look whether it serves; if it hangs, end it and start again";

// === impl TakeOver ===

impl TakeOver {
    /// Asks the process that has these files for its listening sockets. None if no process serves with them. Must be called
    /// within a runtime.
    ///
    /// # Errors
    /// One serves, and does not hand over.
    pub async fn ask(files: &Files) -> Result<Option<(Self, Inherited)>, TakeOverError> {
        let Some(channel) = connect(files).await? else { return Ok(None) };
        match sockets(&channel).await {
            Ok(inherited) => Ok(Some((Self { channel, files: files.clone() }, inherited))),
            // Nobody else will accept, so this process may.
            Err(Broken::Ending) => Ok(None),
            Err(Broken::Gone) if files.holder() != Holder::Serving => Ok(None),
            Err(source) => Err(TakeOverError::of(&channel, source)),
        }
    }

    /// The old process, for messages.
    pub fn from(&self) -> &str {
        self.channel.peer()
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
                tracing::warn!("{} has ended before it could leave", self.from());
                Ok(())
            }
            Err(source) => Err(TakeOverError::of(&self.channel, source)),
        }
    }

    /// Waits until the old process has ended without a word: clients wait for this one then. Cancel safe.
    pub async fn orphaned(&self) {
        self.channel.ended().await;
        if !self.has_ended().await {
            std::future::pending().await // it has only closed the door, and `ready` will tell
        }
    }

    /// Says that this process accepts connections, except on the sockets of these blocks of the old one, so that the old
    /// one leaves. None if it may be there to stay.
    pub async fn serving(self, left: Vec<String>) -> Option<Predecessor> {
        // Before the old one serves nobody any more, so that somebody is seen to serve at any time.
        self.files.become_heir();
        let told = async {
            self.channel.send(&Message::Serving { left }, &[]).await?;
            self.channel.expect(&Message::Leaving, PATIENCE).await
        };
        match told.await {
            Ok(()) => tracing::info!("took over; {} leaves", self.from()),
            Err(Broken::Gone) if self.has_ended().await => {
                tracing::warn!("{} has ended instead of leaving", self.from());
            }
            Err(error) => {
                tracing::error!(%error, "{} does not say that it leaves: both serve; end one by hand", self.from());
                self.files.stay_without();
                return None;
            }
        }
        Some(Predecessor(self.channel))
    }

    /// Has the old process ended, or only given up waiting for this one? Its end of the connection closes a moment before
    /// its lock goes.
    async fn has_ended(&self) -> bool {
        let until = Instant::now() + ENDING;
        while self.files.holder() == Holder::Serving {
            if Instant::now() >= until {
                return false;
            }
            sleep(TICK).await;
        }
        true
    }
}

// === impl Predecessor ===

impl Predecessor {
    /// Waits until it has ended: whoever took over from this process in turn has to wait for this one. Cancel safe.
    pub async fn ended(&self) {
        self.0.ended().await;
    }
}

// === impl TakeOverError ===

impl TakeOverError {
    fn of(channel: &Channel, source: Broken) -> Self {
        let outlook = if matches!(source, Broken::Silent(_)) { UNHEARD } else { SERVES_ON };
        Self { from: channel.peer().to_owned(), source, outlook }
    }
}

/// None if nobody serves.
async fn connect(files: &Files) -> Result<Option<Channel>, TakeOverError> {
    let until = Instant::now() + SETTLING;
    loop {
        let error = match Channel::connect(&files.directory().path().join(SOCKET)) {
            Ok(channel) => return Ok(Some(channel)),
            Err(error) => error,
        };
        let is_settling = matches!(error, Broken::System(Errno::NOENT | Errno::CONNREFUSED | Errno::AGAIN));
        match files.holder() {
            Holder::Serving if is_settling && Instant::now() < until => sleep(TICK).await,
            Holder::Serving => {
                return Err(TakeOverError { from: files.owner(), source: error, outlook: UNHEARD });
            }
            // Nothing that is wrong with the directory keeps anybody from an ordinary start.
            Holder::Nobody | Holder::Leaving => {
                if !is_settling {
                    tracing::warn!(%error, "it cannot be asked whether there is a process to take over from");
                }
                return Ok(None);
            }
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
        let name = format!("socket {} of {}", passed.key, channel.peer());
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
