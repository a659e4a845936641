//! `/$/io.buoyant.rinet/<port>/<host>`: as inet, port first.

use super::{SystemAddr, SystemName, elem};
use crate::name::{ParseError, Path};

/// Binds whatever port and host are; what is wrong with them shows in the addresses only. None when one is missing.
///
/// # Errors
/// namerd makes the id by reading port and host as the text of a path, and so an element that would have to be escaped
/// is refused, or read as something else.
pub(super) fn lookup(rest: &Path) -> Result<Option<SystemName>, ParseError> {
    let (Some(port), Some(host)) = (elem(rest, 0), elem(rest, 1)) else {
        return Ok(None);
    };
    let own = Path::parse("/$/io.buoyant.rinet")?;
    Ok(Some(SystemName::Bound {
        id: Some(own.concat(&Path::parse(&format!("/{port}/{host}"))?)),
        residual: rest.drop(2),
        addr: SystemAddr::Inet(format!("{host}:{port}").into()),
    }))
}
