//! From the bytes of a stream to its JSON objects.

use bytes::BytesMut;

/// Finds where objects end, however they were cut: each byte is looked at once. What is between them does not count.
#[derive(Debug, Default)]
pub(super) struct Splitter {
    buffer: BytesMut,
    /// How much of the buffer has been looked at.
    seen: usize,
    depth: usize,
    in_text: bool,
    escaped: bool,
}

/// An object is larger than what is read of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooLarge;

/// The largest object that is read: etcd stores a megabyte and a half, and servers add to it.
pub(super) const LARGEST_OBJECT: usize = 64 << 20;

// === impl Splitter ===

impl Splitter {
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole object.
    pub(super) fn next(&mut self) -> Result<Option<BytesMut>, TooLarge> {
        while let Some(byte) = self.buffer.get(self.seen).copied() {
            self.seen += 1;
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' if self.in_text => self.escaped = true,
                b'"' => self.in_text = !self.in_text,
                _ if self.in_text => {}
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        return Ok(Some(self.buffer.split_to(std::mem::take(&mut self.seen))));
                    }
                }
                _ => {}
            }
        }
        if self.buffer.len() > LARGEST_OBJECT { Err(TooLarge) } else { Ok(None) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(pieces: impl Iterator<Item = Vec<u8>>) -> Vec<String> {
        let mut splitter = Splitter::default();
        let mut objects = Vec::new();
        for piece in pieces {
            splitter.feed(&piece);
            while let Some(object) = splitter.next().expect("small") {
                objects.push(String::from_utf8(object.to_vec()).expect("text").trim().to_owned());
            }
        }
        objects
    }

    #[test]
    fn objects_are_found_wherever_the_stream_is_cut() {
        let objects = [r#"{"a":"}\"{\\"}"#, r#"{"b":[{"c":1},[2]]}"#, r#"{"ü":"\\\\\"]"}"#];
        for between in ["", "\n", " \r\n "] {
            let text = objects.join(between);
            for size in [1, 2, 3, 7, 1_000] {
                let pieces = text.as_bytes().chunks(size).map(<[u8]>::to_vec);
                assert_eq!(split(pieces), objects, "{size}");
            }
        }
    }

    #[test]
    fn a_large_object_comes_whole_in_pieces_of_any_size() {
        let object = format!(r#"{{"a":"{}"}}"#, "x\\\"".repeat(1 << 20));
        for size in [1, 8 << 10, 1 << 20] {
            assert_eq!(split(object.as_bytes().chunks(size).map(<[u8]>::to_vec)), [object.as_str()]);
        }
    }

    #[test]
    fn what_is_not_whole_stays() {
        assert_eq!(split([b"{\"a\":1}{\"b\":[".to_vec()].into_iter()), ["{\"a\":1}"]);
    }
}
