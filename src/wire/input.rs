//! What a connection has sent and nobody has dealt with.

use std::io;
use std::mem::{self, MaybeUninit};
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use tokio::io::{AsyncRead, ReadBuf};

use super::{give_back, take_buffer};

/// How much can be read at a time.
const MOST_READ: usize = 16 << 10;
/// The beginning of something longer moves to memory of its own if it is not longer than this.
const SMALL: usize = 8 << 10;

/// Bytes read, in order. A connection that waits has no buffer; one that waits in the middle of something small has no
/// more than that takes.
#[derive(Debug, Default)]
pub struct Input {
    bytes: BytesMut,
    /// The buffer is one that others use too.
    is_lent: bool,
    /// Something was cut off, whose memory is still held.
    is_cut: bool,
}

// === impl Input ===

impl Input {
    /// Reads once what is there, at most `most` bytes, and says how much that was; nothing at the end.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn poll_read<IO: AsyncRead + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        io: &mut IO,
        most: usize,
    ) -> Poll<io::Result<usize>> {
        // On the stack, since most of the time nothing is there.
        let mut space = [MaybeUninit::uninit(); MOST_READ];
        let mut read = ReadBuf::uninit(&mut space[..most.min(MOST_READ)]);
        ready!(Pin::new(io).poll_read(cx, &mut read))?;
        let read = read.filled();
        if self.bytes.capacity() == 0 && !read.is_empty() {
            self.bytes = take_buffer();
            self.is_lent = true;
        }
        self.bytes.extend_from_slice(read);
        Poll::Ready(Ok(read.len()))
    }

    /// A part was cut off its front.
    pub fn has_been_cut(&mut self) {
        self.is_cut = true;
    }

    /// Gives memory back, for a connection that is going to wait. What was cut off should not be held any more.
    pub fn shrink(&mut self) {
        if self.is_empty() {
            give_back(mem::take(&mut self.bytes));
        } else if self.is_cut || (self.is_lent && self.len() <= SMALL) {
            let rest = BytesMut::from(&self.bytes[..]);
            give_back(mem::replace(&mut self.bytes, rest));
        } else {
            return;
        }
        (self.is_lent, self.is_cut) = (false, false);
    }
}

impl Deref for Input {
    type Target = BytesMut;

    fn deref(&self) -> &BytesMut {
        &self.bytes
    }
}

impl DerefMut for Input {
    fn deref_mut(&mut self) -> &mut BytesMut {
        &mut self.bytes
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::AsyncWriteExt;

    use super::*;

    #[tokio::test]
    async fn only_what_is_not_dealt_with_takes_memory() {
        let (mut near, mut far) = tokio::io::duplex(1 << 20);
        let mut input = Input::default();
        far.write_all(b"one two").await.expect("open");
        let read = poll_fn(|cx| input.poll_read(cx, &mut near, MOST_READ)).await.expect("open");
        assert_eq!((read, &input[..]), (7, &b"one two"[..]));
        drop(input.split_to(4));
        input.has_been_cut();
        input.shrink();
        assert_eq!((&input[..], input.capacity()), (&b"two"[..], 3));
        far.write_all(b" three").await.expect("open");
        poll_fn(|cx| input.poll_read(cx, &mut near, MOST_READ)).await.expect("open");
        assert_eq!(&input[..], b"two three");
        drop(input.split());
        input.shrink();
        assert_eq!(input.capacity(), 0);
        drop(far);
        assert_eq!(poll_fn(|cx| input.poll_read(cx, &mut near, MOST_READ)).await.expect("closed"), 0);
        assert_eq!(input.capacity(), 0);
    }

    #[tokio::test]
    async fn much_is_read_in_order() {
        let (mut near, mut far) = tokio::io::duplex(1 << 20);
        let sent: Vec<u8> = (0..100_000_u32).map(|place| place as u8).collect();
        far.write_all(&sent).await.expect("open");
        let mut input = Input::default();
        while input.len() < sent.len() {
            poll_fn(|cx| input.poll_read(cx, &mut near, MOST_READ)).await.expect("open");
            input.shrink();
        }
        assert!(input[..] == sent[..]);
    }
}
