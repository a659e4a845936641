//! Heads of replies, and the words that results are made of.

use bytes::{BufMut, BytesMut};

use crate::name::Path;

use super::read::Type;

/// The strict form, version 1; the low byte is the kind of message.
const VERSION_1: u32 = 0x8001_0000;
const CALL: u8 = 1;
pub(super) const REPLY: u8 = 2;
pub(super) const EXCEPTION: u8 = 3;

/// Appends the head of a reply; the body of [`super::result`] follows it.
pub fn reply_head(out: &mut BytesMut, name: &[u8], seqid: i32) {
    out.reserve(12 + name.len());
    head(out, REPLY, name, seqid);
}

/// Appends a whole message: a TApplicationException.
pub fn exception(out: &mut BytesMut, name: &[u8], seqid: i32, kind: i32, message: &str) {
    head(out, EXCEPTION, name, seqid);
    out.string(1, message);
    out.number(2, kind);
    out.stop();
}

/// Appends the head of a call. Its number is 0: mux has tags to tell answers apart.
pub(super) fn call_head(out: &mut impl BufMut, name: &[u8]) {
    head(out, CALL, name, 0);
}

fn head(out: &mut impl BufMut, kind: u8, name: &[u8], seqid: i32) {
    out.put_u32(VERSION_1 | u32::from(kind));
    out.bytes(name);
    out.put_i32(seqid);
}

/// The vocabulary of the binary protocol.
///
/// All fields that are not optional are always written, empty ones too: a Linkerd that misses one gets a null.
pub(super) trait Encode: BufMut {
    /// Announces a field.
    fn field(&mut self, kind: Type, id: i16) {
        self.put_u8(kind as u8);
        self.put_i16(id);
    }

    /// Ends a struct or union.
    fn stop(&mut self) {
        self.put_u8(0);
    }

    /// A length or a count. What has more than 2^31 - 1 bytes is in nobody's memory.
    fn size(&mut self, size: usize) {
        self.put_u32(size as u32);
    }

    /// A string or binary.
    fn bytes(&mut self, bytes: &[u8]) {
        self.size(bytes.len());
        self.put_slice(bytes);
    }

    /// A field that is a string or binary.
    fn string(&mut self, id: i16, bytes: impl AsRef<[u8]>) {
        self.field(Type::String, id);
        self.bytes(bytes.as_ref());
    }

    /// A field that is a number.
    fn number(&mut self, id: i16, number: i32) {
        self.field(Type::I32, id);
        self.put_i32(number);
    }

    /// A field that is a double.
    fn double(&mut self, id: i16, double: f64) {
        self.field(Type::Double, id);
        self.put_f64(double);
    }

    /// The start of a field that is a list.
    fn list(&mut self, id: i16, element: Type, count: usize) {
        self.field(Type::List, id);
        self.put_u8(element as u8);
        self.size(count);
    }

    /// The start of a field that is a map from numbers to structs.
    fn nodes(&mut self, id: i16, count: usize) {
        self.field(Type::Map, id);
        self.put_u8(Type::I32 as u8);
        self.put_u8(Type::Struct as u8);
        self.size(count);
    }

    /// A field that is a path.
    fn path(&mut self, id: i16, path: &Path) {
        self.list(id, Type::String, path.len());
        path.elems().for_each(|elem| self.bytes(elem));
    }

    /// A field that is a list of the ids of nodes.
    fn ids(&mut self, id: i16, children: &[i32]) {
        self.list(id, Type::I32, children.len());
        children.iter().for_each(|child| self.put_i32(*child));
    }

    /// A field that is a list of `WeightedNodeId`.
    fn weighted(&mut self, id: i16, weights: impl Iterator<Item = f64>, children: &[i32]) {
        self.list(id, Type::Struct, children.len());
        for (weight, child) in weights.zip(children) {
            self.double(1, weight);
            self.number(2, *child);
            self.stop();
        }
    }

    /// A member of a union that says all by its name.
    fn void(&mut self, id: i16) {
        self.field(Type::Struct, id);
        self.stop();
    }
}

impl<B: BufMut> Encode for B {}
