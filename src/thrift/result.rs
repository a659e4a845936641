//! Results: what follows the head of a reply. They do not depend on the caller, so one is made per version and shared.

use bytes::Bytes;

use crate::interpreter::{BoundTree, Delegation};
use crate::name::AddrSet;

use super::ask::NameRef;

/// A bound tree. The stamp is the version of what is shown, in eight bytes.
pub fn bound(stamp: u64, tree: &BoundTree, ns: &str) -> Bytes {
    let _ = (stamp, tree, ns);
    Bytes::new()
}

/// An address set; `None` says that the name does not exist.
///
/// namerd sends the metadata of an address only if it has an authority or a node name, so a weight alone is lost
/// (ThriftNamerInterface.scala:453-469); with `lone_weights` it is sent.
pub fn addr(stamp: u64, set: Option<&AddrSet>, lone_weights: bool) -> Bytes {
    let _ = (stamp, set, lone_weights);
    Bytes::new()
}

/// The text of a dtab.
pub fn dtab(stamp: u64, text: &str) -> Bytes {
    let _ = (stamp, text);
    Bytes::new()
}

/// An explanation.
pub fn delegation(delegation: &Delegation, ns: &str) -> Bytes {
    let _ = (delegation, ns);
    Bytes::new()
}

/// The declared failure of `bind`.
pub fn bind_failure(reason: &str, name: &NameRef) -> Bytes {
    let _ = (reason, name);
    Bytes::new()
}

/// The declared failure of `addr`.
pub fn addr_failure(reason: &str, name: &NameRef) -> Bytes {
    let _ = (reason, name);
    Bytes::new()
}

/// The declared failure of `delegate`.
pub fn delegation_failure(reason: &str) -> Bytes {
    let _ = reason;
    Bytes::new()
}

/// The declared failure of `dtab`.
pub fn dtab_failure(reason: &str) -> Bytes {
    let _ = reason;
    Bytes::new()
}
