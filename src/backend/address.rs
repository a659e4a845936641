//! Where a backend listens.

use std::fmt;
use std::net::IpAddr;

/// Host and port of a backend.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// A name or a literal, IPv6 without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

// === impl Address ===

impl Address {
    /// An address of a configuration, where a literal may be written as in a URL.
    #[must_use]
    pub fn new(host: &str, port: u16) -> Self {
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        Self { host: bare.unwrap_or(host).to_owned(), port }
    }

    /// As it stands in a URL, and in the `Host` of namerd's requests: without the port if that is 80 or 443
    /// (`SetHostFilter`).
    #[must_use]
    pub fn authority(&self) -> String {
        let Self { host, port } = self;
        let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        if matches!(port, 80 | 443) { host } else { format!("{host}:{port}") }
    }

    /// Is it on this machine?
    #[must_use]
    pub fn is_here(&self) -> bool {
        self.host.eq_ignore_ascii_case("localhost") || self.host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
    }
}

/// `host:port`
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bracket = self.host.contains(':');
        let (open, close) = if bracket { ("[", "]") } else { ("", "") };
        write!(f, "{open}{}{close}:{}", self.host, self.port)
    }
}
