//! A connection between two processes that carries whole messages, and sockets with them.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recvmsg, sendmsg, socket_with,
};
use rustix::process::geteuid;
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::message::{MOST_BYTES, MOST_SOCKETS, Message};

/// A message is taken by the other side within this time: there is never more than one under way.
const TO_SEND: Duration = Duration::from_secs(5);
const SPACE: usize = rustix::cmsg_space!(ScmRights(MOST_SOCKETS));

/// One end of the connection. Only processes of one user talk to each other.
#[derive(Debug)]
pub(super) struct Channel {
    /// Of packets, although the type speaks of streams: what differs is what the kernel does with them.
    socket: UnixStream,
    peer: String,
}

/// Why there is no message.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    #[error("the other process has gone")]
    Gone,
    #[error("the other process said nothing for {} s", .0.as_secs())]
    Silent(Duration),
    #[error("the other process is one of user {0}, and not of ours")]
    Foreigner(u32),
    #[error("what the other process says makes no sense: {0}")]
    Nonsense(String),
    #[error("it refuses: {0}")]
    Refused(String),
    #[error("its ports are closed, and it ends")]
    Ending,
    #[error(transparent)]
    System(#[from] Errno),
}

/// A socket that messages travel on, not connected yet.
pub(super) fn unconnected() -> Result<OwnedFd, Errno> {
    // Packets have ends, so that there is nothing to take apart, and order.
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
}

// === impl Channel ===

impl Channel {
    /// Connects to who listens at this path. Must be called within a runtime.
    pub(super) fn connect(path: &Path) -> Result<Self, Broken> {
        let socket = unconnected()?;
        connect(&socket, &SocketAddrUnix::new(path)?)?;
        Self::on(socket)
    }

    /// Goes on with a connection, if it is with a process of the same user. Must be called within a runtime.
    pub(super) fn on(socket: OwnedFd) -> Result<Self, Broken> {
        let socket = UnixStream::from_std(socket.into())?;
        let of = socket.peer_cred()?;
        if of.uid() != geteuid().as_raw() {
            return Err(Broken::Foreigner(of.uid()));
        }
        // There is none of ours for a process of another container.
        let pid = of.pid().filter(|pid| *pid > 0);
        let peer = pid.map_or_else(|| "a process of another container".to_owned(), |pid| format!("process {pid}"));
        Ok(Self { socket, peer })
    }

    /// The other process, for messages, by the id that the kernel says.
    pub(super) fn peer(&self) -> &str {
        &self.peer
    }

    /// Waits until the other process has ended, or has closed this. Nothing is said any more. Cancel safe.
    pub(super) async fn ended(&self) {
        loop {
            match self.receive(Duration::from_secs(3_600)).await {
                Ok(_) | Err(Broken::Silent(_)) => {}
                Err(_) => return,
            }
        }
    }

    /// Sends one message, and sockets with it.
    pub(super) async fn send(&self, message: &Message, sockets: &[BorrowedFd<'_>]) -> Result<(), Broken> {
        let text = serde_json::to_vec(message).map_err(|error| Broken::Nonsense(error.to_string()))?;
        if text.len() > MOST_BYTES || sockets.len() > MOST_SOCKETS {
            return Err(Broken::Nonsense(format!("{} bytes with {} sockets", text.len(), sockets.len())));
        }
        let sent = self.socket.async_io(Interest::WRITABLE, || {
            let mut space = [MaybeUninit::uninit(); SPACE];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            if !sockets.is_empty() {
                ancillary.push(SendAncillaryMessage::ScmRights(sockets));
            }
            // Whoever has gone is no reason for a signal.
            Ok(sendmsg(&self.socket, &[IoSlice::new(&text)], &mut ancillary, SendFlags::NOSIGNAL)?)
        });
        match timeout(TO_SEND, sent).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(Broken::Silent(TO_SEND)),
        }
    }

    /// Waits so long for the next message; what came with it is closed on exec.
    pub(super) async fn receive(&self, limit: Duration) -> Result<(Message, Vec<OwnedFd>), Broken> {
        let mut text = vec![0; MOST_BYTES];
        let received = self.socket.async_io(Interest::READABLE, || {
            let mut space = [MaybeUninit::uninit(); SPACE];
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let parts = &mut [IoSliceMut::new(&mut text)];
            let received = recvmsg(&self.socket, parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
            let sockets: Vec<OwnedFd> = ancillary
                .drain()
                .filter_map(|message| match message {
                    RecvAncillaryMessage::ScmRights(sockets) => Some(sockets),
                    _ => None,
                })
                .flatten()
                .collect();
            Ok((received.bytes, received.flags, sockets))
        });
        let (length, flags, sockets) = match timeout(limit, received).await {
            Ok(received) => received?,
            Err(_) => return Err(Broken::Silent(limit)),
        };
        if length == 0 {
            return Err(Broken::Gone);
        }
        if flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
            return Err(Broken::Nonsense("the message is too long".to_owned()));
        }
        match serde_json::from_slice(&text[..length]) {
            Ok(Message::Refused { reason }) => Err(Broken::Refused(reason)),
            Ok(Message::Ending) => Err(Broken::Ending),
            Ok(message) => Ok((message, sockets)),
            Err(error) => Err(Broken::Nonsense(error.to_string())),
        }
    }

    /// Waits so long for this message, which carries nothing.
    pub(super) async fn expect(&self, expected: &Message, limit: Duration) -> Result<(), Broken> {
        match self.receive(limit).await? {
            (message, _) if message == *expected => Ok(()),
            (message, _) => Err(Broken::Nonsense(format!("{message:?} in place of {expected:?}"))),
        }
    }
}

// === impl Broken ===

impl From<std::io::Error> for Broken {
    fn from(error: std::io::Error) -> Self {
        match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::PIPE | Errno::CONNRESET) => Self::Gone,
            Some(errno) => Self::System(errno),
            None => Self::Nonsense(error.to_string()),
        }
    }
}
