//! Buffers between two uses. A connection has something to read or write for a moment, then nothing for minutes: it
//! takes a buffer for that moment, so that thousands of connections need few, and none is grown step by step.

use std::cell::RefCell;

use bytes::{Buf, BytesMut};

/// Room in a buffer at first.
const ROOM: usize = 16 << 10;
/// A buffer that has grown larger is not kept.
const MOST_ROOM: usize = 64 << 10;
/// So many buffers are kept for each thread.
const MOST: usize = 8;

thread_local! {
    static SPARE: RefCell<Vec<BytesMut>> = const { RefCell::new(Vec::new()) };
}

/// An empty buffer with room for some kilobytes.
pub(super) fn take_buffer() -> BytesMut {
    SPARE.with_borrow_mut(Vec::pop).unwrap_or_else(|| BytesMut::with_capacity(ROOM))
}

/// Takes back a buffer that is not needed now. What is in it is forgotten.
pub(super) fn give_back(mut buffer: BytesMut) {
    buffer.advance(buffer.len());
    // This finds the room that was used before, unless somebody still holds a part of it.
    let (has_grown, is_whole) = (buffer.try_reclaim(MOST_ROOM + 1), buffer.try_reclaim(ROOM));
    if is_whole && !has_grown {
        SPARE.with_borrow_mut(|spare| {
            if spare.len() < MOST {
                spare.push(buffer);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(buffer: &BytesMut) -> usize {
        buffer.as_ptr().addr()
    }

    #[test]
    fn a_buffer_is_used_again_whole_once_nobody_holds_a_part_of_it() {
        let mut buffer = take_buffer();
        buffer.extend_from_slice(b"one two");
        let first = address(&buffer);
        let part = buffer.split_to(4).freeze();
        drop(part);
        give_back(buffer);
        let mut again = take_buffer();
        assert_eq!((address(&again), again.is_empty()), (first, true));
        assert!(again.capacity() >= ROOM);
        again.extend_from_slice(b"three");
        let part = again.split().freeze();
        give_back(again);
        let other = take_buffer();
        assert_ne!(address(&other), first);
        assert!(other.is_empty());
        assert_eq!(&part[..], b"three");
    }

    #[test]
    fn what_has_grown_is_not_kept() {
        let mut buffer = take_buffer();
        buffer.extend_from_slice(&vec![0; MOST_ROOM + 1]);
        buffer.advance(MOST_ROOM);
        give_back(buffer);
        assert!(SPARE.with_borrow(Vec::is_empty));
    }
}
