//! `/$/inet` and `/$/fixedinet`: `/host/port`, or `/port` on the loopback address.

use std::sync::Arc;

use super::{SystemAddr, SystemName, elem};
use crate::name::Path;
use crate::text::java::parse_int;

/// Binds at once, whether or not the host exists: that shows in the addresses only. None when there is no port where
/// one is due.
///
/// `text` is `path` as text. The id is the consumed part of `path` as written.
pub(super) fn lookup(kind: &str, path: &Path, text: &Path) -> Option<SystemName> {
    let addr: fn(Arc<str>) -> SystemAddr = match kind {
        "inet" => SystemAddr::Inet,
        "fixedinet" => SystemAddr::Fixed,
        _ => return None,
    };
    let first = elem(text, 2)?;
    // `/8080/9090` is port 9090 of the host 8080.
    let second = elem(text, 3).and_then(|port| parse_int(&port));
    let (host, port, consumed) = match second {
        Some(port) => (&*first, port, 4),
        None => ("", parse_int(&first)?, 3),
    };
    Some(SystemName::Bound {
        id: Some(path.take(consumed)),
        residual: text.drop(consumed),
        addr: addr(format!("{host}:{port}").into()),
    })
}
