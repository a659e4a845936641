//! Hosts that need no look-up.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::HostAddrs;
use crate::text::java::digit;

/// The longest text that the JVM takes for an IPv4 address.
const IPV4_MAX: usize = 15;

/// The longest name that DNS can carry, with its final dot.
const NAME_MAX: usize = 254;

/// What is known of a host without asking anybody: literals as the JVM reads them, `localhost` and the empty name
/// (127.0.0.1), and names too long for DNS. None for all others.
pub fn known_host(host: &str) -> Option<HostAddrs> {
    if host.is_empty() || host.eq_ignore_ascii_case("localhost") {
        return Some(HostAddrs::Found(vec![Ipv4Addr::LOCALHOST.into()]));
    }
    if let Some(v4) = ipv4(host) {
        return Some(HostAddrs::Found(vec![v4.into()]));
    }
    if let Ok(v6) = host.parse::<Ipv6Addr>() {
        // IPv4 written as `::ffff:192.0.2.1` is IPv4 to the JVM.
        return Some(HostAddrs::Found(vec![IpAddr::V6(v6).to_canonical()]));
    }
    (host.len() > NAME_MAX).then_some(HostAddrs::Unknown)
}

/// An IPv4 address as the JVM reads it: one to four decimal numbers, of which the last fills what is left of the
/// address. `127.1` is 127.0.0.1, `8080` is 0.0.31.144 and `010.0.0.1` is 10.0.0.1.
fn ipv4(text: &str) -> Option<Ipv4Addr> {
    if text.chars().count() > IPV4_MAX {
        return None;
    }
    let mut numbers = [0_u64; 4];
    let mut count = 0;
    for part in text.split('.') {
        let number = numbers.get_mut(count)?;
        if part.is_empty() {
            return None;
        }
        for c in part.chars() {
            *number = *number * 10 + u64::from(digit(c)?);
        }
        count += 1;
    }
    let (last, octets) = numbers[..count].split_last()?;
    let mut address = [0_u8; 4];
    for (place, octet) in address.iter_mut().zip(octets) {
        *place = u8::try_from(*octet).ok()?;
    }
    let width = 4 - octets.len();
    if *last >= 1 << (8 * width) {
        return None;
    }
    let bytes = u32::try_from(*last).ok()?.to_be_bytes();
    address[octets.len()..].copy_from_slice(&bytes[4 - width..]);
    Some(address.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(host: &str) -> Option<String> {
        match known_host(host)? {
            HostAddrs::Found(addrs) => Some(addrs.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(" ")),
            HostAddrs::Unknown => Some("unknown".to_owned()),
        }
    }

    #[test]
    fn short_ipv4_addresses_are_filled_from_the_right() {
        for (text, address) in [
            ("192.0.2.1", "192.0.2.1"),
            ("127.1", "127.0.0.1"),
            ("10.1.258", "10.1.1.2"),
            ("8080", "0.0.31.144"),
            ("4294967295", "255.255.255.255"),
            ("010.0.0.08", "10.0.0.8"),
            ("0", "0.0.0.0"),
            ("١٢٧.1", "127.0.0.1"),
        ] {
            assert_eq!(found(text).as_deref(), Some(address), "{text}");
        }
    }

    #[test]
    fn what_is_no_address_is_a_name() {
        for text in [
            "256.0.0.1",
            "1.2.3.256",
            "1.2.65536",
            "4294967296",
            "1.2.3.4.5",
            "1..2",
            ".1",
            "1.",
            "0x7f.1",
            "-1",
            "127.0.0.1a",
            "0000127.0.0.0001",
        ] {
            assert_eq!(found(text), None, "{text}");
        }
    }

    #[test]
    fn nobody_is_asked_for_localhost_or_for_ipv6_addresses() {
        assert_eq!(found("").as_deref(), Some("127.0.0.1"));
        assert_eq!(found("localhost").as_deref(), Some("127.0.0.1"));
        assert_eq!(found("2001:db8::1").as_deref(), Some("2001:db8::1"));
        assert_eq!(found("::ffff:192.0.2.1").as_deref(), Some("192.0.2.1"));
    }

    #[test]
    fn a_name_longer_than_dns_carries_is_unknown_at_once() {
        assert_eq!(found(&"a.".repeat(127)), None);
        assert_eq!(found(&"a.".repeat(128)).as_deref(), Some("unknown"));
    }
}
