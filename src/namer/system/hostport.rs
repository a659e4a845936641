//! `io.buoyant.hostportPfx` and `io.buoyant.porthostPfx`: `/pfx/host:port/…` with host and port apart.

use super::{Rewritten, elem, then_rest};
use crate::name::Path;
use crate::text::java;

/// The longest DNS label.
const LABEL_MAX: usize = 63;

/// `/pfx/host:port/…` to `/pfx/host/port/…`.
pub(super) fn host_port_pfx(rest: &Path) -> Rewritten {
    rewrite(rest, |pfx, host, port| [pfx, host, port])
}

/// `/pfx/host:port/…` to `/pfx/port/host/…`.
pub(super) fn port_host_pfx(rest: &Path) -> Rewritten {
    rewrite(rest, |pfx, host, port| [pfx, port, host])
}

fn rewrite(rest: &Path, order: for<'t> fn(&'t str, &'t str, &'t str) -> [&'t str; 3]) -> Rewritten {
    let (Some(pfx), Some(both)) = (elem(rest, 0), elem(rest, 1)) else {
        return Ok(None);
    };
    match java::split(&both, ':')[..] {
        // The host is not checked; an empty one is an empty element.
        [host, port] if is_port(port) => then_rest(order(&pfx, host, port), rest, 2).map(Some),
        _ => Ok(None),
    }
}

/// A number or a name: small letters, digits and `-`, but not `-` first.
fn is_port(port: &str) -> bool {
    let letter_or_digit = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    port.len() <= LABEL_MAX
        && port.bytes().next().is_some_and(letter_or_digit)
        && port.bytes().all(|byte| letter_or_digit(byte) || byte == b'-')
}
