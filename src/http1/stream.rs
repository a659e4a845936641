//! Watches: answers without an end.

use std::pin::pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::{FutureExt, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, timeout};

use super::coding::StreamCoder;
use super::conn::{Connection, End, HEAVY_FROM};
use super::{Coding, Lines};
use crate::runtime::{Phase, heavy};

/// What a client that does not read gets to read on when the process is going.
const LAST_CHANCE: Duration = Duration::from_secs(2);

impl<IO: AsyncRead + AsyncWrite + Unpin + Send> Connection<IO> {
    /// Sends the head, which is in the output already, and then each line as it comes, until the client goes, the
    /// drain ends streams or there are no more lines.
    pub(super) async fn stream(&mut self, lines: Lines, coding: Coding) -> Result<(), End> {
        let (opened, _open) = (Instant::now(), self.server.stats.stream_opened());
        let ended = self.send_lines(lines, coding.stream()).await;
        self.server.stats.stream_closed(opened.elapsed(), ended.is_err());
        ended
    }

    async fn send_lines(&mut self, mut lines: Lines, mut coder: Option<StreamCoder>) -> Result<(), End> {
        let hold = self.server.drain.hold(Phase::EndStreams);
        let mut over = pin!(hold.over());
        if self.input.is_empty() {
            self.input = BytesMut::new(); // ten thousand quiet connections
        }
        // The first line is usually there and goes out with the head; the head does not wait for it, though.
        let mut first = lines.next().now_or_never();
        if first.is_none() {
            self.flush().await?;
        }
        loop {
            let next = match first.take() {
                Some(next) => next,
                None => tokio::select! {
                    biased;
                    () = &mut over => None,
                    next = lines.next() => next,
                    end = self.read_ahead() => return Err(end),
                },
            };
            let Some(line) = next else { break };
            let line = match coder.take() {
                None => line,
                Some(mine) => {
                    let (mine, encoded) = encode(mine, line).await.ok_or(End::Broken)?;
                    coder = Some(mine);
                    encoded
                }
            };
            self.chunk(line);
            let patience = self.server.write_timeout;
            tokio::select! {
                biased;
                flushed = self.flush_within(patience) => flushed?,
                () = &mut over => break,
            }
            self.output.shrink();
        }
        if let Some(coder) = coder {
            self.chunk(coder.end().into());
        }
        self.output.push(b"0\r\n\r\n");
        timeout(LAST_CHANCE, self.flush_within(None)).await.map_err(|_| End::TimedOut)?
    }

    fn chunk(&mut self, line: Bytes) {
        self.output.print(format_args!("{:x}\r\n", line.len()));
        self.output.share(line);
        self.output.push(b"\r\n");
    }
}

/// Encodes a line. None after a panic: then the client could read nothing that follows either.
async fn encode(mut coder: StreamCoder, line: Bytes) -> Option<(StreamCoder, Bytes)> {
    let length = line.len();
    let work = move || {
        let encoded = coder.line(&line).into();
        (coder, encoded)
    };
    if length < HEAVY_FROM { Some(work()) } else { heavy(work).await }
}
