//! Answers.

use std::borrow::Cow;
use std::fmt;
use std::io::Write;
use std::pin::Pin;

use bytes::Bytes;
use futures_util::Stream;

use super::Coding;

/// The lines of a watch; each is sent as one chunk. It is asked for the next one only when the one before has been
/// written, so a slow reader costs one line and no queue.
pub type Lines = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

/// A header name as it is spelled on the wire, and its value.
type Header = (&'static str, Cow<'static, str>);

/// An answer.
pub struct Response {
    /// The status code.
    pub status: u16,
    /// What follows the head.
    pub body: Body,
    headers: Vec<Header>,
    last_headers: Vec<Header>,
    close: bool,
}

/// What follows the head of an answer.
pub enum Body {
    /// Nothing, and no length either.
    None,
    /// All of it.
    Full(Bytes),
    /// What comes, chunk by chunk.
    Stream(Lines),
}

/// What the connection adds to an answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Framed {
    /// The answer to a HEAD: no body.
    pub(super) head: bool,
    /// The connection ends after it.
    pub(super) close: bool,
    /// How the body is encoded.
    pub(super) coding: Coding,
}

// === impl Response ===

impl Response {
    /// An answer without a body and without a length.
    pub fn new(status: u16) -> Self {
        let (headers, last_headers) = (Vec::new(), Vec::new());
        Self { status, body: Body::None, headers, last_headers, close: false }
    }

    /// An answer with a body, which may be empty.
    pub fn with_body(status: u16, body: impl Into<Bytes>) -> Self {
        Self { body: Body::Full(body.into()), ..Self::new(status) }
    }

    /// A stream: the head is sent at once, the lines as they come.
    pub fn stream(lines: Lines) -> Self {
        Self { body: Body::Stream(lines), ..Self::new(200) }
    }

    /// Something went wrong that is not the client's fault: 500 with the reason, and the connection ends, as namerd
    /// does it.
    pub fn failure(reason: impl fmt::Display) -> Self {
        Self { close: true, ..Self::with_body(500, one_line(reason)) }
    }

    /// A refusal with its reason in one line.
    pub fn refusal(status: u16, reason: impl fmt::Display) -> Self {
        Self::with_body(status, one_line(reason))
    }

    /// Adds a header. `name` is spelled as on the wire.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: impl Into<Cow<'static, str>>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Adds a header that comes after `Content-Length`.
    #[must_use]
    pub fn last_header(mut self, name: &'static str, value: impl Into<Cow<'static, str>>) -> Self {
        self.last_headers.push((name, value.into()));
        self
    }

    /// Ends the connection after this answer.
    #[must_use]
    pub fn closing(mut self) -> Self {
        self.close = true;
        self
    }

    pub(super) fn closes(&self) -> bool {
        self.close
    }

    /// The bytes of this answer to a plain GET on a connection that goes on; none for a stream.
    pub fn to_bytes(&self, accepted: Coding) -> Option<Bytes> {
        let Body::Full(body) = &self.body else { return None };
        let coding = self.coding(accepted);
        let body = coding.encode(body.clone());
        let mut out = Vec::with_capacity(body.len() + 160);
        self.write_head(&mut out, Framed { head: false, close: false, coding }, Some(body.len()));
        out.extend_from_slice(&body);
        Some(out.into())
    }

    /// The coding of the body: text and JSON are encoded if the client accepts it, anything else never is.
    pub(super) fn coding(&self, accepted: Coding) -> Coding {
        let textual = self.headers.iter().any(|(name, value)| {
            *name == "Content-Type" && (value.starts_with("text/") || value.starts_with("application/json"))
        });
        let empty = matches!(&self.body, Body::None) || matches!(&self.body, Body::Full(body) if body.is_empty());
        if textual && !empty { accepted } else { Coding::Identity }
    }

    /// Writes the status line and the headers. `length` is that of the encoded body, if it is known.
    pub(super) fn write_head(&self, out: &mut Vec<u8>, framed: Framed, length: Option<usize>) {
        let start = out.len();
        let status = self.status;
        put(out, format_args!("HTTP/1.1 {status} {}\r\n", reason_phrase(status)));
        // namerd puts this first where it decides before it has the answer, last where the answer has no length.
        let late_close = framed.head && length.is_none() && !matches!(self.body, Body::Stream(_));
        if framed.close && !late_close {
            out.extend_from_slice(b"Connection: close\r\n");
        }
        write_headers(out, &self.headers);
        let bodiless = framed.head || status == 204;
        let (length_name, transfer_name) = match framed.coding {
            Coding::Identity => ("Content-Length", "Transfer-Encoding"),
            // namerd's encoder spells its headers so.
            Coding::Gzip | Coding::Deflate => ("content-length", "transfer-encoding"),
        };
        if let Some(name) = framed.coding.name() {
            write_headers(out, &self.last_headers);
            put(out, format_args!("content-encoding: {name}\r\n"));
        }
        match (&self.body, length) {
            (Body::Stream(_), _) if !bodiless => put(out, format_args!("{transfer_name}: chunked\r\n")),
            (_, Some(length)) if status != 204 => put(out, format_args!("{length_name}: {length}\r\n")),
            _ => {}
        }
        if framed.coding == Coding::Identity {
            write_headers(out, &self.last_headers);
        }
        if framed.close && late_close {
            out.extend_from_slice(b"Connection: close\r\n");
        }
        out.extend_from_slice(b"\r\n");
        debug_assert!(out[start..].ends_with(b"\r\n\r\n"));
    }
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Response").field("status", &self.status).field("headers", &self.headers).finish_non_exhaustive()
    }
}

/// Reasons are one line: texts of backends and parsers may hold more.
fn one_line(reason: impl fmt::Display) -> Vec<u8> {
    let text = reason.to_string();
    if !text.contains(['\n', '\r']) {
        return text.into_bytes();
    }
    text.split(['\n', '\r']).map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ").into_bytes()
}

fn write_headers(out: &mut Vec<u8>, headers: &[Header]) {
    for (name, value) in headers {
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b": ");
        // A value that quotes a client's text must not end the header.
        out.extend(value.bytes().map(|byte| if byte < b' ' || byte == 0x7f { b' ' } else { byte }));
        out.extend_from_slice(b"\r\n");
    }
}

fn put(out: &mut Vec<u8>, text: fmt::Arguments<'_>) {
    out.write_fmt(text).expect("writing to memory cannot fail");
}

fn reason_phrase(status: u16) -> &'static str {
    match status {
        200 => "OK",
        204 => "No Content",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        412 => "Precondition Failed",
        413 => "Request Entity Too Large",
        415 => "Unsupported Media Type",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        _ => "Unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(response: &Response, head: bool, close: bool, accepted: Coding) -> String {
        let mut out = Vec::new();
        let length = match &response.body {
            Body::Full(body) => Some(body.len()),
            Body::None | Body::Stream(_) => None,
        };
        response.write_head(&mut out, Framed { head, close, coding: response.coding(accepted) }, length);
        String::from_utf8(out).expect("text")
    }

    fn dtab() -> Response {
        Response::with_body(200, "[]\n").header("Etag", "AAAAAAAAAAE=").header("Content-Type", "application/json")
    }

    #[test]
    fn headers_come_in_namerds_order_and_spelling() {
        assert_eq!(
            head(&dtab(), false, true, Coding::Identity),
            "HTTP/1.1 200 OK\r\nConnection: close\r\nEtag: AAAAAAAAAAE=\r\nContent-Type: application/json\r\n\
             Content-Length: 3\r\n\r\n"
        );
        assert_eq!(
            head(&dtab(), false, false, Coding::Gzip),
            "HTTP/1.1 200 OK\r\nEtag: AAAAAAAAAAE=\r\nContent-Type: application/json\r\ncontent-encoding: gzip\r\n\
             content-length: 3\r\n\r\n"
        );
        assert_eq!(head(&Response::new(204), false, false, Coding::Gzip), "HTTP/1.1 204 No Content\r\n\r\n");
        assert_eq!(
            head(&Response::new(200).header("Etag", "x"), true, true, Coding::Identity),
            "HTTP/1.1 200 OK\r\nEtag: x\r\nConnection: close\r\n\r\n"
        );
        let ping = Response::with_body(200, "pong")
            .header("Content-Type", "text/plain;charset=UTF-8")
            .last_header("Content-Language", "en");
        assert_eq!(
            head(&ping, false, false, Coding::Identity),
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain;charset=UTF-8\r\nContent-Length: 4\r\nContent-Language: en\r\n\r\n"
        );
        assert_eq!(
            head(&ping, false, false, Coding::Gzip),
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain;charset=UTF-8\r\nContent-Language: en\r\n\
             content-encoding: gzip\r\ncontent-length: 4\r\n\r\n"
        );
    }

    #[test]
    fn a_stream_has_chunks_and_its_head_answer_none() {
        let stream =
            || Response::stream(Box::pin(futures_util::stream::empty())).header("Content-Type", "application/json");
        assert_eq!(
            head(&stream(), false, false, Coding::Identity),
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        );
        assert_eq!(
            head(&stream(), true, true, Coding::Identity),
            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: application/json\r\n\r\n"
        );
    }

    #[test]
    fn only_text_and_json_are_encoded() {
        let with_type = |kind: &'static str| Response::with_body(200, "x").header("Content-Type", kind);
        assert_eq!(with_type("text/plain").coding(Coding::Gzip), Coding::Gzip);
        assert_eq!(with_type("application/dtab").coding(Coding::Gzip), Coding::Identity);
        assert_eq!(Response::with_body(200, "x").coding(Coding::Gzip), Coding::Identity);
        assert_eq!(
            Response::with_body(200, "").header("Content-Type", "text/plain").coding(Coding::Gzip),
            Coding::Identity
        );
    }

    #[test]
    fn a_text_of_a_client_cannot_end_a_header_or_a_line() {
        let warned = Response::new(204).header("Warning", "a\r\nSet-Cookie: b".to_owned());
        assert!(head(&warned, false, false, Coding::Identity).contains("Warning: a  Set-Cookie: b\r\n"));
        let Body::Full(body) = Response::refusal(400, "one\n  two\r\n").body else { panic!("a body") };
        assert_eq!(body, "one two");
    }
}
