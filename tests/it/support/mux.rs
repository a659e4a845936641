//! Mux messages and calls of the `Namer` service as a router makes them, for tests that speak to the thrift interface.

use super::thrift::{BINARY, CALL, Message, Value};
use super::{Connection, Frames};

/// The frames with which every router begins, without their lengths, and those that answer them.
pub const PROBE: &[u8] = b"\x7f\0\0\x01tinit check";
pub const TINIT: &[u8] = b"\x44\0\0\x01\0\x01\0\0\0\x0amux-framer\0\0\0\x04\x7f\xff\xff\xff\0\0\0\x03tls\0\0\0\x03off";
pub const TPING: &[u8] = &[0x41, 0, 0, 1];
pub const RPING: &[u8] = &[0xbf, 0, 0, 1];

/// Opens a session as a router does.
pub fn session(port: u16) -> Frames {
    session_on(Connection::open(port))
}

/// The same on this connection.
pub fn session_on(connection: Connection) -> Frames {
    let mut frames = Frames::on(connection);
    frames.send(PROBE);
    assert_eq!(frames.frame(), PROBE);
    frames.send(TINIT);
    assert_eq!(frames.frame()[0], 0xbc, "Rinit");
    frames
}

/// A Tdispatch without contexts.
pub fn tdispatch(tag: u32, message: &[u8]) -> Vec<u8> {
    let [_, tag @ ..] = tag.to_be_bytes();
    [&[2][..], &tag, &[0; 6], message].concat()
}

/// A Tdiscarded with the number that finagle writes.
pub fn tdiscarded(tag: u32) -> Vec<u8> {
    let [_, tag @ ..] = tag.to_be_bytes();
    [&[0xc2, 0, 0, 0][..], &tag, b"Failure(Released, flags=0x02)"].concat()
}

/// The tag of a mux frame, without the mark of a fragment.
pub fn tag(frame: &[u8]) -> u32 {
    u32::from_be_bytes([0, frame[1] & 0x7f, frame[2], frame[3]])
}

/// A call of `bind`.
pub fn bind(dtab: &str, stamp: &[u8], path: &[&str], ns: &str) -> Message {
    let request = Value::Struct(vec![
        (1, Value::text(dtab)),
        (2, name_ref(stamp, path, ns)),
        (3, Value::List(BINARY, Vec::new())),
    ]);
    call("bind", request)
}

/// A call of `addr`.
pub fn addr(stamp: &[u8], path: &[&str], ns: &str) -> Message {
    call("addr", Value::Struct(vec![(1, name_ref(stamp, path, ns)), (2, Value::List(BINARY, Vec::new()))]))
}

fn call(name: &str, request: Value) -> Message {
    Message { kind: CALL, name: name.to_owned(), seqid: 0, body: Value::Struct(vec![(1, request)]) }
}

fn name_ref(stamp: &[u8], path: &[&str], ns: &str) -> Value {
    Value::Struct(vec![(1, Value::Binary(stamp.to_vec())), (2, Value::path(path)), (3, Value::text(ns))])
}

/// The thrift message of an Rdispatch that is well.
pub fn reply(frame: &[u8]) -> Message {
    assert_eq!((frame[0], &frame[4..7]), (0xfe, &[0, 0, 0][..]), "an Rdispatch with status OK: {frame:?}");
    Message::read(&frame[7..]).unwrap_or_else(|why| panic!("{why}: {frame:?}"))
}

/// The stamp of a good reply.
pub fn stamp(reply: &Message) -> Vec<u8> {
    match reply.body.field(0).and_then(|result| result.field(1)) {
        Some(Value::Binary(stamp)) => stamp.clone(),
        _ => panic!("no stamp in {}", reply.to_json()),
    }
}
