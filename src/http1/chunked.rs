//! Chunked bodies of requests.

use super::body::BodyError;

/// Longest line with the size of a chunk, extensions included.
const MOST_SIZE_LINE: usize = 1 << 10;
/// Longest block of trailers; they are read over.
const MOST_TRAILERS: usize = 8 << 10;

/// Decodes a chunked body piece by piece.
#[derive(Debug, Default)]
pub(super) struct ChunkReader {
    state: State,
    body: Vec<u8>,
    trailers: usize,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Size,
    Data(usize),
    DataEnd,
    Trailers,
}

impl ChunkReader {
    /// Takes what it can use from the start of `input` and says how much that was, and the body once it is whole.
    ///
    /// # Errors
    /// The body is malformed, or larger than `limit`.
    pub(super) fn take(&mut self, input: &[u8], limit: usize) -> Result<(usize, Option<Vec<u8>>), BodyError> {
        let mut at = 0;
        loop {
            let rest = &input[at..];
            match self.state {
                State::Size => {
                    let Some((line, used)) = line(rest, MOST_SIZE_LINE)? else { return Ok((at, None)) };
                    at += used;
                    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii_end();
                    let size = hex(digits).ok_or(BodyError::Malformed)?;
                    if self.body.len() + size > limit {
                        return Err(BodyError::TooLarge);
                    }
                    self.state = if size == 0 { State::Trailers } else { State::Data(size) };
                }
                State::Data(left) => {
                    let now = left.min(rest.len());
                    self.body.extend_from_slice(&rest[..now]);
                    at += now;
                    if now < left {
                        self.state = State::Data(left - now);
                        return Ok((at, None));
                    }
                    self.state = State::DataEnd;
                }
                State::DataEnd => match rest {
                    [b'\r', b'\n', ..] => {
                        at += 2;
                        self.state = State::Size;
                    }
                    [] | [b'\r'] => return Ok((at, None)),
                    _ => return Err(BodyError::Malformed),
                },
                State::Trailers => {
                    let Some((line, used)) = line(rest, MOST_TRAILERS)? else { return Ok((at, None)) };
                    at += used;
                    self.trailers += used;
                    if line.is_empty() {
                        return Ok((at, Some(std::mem::take(&mut self.body))));
                    }
                    if self.trailers > MOST_TRAILERS {
                        return Err(BodyError::Malformed);
                    }
                }
            }
        }
    }
}

/// The line at the start of `input` without its end, and its length with it.
fn line(input: &[u8], most: usize) -> Result<Option<(&[u8], usize)>, BodyError> {
    match input.iter().position(|byte| *byte == b'\n') {
        Some(end) if end <= most => match input[..end].strip_suffix(b"\r") {
            // A line that others may see as two is refused.
            Some(line) if line.iter().all(|byte| *byte == b'\t' || !byte.is_ascii_control()) => {
                Ok(Some((line, end + 1)))
            }
            Some(_) | None => Err(BodyError::Malformed),
        },
        Some(_) => Err(BodyError::Malformed),
        None if input.len() > most => Err(BodyError::Malformed),
        None => Ok(None),
    }
}

/// At most 15 digits, so that no sum with a size can overflow.
fn hex(digits: &[u8]) -> Option<usize> {
    if digits.is_empty() || digits.len() > 15 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    usize::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds the text in pieces of `step` bytes; returns the body and what was left over.
    fn read(text: &str, step: usize, limit: usize) -> Result<(String, usize), BodyError> {
        let (mut reader, mut have, mut fed) = (ChunkReader::default(), Vec::new(), 0);
        loop {
            let (used, body) = reader.take(&have, limit)?;
            have.drain(..used);
            if let Some(body) = body {
                return Ok((String::from_utf8(body).expect("text"), have.len() + text.len() - fed));
            }
            assert!(fed < text.len(), "never ends");
            let next = (fed + step).min(text.len());
            have.extend_from_slice(&text.as_bytes()[fed..next]);
            fed = next;
        }
    }

    #[test]
    fn chunks_are_joined_however_they_arrive() {
        let text = "3\r\n/a=\r\n0003;x=y\r\n>/b\r\n0\r\nTrailer: x\r\n\r\nGET";
        for step in 1..text.len() {
            assert_eq!(read(text, step, 6), Ok(("/a=>/b".to_owned(), 3)), "{step}");
        }
        assert_eq!(read(text, 1, 5), Err(BodyError::TooLarge));
    }

    #[test]
    fn anything_but_chunks_is_refused() {
        for text in [
            "\r\n\r\n",
            "x\r\n",
            "-1\r\n",
            "0x1\r\na\r\n",
            "ffffffffffffffff\r\n",
            "1\na\r\n",
            "1\r\nab\r\n",
            "1\r\na\n",
            "1\r\r\na\r\n",
            "1\x0c\r\na\r\n",
            "1;a\rb\r\na\r\n",
            "1 2\r\na\r\n",
            "0\r\na: b\rc: d\r\n\r\n",
        ] {
            assert_eq!(read(text, text.len(), 100), Err(BodyError::Malformed), "{text:?}");
        }
        let endless = format!("1;{}", "x".repeat(MOST_SIZE_LINE));
        assert_eq!(read(&endless, endless.len(), 100), Err(BodyError::Malformed));
        let trailers = format!("0\r\n{}\r\n", "a: b\r\n".repeat(MOST_TRAILERS / 6 + 2));
        assert_eq!(read(&trailers, trailers.len(), 100), Err(BodyError::Malformed));
    }

    #[test]
    fn a_huge_chunk_is_refused_before_it_is_read() {
        assert_eq!(read("fffffffffffffff\r\n", 17, 16 << 20), Err(BodyError::TooLarge));
    }
}
