//! Where a backend listens.

use std::fmt::{self, Write};
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

    /// The value of a key for the host alone: a name, or a literal address. What else people write there would be looked
    /// up as a name, and never found.
    ///
    /// # Errors
    /// What to write instead.
    pub fn read_host(text: &str) -> Result<String, String> {
        let bare = text.rsplit_once("://").map_or(text, |(_, rest)| rest).split('/').next().unwrap_or_default();
        let is_literal = |host: &str| host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
        if is_literal(text) {
            return Ok(text.to_owned());
        }
        let name = bare.rsplit_once(':').filter(|_| !is_literal(bare)).map_or(bare, |(name, _)| name);
        if name == text && !text.is_empty() {
            return Ok(text.to_owned());
        }
        let written = if name.is_empty() { "localhost" } else { name };
        let mut remedy = format!("write `host: {written}`");
        if let Some((_, port)) = bare.rsplit_once(':').filter(|(before, _)| *before == name) {
            let _ = write!(remedy, " and `port: {port}`");
        }
        if text.starts_with("https://") {
            remedy.push_str(", and `tls` for TLS");
        }
        Err(format!("'{text}' is not a host name or an address without scheme, port and path: {remedy}"))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_neither_scheme_nor_port_nor_path() {
        for good in ["localhost", "consul.example", "127.0.0.1", "::1", "[::1]", "2001:db8::1"] {
            assert_eq!(Address::read_host(good), Ok(good.to_owned()));
        }
        for (text, remedy) in [
            ("http://localhost", "write `host: localhost`"),
            ("https://consul:8501", "write `host: consul` and `port: 8501`, and `tls` for TLS"),
            ("consul:8500", "write `host: consul` and `port: 8500`"),
            ("[::1]:8500", "write `host: [::1]` and `port: 8500`"),
            ("consul/v1", "write `host: consul`"),
            ("", "write `host: localhost`"),
        ] {
            let refused = Address::read_host(text).expect_err(text);
            assert!(refused.ends_with(&format!("path: {remedy}")), "{refused}");
        }
    }
}
