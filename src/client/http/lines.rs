//! Streams: one value a line.

use bytes::{Bytes, BytesMut};

use super::exchange::{Exchange, MOST_BYTES, too_long};
use crate::client::Failure;

/// Cuts the body of an answer into lines, however it is cut into chunks.
pub(super) struct Lines {
    exchange: Exchange,
    buffer: BytesMut,
    /// So many bytes hold no end of a line.
    searched: usize,
    ended: bool,
}

impl Lines {
    pub(super) fn new(exchange: Exchange) -> Self {
        Self { exchange, buffer: BytesMut::new(), searched: 0, ended: false }
    }

    /// The next line that is not empty; none at the end of the stream. Cancel safe.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            if let Some(line) = self.take_line() {
                return Ok(Some(line));
            }
            if self.ended {
                return Ok(None);
            }
            match self.exchange.some().await? {
                None => self.ended = true,
                Some(data) if self.buffer.len() + data.len() > MOST_BYTES => return Err(too_long()),
                Some(data) => self.buffer.extend_from_slice(&data),
            }
        }
    }

    fn take_line(&mut self) -> Option<Bytes> {
        loop {
            let newline = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n');
            let line = match newline {
                Some(at) => self.buffer.split_to(self.searched + at + 1),
                // A body that is not a stream need not end with one.
                None if self.ended => self.buffer.split(),
                None => {
                    self.searched = self.buffer.len();
                    return None;
                }
            };
            self.searched = 0;
            if self.buffer.is_empty() {
                // The next line may be long in coming, and a long one has grown the room for all.
                self.buffer = BytesMut::new();
            }
            let line = line.freeze();
            let trimmed = line.trim_ascii();
            if !trimmed.is_empty() {
                return Some(line.slice_ref(trimmed));
            }
            if self.buffer.is_empty() {
                return None;
            }
        }
    }
}
