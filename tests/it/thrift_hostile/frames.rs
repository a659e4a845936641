//! Frames and messages of mux that cannot be, or never end.

use std::time::{Duration, Instant};

use super::bystander::{bears, ping_and_ask};
use super::{port, server};
use crate::support::{Frames, Next, PATIENCE, metric, mux, wait_until};

const FRAME_LIMIT: u32 = 16 << 20;

/// Fails the test unless the server closes the connection, whatever it still says.
fn is_closed(frames: &mut Frames, what: &str) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match frames.next(deadline.saturating_duration_since(Instant::now())) {
            Next::Closed => return,
            Next::Frame(_) => {}
            Next::Silence => panic!("{what}: the connection stays open"),
        }
    }
}

#[test]
fn a_length_that_cannot_be_ends_its_connection() {
    let rosterd = server();
    bears(&rosterd, || {
        for length in [0x7fff_ffff, FRAME_LIMIT + 1, 0xffff_ffff, 0x8000_0000, 3, 1, 0] {
            let bytes = [&length.to_be_bytes()[..], &[2, 0, 0, 2, 0, 0]].concat();
            for mut frames in [Frames::open(port(&rosterd)), mux::session(port(&rosterd))] {
                frames.send_raw(&bytes);
                is_closed(&mut frames, &format!("length {length:x}"));
            }
        }
    });
    let output = rosterd.output();
    let told = output.lines().filter(|line| line.contains("because of what the client sent")).count();
    assert!(told < 5, "{told} lines for 14 connections: {output}");
}

#[test]
fn nothing_is_reserved_for_what_was_only_announced() {
    let rosterd = server();
    let before = rosterd.resident();
    bears(&rosterd, || {
        let mut open = Vec::new();
        for _ in 0..500 {
            let mut session = mux::session(port(&rosterd));
            session.send_raw(&[&FRAME_LIMIT.to_be_bytes()[..], &[2, 0, 0, 2, 0, 0]].concat());
            open.push(session);
        }
        ping_and_ask(&mut mux::session(port(&rosterd)));
        let now = rosterd.resident();
        assert!(now < before + (50 << 20), "{} MiB for 500 announcements of 16 MiB", (now - before) >> 20);
    });
}

#[test]
fn a_message_that_cannot_be_read_ends_its_connection_and_no_other() {
    let rosterd = server();
    let dispatch = |body: &[u8]| [&[2, 0, 0, 2][..], body].concat();
    let cases: &[(&str, Vec<u8>)] = &[
        ("a type that there is not", vec![50, 0, 0, 2, b'x']),
        ("another", vec![0, 0, 0, 2]),
        ("no number of contexts", dispatch(&[0])),
        ("contexts that are not there", dispatch(&[0xff, 0xff])),
        ("a key longer than the message", dispatch(&[0, 1, 0, 0x40, b'a', b'b'])),
        ("a value longer than the message", dispatch(&[0, 1, 0, 1, b'k', 0x7f, 0xff, b'v'])),
        ("a key of negative length", dispatch(&[0, 1, 0xff, 0xff, b'k', 0, 0, 0, 0, 0, 0])),
        ("a value of negative length", dispatch(&[0, 1, 0, 1, b'k', 0x80, 0x00, 0, 0, 0, 0])),
        ("no dst", dispatch(&[0, 0])),
        ("a dst longer than the message", dispatch(&[0, 0, 0x10, 0x00, b'/'])),
        ("a dtab that is not there", dispatch(&[0, 0, 0, 0, 0x7f, 0xff])),
        ("a dentry longer than the message", dispatch(&[0, 0, 0, 0, 0, 1, 0, 9, b'/'])),
        ("a Treq without its number of keys", vec![1, 0, 0, 2]),
        ("a Treq with a key longer than the message", vec![1, 0, 0, 2, 1, 1, 24, 0]),
        ("a Treq with a negative number of keys", vec![1, 0, 0, 2, 0x80, 1, 24, 0]),
        ("a Tdiscarded without its tag", vec![0xc2, 0, 0, 0, 0]),
    ];
    bears(&rosterd, || {
        for (what, frame) in cases {
            let mut session = mux::session(port(&rosterd));
            session.send(frame);
            is_closed(&mut session, what);
        }
    });
}

#[test]
fn fragments_without_end_are_given_up() {
    let rosterd = server();
    // One message that grows, many that are begun, and many that are begun and grow: how many, and by how much at a time.
    for (tags, size) in [(1, 1 << 20), (200_000, 16), (1_000, 64 << 10)] {
        bears(&rosterd, || {
            let mut session = mux::session(port(&rosterd));
            let (began, zeroes, mut sent) = (Instant::now(), vec![0; size], 0_u32);
            while session.next(Duration::from_micros(1)) != Next::Closed {
                let mut bytes = Vec::new();
                while bytes.len() < 1 << 20 {
                    let [_, high, middle, low] = (2 + sent % tags).to_be_bytes();
                    bytes.extend(u32::try_from(4 + size).expect("it is small").to_be_bytes());
                    bytes.extend([2, 0x80 | high, middle, low]);
                    bytes.extend(&zeroes);
                    sent += 1;
                }
                session.send_raw(&bytes);
                assert!(began.elapsed() < 2 * PATIENCE, "{sent} fragments of {size} bytes were taken");
            }
        });
    }
}

#[test]
fn a_tag_is_used_again_and_again_and_the_last_use_counts() {
    let rosterd = server();
    bears(&rosterd, || {
        let mut session = mux::session(port(&rosterd));
        let ask = |stamp: &[u8]| mux::tdispatch(7, &mux::bind("", stamp, &["svc", "web"], "default").write());
        session.send(&ask(b""));
        let stamp = mux::stamp(&mux::reply(&session.frame()));
        for round in 0..2_000 {
            session.send(&ask(&stamp));
            session.send(&mux::tdiscarded(7));
            assert_eq!(session.frame(), [0xbe, 0, 0, 7], "round {round}");
        }
        // Nothing is left of them: this one is answered once.
        session.send(&ask(b"another"));
        assert_eq!(mux::stamp(&mux::reply(&session.frame())), stamp);
        assert_eq!(session.next(Duration::from_millis(100)), Next::Silence);
    });
}

#[test]
fn discards_of_what_was_never_asked_are_not_answered() {
    let rosterd = server();
    bears(&rosterd, || {
        let mut session = mux::session(port(&rosterd));
        for tag in 2..50_000 {
            session.send(&mux::tdiscarded(tag));
        }
        ping_and_ask(&mut session);
    });
}

#[test]
fn a_tag_that_is_in_use_ends_the_session_for_all_its_polls() {
    let rosterd = server();
    bears(&rosterd, || {
        let mut session = mux::session(port(&rosterd));
        let ask = |tag, stamp: &[u8]| mux::tdispatch(tag, &mux::bind("", stamp, &["svc", "web"], "default").write());
        session.send(&ask(2, b""));
        let stamp = mux::stamp(&mux::reply(&session.frame()));
        for tag in 2..102 {
            session.send(&ask(tag, &stamp));
        }
        session.send(&ask(50, &stamp));
        let mut ended: Vec<_> = (2..102)
            .map(|_| {
                let frame = session.frame();
                assert_eq!((frame[0], &frame[4..]), (0x7f, &b"Received duplicate tag 50 from client."[..]));
                mux::tag(&frame)
            })
            .collect();
        ended.sort_unstable();
        assert!(ended.into_iter().eq(2..102), "each poll is ended once");
        is_closed(&mut session, "duplicate tag");
    });
}

#[test]
fn another_protocol_is_turned_away_at_once_with_one_line_that_says_what_is_wrong() {
    let rosterd = server();
    let hello = [&[0x16, 3, 1, 0, 200, 1, 0, 0, 196, 3, 3][..], &[0; 194]].concat();
    let strangers: &[(&str, &[u8])] = &[
        ("HTTP", b"GET /api/1/dtabs HTTP/1.1\r\nHost: x\r\n\r\n"),
        ("a long HTTP method", b"OPTIONS * HTTP/1.1\r\n\r\n"),
        ("HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        ("TLS", &hello),
        ("SSH", b"SSH-2.0-OpenSSH_9.6\r\n"),
        ("Redis", b"*1\r\n$4\r\nPING\r\n"),
        ("unframed thrift", b"\x80\x01\0\x01\0\0\0\x04dtab\0\0\0\0\0"),
        ("framed garbage", b"\0\0\0\x04\xde\xad\xbe\xef"),
        ("compact thrift", b"\0\0\0\x08\x82\x21\x01\x04dtab"),
    ];
    bears(&rosterd, || {
        for (what, bytes) in strangers.iter().cycle().take(20 * strangers.len()) {
            let mut frames = Frames::open(port(&rosterd));
            let began = Instant::now();
            frames.send_raw(bytes);
            is_closed(&mut frames, what);
            assert!(began.elapsed() < Duration::from_secs(5), "{what} was closed after {:?}", began.elapsed());
        }
    });
    let output = rosterd.output();
    let warnings: Vec<_> = output.lines().filter(|line| line.contains("WARN")).collect();
    assert_eq!(warnings.len(), 1, "one line for all of them: {output}");
    assert!(warnings[0].contains("ThriftMux") && warnings[0].contains("HTTP"), "{warnings:?}");
}

#[test]
fn who_connects_and_closes_as_health_checks_do_leaves_no_line() {
    let rosterd = server();
    let before = rosterd.output();
    for number in 0..300 {
        let mut frames = Frames::open(port(&rosterd));
        if number % 3 > 0 {
            frames.send(mux::PROBE);
        }
        if number % 3 > 1 {
            assert_eq!(frames.frame(), mux::PROBE);
        }
    }
    wait_until("all are gone", || metric(&rosterd, "rosterd_connections_open{server=\"interfaces\"}") == 0);
    assert_eq!(rosterd.output(), before);
}
