//! What is on its way to the client.

use std::collections::VecDeque;
use std::fmt::Write;
use std::io::{self, IoSlice};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::io::{AsyncWrite, AsyncWriteExt};

use super::{give_back, take_buffer};

/// From this size on a body is not copied: thousands of watchers share it.
const SHARED_FROM: usize = 8 << 10;
/// At most so many pieces go out with one call.
const PIECES: usize = 32;

/// Bytes that are to be written, in order. Keeps its place when writing is interrupted.
#[derive(Debug, Default)]
pub struct Output {
    pieces: VecDeque<Bytes>,
    tail: BytesMut,
    /// Bytes of the pieces, without the tail.
    piled: usize,
    /// Was something written since the last flush? TLS keeps what the socket does not take at once.
    unflushed: bool,
}

// === impl Output ===

impl Output {
    /// Adds bytes by copying them.
    pub fn push(&mut self, bytes: &[u8]) {
        self.tail().put_slice(bytes);
    }

    /// Adds text.
    pub fn print(&mut self, text: std::fmt::Arguments<'_>) {
        self.tail().write_fmt(text).expect("writing to memory cannot fail");
    }

    fn tail(&mut self) -> &mut BytesMut {
        if self.tail.capacity() == 0 {
            self.tail = take_buffer();
        }
        &mut self.tail
    }

    /// Adds bytes; large ones are shared.
    pub fn share(&mut self, bytes: Bytes) {
        if bytes.len() < SHARED_FROM {
            return self.push(&bytes);
        }
        self.close_tail();
        self.piled += bytes.len();
        self.pieces.push_back(bytes);
    }

    /// Takes everything that waits, in one piece: for whoever wants the bytes themselves.
    pub fn take(&mut self) -> Vec<u8> {
        self.close_tail();
        self.piled = 0;
        std::mem::take(&mut self.pieces).into_iter().flatten().collect()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How much waits.
    pub fn len(&self) -> usize {
        self.piled + self.tail.len()
    }

    /// Whether everything is on its way: nothing waits, neither here nor in what it was written to.
    pub fn is_sent(&self) -> bool {
        self.is_empty() && !self.unflushed
    }

    /// Writes some of what waits, and flushes when nothing does; the number of bytes written. To be repeated until
    /// [`Output::is_sent`]. Cancel safe.
    ///
    /// # Errors
    /// The client is gone.
    pub async fn write_some(&mut self, io: &mut (impl AsyncWrite + Unpin)) -> io::Result<usize> {
        if self.is_empty() {
            io.flush().await?;
            self.unflushed = false;
            return Ok(0);
        }
        if self.pieces.is_empty() {
            let written = taken(io.write(&self.tail).await?)?;
            self.unflushed = true;
            self.tail.advance(written);
            return Ok(written);
        }
        self.close_tail();
        let mut slices = [IoSlice::new(&[]); PIECES];
        let count = self.pieces.iter().zip(&mut slices).map(|(piece, slice)| *slice = IoSlice::new(piece)).count();
        let all = taken(io.write_vectored(&slices[..count]).await?)?;
        self.unflushed = true;
        let mut written = all;
        self.piled -= all;
        while let Some(piece) = self.pieces.front_mut().filter(|_| written > 0) {
            let taken = piece.len().min(written);
            piece.advance(taken);
            written -= taken;
            if piece.is_empty() {
                self.pieces.pop_front();
            }
        }
        Ok(all)
    }

    fn close_tail(&mut self) {
        if !self.tail.is_empty() {
            self.piled += self.tail.len();
            self.pieces.push_back(self.tail.split().freeze());
        }
    }

    /// Gives memory back, for a connection that is going to be quiet.
    pub fn shrink(&mut self) {
        if self.is_sent() {
            give_back(std::mem::take(&mut self.tail));
            self.pieces = VecDeque::new();
        }
    }
}

/// A writer that takes nothing never will.
fn taken(written: usize) -> io::Result<usize> {
    if written == 0 { Err(io::ErrorKind::WriteZero.into()) } else { Ok(written) }
}

#[cfg(test)]
mod tests {
    use tokio::io::BufWriter;

    use super::*;

    #[tokio::test]
    async fn small_and_large_pieces_keep_their_order() {
        let (mut near, mut far) = tokio::io::duplex(1000);
        let mut output = Output::default();
        let large = Bytes::from(vec![b'x'; SHARED_FROM]);
        output.push(b"a");
        output.share(large.clone());
        output.print(format_args!("{}", 7));
        output.share(Bytes::from_static(b"z"));
        let length = output.len();
        let reader = tokio::spawn(async move {
            let mut got = vec![0; length];
            tokio::io::AsyncReadExt::read_exact(&mut far, &mut got).await.expect("all of it");
            got
        });
        while !output.is_sent() {
            output.write_some(&mut near).await.expect("open");
        }
        assert_eq!(reader.await.expect("read"), [b"a", &large[..], b"7z"].concat());
    }

    #[tokio::test]
    async fn what_the_transport_holds_back_is_flushed() {
        let (near, mut far) = tokio::io::duplex(1000);
        let mut holding_back = BufWriter::new(near);
        let mut output = Output::default();
        output.push(b"abc");
        while !output.is_sent() {
            output.write_some(&mut holding_back).await.expect("open");
        }
        let mut got = [0; 3];
        tokio::io::AsyncReadExt::read_exact(&mut far, &mut got).await.expect("all of it");
        assert_eq!(&got, b"abc");
    }
}
