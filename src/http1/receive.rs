//! The body of a request: room for it, waiting for it, decoding it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};

use super::body::{BodyError, BodyReader, Framing};
use super::coding;
use super::conn::{Connection, End};
use super::reading::READ_PATIENCE;
use crate::runtime::heavy;

/// A body must be whole after this time.
const BODY_PATIENCE: Duration = Duration::from_secs(300);
/// How long a large body waits for room.
const ROOM_PATIENCE: Duration = Duration::from_secs(30);
/// A body larger than this needs room.
const LARGE: usize = 64 << 10;
/// An encoded body of this size cannot unpack to much: at most a thousand times as much.
const SMALL_CODED: usize = 1 << 10;
/// So many bodies of the largest size may be in memory at a time. What they are parsed to is many times as large.
const LARGEST: usize = 4;

/// Memory for large bodies, shared by all connections of a server. It counts pieces of [`LARGE`] bytes.
#[derive(Debug)]
pub(super) struct Room {
    pieces: Arc<Semaphore>,
}

/// A body, and its room: to be kept for as long as what is made of the body is only in memory.
#[derive(Debug, Default)]
pub(super) struct Received {
    pub(super) body: Bytes,
    pub(super) room: Option<OwnedSemaphorePermit>,
}

// === impl Room ===

impl Room {
    pub(super) fn new(body_bytes: usize) -> Self {
        let pieces = (pieces(body_bytes) as usize).saturating_mul(LARGEST).min(Semaphore::MAX_PERMITS);
        Self { pieces: Arc::new(Semaphore::new(pieces)) }
    }

    /// Waits for room, all of it in one go: those who wait for the rest of theirs could wait for each other.
    async fn take(&self, bytes: usize) -> Result<OwnedSemaphorePermit, BodyError> {
        let taken = timeout(ROOM_PATIENCE, self.pieces.clone().acquire_many_owned(pieces(bytes))).await;
        taken.ok().and_then(Result::ok).ok_or(BodyError::NoRoom)
    }
}

fn pieces(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(LARGE)).unwrap_or(u32::MAX)
}

/// Gives back what is not needed for so many bytes.
fn shrunk(mut room: OwnedSemaphorePermit, bytes: usize) -> Option<OwnedSemaphorePermit> {
    room.split((pieces(bytes) as usize).min(room.num_permits()))
}

// === impl Connection ===

impl<IO: AsyncRead + AsyncWrite + Unpin + Send> Connection<IO> {
    /// Reads a body and decodes it. `coding`: its `Content-Encoding`.
    pub(super) async fn receive(
        &mut self,
        framing: Framing,
        expects: bool,
        coding: Option<&[u8]>,
    ) -> Result<Result<Received, BodyError>, End> {
        if framing.is_empty() {
            return Ok(Ok(Received::default()));
        }
        let received = match self.read_body(framing, expects, coding.is_some()).await? {
            Ok(received) => received,
            Err(error) => return Ok(Err(error)),
        };
        Ok(match coding.filter(|_| !received.body.is_empty()) {
            Some(name) => self.decoded(name.to_vec(), received).await,
            None => Ok(received),
        })
    }

    async fn read_body(
        &mut self,
        framing: Framing,
        expects: bool,
        coded: bool,
    ) -> Result<Result<Received, BodyError>, End> {
        let limit = self.server.body_bytes;
        let mut reader = match BodyReader::new(framing, limit) {
            Ok(reader) => reader,
            Err(error) => return Ok(Err(error)),
        };
        // What a coded or chunked body comes to shows only at its end.
        let (most, known) = match framing {
            Framing::Length(length) if !coded => (usize::try_from(length).unwrap_or(limit), true),
            Framing::Length(length) => (limit, length > LARGE as u64),
            Framing::Chunked => (limit, false),
        };
        let mut room = None;
        if known && most > LARGE {
            match self.server.room.take(most).await {
                Ok(taken) => room = Some(taken),
                Err(error) => return Ok(Err(error)),
            }
        }
        if expects {
            // Even if the body is on its way already: namerd does, and it costs nothing.
            self.output.push(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
        self.flush().await?;
        let deadline = Instant::now() + BODY_PATIENCE;
        let mut got = self.input.len();
        loop {
            match reader.take(&mut self.input, limit) {
                Ok(Some(body)) => {
                    let room = room.and_then(|room| if coded { Some(room) } else { shrunk(room, body.len()) });
                    return Ok(Ok(Received { body, room }));
                }
                Ok(None) => {}
                Err(error) => return Ok(Err(error)),
            }
            if got > LARGE && room.is_none() && framing == Framing::Chunked {
                match self.server.room.take(most).await {
                    Ok(taken) => room = Some(taken),
                    Err(error) => return Ok(Err(error)),
                }
            }
            let read = self.read(16 << 10, Some(READ_PATIENCE));
            got += timeout_at(deadline, read).await.map_err(|_| End::TimedOut)??;
        }
    }

    /// Even a small body may unpack to a large one.
    async fn decoded(&self, name: Vec<u8>, received: Received) -> Result<Received, BodyError> {
        let (Received { body, room }, limit) = (received, self.server.body_bytes);
        if body.len() <= SMALL_CODED {
            return coding::decode(&name, body, limit).map(|body| Received { body, room });
        }
        let room = match room {
            Some(room) => room,
            None => self.server.room.take(limit).await?,
        };
        let body = heavy(move || coding::decode(&name, body, limit)).await.unwrap_or(Err(BodyError::BadCoding))?;
        let room = shrunk(room, body.len());
        Ok(Received { body, room })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn there_is_room_for_a_few_of_the_largest_bodies_and_the_next_is_told() {
        let room = Room::new(1 << 20);
        let mut taken = Vec::new();
        for _ in 0..LARGEST {
            taken.push(room.take(1 << 20).await.expect("room"));
        }
        assert_eq!(room.take(LARGE + 1).await.map(drop), Err(BodyError::NoRoom));
        let last = taken.pop().expect("taken");
        let small = shrunk(last, LARGE + 1);
        let _other = room.take(1 << 19).await.expect("what a smaller body does not need is given back");
        drop(small);
    }
}
