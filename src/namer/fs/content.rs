//! The text of a file: one address a line.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;

use crate::name::{AddrSet, Address, Meta, meta_keys};
use crate::namer::hosts::Named;

/// So many characters of a malformed line are shown.
const MOST_SHOWN: usize = 1_000;

/// The largest file that is read, in bytes; namerd's "500 kB".
pub(super) const MAX_LEN: u64 = 500 * 1024;

/// What a readable file says.
#[derive(Debug, PartialEq)]
pub(super) struct Content {
    /// The lines that name an ip address.
    pub(super) literal: AddrSet,
    /// The lines that name a host.
    pub(super) named: Box<[Named]>,
}

/// A line that is no address; shown as namerd shows it, which is what clients are told.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed address: {text}")]
pub(super) struct Malformed {
    /// Which line, from 1.
    pub(super) line: usize,
    text: String,
}

impl Content {
    /// Whether no line is left after comments and blanks.
    pub(super) fn is_empty(&self) -> bool {
        self.literal.is_empty() && self.named.is_empty()
    }

    /// Reads lines of `host port` or `host port * weight`; `#` begins a comment. One bad line spoils the file.
    ///
    /// # Errors
    /// The first line that is none.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let text = String::from_utf8_lossy(bytes);
        // Some editors begin a file with this mark, which would become a part of the first host.
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        let mut metas = Metas::default();
        let (mut literal, mut named) = (Vec::new(), Vec::new());
        for (index, line) in text.split('\n').enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let Some((host, port, weight)) = split(line) else {
                // A file without line ends is one line of up to 500 kB, which nobody wants in an answer or a log.
                let shown: String = line.chars().take(MOST_SHOWN).collect();
                let cut = if shown.len() < line.len() { "…" } else { "" };
                return Err(Malformed { line: 1 + index, text: format!("{shown}{cut}") });
            };
            let meta = metas.of(weight);
            match host.parse::<IpAddr>() {
                Ok(ip) => literal.push(Address { ip: ip.to_canonical(), port, meta }),
                Err(_) => named.push(Named { host: host.into(), port, meta }),
            }
        }
        Ok(Self { literal: AddrSet::new(literal, Meta::default()), named: named.into() })
    }
}

impl fmt::Display for Content {
    /// The lines, put in order: what the state page shows.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let literal = self.literal.addrs().iter().map(|address| (address.ip.to_string(), address.port, &address.meta));
        let named = self.named.iter().map(|named| (named.host.to_string(), named.port, &named.meta));
        for (host, port, meta) in literal.chain(named) {
            write!(f, "{host} {port}")?;
            if let Some(weight) = meta.get(meta_keys::ENDPOINT_ADDR_WEIGHT) {
                write!(f, " * {weight}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

fn split(line: &str) -> Option<(&str, u16, Option<f64>)> {
    let mut words = line.split_ascii_whitespace();
    let (host, port) = (words.next()?, words.next()?.parse().ok().filter(|port| *port != 0)?);
    let weight = match words.next() {
        None => None,
        Some("*") => Some(weight(words.next()?)?),
        Some(_) => return None,
    };
    words.next().is_none().then_some((host, port, weight))
}

/// A number as Java reads it, which allows a type letter at the end. Those that JSON cannot carry are no weights.
fn weight(text: &str) -> Option<f64> {
    let digits = text.strip_suffix(['d', 'D', 'f', 'F']).unwrap_or(text);
    digits.parse().ok().filter(|weight: &f64| weight.is_finite())
}

/// One shared piece of metadata for each weight, since whole files have the same.
#[derive(Default)]
struct Metas(HashMap<u64, Meta>);

impl Metas {
    fn of(&mut self, weight: Option<f64>) -> Meta {
        let Some(weight) = weight else { return Meta::default() };
        let make = || Meta::default().with(meta_keys::ENDPOINT_ADDR_WEIGHT, weight);
        self.0.entry(weight.to_bits()).or_insert_with(make).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        Content::parse(text.as_bytes()).expect("well-formed").to_string()
    }

    fn refused(text: &str) -> String {
        Content::parse(text.as_bytes()).expect_err("malformed").to_string()
    }

    #[test]
    fn comments_blanks_and_line_ends_of_any_kind_do_not_count() {
        assert_eq!(
            shown("# two\r\n\r\n  192.0.2.1 80 # one\r\n\t192.0.2.2\t 81  \n#192.0.2.3 82\n"),
            "192.0.2.1 80\n192.0.2.2 81\n"
        );
        assert!(Content::parse(b"").expect("empty").is_empty());
        assert!(Content::parse(b"\n # nothing\n").expect("empty").is_empty());
        assert_eq!(shown("\u{feff}192.0.2.1 80"), "192.0.2.1 80\n");
    }

    #[test]
    fn a_weight_belongs_to_its_line_alone() {
        let content = Content::parse(b"127.0.0.1 8080\n127.0.0.1 8081 * 0.23\n").expect("well-formed");
        let weights: Vec<_> =
            content.literal.addrs().iter().map(|address| address.meta.get("endpoint_addr_weight")).collect();
        assert_eq!(weights, [None, Some(&serde_json::json!(0.23))]);
        assert_eq!(shown("192.0.2.1 80 * 2\n192.0.2.2 80 * 1e-1\n192.0.2.3 80 * 3d"), {
            "192.0.2.1 80 * 2.0\n192.0.2.2 80 * 0.1\n192.0.2.3 80 * 3.0\n"
        });
    }

    #[test]
    fn ip_addresses_and_host_names_are_told_apart() {
        let content = Content::parse(b"localhost 7777 * 2\n::1 9000\nweb.example 80\n").expect("well-formed");
        assert_eq!(content.literal.addrs(), ["[::1]:9000".parse::<std::net::SocketAddr>().expect("one").into()]);
        let hosts: Vec<_> = content.named.iter().map(|named| (&*named.host, named.port)).collect();
        assert_eq!(hosts, [("localhost", 7777), ("web.example", 80)]);
        assert_eq!(content.to_string(), "::1 9000\nlocalhost 7777 * 2.0\nweb.example 80\n");
    }

    #[test]
    fn one_bad_line_spoils_the_file_and_is_named() {
        assert_eq!(refused(&"é".repeat(100_000)), format!("malformed address: {}…", "é".repeat(MOST_SHOWN)));
        assert_eq!(refused("192.0.2.1 80\n  no # why\n"), "malformed address: no");
        assert_eq!(Content::parse(b"# a\n\n192.0.2.1 80\nno\n").expect_err("malformed").line, 4);
        for line in [
            "this is not an address",
            "192.0.2.1",
            "192.0.2.1 0",
            "192.0.2.1 65536",
            "192.0.2.1 -1",
            "192.0.2.1 http",
            "192.0.2.1:80",
            "192.0.2.1 80 2.5",
            "192.0.2.1 80 *",
            "192.0.2.1 80 *2.5",
            "192.0.2.1 80 * heavy",
            "192.0.2.1 80 * NaN",
            "192.0.2.1 80 * 1e999",
            "192.0.2.1 80 * 2 3",
        ] {
            assert_eq!(refused(line), format!("malformed address: {line}"));
        }
    }

    #[test]
    fn equal_weights_share_their_metadata() {
        let text: String = (0..100).map(|n| format!("192.0.2.{n} 80 * 2.5\n")).collect();
        let content = Content::parse(text.as_bytes()).expect("well-formed");
        let [first, .., last] = content.literal.addrs() else { panic!("a hundred") };
        let key = |address: &Address| std::ptr::from_ref(address.meta.iter().next().expect("a weight").1);
        assert_eq!(key(first), key(last));
    }
}
