//! `io.buoyant.http.*`: names made of methods and host names, rewritten. They know nothing of HTTP.

use super::{Rewritten, elem, then_rest};
use crate::name::Path;
use crate::text::java;

/// `/METHOD/…` to `/…`.
pub(super) fn any_method(rest: &Path) -> Rewritten {
    Ok(elem(rest, 0).filter(|method| is_method(method)).map(|_| rest.drop(1)))
}

/// `/pfx/METHOD/…` to `/pfx/…`.
pub(super) fn any_method_pfx(rest: &Path) -> Rewritten {
    Ok(elem(rest, 1).filter(|method| is_method(method)).map(|_| without_second(rest)))
}

/// `/host/…` to `/…`.
pub(super) fn any_host(rest: &Path) -> Rewritten {
    Ok(elem(rest, 0).filter(|host| is_host(host)).map(|_| rest.drop(1)))
}

/// `/pfx/host/…` to `/pfx/…`.
pub(super) fn any_host_pfx(rest: &Path) -> Rewritten {
    Ok(elem(rest, 1).filter(|host| is_host(host)).map(|_| without_second(rest)))
}

/// `/domain/sub.domain/…` to `/sub/…`.
pub(super) fn subdomain_of(rest: &Path) -> Rewritten {
    match (elem(rest, 0), elem(rest, 1)) {
        (Some(domain), Some(host)) => match subdomain(&domain, &host) {
            Some(sub) => then_rest([sub], rest, 2).map(Some),
            None => Ok(None),
        },
        _ => Ok(None),
    }
}

/// `/domain/pfx/sub.domain/…` to `/pfx/sub/…`.
pub(super) fn subdomain_of_pfx(rest: &Path) -> Rewritten {
    match (elem(rest, 0), elem(rest, 1), elem(rest, 2)) {
        (Some(domain), Some(pfx), Some(host)) => match subdomain(&domain, &host) {
            Some(sub) => then_rest([&*pfx, sub], rest, 3).map(Some),
            None => Ok(None),
        },
        _ => Ok(None),
    }
}

/// `/www.example.com/…` to `/com/example/www/…`.
pub(super) fn domain_to_path(rest: &Path) -> Rewritten {
    match elem(rest, 0) {
        Some(host) if is_host(&host) => then_rest(reversed(&host), rest, 1).map(Some),
        _ => Ok(None),
    }
}

/// `/pfx/www.example.com/…` to `/pfx/com/example/www/…`.
pub(super) fn domain_to_path_pfx(rest: &Path) -> Rewritten {
    match elem(rest, 1) {
        Some(host) if is_host(&host) => Ok(Some(rest.take(1).concat(&then_rest(reversed(&host), rest, 2)?))),
        _ => Ok(None),
    }
}

fn is_method(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_uppercase())
}

/// A DNS name, IPv4 or IPv6 address with or without a port; coarse, as in namerd.
fn is_host(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b':' | b'_' | b'-'))
}

fn without_second(path: &Path) -> Path {
    path.take(1).concat(&path.drop(2))
}

/// What stands before `.domain` in `host`, whose port does not count; never empty.
fn subdomain<'h>(domain: &str, host: &'h str) -> Option<&'h str> {
    if !is_host(domain) || !is_host(host) {
        return None;
    }
    let host = match host.find(':') {
        None | Some(0) => host,
        Some(port) => &host[..port],
    };
    host.strip_suffix(domain)?.strip_suffix('.').filter(|sub| !sub.is_empty())
}

/// The labels of a host, last first. A port stays with the last label.
fn reversed(host: &str) -> impl Iterator<Item = &str> {
    java::split(host, '.').into_iter().rev()
}
