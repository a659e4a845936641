//! Why a server gave no usable answer.

use http::StatusCode;

/// Bytes of a refusal's text that are shown.
const SHOWN: usize = 4 << 10;

/// What went wrong with a request.
#[derive(Debug, thiserror::Error)]
pub(in crate::cli) enum ClientError {
    /// The address makes no sense.
    #[error("{url} is not the address of a server ({reason}); an address looks like http://127.0.0.1:4180 ({option})")]
    Address {
        /// As given.
        url: String,
        /// Why.
        reason: String,
        /// How to give another one.
        option: &'static str,
    },
    /// No connection.
    #[error("no connection to {url} ({reason}); is the server running there? Another address: {option}")]
    Unreachable {
        /// The server.
        url: String,
        /// The innermost cause.
        reason: String,
        /// How to give another address.
        option: &'static str,
    },
    /// Too slow.
    #[error("{url} did not answer within {seconds} s")]
    Slow {
        /// What was asked.
        url: String,
        /// The limit.
        seconds: u64,
    },
    /// The connection broke, or does not speak HTTP.
    #[error("{url} broke off ({reason}); is this the port of {port}?")]
    Broken {
        /// What was asked.
        url: String,
        /// The innermost cause.
        reason: String,
        /// What should listen there.
        port: &'static str,
    },
    /// The server says no.
    #[error("{method} {url} was answered with {status}{}", reason(.text))]
    Refused {
        /// What was done.
        method: http::Method,
        /// What it was done to.
        url: String,
        /// The answer.
        status: StatusCode,
        /// Its body.
        text: String,
        /// Its `ETag`.
        version: Option<String>,
    },
    /// The answer is not what this route answers with.
    #[error("the answer of {url} is not {expected}: {reason}; is this the port of {port}?")]
    Nonsense {
        /// What was asked.
        url: String,
        /// What it should have been.
        expected: &'static str,
        /// Why it is not.
        reason: String,
        /// What should listen there.
        port: &'static str,
    },
}

impl ClientError {
    /// The status with which the server refused.
    pub(in crate::cli) fn status(&self) -> Option<StatusCode> {
        match self {
            Self::Refused { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// Whether asking again later may help.
    pub(in crate::cli) fn may_pass(&self) -> bool {
        match self {
            Self::Refused { status, .. } => status.is_server_error(),
            Self::Address { .. } | Self::Nonsense { .. } => false,
            Self::Unreachable { .. } | Self::Slow { .. } | Self::Broken { .. } => true,
        }
    }
}

/// The reason in the body of a refusal, which is one line when the server is in its right mind.
fn reason(text: &str) -> String {
    let text = text.trim();
    if text.is_empty() {
        return String::new();
    }
    if text.starts_with('<') {
        return " and a web page; is this the right port?".to_owned();
    }
    format!(": {}", &text[..text.floor_char_boundary(SHOWN)])
}
