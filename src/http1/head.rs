//! The head of a request: the request line and the headers, as they came.

use httparse::Header;

use super::body::Framing;

/// Longest request line. (namerd: 4 KiB.)
pub(super) const MOST_LINE: usize = 64 << 10;
/// Longest block of headers, as in namerd.
const MOST_HEADERS: usize = 8 << 10;
/// Most headers; the shortest ones that fit are no use to anybody.
pub(super) const HEADER_SLOTS: usize = 128;

/// A request without its body, still in the connection's buffer.
#[derive(Debug)]
pub struct Head<'b> {
    /// The method, as it came.
    pub method: &'b str,
    /// What is asked for, as it came: nothing is decoded or cut off.
    pub target: &'b [u8],
    /// HTTP/1.0 rather than 1.1.
    pub http10: bool,
    headers: &'b [Header<'b>],
}

/// Why there is no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BadHead {
    /// It is not HTTP/1.
    Malformed,
    /// The request line is too long.
    LineTooLong,
    /// The headers are too long, or too many.
    HeadersTooLong,
}

/// How far a buffer has been looked through for the end of a head, so that it is not done twice.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// Where the current line begins.
    line: usize,
    /// Up to here there is no end of it.
    seen: usize,
}

// === impl Scan ===

impl Scan {
    /// The length of the head at the start of `input`, once it is there.
    ///
    /// # Errors
    /// It cannot become a head any more.
    pub(super) fn head_length(&mut self, input: &[u8]) -> Result<Option<usize>, BadHead> {
        if input.first().is_some_and(|first| !first.is_ascii_alphabetic()) {
            return Err(BadHead::Malformed); // TLS, mux, thrift: don't wait for a line that never ends
        }
        while let Some(found) = input[self.seen..].iter().position(|byte| *byte == b'\n') {
            let end = self.seen + found + 1;
            let (line, first) = (&input[self.line..end], self.line == 0);
            (self.line, self.seen) = (end, end);
            if first && end > MOST_LINE {
                return Err(BadHead::LineTooLong);
            }
            if !first && (line == b"\n" || line == b"\r\n") {
                return Ok(Some(end));
            }
        }
        self.seen = input.len();
        match self.line {
            0 if input.len() > MOST_LINE => Err(BadHead::LineTooLong),
            0 => Ok(None),
            _ if input.len() > MOST_LINE + MOST_HEADERS => Err(BadHead::HeadersTooLong),
            _ => Ok(None),
        }
    }
}

// === impl Head ===

impl<'b> Head<'b> {
    /// Takes a complete head apart.
    ///
    /// # Errors
    /// It is malformed, or has too many headers.
    pub(super) fn parse(head: &'b [u8], slots: &'b mut [Header<'b>; HEADER_SLOTS]) -> Result<Self, BadHead> {
        let end = head.iter().position(|byte| *byte == b'\n').ok_or(BadHead::Malformed)?;
        let (line, rest) = (head[..end].strip_suffix(b"\r").unwrap_or(&head[..end]), &head[end + 1..]);
        if rest.len() > MOST_HEADERS {
            return Err(BadHead::HeadersTooLong);
        }
        let mut words = line.split(|byte| *byte == b' ');
        let (Some(method), Some(target), Some(version), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(BadHead::Malformed);
        };
        let http10 = match version {
            b"HTTP/1.1" => false,
            b"HTTP/1.0" => true,
            _ => return Err(BadHead::Malformed),
        };
        let method = std::str::from_utf8(method).map_err(|_| BadHead::Malformed)?;
        if method.is_empty() || !method.bytes().all(is_token) || !is_target(target) {
            return Err(BadHead::Malformed);
        }
        let headers = match httparse::parse_headers(rest, slots) {
            Ok(httparse::Status::Complete((_, headers))) => headers,
            Err(httparse::Error::TooManyHeaders) => return Err(BadHead::HeadersTooLong),
            Ok(httparse::Status::Partial) | Err(_) => return Err(BadHead::Malformed),
        };
        Ok(Self { method, target, http10, headers })
    }

    /// The values of a header, in order.
    pub fn header_values(&self, name: &str) -> impl Iterator<Item = &'b [u8]> {
        self.headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(name)).map(|header| header.value)
    }

    /// The first value of a header.
    pub fn header(&self, name: &str) -> Option<&'b [u8]> {
        self.header_values(name).next()
    }

    pub(super) fn headers(&self) -> &'b [Header<'b>] {
        self.headers
    }

    /// Whether the connection goes on after the answer, as far as the client is concerned.
    pub(super) fn keeps_alive(&self) -> bool {
        let says = |word: &str| {
            self.header_values("connection")
                .flat_map(|value| value.split(|byte| *byte == b','))
                .any(|token| token.trim_ascii().eq_ignore_ascii_case(word.as_bytes()))
        };
        if self.http10 { says("keep-alive") && !says("close") } else { !says("close") }
    }

    /// How the end of the body is found. Anything on which two servers could differ is refused.
    ///
    /// # Errors
    /// The headers contradict each other or make no sense.
    pub(super) fn framing(&self) -> Result<Framing, BadHead> {
        let mut length = None;
        for value in self.header_values("content-length") {
            let digits = std::str::from_utf8(value).ok().filter(|value| value.bytes().all(|b| b.is_ascii_digit()));
            let this: u64 = digits.and_then(|digits| digits.parse().ok()).ok_or(BadHead::Malformed)?;
            if length.is_some_and(|before| before != this) {
                return Err(BadHead::Malformed);
            }
            length = Some(this);
        }
        let mut codings = self.header_values("transfer-encoding");
        match (codings.next(), codings.next(), length) {
            (None, _, None) => Ok(Framing::Length(0)),
            (None, _, Some(length)) => Ok(Framing::Length(length)),
            (Some(coding), None, None) if !self.http10 && coding.eq_ignore_ascii_case(b"chunked") => {
                Ok(Framing::Chunked)
            }
            _ => Err(BadHead::Malformed),
        }
    }

    /// A plain GET that a ready answer may serve: no body, nothing said about the connection, no other header that
    /// changes the answer.
    pub(super) fn is_plain_get(&self) -> bool {
        const SPECIAL: [&str; 5] = ["connection", "content-length", "transfer-encoding", "expect", "dtab-local"];
        self.method == "GET"
            && !self.http10
            && !self.headers.iter().any(|header| SPECIAL.iter().any(|name| header.name.eq_ignore_ascii_case(name)))
    }
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// No white space and no control characters; bytes that are not ASCII in the query only.
fn is_target(target: &[u8]) -> bool {
    let query = target.iter().position(|byte| *byte == b'?').unwrap_or(target.len());
    !target.is_empty()
        && target.iter().enumerate().all(|(at, byte)| match byte {
            0x21..=0x7e => true,
            0x80.. => at > query,
            _ => false,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_head<T>(text: &str, see: impl FnOnce(Result<Head<'_>, BadHead>) -> T) -> T {
        let mut slots = [httparse::EMPTY_HEADER; HEADER_SLOTS];
        see(Head::parse(text.as_bytes(), &mut slots))
    }

    fn framing(headers: &str) -> Result<Framing, BadHead> {
        with_head(&format!("PUT /x HTTP/1.1\r\n{headers}\r\n"), |head| head.expect("well-formed").framing())
    }

    #[test]
    fn a_target_stays_as_it_came() {
        let target = "/api/1/bind/default?path=/#/io.l5d.fs/web&dtab=/a=>/b;\"<é>";
        with_head(&format!("GET {target} HTTP/1.1\r\n\r\n"), |head| {
            assert_eq!(head.expect("well-formed").target, target.as_bytes());
        });
    }

    #[test]
    fn what_namerd_refuses_is_refused() {
        for line in [
            "GET",
            "GET /x",
            "GET /x y HTTP/1.1",
            "GET  /x HTTP/1.1",
            "GET /é HTTP/1.1",
            "GET /x\u{1} HTTP/1.1",
            "GET /x HTTP/2.0",
            "G(T /x HTTP/1.1",
        ] {
            with_head(&format!("{line}\r\n\r\n"), |head| assert_eq!(head.unwrap_err(), BadHead::Malformed, "{line}"));
        }
        for header in ["a b: c", "a : c", ": c", "a: \u{1}", " folded: x"] {
            with_head(&format!("GET / HTTP/1.1\r\n{header}\r\n\r\n"), |head| {
                assert_eq!(head.unwrap_err(), BadHead::Malformed, "{header}");
            });
        }
    }

    #[test]
    fn a_head_is_found_however_it_is_cut() {
        let text = b"GET / HTTP/1.1\r\na: b\n\r\nGET";
        let mut scan = Scan::default();
        for cut in 0..23 {
            assert_eq!(scan.head_length(&text[..cut]), Ok(None), "{cut}");
        }
        assert_eq!(scan.head_length(text), Ok(Some(23)));
        assert_eq!(Scan::default().head_length(b"GET / HTTP/1.1\n\n"), Ok(Some(16)));
    }

    #[test]
    fn a_head_has_bounds() {
        let line = format!("GET /{} ", "x".repeat(MOST_LINE));
        assert_eq!(Scan::default().head_length(line.as_bytes()), Err(BadHead::LineTooLong));
        let fits = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(MOST_LINE - 20));
        assert_eq!(Scan::default().head_length(fits.as_bytes()), Ok(Some(fits.len())));
        let headers = format!("GET / HTTP/1.1\r\nx: {}", "y".repeat(MOST_HEADERS));
        with_head(&format!("{headers}\r\n\r\n"), |head| assert_eq!(head.unwrap_err(), BadHead::HeadersTooLong));
        let endless = format!("GET / HTTP/1.1\r\nx: {}", "y".repeat(MOST_LINE + MOST_HEADERS));
        assert_eq!(Scan::default().head_length(endless.as_bytes()), Err(BadHead::HeadersTooLong));
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a:\r\n".repeat(HEADER_SLOTS + 1));
        with_head(&many, |head| assert_eq!(head.unwrap_err(), BadHead::HeadersTooLong));
    }

    #[test]
    fn another_protocol_is_noticed_at_its_first_byte() {
        for bytes in [&b"\x16\x03\x01"[..], b"\x00\x00\x00\x28", b"\x80\x01\x00\x01"] {
            assert_eq!(Scan::default().head_length(bytes), Err(BadHead::Malformed));
        }
    }

    #[test]
    fn only_one_reading_of_a_bodys_end_is_possible() {
        assert_eq!(framing(""), Ok(Framing::Length(0)));
        assert_eq!(framing("Content-Length: 7\r\n"), Ok(Framing::Length(7)));
        assert_eq!(framing("Content-Length: 7\r\ncontent-length: 7\r\n"), Ok(Framing::Length(7)));
        assert_eq!(framing("Transfer-Encoding: Chunked\r\n"), Ok(Framing::Chunked));
        for headers in [
            "Content-Length: 7\r\nContent-Length: 8\r\n",
            "Content-Length: +7\r\n",
            "Content-Length: \r\n",
            "Content-Length: 99999999999999999999\r\n",
            "Content-Length: 7\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: gzip, chunked\r\n",
            "Transfer-Encoding: identity\r\n",
        ] {
            assert_eq!(framing(headers), Err(BadHead::Malformed), "{headers}");
        }
    }

    #[test]
    fn the_connection_goes_on_as_the_client_wishes() {
        for (version, header, alive) in [
            ("1.1", "", true),
            ("1.1", "Connection: foo, Close\r\n", false),
            ("1.1", "Connection: keep-alive\r\n", true),
            ("1.0", "", false),
            ("1.0", "Connection: Keep-Alive\r\n", true),
            ("1.0", "Connection: keep-alive, close\r\n", false),
        ] {
            with_head(&format!("GET / HTTP/{version}\r\n{header}\r\n"), |head| {
                assert_eq!(head.expect("well-formed").keeps_alive(), alive, "{version} {header}");
            });
        }
    }
}
