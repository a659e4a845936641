//! The upgrade that finagle's own Thrift clients ask for with their first message: from then on every request begins
//! with a struct, and so does every reply (MuxDowngradingNegotiator.scala:136-188).

use super::read::{Reader, Type};

/// The method whose call asks for the upgrade. Its arguments do not matter. It is answered with a reply whose number is
/// 0, whatever that of the call, and whose body is an empty struct. Later in a connection it is an unknown method.
pub const UPGRADE: &str = "__can__finagle__trace__v3__";

/// An empty struct: the body of the reply to the upgrade, and what every reply begins with afterwards.
pub const EMPTY_STRUCT: u8 = 0;

/// The message of an upgraded connection without the struct before it, of which nothing is needed.
pub fn after_request_header(frame: &[u8]) -> Option<&[u8]> {
    let mut reader = Reader::new(frame);
    reader.skip(Type::Struct).ok()?;
    Some(reader.rest())
}
