//! Content codings: gzip and deflate, of answers as the client asks, of requests as they come.

use std::io::{self, Read, Write};

use bytes::Bytes;
use flate2::Compression;
use flate2::read::{GzDecoder, ZlibDecoder};
use flate2::write::{GzEncoder, ZlibEncoder};

use super::body::BodyError;

/// How a body is encoded. `deflate` is the zlib format, as everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coding {
    /// As it is.
    Identity,
    /// `gzip`
    Gzip,
    /// `deflate`
    Deflate,
}

/// Encodes the lines of a stream; each comes out at once.
pub(super) enum StreamCoder {
    Gzip(GzEncoder<Vec<u8>>),
    Deflate(ZlibEncoder<Vec<u8>>),
}

// === impl Coding ===

impl Coding {
    /// What an `Accept-Encoding` header asks for: the coding with the higher `q`, gzip if they are equal; `*` is gzip.
    pub fn accepted(header: Option<&[u8]>) -> Self {
        let Some(header) = header else { return Self::Identity };
        let (mut gzip, mut deflate, mut any) = (None::<f32>, None::<f32>, None::<f32>);
        for entry in String::from_utf8_lossy(header).split(',') {
            let q = entry.split_once('=').map_or(1.0, |(_, q)| q.trim().parse().unwrap_or(0.0));
            let slot = if entry.contains('*') {
                &mut any
            } else if entry.contains("gzip") {
                &mut gzip
            } else if entry.contains("deflate") {
                &mut deflate
            } else {
                continue;
            };
            *slot = Some(slot.map_or(q, |before| before.max(q)));
        }
        let wanted = |q: Option<f32>| q.unwrap_or(0.0);
        if wanted(gzip) > 0.0 || wanted(deflate) > 0.0 {
            return if wanted(gzip) >= wanted(deflate) { Self::Gzip } else { Self::Deflate };
        }
        match (gzip, deflate) {
            (None, _) if wanted(any) > 0.0 => Self::Gzip,
            (_, None) if wanted(any) > 0.0 => Self::Deflate,
            _ => Self::Identity,
        }
    }

    /// The value of `content-encoding`.
    pub(super) fn name(self) -> Option<&'static str> {
        match self {
            Self::Identity => None,
            Self::Gzip => Some("gzip"),
            Self::Deflate => Some("deflate"),
        }
    }

    /// Encodes a whole body.
    pub(super) fn encode(self, body: Bytes) -> Bytes {
        let out = Vec::with_capacity(body.len() / 4 + 64);
        let encoded = match self {
            Self::Identity => return body,
            Self::Gzip => {
                let mut encoder = GzEncoder::new(out, Compression::default());
                encoder.write_all(&body).and_then(|()| encoder.finish())
            }
            Self::Deflate => {
                let mut encoder = ZlibEncoder::new(out, Compression::default());
                encoder.write_all(&body).and_then(|()| encoder.finish())
            }
        };
        encoded.expect("writing to memory cannot fail").into()
    }

    /// A coder for a stream; none when there is nothing to encode.
    pub(super) fn stream(self) -> Option<StreamCoder> {
        match self {
            Self::Identity => None,
            Self::Gzip => Some(StreamCoder::Gzip(GzEncoder::new(Vec::new(), Compression::fast()))),
            Self::Deflate => Some(StreamCoder::Deflate(ZlibEncoder::new(Vec::new(), Compression::fast()))),
        }
    }
}

// === impl StreamCoder ===

impl StreamCoder {
    /// Encodes one line so that the client can decode it without waiting for the next.
    pub(super) fn line(&mut self, line: &[u8]) -> Vec<u8> {
        let done: io::Result<()> = match self {
            Self::Gzip(encoder) => encoder.write_all(line).and_then(|()| encoder.flush()),
            Self::Deflate(encoder) => encoder.write_all(line).and_then(|()| encoder.flush()),
        };
        done.expect("writing to memory cannot fail");
        match self {
            Self::Gzip(encoder) => std::mem::take(encoder.get_mut()),
            Self::Deflate(encoder) => std::mem::take(encoder.get_mut()),
        }
    }

    /// What ends the encoded stream.
    pub(super) fn end(self) -> Vec<u8> {
        match self {
            Self::Gzip(encoder) => encoder.finish(),
            Self::Deflate(encoder) => encoder.finish(),
        }
        .expect("writing to memory cannot fail")
    }
}

/// Decodes the body of a request.
///
/// # Errors
/// An unknown coding, a broken body, or one that is larger than `limit` when it is unpacked.
pub(super) fn decode(coding: &[u8], body: Bytes, limit: usize) -> Result<Bytes, BodyError> {
    if coding.eq_ignore_ascii_case(b"identity") {
        return Ok(body);
    }
    let reader: &mut dyn Read = if coding.eq_ignore_ascii_case(b"gzip") || coding.eq_ignore_ascii_case(b"x-gzip") {
        &mut GzDecoder::new(&body[..])
    } else if coding.eq_ignore_ascii_case(b"deflate") {
        &mut ZlibDecoder::new(&body[..])
    } else {
        return Err(BodyError::UnknownCoding);
    };
    let mut decoded = Vec::new();
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    reader.take(most).read_to_end(&mut decoded).map_err(|_| BodyError::BadCoding)?;
    if decoded.len() > limit {
        return Err(BodyError::TooLarge);
    }
    Ok(decoded.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_chooses_the_coding() {
        for (header, coding) in [
            ("gzip", Coding::Gzip),
            ("deflate", Coding::Deflate),
            ("deflate, gzip", Coding::Gzip),
            ("gzip;q=0.5, deflate", Coding::Deflate),
            ("gzip;q=0", Coding::Identity),
            ("gzip;q=x", Coding::Identity),
            ("*", Coding::Gzip),
            ("gzip;q=0, *", Coding::Deflate),
            ("gzip;q=0, *;q=0", Coding::Identity),
            ("identity", Coding::Identity),
            ("br", Coding::Identity),
            ("", Coding::Identity),
        ] {
            assert_eq!(Coding::accepted(Some(header.as_bytes())), coding, "{header}");
        }
        assert_eq!(Coding::accepted(None), Coding::Identity);
    }

    #[test]
    fn what_is_encoded_can_be_decoded() {
        let text = Bytes::from_static(b"[\"default\"]\n");
        for coding in [Coding::Gzip, Coding::Deflate] {
            let name = coding.name().expect("named").as_bytes();
            assert_eq!(decode(name, coding.encode(text.clone()), text.len()), Ok(text.clone()));
            assert_eq!(decode(name, coding.encode(text.clone()), text.len() - 1), Err(BodyError::TooLarge));
            assert_eq!(decode(name, text.clone(), 100), Err(BodyError::BadCoding));
        }
        assert_eq!(decode(b"br", text, 100), Err(BodyError::UnknownCoding));
    }

    #[test]
    fn a_small_body_that_unpacks_to_a_huge_one_is_refused() {
        let bomb = Coding::Gzip.encode(vec![0; 32 << 20].into());
        assert!(bomb.len() < 64 << 10);
        assert_eq!(decode(b"gzip", bomb, 16 << 20), Err(BodyError::TooLarge));
    }

    #[test]
    fn every_line_of_an_encoded_stream_can_be_read_at_once() {
        let mut coder = Coding::Gzip.stream().expect("a coder");
        let mut decoder = flate2::write::GzDecoder::new(Vec::new());
        for line in ["one\n", "two\n"] {
            decoder.write_all(&coder.line(line.as_bytes())).and_then(|()| decoder.flush()).expect("decodes");
            assert_eq!(std::mem::take(decoder.get_mut()), line.as_bytes());
        }
        decoder.write_all(&coder.end()).expect("decodes");
        assert!(decoder.finish().expect("whole").is_empty());
    }
}
