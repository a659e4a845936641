//! Why an attempt to follow something ended.

use std::fmt;

use prometheus_client::encoding::{EncodeLabelValue, LabelValueEncoder};

use crate::store;

/// Bytes of a failure's text: it goes into logs, pages and the answers to clients, for each watch.
const MOST_TEXT: usize = 500;

/// How one attempt ended. None of these ends the watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Something went wrong; the next attempt comes after a delay.
    Failed(Failure),
    /// The server, or the connection, goes in good order: somebody else is asked at once.
    Gone(Reason),
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Failure {
    /// The kind of it.
    pub reason: Reason,
    /// One line for an operator.
    pub text: store::Reason,
}

/// The kinds of ends: a label of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum Reason {
    /// No address is known.
    NoAddress,
    /// No connection could be made.
    Connect,
    /// None was made in time.
    ConnectTimeout,
    /// The handshake of TLS failed.
    Tls,
    /// The server does not speak the protocol.
    Handshake,
    /// The handshake was not finished in time.
    HandshakeTimeout,
    /// No sign of life within the time for one.
    PingTimeout,
    /// The server closed the connection.
    Closed,
    /// What came cannot be read as the protocol.
    Protocol,
    /// The request was not served, for no fault of its own.
    Nack,
    /// The server could not read the request, or failed on it outside of the service.
    Refused,
    /// The service failed in a way that it does not declare.
    Exception,
    /// The failure that the method declares: the server knows that there is no answer.
    Declared,
    /// An answer that nobody can make sense of.
    BadAnswer,
    /// An HTTP status that is none of success.
    Status,
    /// A defect of this program.
    Panic,
    /// Too many requests are open.
    Busy,
    /// The server said that it goes.
    Draining,
    /// The server ended the stream in good order.
    EndOfStream,
    /// The connection was closed because nobody had used it.
    Idle,
    /// Nothing was heard for so long that somebody else is asked.
    Silent,
}

// === impl End ===

impl End {
    /// Something went wrong.
    pub fn failed(reason: Reason, text: impl Into<store::Reason>) -> Self {
        Self::Failed(Failure::new(reason, text))
    }

    /// The kind of it.
    pub fn reason(&self) -> Reason {
        match self {
            Self::Failed(failure) => failure.reason,
            Self::Gone(reason) => *reason,
        }
    }
}

impl From<Failure> for End {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

// === impl Failure ===

impl Failure {
    /// A failure of this kind. The text may be a server's: what is too long is cut, and it is one line.
    pub fn new(reason: Reason, text: impl Into<store::Reason>) -> Self {
        let text = text.into();
        let fits = text.len() <= MOST_TEXT && !text.contains(char::is_control);
        Self { reason, text: if fits { text } else { one_line(&text).into() } }
    }
}

fn one_line(text: &str) -> String {
    let mut line = String::new();
    for character in text.chars() {
        if line.len() >= MOST_TEXT {
            line.push('…');
            break;
        }
        line.push(if character.is_control() { ' ' } else { character });
    }
    line
}

// === impl Reason ===

impl Reason {
    /// All of them, in order.
    pub const ALL: [Self; 21] = [
        Self::NoAddress,
        Self::Connect,
        Self::ConnectTimeout,
        Self::Tls,
        Self::Handshake,
        Self::HandshakeTimeout,
        Self::PingTimeout,
        Self::Closed,
        Self::Protocol,
        Self::Nack,
        Self::Refused,
        Self::Exception,
        Self::Declared,
        Self::BadAnswer,
        Self::Status,
        Self::Panic,
        Self::Busy,
        Self::Draining,
        Self::EndOfStream,
        Self::Idle,
        Self::Silent,
    ];

    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::NoAddress => "no_address",
            Self::Connect => "connect",
            Self::ConnectTimeout => "connect_timeout",
            Self::Tls => "tls",
            Self::Handshake => "handshake",
            Self::HandshakeTimeout => "handshake_timeout",
            Self::PingTimeout => "ping_timeout",
            Self::Closed => "closed",
            Self::Protocol => "protocol",
            Self::Nack => "nack",
            Self::Refused => "refused",
            Self::Exception => "exception",
            Self::Declared => "declared",
            Self::BadAnswer => "bad_answer",
            Self::Status => "status",
            Self::Panic => "panic",
            Self::Busy => "busy",
            Self::Draining => "draining",
            Self::EndOfStream => "end_of_stream",
            Self::Idle => "idle",
            Self::Silent => "silent",
        }
    }

    /// Whether it lies with the connection, so that any sign of life of a server is a reason to try again at once.
    pub(super) const fn is_of_connection(self) -> bool {
        matches!(
            self,
            Self::NoAddress
                | Self::Connect
                | Self::ConnectTimeout
                | Self::Tls
                | Self::Handshake
                | Self::HandshakeTimeout
                | Self::PingTimeout
                | Self::Closed
                | Self::Protocol
                | Self::Draining
                | Self::EndOfStream
                | Self::Idle
        )
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl EncodeLabelValue for Reason {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        EncodeLabelValue::encode(&self.word(), encoder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_failure_is_one_line_and_not_long() {
        let text = |text: &str| Failure::new(Reason::Declared, text).to_string();
        assert_eq!(text("no such name: /a"), "no such name: /a");
        assert_eq!(text("a\r\nb\u{1b}[1m"), "a  b [1m");
        let long = text(&"ä".repeat(1 << 20));
        assert!((500..510).contains(&long.len()) && long.ends_with("ä…"), "{long}");
    }

    #[test]
    fn every_reason_has_its_place_and_a_word_of_its_own() {
        let mut words: Vec<_> = Reason::ALL.iter().map(|reason| reason.word()).collect();
        for (place, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, place);
        }
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), Reason::ALL.len());
    }
}
