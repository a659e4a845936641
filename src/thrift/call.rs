//! One call, read from its message.

use bytes::Bytes;

use super::ask::{Ask, Method, NameRef};
use super::read::{Fault, Reader};
use super::{arguments, kind, result};

/// The high half of the first four bytes of a message in the strict form: version 1. The low byte is its kind, which
/// namerd does not look at.
const VERSION_1: u32 = 0x8001;

/// One call.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// Echoed in the reply.
    pub seqid: i32,
    /// What is asked.
    pub ask: Ask,
}

/// A message that is no call of `Namer`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadCall {
    /// The header is unreadable or the message ends early: no thrift message can answer. In mux a dispatch error with
    /// this text, on a plain connection its end.
    Header(String),
    /// To be answered with [`exception`].
    Exception {
        /// Echoed.
        name: Bytes,
        /// Echoed.
        seqid: i32,
        /// One of [`kind`].
        kind: i32,
        /// What is wrong.
        message: String,
    },
    /// To be answered with the method's declared failure, which is complete in `body`.
    Failure {
        /// The method called.
        method: Method,
        /// Echoed.
        seqid: i32,
        /// What follows [`reply_head`].
        body: Bytes,
    },
}

/// What a message begins with.
pub(super) struct Head<'m> {
    /// Whether it is a call, a reply, …
    pub kind: u8,
    /// The method.
    pub name: &'m [u8],
    /// The sequence number.
    pub seqid: i32,
}

/// Reads the message of one call, in the strict form or the old one. What follows the arguments is ignored.
///
/// # Errors
/// It is not a call that can be served; the error says what to answer.
pub fn read_call(message: &[u8]) -> Result<Call, BadCall> {
    let mut reader = Reader::new(message);
    let Head { kind: _, name, seqid } = Head::read(&mut reader).map_err(|fault| match fault {
        Fault::Cut => cut(),
        Fault::Protocol(text) => BadCall::Header(format!("unreadable message header: {text}")),
    })?;
    let refused = |kind, message| BadCall::Exception { name: Bytes::copy_from_slice(name), seqid, kind, message };
    let Some(method) = Method::named(name) else {
        let message = format!("Invalid method name: '{}'", String::from_utf8_lossy(name));
        return Err(refused(kind::UNKNOWN_METHOD, message));
    };
    match arguments::read(method, &mut reader) {
        Ok(ask) => Ok(Call { seqid, ask }),
        Err(arguments::Unusable::Unreadable(Fault::Cut)) => Err(cut()),
        Err(arguments::Unusable::Unreadable(Fault::Protocol(text))) => Err(refused(kind::PROTOCOL_ERROR, text)),
        Err(arguments::Unusable::Missing { what, name }) => {
            let body = failure(method, &format!("the request has no {what}"), &name);
            Err(BadCall::Failure { method, seqid, body })
        }
    }
}

impl<'m> Head<'m> {
    pub(super) fn read(reader: &mut Reader<'m>) -> Result<Self, Fault> {
        let first = reader.i32()?;
        if let Ok(length) = usize::try_from(first) {
            // The old form begins with the length of the name.
            let name = reader.take(length)?;
            return Ok(Self { name, kind: reader.byte()?, seqid: reader.i32()? });
        }
        let first = first.cast_unsigned();
        if first >> 16 != VERSION_1 {
            return Err(Fault::Protocol(format!("version {first:#010x} is none that is known")));
        }
        let [.., kind] = first.to_be_bytes();
        Ok(Self { kind, name: reader.bytes()?, seqid: reader.i32()? })
    }
}

fn cut() -> BadCall {
    BadCall::Header("the message ends early".to_owned())
}

/// The text of an exception of kind 6: something went wrong for which a method declares no failure.
pub fn internal(method: Method, text: &str) -> String {
    format!("Internal error processing {}: '{text}'", method.name())
}

/// The failure that a method declares; those of `bind` and `addr` echo the name.
pub fn failure(method: Method, reason: &str, name: &NameRef) -> Bytes {
    match method {
        Method::Bind => result::bind_failure(reason, name),
        Method::Addr => result::addr_failure(reason, name),
        Method::Delegate => result::delegation_failure(reason),
        Method::Dtab => result::dtab_failure(reason),
    }
}
