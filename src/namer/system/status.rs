//! `/$/io.buoyant.http.status/<code>/…`: in Linkerd a service that answers with this status.

use super::{SystemAddr, SystemName, elem};
use crate::name::Path;
use crate::text::java::parse_int;

/// A bound name whose id is no path and whose residual is the whole rest; none unless the code is one of HTTP.
pub(super) fn lookup(rest: &Path) -> Option<SystemName> {
    let code = parse_int(&elem(rest, 0)?)?;
    (100..600).contains(&code).then(|| SystemName::Bound { id: None, residual: rest.clone(), addr: SystemAddr::None })
}
