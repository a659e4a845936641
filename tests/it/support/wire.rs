//! A small HTTP/1.1 client that hides nothing: it sends bytes as they are and hands out heads, chunks and closes as they come.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use super::{Connection, PATIENCE};

/// One connection.
pub struct Wire {
    connection: Connection,
    unread: Vec<u8>,
    closed: bool,
    cut: bool,
    patience: Duration,
}

/// Status line and headers, in the order and spelling of the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    pub status_line: String,
    pub headers: Vec<(String, String)>,
}

/// A whole answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub head: Head,
    pub body: Vec<u8>,
}

/// What a chunked body does within a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chunk {
    /// One chunk, as the server cut it.
    Data(Vec<u8>),
    /// Nothing came; the stream is open.
    Silence,
    /// The final chunk came.
    End,
    /// The connection was closed without a final chunk.
    Cut,
}

/// `GET target` on a connection of its own.
pub fn get(port: u16, target: &str) -> Answer {
    request(port, &format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n"))
}

/// Sends this one request, as it is, on a connection of its own.
pub fn request(port: u16, raw: &str) -> Answer {
    let mut wire = Wire::open(port);
    wire.send(raw.as_bytes());
    wire.answer(raw.starts_with("HEAD "))
}

impl Wire {
    /// Connects to a port of this machine.
    pub fn open(port: u16) -> Self {
        Self::on(Connection::open(port))
    }

    /// Speaks on this connection.
    pub fn on(connection: Connection) -> Self {
        Self { connection, unread: Vec::new(), closed: false, cut: false, patience: PATIENCE }
    }

    /// Waits so long for what must come.
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: &[u8]) {
        self.connection.send(bytes).expect("the server reads");
    }

    /// The next head; fails the test when none comes.
    pub fn head(&mut self) -> Head {
        let bytes = self.until(b"\r\n\r\n", self.patience);
        let bytes = bytes.unwrap_or_else(|| panic!("no head, closed: {}, so far: {:?}", self.closed, self.unread));
        let text = String::from_utf8(bytes).expect("heads are ASCII");
        let mut lines = text.split("\r\n");
        let status_line = lines.next().unwrap_or_default().to_owned();
        let header = |line: &str| line.split_once(':').map(|(name, value)| (name.to_owned(), value.trim().to_owned()));
        Head { status_line, headers: lines.filter_map(header).collect() }
    }

    /// The next head with its whole body.
    pub fn answer(&mut self, to_head_request: bool) -> Answer {
        let head = self.head();
        let body = if to_head_request { Vec::new() } else { self.body(&head) };
        Answer { head, body }
    }

    /// The body behind this head, however it is delimited.
    pub fn body(&mut self, head: &Head) -> Vec<u8> {
        if head.status() < 200 || [204, 304].contains(&head.status()) {
            return Vec::new();
        }
        if head.header("transfer-encoding").is_some_and(|value| value.contains("chunked")) {
            let mut body = Vec::new();
            loop {
                match self.chunk(self.patience) {
                    Chunk::Data(data) => body.extend(data),
                    Chunk::End => return body,
                    other => panic!("{other:?} in the middle of a body"),
                }
            }
        }
        if let Some(length) = head.header("content-length") {
            let length = length.parse().expect("a length is a number");
            return self.exactly(length).expect("the body is as long as announced");
        }
        self.rest(self.patience)
    }

    /// What the chunked body does next, within a limit.
    pub fn chunk(&mut self, limit: Duration) -> Chunk {
        let deadline = Instant::now() + limit;
        loop {
            if let Some((at, size)) = chunk_size(&self.unread)
                && self.unread.len() >= at + size + 2
            {
                let data = self.unread[at..at + size].to_vec();
                assert_eq!(&self.unread[at + size..at + size + 2], b"\r\n", "a chunk ends with CRLF");
                self.unread.drain(..at + size + 2);
                return if size == 0 { Chunk::End } else { Chunk::Data(data) };
            }
            if !self.more(deadline) {
                return if self.closed { Chunk::Cut } else { Chunk::Silence };
            }
        }
    }

    /// Whatever comes within a limit, or until the server closes.
    pub fn rest(&mut self, limit: Duration) -> Vec<u8> {
        let deadline = Instant::now() + limit;
        while self.more(deadline) {}
        std::mem::take(&mut self.unread)
    }

    /// Whether the server has closed the connection, as far as reading has shown.
    pub fn closed(&self) -> bool {
        self.closed
    }

    /// Whether it was closed out of order: reset, or with TLS without a word.
    pub fn cut(&self) -> bool {
        self.cut
    }

    fn exactly(&mut self, length: usize) -> Option<Vec<u8>> {
        let deadline = Instant::now() + self.patience;
        while self.unread.len() < length {
            if !self.more(deadline) {
                return None;
            }
        }
        Some(self.unread.drain(..length).collect())
    }

    /// The bytes up to and without this mark.
    fn until(&mut self, mark: &[u8], limit: Duration) -> Option<Vec<u8>> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(at) = self.unread.windows(mark.len()).position(|window| window == mark) {
                let found = self.unread.drain(..at + mark.len()).take(at).collect();
                return Some(found);
            }
            if !self.more(deadline) {
                return None;
            }
        }
    }

    /// Reads once; false when the deadline passed or the server closed.
    fn more(&mut self, deadline: Instant) -> bool {
        let left = deadline.saturating_duration_since(Instant::now());
        if self.closed || left.is_zero() {
            return false;
        }
        let mut buffer = [0; 16 * 1024];
        match self.connection.read(&mut buffer, left) {
            Ok(0) => self.closed = true,
            Ok(read) => self.unread.extend_from_slice(&buffer[..read]),
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut => return false,
                ErrorKind::Interrupted => return true,
                _ => (self.closed, self.cut) = (true, true),
            },
        }
        !self.closed
    }
}

impl Head {
    /// The status code.
    pub fn status(&self) -> u16 {
        let code = self.status_line.split(' ').nth(1).and_then(|code| code.parse().ok());
        code.unwrap_or_else(|| panic!("no status in {:?}", self.status_line))
    }

    /// The value of the first header of this name, in whatever spelling.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

impl Answer {
    /// The body as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("the body is UTF-8")
    }
}

/// Where the data of the first chunk begins, and its size.
fn chunk_size(bytes: &[u8]) -> Option<(usize, usize)> {
    let line = bytes.windows(2).position(|window| window == b"\r\n")?;
    let text = std::str::from_utf8(&bytes[..line]).expect("a chunk size is ASCII");
    let size = usize::from_str_radix(text.split(';').next().unwrap_or_default(), 16);
    Some((line + 2, size.unwrap_or_else(|_| panic!("{text:?} is no chunk size"))))
}
