//! Reading from a connection: heads, and what comes while an answer is made.

use std::pin::Pin;
use std::time::Duration;

use bytes::Buf;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::time::{Instant, timeout, timeout_at};

use super::conn::{Connection, End};
use super::head::Scan;
use crate::telemetry::Traffic;

/// A head that has begun must be whole after this time, a piece of a body must come within it.
pub(super) const READ_PATIENCE: Duration = Duration::from_secs(30);
/// A head that has begun when the server ends must be whole after this time.
const LAST_HEAD: Duration = Duration::from_secs(1);
/// So much is read ahead while an answer is made.
const AHEAD: usize = 64 << 10;
const READ_SIZE: usize = 4 << 10;

impl<IO: AsyncRead + AsyncWrite + Unpin + Send> Connection<IO> {
    /// Reads until a whole head is there; its length.
    pub(super) async fn read_head(&mut self, mut closing: Pin<&mut impl Future<Output = ()>>) -> Result<usize, End> {
        let (mut scan, mut began, mut ended) = (Scan::default(), None, None);
        // Whoever has just been accepted is about to ask, and would be left without an answer.
        let first_by = (self.traffic.requests == 0).then(|| Instant::now() + LAST_HEAD);
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
            let over = self.server.drain.phase() >= self.server.until;
            if self.input.is_empty() {
                if over {
                    let Some(by) = first_by.filter(|by| Instant::now() < *by) else {
                        return Err(self.finish().await);
                    };
                    if let Ok(read) = timeout_at(by, self.read(READ_SIZE, None)).await {
                        read?;
                    }
                    continue;
                }
                let patience = self.server.read_timeout;
                tokio::select! {
                    biased;
                    () = &mut closing => {}
                    read = self.read(READ_SIZE, patience) => drop(read?),
                }
            } else {
                let mut whole_by = *began.get_or_insert_with(Instant::now) + READ_PATIENCE;
                if over {
                    // Half a head is no request yet: it must not hold up the end of the process.
                    whole_by = whole_by.min(*ended.get_or_insert_with(Instant::now) + LAST_HEAD);
                }
                tokio::select! {
                    biased;
                    () = &mut closing, if !over => {}
                    read = timeout_at(whole_by, self.read(READ_SIZE, None)) => drop(read.map_err(|_| End::TimedOut)??),
                }
            }
        }
    }

    /// Reads on while something else is being done, to learn that the client is gone, or has sent more than is read
    /// ahead. Cancel safe.
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
    pub(super) async fn read(&mut self, room: usize, patience: Option<Duration>) -> Result<usize, End> {
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
