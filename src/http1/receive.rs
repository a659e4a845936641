//! The body of a request: room for it, waiting for it, decoding it.

use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, timeout_at};

use super::body::{BodyError, BodyReader, Framing};
use super::coding;
use super::conn::{Connection, End};
use super::reading::READ_PATIENCE;
use crate::runtime::heavy;
use crate::wire::{Room, Taken};

/// A body must be whole after this time.
const BODY_PATIENCE: Duration = Duration::from_secs(300);
/// An encoded body of this size cannot unpack to much: at most a thousand times as much.
const SMALL_CODED: usize = 1 << 10;
/// So many bodies of the largest size may be in memory at a time. What they are parsed to is many times as large.
pub(super) const LARGEST: usize = 4;

/// A body, and its room: to be kept for as long as what is made of the body is only in memory.
#[derive(Debug, Default)]
pub(super) struct Received {
    pub(super) body: Bytes,
    pub(super) room: Option<Taken>,
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
            Framing::Length(length) => (limit, length > Room::LARGE as u64),
            Framing::Chunked => (limit, false),
        };
        let mut room = None;
        if known && most > Room::LARGE {
            match self.server.room.take(most).await {
                Some(taken) => room = Some(taken),
                None => return Ok(Err(BodyError::NoRoom)),
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
                    let room = room.and_then(|room| if coded { Some(room) } else { room.shrunk(body.len()) });
                    return Ok(Ok(Received { body, room }));
                }
                Ok(None) => {}
                Err(error) => return Ok(Err(error)),
            }
            if got > Room::LARGE && room.is_none() && framing == Framing::Chunked {
                match self.server.room.take(most).await {
                    Some(taken) => room = Some(taken),
                    None => return Ok(Err(BodyError::NoRoom)),
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
            None => self.server.room.take(limit).await.ok_or(BodyError::NoRoom)?,
        };
        let body = heavy(move || coding::decode(&name, body, limit)).await.unwrap_or(Err(BodyError::BadCoding))?;
        let room = room.shrunk(body.len());
        Ok(Received { body, room })
    }
}
