//! Thrift messages whose values cannot be, or are larger than anything that is asked in earnest.

use super::bystander::{bears, ping_and_ask};
use super::{port, server};
use crate::support::thrift::{BINARY, CALL, EXCEPTION, Message, STRUCT, Value};
use crate::support::{Frames, Next, PATIENCE, mux};

/// A call up to its arguments.
fn begun(method: &str) -> Vec<u8> {
    let empty = Message { kind: CALL, name: method.to_owned(), seqid: 0, body: Value::Struct(Vec::new()) };
    let mut bytes = empty.write();
    bytes.pop();
    bytes
}

/// A call of bind whose request begins so.
fn bind(request: &[u8]) -> Vec<u8> {
    [&begun("bind"), &[STRUCT, 0, 1][..], request].concat()
}

fn bombs() -> Vec<(&'static str, Vec<u8>)> {
    const MOST: [u8; 4] = i32::MAX.to_be_bytes();
    let of = |head: &[u8], size: &[u8]| bind(&[head, size].concat());
    let deep = |level: &[u8], levels: usize| bind(&level.repeat(levels));
    vec![
        ("a string of 2 GiB", of(&[BINARY, 0, 1], &MOST)),
        ("a string of negative length", of(&[BINARY, 0, 1], &[0xff; 4])),
        ("an unknown string of 2 GiB", of(&[BINARY, 0, 99], &MOST)),
        ("a path of 2^31 elements", of(&[STRUCT, 0, 2, 15, 0, 2, BINARY], &MOST)),
        ("a path of negative length", of(&[STRUCT, 0, 2, 15, 0, 2, BINARY], &[0xff; 4])),
        ("an unknown list of 2^31 structs", of(&[15, 0, 99, STRUCT], &MOST)),
        ("an unknown set of 2^31 bools", of(&[14, 0, 99, 2], &MOST)),
        ("an unknown map of 2^31 entries", of(&[13, 0, 99, BINARY, STRUCT], &MOST)),
        ("an unknown list of 2^31 things without size", of(&[15, 0, 99, 0], &MOST)),
        ("structs in structs", deep(&[STRUCT, 0, 99], 100_000)),
        (
            "lists in lists",
            deep(&[15, 0, 99, 15, 0, 0, 0, 1], 1).into_iter().chain([15, 0, 0, 0, 1].repeat(100_000)).collect(),
        ),
        ("maps in maps", bind(&[&[13, 0, 99][..], &[3, 13, 0, 0, 0, 1, 0].repeat(100_000)].concat())),
        ("a type that there is not", bind(&[99, 0, 1, 0, 0])),
        ("a delegation of 2^31 nodes", {
            let nodes = [&[STRUCT, 0, 1, STRUCT, 0, 2, STRUCT, 0, 2, 13, 0, 2, 8, STRUCT][..], &MOST].concat();
            [begun("delegate"), nodes].concat()
        }),
        ("a method with a long name", {
            let long = "m".repeat(256 << 10);
            Message { kind: CALL, name: long, seqid: 0, body: Value::Struct(Vec::new()) }.write()
        }),
    ]
}

#[test]
fn values_without_end_are_refused_and_the_session_goes_on() {
    let rosterd = server();
    bears(&rosterd, || {
        let mut session = mux::session(port(&rosterd));
        for (what, bomb) in bombs() {
            session.send(&mux::tdispatch(3, &bomb));
            let answer = session.frame();
            assert_eq!((answer[0], mux::tag(&answer)), (0xfe, 3), "{what}");
            // Status ERROR where not even the message could be made out, else an exception.
            if answer[4] != 1 {
                let reply = mux::reply(&answer);
                assert_eq!(reply.kind, EXCEPTION, "{what}: {}", reply.to_json());
                let code = if what.contains("method") { 1 } else { 7 };
                assert_eq!(reply.body.field(2), Some(&Value::I32(code)), "{what}: {}", reply.to_json());
            }
            assert!(answer.len() < 1 << 20, "{what}: an answer of {} bytes", answer.len());
            ping_and_ask(&mut session);
        }
    });
}

#[test]
fn headers_without_end_end_their_connection() {
    const UPGRADE: &str = "__can__finagle__trace__v3__";
    const MOST: [u8; 4] = i32::MAX.to_be_bytes();
    let rosterd = server();
    let upgrade = Message { kind: CALL, name: UPGRADE.to_owned(), seqid: 0, body: Value::Struct(Vec::new()) }.write();
    let headers = [
        ("2^31 contexts", [&[15, 0, 8, STRUCT][..], &MOST].concat()),
        ("a name of 2 GiB", [&[STRUCT, 0, 6, BINARY, 0, 1][..], &MOST].concat()),
        ("structs in structs", [STRUCT, 0, 6].repeat(100_000)),
        ("lists in lists", [&[15, 0, 8][..], &[15, 0, 0, 0, 1].repeat(100_000)].concat()),
        ("a type that there is not", vec![99, 0, 1]),
        ("no end", vec![10, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1]),
    ];
    bears(&rosterd, || {
        for (what, header) in &headers {
            let mut frames = Frames::open(port(&rosterd));
            frames.send(&upgrade);
            assert_eq!(Message::read(&frames.frame()).map(|reply| reply.name), Ok(UPGRADE.to_owned()));
            frames.send(header);
            assert_eq!(frames.next(PATIENCE), Next::Closed, "{what}");
        }
    });
}

#[test]
fn names_and_dtabs_beyond_all_measure_are_refused_with_a_reason() {
    let rosterd = server();
    let path: Vec<_> = std::iter::repeat_n("a", 200_000).collect();
    let nested = format!("/svc=>{}/a{}", "(".repeat(100_000), ")".repeat(100_000));
    let wide = format!("/svc=>{}", vec!["/svc"; 12_000].join("&"));
    let cases = [
        ("a path of 2,000 elements", mux::bind("", b"", &path[..2_000], "default"), true),
        ("an address of 2,000 elements", mux::addr(b"", &path[..2_000], "default"), true),
        ("a path of 200,000 elements", mux::bind("", b"", &path, "default"), false),
        ("an address of 200,000 elements", mux::addr(b"", &path, "default"), false),
        ("100,000 parentheses", mux::bind(&nested, b"", &["svc", "web"], "default"), false),
        ("wide circles", mux::bind(&wide, b"", &["svc", "web"], "default"), true),
    ];
    bears(&rosterd, || {
        let mut session = mux::session(port(&rosterd));
        for (what, message, declared) in &cases {
            session.send(&mux::tdispatch(3, &message.write()));
            let answer = session.frame();
            let reply = mux::reply(&answer);
            assert_eq!(reply.kind == EXCEPTION, !declared, "{what}: {}", reply.to_json());
            assert!(reply.body.field(1).is_some(), "{what}");
            assert!(answer.len() < 1 << 20, "{what}: an answer of {} bytes", answer.len());
            ping_and_ask(&mut session);
        }
    });
}

#[test]
fn large_requests_of_several_clients_leave_little_behind() {
    let rosterd = server();
    let dtab = format!("/x=>{}", vec!["/y"; 40_000].join("|"));
    let message = mux::bind(&dtab, b"", &["svc", "web"], "default").write();
    bears(&rosterd, || {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut session = mux::session(port(&rosterd));
                    for tag in 2..12 {
                        session.send(&mux::tdispatch(tag, &message));
                    }
                    for _ in 2..12 {
                        assert_eq!(session.frame()[0], 0xfe);
                    }
                });
            }
        });
    });
}
