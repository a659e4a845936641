//! A connection that carries frames, as mux and framed thrift use them: four bytes of length, then as many bytes.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use super::{Connection, PATIENCE};

/// One connection.
pub struct Frames {
    connection: Connection,
    unread: Vec<u8>,
    closed: bool,
}

/// What the other side does within a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// A frame, without its length.
    Frame(Vec<u8>),
    /// Nothing whole came; the connection is open.
    Silence,
    /// The connection was closed.
    Closed,
}

/// A frame as it is on the wire.
pub fn framed(frame: &[u8]) -> Vec<u8> {
    let length = u32::try_from(frame.len()).expect("a test's frame is small");
    [&length.to_be_bytes()[..], frame].concat()
}

impl Frames {
    /// Connects to a port of this machine.
    pub fn open(port: u16) -> Self {
        Self::on(Connection::open(port))
    }

    /// Speaks on this connection.
    pub fn on(connection: Connection) -> Self {
        Self { connection, unread: Vec::new(), closed: false }
    }

    /// Sends bytes as they are. Where the other side has left, reading shows it.
    pub fn send_raw(&mut self, bytes: &[u8]) {
        if let Err(error) = self.connection.send(bytes) {
            let left = [ErrorKind::BrokenPipe, ErrorKind::ConnectionReset].contains(&error.kind());
            assert!(left, "the server does not read: {error}");
        }
    }

    /// Sends one frame.
    pub fn send(&mut self, frame: &[u8]) {
        self.send_raw(&framed(frame));
    }

    /// The next frame; fails the test when none comes.
    pub fn frame(&mut self) -> Vec<u8> {
        self.frame_within(PATIENCE)
    }

    /// The next frame; fails the test when none comes within this time.
    pub fn frame_within(&mut self, limit: Duration) -> Vec<u8> {
        match self.next(limit) {
            Next::Frame(frame) => frame,
            other => panic!("{other:?} instead of a frame; unread: {:?}", self.unread),
        }
    }

    /// What comes within a limit.
    pub fn next(&mut self, limit: Duration) -> Next {
        let deadline = Instant::now() + limit;
        loop {
            if let Some((length, rest)) = self.unread.split_first_chunk() {
                let length = usize::try_from(u32::from_be_bytes(*length)).expect("it fits");
                assert!(length < 64 << 20, "the server sent a frame of {length} bytes");
                if rest.len() >= length {
                    let frame = self.unread.drain(..4 + length).skip(4).collect();
                    return Next::Frame(frame);
                }
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if self.closed || left.is_zero() {
                return if self.closed { Next::Closed } else { Next::Silence };
            }
            let mut buffer = [0; 16 << 10];
            match self.connection.read(&mut buffer, left) {
                Ok(0) => self.closed = true,
                Ok(count) => self.unread.extend(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => self.closed = true,
                Err(error) => {
                    let late = [ErrorKind::WouldBlock, ErrorKind::TimedOut, ErrorKind::Interrupted];
                    assert!(late.contains(&error.kind()), "{error}");
                }
            }
        }
    }
}
