//! Messages: what frames say.

use bytes::{Buf, Bytes};

use super::{Frame, Init, Kind, Tag};

/// What one peer says to the other. Contexts, destination and dtab of a dispatch are skipped: they are leftovers of
/// whichever request opened a watch, months ago perhaps.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the protocol's own names")]
pub enum Message {
    Treq { tag: Tag, payload: Bytes },
    Rreq { tag: Tag, status: Status, payload: Bytes },
    Tdispatch { tag: Tag, payload: Bytes },
    Rdispatch { tag: Tag, status: Status, payload: Bytes },
    Tdrain(Tag),
    Rdrain(Tag),
    Tping(Tag),
    Rping(Tag),
    Tdiscarded { tag: Tag, which: Tag, reason: Bytes },
    Rdiscarded(Tag),
    Tlease { tag: Tag, unit: u8, howmuch: u64 },
    Tinit { tag: Tag, init: Init },
    Rinit { tag: Tag, init: Init },
    Rerr { tag: Tag, reason: Bytes },
}

/// The first byte of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// The payload is the answer.
    Ok = 0,
    /// The payload is a text.
    Error = 1,
    /// Not served, for no fault of the request.
    Nack = 2,
}

/// What a peer sends is no message; it has no business here any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadMessage {
    /// Less than kind and tag.
    #[error("a message without kind and tag")]
    NoHeader,
    /// No kind has this number.
    #[error("a message of kind {0}, which there is not")]
    UnknownKind(i8),
    /// It ends before it should.
    #[error("a {0:?} that ends too early")]
    Short(Kind),
    /// No status has this number.
    #[error("a {0:?} with status {1}, which there is not")]
    UnknownStatus(Kind, u8),
    /// A kind that does not come in pieces did.
    #[error("a fragment of a {0:?}")]
    NotFragmentable(Kind),
    /// Two messages in pieces had one tag.
    #[error("fragments of two messages with the tag {0}")]
    MixedFragments(Tag),
    /// Messages in pieces came to more bytes than one message may have.
    #[error("fragments of more than {0} bytes")]
    FragmentBytes(usize),
    /// Too many messages were in pieces at a time.
    #[error("fragments of more than {0} messages at a time")]
    FragmentTags(usize),
}

/// Reads from the front of a body.
struct Reader {
    kind: Kind,
    rest: Bytes,
}

// === impl Message ===

impl Message {
    /// Reads a whole frame; one that came in pieces has gone through a [`super::Reassembly`].
    ///
    /// # Errors
    /// [`BadMessage`].
    pub fn read(frame: Frame) -> Result<Self, BadMessage> {
        let Frame { kind, tag, more: _, body } = frame;
        let mut reader = Reader { kind, rest: body };
        Ok(match kind {
            Kind::Treq => {
                reader.skip_keys()?;
                Self::Treq { tag, payload: reader.rest }
            }
            Kind::Rreq => Self::Rreq { tag, status: reader.status()?, payload: reader.rest },
            Kind::Tdispatch => {
                reader.skip_pairs()?; // contexts
                reader.skip_short()?; // destination
                reader.skip_pairs()?; // dtab
                Self::Tdispatch { tag, payload: reader.rest }
            }
            Kind::Rdispatch => {
                let status = reader.status()?;
                reader.skip_pairs()?; // contexts
                Self::Rdispatch { tag, status, payload: reader.rest }
            }
            Kind::Tdrain => Self::Tdrain(tag),
            Kind::Rdrain => Self::Rdrain(tag),
            Kind::Tping => Self::Tping(tag),
            Kind::Rping => Self::Rping(tag),
            Kind::Tdiscarded | Kind::OldTdiscarded => {
                Self::Tdiscarded { tag, which: reader.tag()?, reason: reader.rest }
            }
            Kind::Rdiscarded => Self::Rdiscarded(tag),
            Kind::Tlease => Self::Tlease { tag, unit: reader.byte()?, howmuch: reader.long()? },
            Kind::Tinit => Self::Tinit { tag, init: reader.init()? },
            Kind::Rinit => Self::Rinit { tag, init: reader.init()? },
            Kind::Rerr | Kind::OldRerr => Self::Rerr { tag, reason: reader.rest },
        })
    }

    /// The kind; of the two that exist twice, the one that finagle writes.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Treq { .. } => Kind::Treq,
            Self::Rreq { .. } => Kind::Rreq,
            Self::Tdispatch { .. } => Kind::Tdispatch,
            Self::Rdispatch { .. } => Kind::Rdispatch,
            Self::Tdrain(_) => Kind::Tdrain,
            Self::Rdrain(_) => Kind::Rdrain,
            Self::Tping(_) => Kind::Tping,
            Self::Rping(_) => Kind::Rping,
            Self::Tdiscarded { .. } => Kind::OldTdiscarded,
            Self::Rdiscarded(_) => Kind::Rdiscarded,
            Self::Tlease { .. } => Kind::Tlease,
            Self::Tinit { .. } => Kind::Tinit,
            Self::Rinit { .. } => Kind::Rinit,
            Self::Rerr { .. } => Kind::OldRerr,
        }
    }

    /// The tag.
    pub fn tag(&self) -> Tag {
        match self {
            Self::Tdrain(tag) | Self::Rdrain(tag) | Self::Tping(tag) | Self::Rping(tag) | Self::Rdiscarded(tag) => *tag,
            Self::Treq { tag, .. }
            | Self::Rreq { tag, .. }
            | Self::Tdispatch { tag, .. }
            | Self::Rdispatch { tag, .. }
            | Self::Tdiscarded { tag, .. }
            | Self::Tlease { tag, .. }
            | Self::Tinit { tag, .. }
            | Self::Rinit { tag, .. }
            | Self::Rerr { tag, .. } => *tag,
        }
    }
}

// === impl Reader ===

impl Reader {
    fn short(&self) -> BadMessage {
        BadMessage::Short(self.kind)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], BadMessage> {
        let bytes = *self.rest.first_chunk::<N>().ok_or(self.short())?;
        self.rest.advance(N);
        Ok(bytes)
    }

    fn byte(&mut self) -> Result<u8, BadMessage> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn long(&mut self) -> Result<u64, BadMessage> {
        self.array().map(u64::from_be_bytes)
    }

    fn tag(&mut self) -> Result<Tag, BadMessage> {
        self.array().map(|[a, b, c]| Tag::new(u32::from_be_bytes([0, a, b, c])))
    }

    fn status(&mut self) -> Result<Status, BadMessage> {
        match self.byte()? {
            0 => Ok(Status::Ok),
            1 => Ok(Status::Error),
            2 => Ok(Status::Nack),
            other => Err(BadMessage::UnknownStatus(self.kind, other)),
        }
    }

    fn skip(&mut self, bytes: usize) -> Result<(), BadMessage> {
        if self.rest.len() < bytes {
            return Err(self.short());
        }
        self.rest.advance(bytes);
        Ok(())
    }

    /// A text after its two bytes of length.
    fn skip_short(&mut self) -> Result<(), BadMessage> {
        let length = self.array().map(u16::from_be_bytes)?;
        self.skip(length.into())
    }

    /// Pairs of texts after their two bytes of number. What they say does not matter, so it may be anything.
    fn skip_pairs(&mut self) -> Result<(), BadMessage> {
        for _ in 0..self.array().map(u16::from_be_bytes)? {
            self.skip_short()?;
            self.skip_short()?;
        }
        Ok(())
    }

    /// The keys of a `Treq`: numbers and texts with a byte of length.
    fn skip_keys(&mut self) -> Result<(), BadMessage> {
        let keys = self.byte()?;
        if keys > 127 {
            return Err(self.short()); // finagle reads a negative number (Message.scala:446-508)
        }
        for _ in 0..keys {
            let [_, length] = self.array()?;
            self.skip(length.into())?;
        }
        Ok(())
    }

    fn init(&mut self) -> Result<Init, BadMessage> {
        let version = self.array().map(u16::from_be_bytes)?;
        let mut headers = Vec::new();
        while !self.rest.is_empty() {
            let mut text = || {
                let length = self.array().map(u32::from_be_bytes)? as usize;
                if self.rest.len() < length {
                    return Err(self.short());
                }
                Ok(self.rest.split_to(length))
            };
            headers.push((text()?, text()?));
        }
        Ok(Init { version, headers })
    }
}
