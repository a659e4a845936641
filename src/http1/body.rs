//! Bodies of requests: read whole, within bounds.

use bytes::{Bytes, BytesMut};

use super::chunked::ChunkReader;

/// How the end of a body is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// After so many bytes.
    Length(u64),
    /// After the last chunk.
    Chunked,
}

/// Why a body was not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BodyError {
    /// More than is accepted; names the limit, since raising it is the remedy.
    #[error("the request body is larger than limits.bodyBytes allows")]
    TooLarge,
    /// The chunks are malformed, so nobody knows where the body ends.
    #[error("the chunks of the request body are malformed")]
    Malformed,
    /// All memory for large bodies is in use.
    #[error("too many large request bodies at a time")]
    NoRoom,
    /// A `Content-Encoding` other than gzip and deflate.
    #[error("the Content-Encoding of the request is not supported; gzip and deflate are")]
    UnknownCoding,
    /// Not what `Content-Encoding` says.
    #[error("the request body is not what its Content-Encoding says")]
    BadCoding,
}

/// Collects a body out of a connection's buffer.
#[derive(Debug)]
pub(super) enum BodyReader {
    Length(usize),
    Chunked(ChunkReader),
}

// === impl Framing ===

impl Framing {
    pub(super) fn is_empty(self) -> bool {
        self == Self::Length(0)
    }
}

// === impl BodyReader ===

impl BodyReader {
    /// # Errors
    /// The body says already that it is larger than `limit`.
    pub(super) fn new(framing: Framing, limit: usize) -> Result<Self, BodyError> {
        match framing {
            Framing::Length(length) => {
                let length = usize::try_from(length).ok().filter(|length| *length <= limit);
                length.map(Self::Length).ok_or(BodyError::TooLarge)
            }
            Framing::Chunked => Ok(Self::Chunked(ChunkReader::default())),
        }
    }

    /// Takes what has arrived; the body, once it is whole.
    ///
    /// # Errors
    /// [`BodyError::TooLarge`], [`BodyError::Malformed`]
    pub(super) fn take(&mut self, input: &mut BytesMut, limit: usize) -> Result<Option<Bytes>, BodyError> {
        match self {
            Self::Length(length) if input.len() >= *length => Ok(Some(input.split_to(*length).freeze())),
            Self::Length(_) => Ok(None),
            Self::Chunked(chunks) => {
                let (used, body) = chunks.take(input, limit)?;
                bytes::Buf::advance(input, used);
                Ok(body.map(Bytes::from))
            }
        }
    }
}
