//! The `Namer` service of namerd in Thrift's binary protocol: messages ↔ plain values. No I/O, no async.
//!
//! A message is what one mux frame or one frame of plain thrift carries, without any length before it.

mod arguments;
mod ask;
mod call;
mod encode;
mod explain;
mod nodes;
mod read;
pub mod reply;
pub mod request;
pub mod result;
#[cfg(test)]
mod tests;
mod upgrade;

pub use ask::{Ask, Method, NameRef, Refusal, Stamp};
pub use call::{BadCall, Call, failure, internal, read_call};
pub use encode::{exception, reply_head};
pub use explain::DelegateAsk;
pub use upgrade::{EMPTY_STRUCT, UPGRADE, after_request_header};

/// Kinds of a TApplicationException.
pub mod kind {
    /// No such method.
    pub const UNKNOWN_METHOD: i32 = 1;
    /// The call was understood and cannot be served.
    pub const INTERNAL_ERROR: i32 = 6;
    /// The arguments are unreadable.
    pub const PROTOCOL_ERROR: i32 = 7;
}
