//! The one encoding behind paths and prefixes: elements one after the other in a single buffer, each preceded by its
//! length in base 128 (low groups first, high bit = more follows).
//!
//! The code is prefix free, so "these elements come first" is a comparison of leading bytes, dropping or taking
//! elements is a slice, and equality and hashing need not look at elements at all. A label is never empty, so a prefix
//! uses the empty element for its wildcard.

use bytes::Bytes;

/// Appends one element.
pub(super) fn push(buffer: &mut Vec<u8>, elem: &[u8]) {
    let mut left = elem.len();
    while left >= 0x80 {
        // The low seven bits, marked as "more follows".
        buffer.push(0x80 | (left & 0x7f) as u8);
        left >>= 7;
    }
    buffer.push(left as u8);
    buffer.extend_from_slice(elem);
}

/// Walks the elements of an encoded buffer.
#[derive(Clone, Debug)]
pub(super) struct Elems<'a> {
    rest: &'a [u8],
}

impl<'a> Elems<'a> {
    pub(super) fn new(flat: &'a [u8]) -> Self {
        Self { rest: flat }
    }

    /// The encoded elements not yet visited.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Elems<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (&first, mut rest) = self.rest.split_first()?;
        let mut len = usize::from(first & 0x7f);
        let mut shift = 7;
        let mut more = first & 0x80 != 0;
        while more {
            let (&byte, tail) = rest.split_first()?;
            len |= usize::from(byte & 0x7f) << shift;
            shift += 7;
            more = byte & 0x80 != 0;
            rest = tail;
        }
        let (elem, rest) = rest.split_at_checked(len)?;
        self.rest = rest;
        Some(elem)
    }
}

/// Splits after `n` elements (or at the end, when there are fewer); both halves share the buffer.
pub(super) fn split(flat: &Bytes, n: usize) -> (Bytes, Bytes) {
    let mut elems = Elems::new(flat);
    if n > 0 {
        elems.nth(n - 1);
    }
    let at = flat.len() - elems.rest().len();
    (flat.slice(..at), flat.slice(at..))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_of_every_size_class_come_back_unchanged() {
        let sizes = [0, 1, 127, 128, 129, 16_383, 16_384, 70_000];
        let mut flat = Vec::new();
        for size in sizes {
            push(&mut flat, &vec![b'x'; size]);
        }
        let back: Vec<usize> = Elems::new(&flat).map(<[u8]>::len).collect();
        assert_eq!(back, sizes);
    }

    #[test]
    fn splitting_past_the_end_takes_everything() {
        let mut flat = Vec::new();
        push(&mut flat, b"a");
        push(&mut flat, b"bc");
        let flat = Bytes::from(flat);
        let (head, tail) = split(&flat, 5);
        assert_eq!((head, tail), (flat.clone(), Bytes::new()));
        let (head, tail) = split(&flat, 1);
        assert_eq!((&head[..], &tail[..]), (&b"\x01a"[..], &b"\x02bc"[..]));
    }
}
