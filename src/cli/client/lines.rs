//! The lines of an open watch.

use bytes::{Bytes, BytesMut};

use super::LARGEST;
use crate::text::root_cause;

/// Values of a watch, one a line.
#[derive(Debug)]
pub(in crate::cli) struct Lines {
    response: reqwest::Response,
    buffer: BytesMut,
    /// Bytes at the start of the buffer that hold no line end.
    searched: usize,
}

impl Lines {
    pub(super) fn new(response: reqwest::Response) -> Self {
        Self { response, buffer: BytesMut::new(), searched: 0 }
    }

    /// The next line, without its end. None when the server ended the watch.
    ///
    /// # Errors
    /// The connection broke, or a line is without end.
    pub(in crate::cli) async fn next(&mut self) -> Result<Option<Bytes>, String> {
        loop {
            if let Some(end) = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n') {
                let mut line = self.buffer.split_to(self.searched + end + 1);
                line.truncate(line.len() - 1);
                self.searched = 0;
                return Ok(Some(line.freeze()));
            }
            self.searched = self.buffer.len();
            if self.searched > LARGEST {
                return Err(format!("a line is longer than {LARGEST} bytes"));
            }
            match self.response.chunk().await.map_err(|error| root_cause(&error))? {
                Some(chunk) => self.buffer.extend_from_slice(&chunk),
                // What has no line end was cut off.
                None => return Ok(None),
            }
        }
    }
}
