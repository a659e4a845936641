//! Reading from a connection: heads, bodies, and what comes while an answer is made.

use std::pin::Pin;
use std::time::Duration;

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::time::{Instant, timeout, timeout_at};

use super::body::{BodyError, BodyReader, Framing};
use super::conn::{Connection, End};
use super::head::Scan;
use crate::telemetry::Traffic;

/// A head that has begun must be whole after this time, a piece of a body must come within it.
const READ_PATIENCE: Duration = Duration::from_secs(30);
/// A body must be whole after this time.
const BODY_PATIENCE: Duration = Duration::from_secs(300);
/// So much is read ahead while an answer is made.
const AHEAD: usize = 64 << 10;
/// Bodies larger than this need one of a few places.
const LARGE_BODY: usize = 64 << 10;
const READ_SIZE: usize = 4 << 10;

impl<IO: AsyncRead + AsyncWrite + Unpin + Send> Connection<IO> {
    /// Reads until a whole head is there; its length.
    pub(super) async fn read_head(&mut self, mut closing: Pin<&mut impl Future<Output = ()>>) -> Result<usize, End> {
        let (mut scan, mut deadline) = (Scan::default(), None);
        loop {
            while let Some(b'\r' | b'\n') = self.input.first() {
                self.input.advance(1); // blank lines before a request are allowed
            }
            match scan.head_length(&self.input) {
                Ok(Some(length)) => return Ok(length),
                Ok(None) => {}
                Err(bad) => return Err(self.refuse(bad).await),
            }
            self.flush().await?;
            if self.input.is_empty() {
                let patience = self.server.read_timeout;
                tokio::select! {
                    biased;
                    () = &mut closing => return Err(self.finish().await),
                    read = self.read(READ_SIZE, patience) => drop(read?),
                }
            } else {
                let deadline = *deadline.get_or_insert_with(|| Instant::now() + READ_PATIENCE);
                timeout_at(deadline, self.read(READ_SIZE, None)).await.map_err(|_| End::TimedOut)??;
            }
        }
    }

    /// Reads a body whole, within bounds.
    pub(super) async fn body(&mut self, framing: Framing, expects: bool) -> Result<Result<Bytes, BodyError>, End> {
        let (server, limit) = (self.server.clone(), self.server.body_bytes);
        if framing.is_empty() {
            return Ok(Ok(Bytes::new()));
        }
        let mut reader = match BodyReader::new(framing, limit) {
            Ok(reader) => reader,
            Err(error) => return Ok(Err(error)),
        };
        if expects {
            // Even if the body is on its way already: namerd does, and it costs nothing.
            self.output.push(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
        self.flush().await?;
        let deadline = Instant::now() + BODY_PATIENCE;
        let (mut place, mut got) = (None, self.input.len());
        loop {
            match reader.take(&mut self.input, limit) {
                Ok(Some(body)) => return Ok(Ok(body)),
                Ok(None) => {}
                Err(error) => return Ok(Err(error)),
            }
            if got > LARGE_BODY && place.is_none() {
                let acquired = timeout_at(deadline, server.large_bodies.acquire()).await;
                place = acquired.map_err(|_| End::TimedOut)?.ok();
            }
            let read = self.read(16 << 10, Some(READ_PATIENCE));
            got += timeout_at(deadline, read).await.map_err(|_| End::TimedOut)??;
        }
    }

    /// Reads on while something else is being done, to learn that the client is gone. Cancel safe.
    pub(super) async fn read_ahead(&mut self) -> End {
        loop {
            if self.input.len() > AHEAD {
                return End::Flooded;
            }
            if let Err(end) = self.read(64, None).await {
                return end;
            }
        }
    }

    /// Reads some bytes; how many.
    async fn read(&mut self, room: usize, patience: Option<Duration>) -> Result<usize, End> {
        self.input.reserve(room);
        let read = match patience {
            None => self.io.read_buf(&mut self.input).await,
            Some(patience) => match timeout(patience, self.io.read_buf(&mut self.input)).await {
                Ok(read) => read,
                Err(_) => {
                    self.server.stats.read_timed_out();
                    return Err(End::TimedOut);
                }
            },
        };
        match read {
            Ok(0) => Err(End::Gone(None)),
            Ok(count) => {
                self.moved(Traffic { received: count as u64, ..Traffic::default() });
                Ok(count)
            }
            Err(error) => Err(End::Gone(Some(error))),
        }
    }
}
