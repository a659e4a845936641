//! Recordings of namerd: its requests are read, and its replies written again from what Apache's code reads of them.

use std::fs;

use serde_json::Value;

use super::apache::{addr_set, argument, bound_tree, decode, delegate_tree, field_of_result, result_of};
use super::generated as wire;
use super::*;
use crate::interpreter::Delegation;
use crate::name::Limits;

/// One frame of a recording, from its type on.
struct Frame {
    from: String,
    bytes: Vec<u8>,
    /// Recording, place in it, and what was remarked.
    what: String,
}

fn frames(filter: impl Fn(&str) -> bool) -> Vec<Frame> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/golden/thrift");
    let mut names: Vec<_> = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    names.sort();
    let mut frames = Vec::new();
    for file in names {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        if !filter(&name) {
            continue;
        }
        let recording: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        for (place, frame) in recording["frames"].as_array().unwrap().iter().enumerate() {
            let Some(bytes) = frame["hex"].as_str().map(hex) else { continue };
            let from = frame["from"].as_str().unwrap().to_owned();
            let what = format!("{name}, frame {place}: {}", frame["note"].as_str().unwrap_or_default());
            frames.push(Frame { from, bytes: bytes[4..].to_vec(), what });
        }
    }
    assert!(!frames.is_empty());
    frames
}

/// The thrift message in a dispatch without contexts, or in its good answer.
fn payload(frame: &Frame) -> Option<(u32, &[u8])> {
    let [_, tag @ ..] = frame.bytes.first_chunk::<4>()?;
    let tag = u32::from_be_bytes([0, tag[0], tag[1], tag[2]]);
    match &frame.bytes[..] {
        [2, _, _, _, 0, 0, 0, 0, 0, 0, message @ ..] | [0xfe, _, _, _, 0, 0, 0, message @ ..] => Some((tag, message)),
        _ => None,
    }
}

/// The stamp of a result, which is in the same place in all of them.
fn stamp(body: &[u8]) -> u64 {
    u64::from_be_bytes(body[10..18].try_into().unwrap())
}

#[test]
fn every_reply_of_namerd_is_written_again_in_its_bytes() {
    let (mut values, mut failures) = (0, 0);
    for frame in frames(|name| !name.starts_with("mux-") && !name.starts_with("plain-")) {
        let Some((_, message)) = payload(&frame).filter(|_| frame.from == "server") else { continue };
        let length = usize::try_from(u32::from_be_bytes(message[4..8].try_into().unwrap())).unwrap();
        let (name, body) = (&message[8..8 + length], &message[12 + length..]);
        if message[3] == 3 {
            continue;
        }
        let (field, bytes) = field_of_result(body);
        // What namerd sent, with the entries of maps and sets in order.
        let (ours, namerds) = match (name, field) {
            (b"bind", 0) => {
                let value: wire::Bound = decode(bytes);
                let tree = bound_tree(value.tree.as_ref().unwrap());
                (result::bound(stamp(body), &tree, value.ns.as_ref().unwrap()), result_of(0, &value))
            }
            (b"addr", 0) => {
                let value: wire::Addr = decode(bytes);
                let set = addr_set(value.value.as_ref().unwrap());
                (result::addr(stamp(body), set.as_ref(), false), result_of(0, &value))
            }
            (b"delegate", 0) => {
                let value: wire::Delegation = decode(bytes);
                let delegation = Delegation { tree: delegate_tree(value.tree.as_ref().unwrap()) };
                (result::delegation(&delegation, value.ns.as_ref().unwrap()), result_of(0, &value))
            }
            (b"dtab", 0) => {
                let value: wire::DtabRef = decode(bytes);
                (result::dtab(stamp(body), value.dtab.as_ref().unwrap()), result_of(0, &value))
            }
            (b"bind", 1) => {
                let value: wire::BindFailure = decode(bytes);
                let name = echoed(value.name.as_ref().unwrap());
                (result::bind_failure(value.reason.as_ref().unwrap(), &name), result_of(1, &value))
            }
            (b"addr", 1) => {
                let value: wire::AddrFailure = decode(bytes);
                let name = echoed(value.name.as_ref().unwrap());
                (result::addr_failure(value.reason.as_ref().unwrap(), &name), result_of(1, &value))
            }
            (b"delegate", 1) => {
                let value: wire::DelegationFailure = decode(bytes);
                (result::delegation_failure(value.reason.as_ref().unwrap()), result_of(1, &value))
            }
            other => panic!("{}: {other:?}", frame.what),
        };
        if field == 0 {
            values += 1
        } else {
            failures += 1
        }
        assert_eq!(namerds.len(), body.len(), "{}", frame.what);
        assert_eq!(shown(&ours), shown(&namerds), "{}", frame.what);
    }
    assert!(values > 80 && failures > 5, "{values} values and {failures} failures");
}

/// A name as a failure echoes it.
fn echoed(name: &wire::NameRef) -> NameRef {
    let elems = name.name.as_ref().unwrap();
    let wire_form =
        elems.iter().flat_map(|elem| [&u32::try_from(elem.len()).unwrap().to_be_bytes()[..], elem].concat());
    NameRef { stamp: name.stamp.as_ref().unwrap()[..].into(), elems: wire_form.collect(), ns: name.ns.clone().unwrap() }
}

#[test]
fn every_request_of_a_recording_is_read() {
    let mut read = 0;
    for frame in frames(|name| !name.starts_with("mux-") && !name.starts_with("plain-")) {
        let Some((_, message)) = payload(&frame).filter(|_| frame.from == "client") else { continue };
        let call = read_call(message).unwrap_or_else(|bad| panic!("{}: {bad:?}", frame.what));
        match &call.ask {
            Ask::Bind { dtab, .. } => {
                let (_, seqid, sent) = argument::<wire::BindReq>(message).unwrap();
                assert_eq!((call.seqid, Some(dtab)), (seqid, sent.as_ref().unwrap().dtab.as_ref()), "{}", frame.what);
                assert_eq!(call.ask.name(), Some(&echoed(sent.unwrap().name.as_ref().unwrap())), "{}", frame.what);
            }
            Ask::Addr { name } => {
                let (_, _, sent) = argument::<wire::AddrReq>(message).unwrap();
                assert_eq!(name, &echoed(sent.unwrap().name.as_ref().unwrap()), "{}", frame.what);
            }
            Ask::Delegate(ask) => {
                assert!(matches!(ask.tree(&Limits::DEFAULT), Ok(NameTree::Leaf(_))), "{}", frame.what)
            }
            Ask::Dtab { ns, .. } => {
                let (_, _, sent) = argument::<wire::DtabReq>(message).unwrap();
                assert_eq!(Some(ns), sent.unwrap().ns.as_ref(), "{}", frame.what);
            }
        }
        read += 1;
    }
    assert!(read > 80, "{read}");
}

#[test]
fn an_exception_of_namerd_is_written_again_in_its_bytes() {
    let mut written = 0;
    for frame in frames(|name| name != "plain-garbage") {
        let Some((_, message)) = payload(&frame).filter(|_| frame.from == "server") else { continue };
        if message.get(3) != Some(&3) {
            continue;
        }
        let mut from = thrift::protocol::TBinaryInputProtocol::new(std::io::Cursor::new(message), true);
        let head = thrift::protocol::TInputProtocol::read_message_begin(&mut from).unwrap();
        let error = thrift::Error::read_application_error_from_in_protocol(&mut from).unwrap();
        let mut out = BytesMut::new();
        exception(&mut out, head.name.as_bytes(), head.sequence_number, error.kind as i32, &error.message);
        assert_eq!(shown(&out), shown(message), "{}", frame.what);
        written += 1;
    }
    assert!(written > 5, "{written}");
}

/// What is answered to each message of the recording in which all are wrong in their own way.
#[test]
fn wrong_messages_are_answered_as_namerd_does_or_served() {
    // namerd's NullPointerExceptions are not copied: a missing string is empty, a missing struct the declared failure.
    let unlike_namerd = [5, 7, 8, 9];
    let all = frames(|name| name == "mux-bad-thrift");
    let mut seen = Vec::new();
    for frame in all.iter().filter(|frame| frame.from == "client") {
        let Some((tag, message)) = payload(frame) else { continue };
        seen.push(tag);
        let theirs = all
            .iter()
            .find(|reply| reply.from == "server" && reply.bytes[0] == 0xfe && reply.bytes[3] == frame.bytes[3]);
        let theirs = &theirs.unwrap().bytes[4..];
        let ours = read_call(message);
        if unlike_namerd.contains(&tag) {
            match tag {
                5 | 7 => assert!(matches!(ours, Err(BadCall::Failure { method: Method::Bind, .. })), "{}", frame.what),
                _ => assert!(ours.is_ok(), "{}", frame.what),
            }
            continue;
        }
        match (theirs[0], ours) {
            // A dispatch error, whose text is Java's.
            (1, ours) => assert!(matches!(ours, Err(BadCall::Header(_))), "{}: {ours:?}", frame.what),
            (0, Err(bad)) => assert_eq!(shown(&answer(&bad).unwrap()), shown(&theirs[3..]), "{}", frame.what),
            // Served: the reply echoes name and number.
            (0, Ok(call)) => {
                let mut head = BytesMut::new();
                reply_head(&mut head, b"bind", call.seqid);
                assert!(theirs[3..].starts_with(&head), "{}", frame.what);
            }
            (status, _) => panic!("{}: status {status}", frame.what),
        }
    }
    assert_eq!(seen, (2..=15).collect::<Vec<_>>());
}

#[test]
fn wrong_messages_of_a_plain_connection_are_answered_or_end_it() {
    let all = frames(|name| name == "plain-garbage");
    let sent = |note: &str| {
        let frame = all.iter().find(|frame| frame.what.ends_with(note) && frame.from == "client").unwrap();
        read_call(&frame.bytes)
    };
    let bad = sent("garbage args").unwrap_err();
    let theirs = all.iter().find(|frame| frame.from == "server" && frame.bytes.starts_with(&[0x80])).unwrap();
    assert_eq!(shown(&answer(&bad).unwrap()), shown(&theirs.bytes));
    assert!(matches!(sent("framed garbage").unwrap_err(), BadCall::Header(_)));
}
