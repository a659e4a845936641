//! Frames: length, kind, tag, body.

use std::fmt;

use bytes::{Buf, Bytes, BytesMut};

use super::BadMessage;

/// Bytes of the length before each frame.
pub(super) const LENGTH: usize = 4;
/// Bytes of kind and tag.
pub(super) const HEADER: usize = 4;

/// What a peer sends cannot be frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadFrame {
    /// A length above the most, or a negative one. Nothing was reserved for it.
    #[error("a frame of {length} bytes, where {most} are the most")]
    TooLong {
        /// The announced length, taken as unsigned.
        length: u32,
        /// The most.
        most: usize,
    },
    /// Less than kind and tag.
    #[error("a frame of {0} bytes, where {HEADER} are the least")]
    TooShort(u32),
}

/// Cuts the next frame from the front of what was read, without its length. None until it is whole.
///
/// # Errors
/// [`BadFrame`], as soon as the length is there.
pub fn take_frame(input: &mut BytesMut, most: usize) -> Result<Option<Bytes>, BadFrame> {
    let Some(length) = input.first_chunk::<LENGTH>().map(|length| u32::from_be_bytes(*length)) else { return Ok(None) };
    let bytes = length as usize;
    if bytes > most {
        return Err(BadFrame::TooLong { length, most });
    }
    if bytes < HEADER {
        return Err(BadFrame::TooShort(length));
    }
    if input.len() < LENGTH + bytes {
        return Ok(None);
    }
    input.advance(LENGTH);
    Ok(Some(input.split_to(bytes).freeze()))
}

/// What the beginning of a frame of mux says: how many bytes it has with those of its length, and whether it is a piece of
/// a message of which more is to come. None as long as that is not known.
pub fn peek_frame(input: &[u8]) -> Option<(usize, bool)> {
    let length = u32::from_be_bytes(*input.first_chunk::<LENGTH>()?) as usize;
    let header = u32::from_be_bytes(*input[LENGTH..].first_chunk::<HEADER>()?);
    Some((LENGTH + length, header & Tag::MORE != 0))
}

/// Names an exchange: a request's tag is free again once its answer was sent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tag(u32);

/// Kinds of messages. The two whose ids finagle took for signed by mistake exist twice: both are read, the old one is
/// written (Message.scala:363-387).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i8)]
#[expect(missing_docs, reason = "the protocol's own names")]
pub enum Kind {
    Treq = 1,
    Rreq = -1,
    Tdispatch = 2,
    Rdispatch = -2,
    Tdrain = 64,
    Rdrain = -64,
    Tping = 65,
    Rping = -65,
    Tdiscarded = 66,
    OldTdiscarded = -62,
    Rdiscarded = -66,
    Tlease = 67,
    Tinit = 68,
    Rinit = -68,
    Rerr = -128,
    OldRerr = 127,
}

/// A frame with its header read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// What it is.
    pub kind: Kind,
    /// What it belongs to.
    pub tag: Tag,
    /// Whether it is a fragment with more to follow.
    pub more: bool,
    /// The rest.
    pub body: Bytes,
}

// === impl Tag ===

impl Tag {
    /// No answer is expected.
    pub const MARKER: Self = Self(0);
    /// Pings, drain and handshake.
    pub const CONTROL: Self = Self(1);
    /// The largest one.
    pub const MAX: Self = Self(Self::MORE - 1);
    /// Set in the tag of a fragment with more to follow.
    pub(super) const MORE: u32 = 1 << 23;

    /// The tag with this number; bits above the 23 of a tag are cut off.
    pub const fn new(number: u32) -> Self {
        Self(number & (Self::MORE - 1))
    }

    /// Its number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

// === impl Kind ===

impl Kind {
    /// All of them.
    pub const ALL: [Self; 16] = [
        Self::Treq,
        Self::Rreq,
        Self::Tdispatch,
        Self::Rdispatch,
        Self::Tdrain,
        Self::Rdrain,
        Self::Tping,
        Self::Rping,
        Self::Tdiscarded,
        Self::OldTdiscarded,
        Self::Rdiscarded,
        Self::Tlease,
        Self::Tinit,
        Self::Rinit,
        Self::Rerr,
        Self::OldRerr,
    ];

    /// The kind with this number, if there is one.
    pub fn of(number: i8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.number() == number)
    }

    /// Its number, as messages of errors show it.
    pub const fn number(self) -> i8 {
        self as i8
    }

    /// Only these come in pieces.
    pub(super) const fn is_fragmentable(self) -> bool {
        matches!(self, Self::Tdispatch | Self::Rdispatch)
    }
}

// === impl Frame ===

impl Frame {
    /// Reads the header of what [`take_frame`] gave.
    ///
    /// # Errors
    /// Of no kind that there is, or too short for a header.
    pub fn read(mut bytes: Bytes) -> Result<Self, BadMessage> {
        let Some(header) = bytes.first_chunk::<HEADER>().map(|header| u32::from_be_bytes(*header)) else {
            return Err(BadMessage::NoHeader);
        };
        let [number, ..] = header.to_be_bytes();
        let kind = Kind::of(number.cast_signed()).ok_or(BadMessage::UnknownKind(number.cast_signed()))?;
        bytes.advance(HEADER);
        Ok(Self { kind, tag: Tag::new(header), more: header & Tag::MORE != 0, body: bytes })
    }
}
