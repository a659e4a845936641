//! The codec against bytes of finagle, recordings of namerd, and Apache's own code.

mod agree;
mod apache;
mod client;
mod golden;
mod hostile;
mod vectors;

#[path = "../../../idl/namer.rs"]
#[rustfmt::skip]
#[allow(clippy::all, clippy::unwrap_used, dead_code, missing_docs, unused)]
mod generated;

use bytes::{Bytes, BytesMut};

use crate::interpreter::{AddrSource, Bound, BoundId};
use crate::name::{NameTree, Path};

use super::*;

/// Bytes from hexadecimal digits; blanks between them do not count.
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    assert_eq!(digits.len() % 2, 0, "{text}");
    digits.chunks(2).map(byte).collect()
}

fn shown(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[track_caller]
fn assert_bytes(actual: &[u8], expected: &[u8]) {
    assert_eq!(shown(actual), shown(expected));
}

fn path(text: &str) -> Path {
    Path::parse(text).unwrap()
}

fn leaf(id: &str, residual: &str) -> NameTree<Bound> {
    NameTree::Leaf(Bound {
        id: BoundId::Path(path(id)),
        residual: path(residual),
        source: AddrSource::None,
        weight: None,
    })
}

/// A reply as it stands in a frame.
fn reply(call: &Call, body: Bytes) -> BytesMut {
    let mut out = BytesMut::new();
    reply_head(&mut out, call.ask.method().name().as_bytes(), call.seqid);
    out.extend_from_slice(&body);
    out
}

/// What is answered to a message that is no call.
fn answer(bad: &BadCall) -> Option<BytesMut> {
    let mut out = BytesMut::new();
    match bad {
        BadCall::Header(_) => return None,
        BadCall::Exception { name, seqid, kind, message } => exception(&mut out, name, *seqid, *kind, message),
        BadCall::Failure { method, seqid, body } => {
            reply_head(&mut out, method.name().as_bytes(), *seqid);
            out.extend_from_slice(body);
        }
    }
    Some(out)
}
