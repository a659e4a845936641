//! The empty `:authority` of Linkerd 1, taken out of what a client sends.
//!
//! Linkerd 1 sends the pseudo-header with an empty value (`H2Headers.scala:16-22`): in HPACK the octet `0x81` or a
//! literal of name index 1 without a value. The HTTP/2 library takes that for malformed and resets the stream; without the
//! header it serves it. Neither form enters the dynamic table of HPACK, so that leaving them out disturbs nothing.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// `PRI * HTTP/2.0…`, which every connection begins with.
const PREFACE: usize = 24;
/// Length, type, flags and stream of a frame.
const HEAD: usize = 9;
const HEADERS: u8 = 1;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;
/// A longer block of headers is passed on as it is: the library refuses frames of more than this.
const MOST: usize = 16_384;

/// A connection whose client may send an empty `:authority`.
#[derive(Debug)]
pub(super) struct Authority<IO> {
    io: IO,
    input: BytesMut,
    output: BytesMut,
    /// So many bytes pass as they are: the rest of a frame that is not of interest.
    pass: usize,
    /// Headers that were taken out since this was last asked.
    dropped: u64,
    ended: bool,
}

// === impl Authority ===

impl<IO> Authority<IO> {
    pub(super) fn new(io: IO) -> Self {
        Self { io, input: BytesMut::new(), output: BytesMut::new(), pass: PREFACE, dropped: 0, ended: false }
    }

    /// Moves what is complete from the input to the output.
    fn sort(&mut self) {
        loop {
            let pass = self.pass.min(self.input.len());
            if pass > 0 {
                self.output.unsplit(self.input.split_to(pass));
                self.pass -= pass;
            }
            let Some(&[a, b, c, kind, flags]) = self.input.first_chunk::<5>() else { return };
            let length = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
            if kind != HEADERS || length > MOST {
                self.pass = HEAD + length;
                continue;
            }
            if self.input.len() < HEAD + length {
                return;
            }
            let mut frame = self.input.split_to(HEAD + length);
            if let Some((start, end)) = empty_authority(&frame[HEAD..], flags) {
                let rest = frame.split_off(HEAD + end);
                frame.truncate(HEAD + start);
                let length = frame.len() + rest.len() - HEAD;
                // Less than 2^24, as it was before.
                frame[..3].copy_from_slice(&(length as u32).to_be_bytes()[1..]);
                frame.unsplit(rest);
                self.dropped += 1;
            }
            self.output.unsplit(frame);
        }
    }
}

/// Where the empty `:authority` stands in the payload of a HEADERS frame. A block that is cut (it goes on in a
/// CONTINUATION) is read as far as it goes.
fn empty_authority(payload: &[u8], flags: u8) -> Option<(usize, usize)> {
    let (mut at, mut end) = (0, payload.len());
    if flags & PADDED != 0 {
        end = end.checked_sub(usize::from(*payload.first()?))?;
        at += 1;
    }
    if flags & PRIORITY != 0 {
        at += 5;
    }
    let block = payload.get(..end)?;
    while at < block.len() {
        let start = at;
        let first = block[at];
        // RFC 7541, 6.1-6.3
        let (bits, literal) = match first {
            0x80.. => (7, false),
            0x40..=0x7f => (6, true),
            0x20..=0x3f => (5, false),
            _ => (4, true),
        };
        let index = integer(block, &mut at, bits)?;
        if first == 0x81 {
            return Some((start, at));
        }
        if !literal {
            continue;
        }
        if index == 0 {
            string(block, &mut at)?;
        }
        let value = string(block, &mut at)?;
        if bits == 4 && index == 1 && value == 0 {
            return Some((start, at));
        }
    }
    None
}

/// RFC 7541, 5.1
fn integer(block: &[u8], at: &mut usize, bits: u32) -> Option<usize> {
    let most = (1 << bits) - 1;
    let mut value = usize::from(*block.get(*at)?) & most;
    *at += 1;
    if value < most {
        return Some(value);
    }
    for shift in [0, 7, 14, 21] {
        let octet = *block.get(*at)?;
        *at += 1;
        value += usize::from(octet & 0x7f) << shift;
        if octet & 0x80 == 0 {
            return Some(value);
        }
    }
    None // longer than any block
}

/// Passes over a string; its length in bytes.
fn string(block: &[u8], at: &mut usize) -> Option<usize> {
    let length = integer(block, at, 7)?;
    *at = at.checked_add(length)?;
    (*at <= block.len()).then_some(length)
}

impl<IO: AsyncRead + Unpin> AsyncRead for Authority<IO> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        while this.output.is_empty() && !this.ended {
            this.input.reserve(4096);
            let before = this.input.len();
            ready!(tokio_util::io::poll_read_buf(Pin::new(&mut this.io), cx, &mut this.input))?;
            if this.input.len() == before {
                this.ended = true;
                // What is cut is the library's to judge.
                let rest = this.input.split();
                this.output.unsplit(rest);
            }
            this.sort();
        }
        let count = this.output.len().min(buf.remaining());
        buf.put_slice(&this.output[..count]);
        this.output.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Authority<IO> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().io).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
        [&length[1..], &[kind, flags, 0, 0, 0, 3], payload].concat()
    }

    /// What comes through, read in pieces of this size.
    async fn through(sent: &[u8], piece: usize) -> Vec<u8> {
        let (near, far) = tokio::io::duplex(piece);
        let mut shim = Authority::new(far);
        let sent = [&[b'p'; PREFACE], sent].concat();
        let write = async move {
            let mut near = near;
            tokio::io::AsyncWriteExt::write_all(&mut near, &sent).await.expect("taken");
        };
        let mut got = Vec::new();
        let (read, ()) = tokio::join!(shim.read_to_end(&mut got), write);
        read.expect("no error");
        got.split_off(PREFACE)
    }

    #[tokio::test]
    async fn the_empty_authority_goes_whatever_stands_around_it_and_however_it_arrives() {
        let path = b"\x44\x02/a";
        let rest = b"\x83\x86\x5f\x01x";
        for empty in [&b"\x81"[..], b"\x01\x00", b"\x11\x00", b"\x01\x80"] {
            let with = |start: &[u8], end: &[u8], empty: &[u8]| [start, path, empty, rest, end].concat();
            for (flags, start, end) in
                [(0x4, &b""[..], &b""[..]), (0x2c, b"\x03\0\0\0\0\x10", b"\0\0\0"), (0x24, b"\0\0\0\0\x10", b"")]
            {
                let sent =
                    [frame(4, 0, b"\0\x02\0\0\0\0"), frame(1, flags, &with(start, end, empty)), frame(0, 1, b"x")];
                let wanted =
                    [frame(4, 0, b"\0\x02\0\0\0\0"), frame(1, flags, &with(start, end, b"")), frame(0, 1, b"x")];
                for piece in [1, 7, 4096] {
                    assert_eq!(through(&sent.concat(), piece).await, wanted.concat(), "{empty:?} {flags:x} {piece}");
                }
            }
        }
    }

    #[tokio::test]
    async fn everything_else_passes_as_it_is() {
        for payload in [
            &b"\x41\x01a"[..],
            b"\x41\x00",
            b"\x01\x01a",
            b"\x40\x01\x81\x01\x81",
            b"\x44\x7f",
            b"\xff\xff\xff\xff\xff\x81",
            b"",
        ] {
            let sent = [frame(1, 4, payload), frame(9, 4, b"\x81"), frame(0, 0, b"\x81")].concat();
            assert_eq!(through(&sent, 4096).await, sent);
        }
        let cut = &frame(1, 4, b"\x81\x83")[..10];
        assert_eq!(through(cut, 4096).await, cut, "a frame that is cut");
    }
}
