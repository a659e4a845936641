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
    #[error("no connection to {url} ({reason}); {hint} Another address: {option}")]
    Unreachable {
        /// The server.
        url: String,
        /// The innermost cause.
        reason: String,
        /// What to look after.
        hint: String,
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
    #[error("{url} broke off ({reason}); is this the port of {port}? {hint}")]
    Broken {
        /// What was asked.
        url: String,
        /// The innermost cause.
        reason: String,
        /// What should listen there.
        port: &'static str,
        /// What else may be the cause.
        hint: &'static str,
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

/// What to look after when there is no connection; `reason` is the innermost cause.
pub(super) fn unreachable_hint(reason: &str) -> String {
    if reason.contains("UnknownIssuer") || reason.contains("SelfSigned") || reason.contains("CaUsedAsEndEntity") {
        return "its certificate is of an authority that is not known here: name a file with that authority in \
                SSL_CERT_FILE."
            .to_owned();
    }
    if reason.contains("NotValidForName") {
        return "its certificate is for other names: ask under one of them.".to_owned();
    }
    if reason.contains("corrupt message") {
        return "it does not speak TLS, or something else listens there: is it http:// instead of https://?".to_owned();
    }
    "is the server running there?".to_owned()
}

/// What else may have broken a connection.
pub(super) fn broken_hint(url: &str, reason: &str) -> &'static str {
    if reason.contains("reset by peer") {
        return "If so, it may have as many connections as its limit allows: /limits.json of its admin server shows them.";
    }
    if url.starts_with("http://") { "If so, does it speak TLS? Then the address begins with https://." } else { "" }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::testing::run_alone;
    use std::io::Read;

    #[test]
    fn a_certificate_of_nobody_known_and_a_server_without_tls_have_a_remedy() {
        for (reason, hint) in [
            ("invalid peer certificate: UnknownIssuer", "SSL_CERT_FILE"),
            ("received corrupt message of type InvalidContentType", "http:// instead of https://"),
            ("Connection refused (os error 111)", "is the server running there?"),
        ] {
            assert!(unreachable_hint(reason).contains(hint), "{reason}");
        }
        assert!(broken_hint("http://x", "Connection reset by peer").contains("/limits.json"));
    }

    #[test]
    fn a_port_that_may_speak_tls_is_said_to() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let server = format!("http://{}", listener.local_addr().expect("it has one"));
        let closes = std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().expect("one comes");
            let read = socket.read(&mut [0; 4096]).expect("the request");
            assert!(read > 0, "it closes before it asks");
        });
        let line = ["rosterd", "healthcheck", "--admin", &server].map(Into::into);
        let ran = run_alone(line.to_vec());
        closes.join().expect("no panic");
        assert!(ran.talk.contains("does it speak TLS? Then the address begins with https://"), "{}", ran.talk);
    }
}
