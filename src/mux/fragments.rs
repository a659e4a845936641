//! Messages in pieces, both ways.

use std::collections::HashMap;

use bytes::{Bytes, BytesMut};

use super::write::header;
use super::{BadMessage, Frame, Kind, Status, Tag};
use crate::wire::Output;

/// So many messages of one peer may be in pieces at a time.
const MOST_TAGS: usize = 256;

/// A peer that takes less than this in one piece gets this much all the same: each piece has a header of its own, and
/// nobody is to have megabytes sent by the byte.
const LEAST_WINDOW: usize = 16;

/// Puts the messages of one peer together that come in pieces. Those of several messages may alternate.
#[derive(Debug)]
pub struct Reassembly {
    most: usize,
    bytes: usize,
    partial: HashMap<Tag, Partial>,
}

#[derive(Debug)]
struct Partial {
    kind: Kind,
    body: BytesMut,
}

// === impl Reassembly ===

impl Reassembly {
    /// All messages in pieces together may have `most` bytes.
    pub fn new(most: usize) -> Self {
        Self { most, bytes: 0, partial: HashMap::new() }
    }

    /// Takes a frame; gives a whole one back, if that is what it is or completes. A discard of a message drops the
    /// pieces of it and is given back too.
    ///
    /// # Errors
    /// What does not come in pieces did, pieces do not belong together, or there are too many.
    pub fn take(&mut self, frame: Frame) -> Result<Option<Frame>, BadMessage> {
        let Frame { kind, tag, more, .. } = frame;
        if more && !kind.is_fragmentable() {
            return Err(BadMessage::NotFragmentable(kind));
        }
        if self.partial.is_empty() && !more {
            return Ok(Some(frame));
        }
        match kind {
            Kind::Tdiscarded | Kind::OldTdiscarded => {
                if let Some([a, b, c]) = frame.body.first_chunk() {
                    self.drop_partial(Tag::new(u32::from_be_bytes([0, *a, *b, *c])));
                }
                Ok(Some(frame))
            }
            Kind::Rdiscarded => {
                self.drop_partial(tag);
                Ok(Some(frame))
            }
            _ if more => self.add(frame).map(|()| None),
            Kind::Tdispatch | Kind::Rdispatch if self.partial.contains_key(&tag) => {
                self.add(frame)?;
                Ok(self.drop_partial(tag).map(|body| Frame { kind, tag, more: false, body }))
            }
            _ => Ok(Some(frame)),
        }
    }

    /// Bytes of what is not whole yet.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn add(&mut self, Frame { kind, tag, body, .. }: Frame) -> Result<(), BadMessage> {
        if self.bytes + body.len() > self.most {
            return Err(BadMessage::FragmentBytes(self.most));
        }
        if self.partial.len() >= MOST_TAGS && !self.partial.contains_key(&tag) {
            return Err(BadMessage::FragmentTags(MOST_TAGS));
        }
        let partial = self.partial.entry(tag).or_insert_with(|| Partial { kind, body: BytesMut::new() });
        if partial.kind != kind {
            return Err(BadMessage::MixedFragments(tag));
        }
        // Copied: a slice would keep the whole buffer that it was read into.
        partial.body.extend_from_slice(&body);
        self.bytes += body.len();
        Ok(())
    }

    fn drop_partial(&mut self, tag: Tag) -> Option<Bytes> {
        let partial = self.partial.remove(&tag)?;
        self.bytes -= partial.body.len();
        Some(partial.body.freeze())
    }
}

/// Writes a good `Rdispatch` whose payload is `head` and then `body`, in pieces of at most `window` bytes.
pub fn write_reply(out: &mut Output, tag: Tag, window: usize, head: &[u8], body: Bytes) {
    const START: [u8; 3] = [Status::Ok as u8, 0, 0]; // and no contexts
    let kind = Kind::Rdispatch;
    let length = START.len() + head.len() + body.len();
    if length <= window {
        header(out, kind, tag, false, length);
        out.push(&START);
        out.push(head);
        return out.share(body);
    }
    let window = window.max(LEAST_WINDOW);
    let mut left = length;
    let mut pieces = [Bytes::from_static(&START), Bytes::copy_from_slice(head), body];
    while left > 0 {
        let mut room = window.min(left);
        left -= room;
        header(out, kind, tag, left > 0, room);
        for piece in &mut pieces {
            let part = piece.split_to(piece.len().min(room));
            room -= part.len();
            out.share(part);
        }
    }
}
