//! One call, read from its message.

use bytes::{Bytes, BytesMut};

use super::ask::{Ask, Method, Refusal};

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
    /// To be answered with [`super::exception`].
    Exception {
        /// Echoed.
        name: Bytes,
        /// Echoed.
        seqid: i32,
        /// One of [`super::kind`].
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
        /// What follows [`super::reply_head`].
        body: Bytes,
    },
}

/// Reads the message of one call, in the strict form or the old one.
///
/// # Errors
/// It is not a call that can be served; the error says what to answer.
pub fn read_call(message: &[u8]) -> Result<Call, BadCall> {
    let _ = message;
    Err(BadCall::Header("unreadable".to_owned()))
}

/// Appends the reply, head and body, of a call that is not served.
pub fn refuse(out: &mut BytesMut, call: &Call, refusal: &Refusal) {
    let _ = (out, call, refusal);
}
