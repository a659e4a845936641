//! Clients that begin and do not go on, or take and do not give way.

use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::bystander::{bears, ping_and_ask};
use super::{port, server};
use crate::support::{Frames, Next, Rosterd, mux};

/// Whoever has begun must go on within 10 s.
const BEGUN: Duration = Duration::from_secs(10);

/// What these connections are like.
fn half_open(rosterd: &Rosterd, count: usize) -> (Vec<Frames>, Vec<Frames>) {
    let (mut silent, mut begun) = (Vec::new(), Vec::new());
    for number in 0..count {
        let mut frames = Frames::open(port(rosterd));
        match number % 4 {
            0 => silent.push(frames),
            1 => {
                frames.send_raw(&[0, 0]);
                begun.push(frames);
            }
            2 => {
                frames.send_raw(b"\0\0\0\x0f\x7f\0\0\x01tin");
                begun.push(frames);
            }
            _ => {
                frames.send(mux::PROBE);
                begun.push(frames);
            }
        }
    }
    (silent, begun)
}

fn half_open_handshakes(count: usize) {
    let rosterd = server();
    bears(&rosterd, || {
        let opened = Instant::now();
        let (mut silent, begun) = half_open(&rosterd, count);
        for mut frames in begun {
            let closed = loop {
                match frames.next((3 * BEGUN).saturating_sub(opened.elapsed())) {
                    Next::Frame(echo) => assert_eq!(echo, mux::PROBE),
                    other => break other,
                }
            };
            assert_eq!(closed, Next::Closed, "who has begun and does not go on is closed");
        }
        assert!(opened.elapsed() > BEGUN - Duration::from_secs(1), "{:?}", opened.elapsed());
        // Pools connect in advance: who has sent nothing at all may stay.
        for frames in &mut silent {
            assert_eq!(frames.next(Duration::from_micros(1)), Next::Silence);
        }
    });
}

#[test]
fn two_thousand_half_open_handshakes_disturb_nobody_and_end_after_ten_seconds() {
    half_open_handshakes(2_000);
}

#[test]
#[ignore = "opens 10,000 connections: run it alone"]
fn ten_thousand_half_open_handshakes_disturb_nobody_and_end_after_ten_seconds() {
    half_open_handshakes(10_000);
}

#[test]
fn two_thousand_frames_that_were_begun_take_little_memory() {
    let rosterd = server();
    let before = rosterd.resident();
    bears(&rosterd, || {
        let begin = [&(60_u32 << 10).to_be_bytes()[..], &[2, 0, 0, 2], &[0; 59 << 10]].concat();
        let mut begun = Vec::new();
        for _ in 0..2_000 {
            let mut frames = Frames::open(port(&rosterd));
            frames.send_raw(&begin);
            begun.push(frames);
        }
        ping_and_ask(&mut mux::session(port(&rosterd)));
        let now = rosterd.resident();
        assert!(now < before + (50 << 20), "{} MiB for 2,000 times 59 KiB", (now - before) >> 20);
    });
}

#[test]
fn a_first_frame_that_comes_byte_by_byte_is_not_waited_for() {
    let rosterd = server();
    let message = mux::tdispatch(2, &mux::bind("", b"", &["svc", "web"], "default").write());
    let frame = [&u32::try_from(message.len()).expect("it is short").to_be_bytes()[..], &message].concat();
    bears(&rosterd, || {
        let began = Instant::now();
        let mut dripping: Vec<_> = (0..50).map(|_| Frames::open(port(&rosterd))).collect();
        // So slowly that the frame would not be whole for a minute.
        for byte in &frame {
            std::thread::sleep(Duration::from_millis(500));
            for frames in &mut dripping {
                frames.send_raw(&[*byte]);
            }
            dripping.retain_mut(|frames| frames.next(Duration::from_micros(1)) != Next::Closed);
            if dripping.is_empty() {
                break;
            }
        }
        assert!(dripping.is_empty(), "{} of 50 are still open", dripping.len());
        let took = began.elapsed();
        assert!((BEGUN - Duration::from_secs(1)..2 * BEGUN).contains(&took), "closed after {took:?}");
    });
}

/// Sends what comes, to so many connections, until the server reads no more of each. Nobody reads what it says.
fn fill(rosterd: &Rosterd, connections: usize, what: impl Fn(u32) -> Vec<u8>) -> Vec<TcpStream> {
    let filled = (0..connections).map(|_| {
        let mut stream = TcpStream::connect(("127.0.0.1", port(rosterd))).expect("the port is served");
        stream.set_write_timeout(Some(Duration::from_millis(300))).expect("a fresh socket takes options");
        let (mut number, mut sent) = (1, 0);
        loop {
            let mut bytes = Vec::new();
            while bytes.len() < 64 << 10 {
                number += 1;
                let frame = what(number);
                bytes.extend(u32::try_from(frame.len()).expect("it is short").to_be_bytes());
                bytes.extend(frame);
            }
            match stream.write_all(&bytes) {
                Ok(()) => sent += bytes.len(),
                Err(error) if [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind()) => return stream,
                Err(error) => panic!("after {sent} bytes: {error}"),
            }
            assert!(sent < 200 << 20, "the server reads on, whatever happens to its answers");
        }
    });
    filled.collect()
}

fn fill_only_their_own_sockets(rosterd: &Rosterd, what: impl Fn(u32) -> Vec<u8> + Send) {
    let mut full = Vec::new();
    bears(rosterd, || {
        full = fill(rosterd, 8, what);
        ping_and_ask(&mut mux::session(port(rosterd)));
    });
    // Nor do they keep it busy.
    let (before, pause) = (rosterd.cpu(), Duration::from_millis(500));
    std::thread::sleep(pause);
    let busy = rosterd.cpu() - before;
    assert!(busy < pause / 5, "{busy:?} of processor time in {pause:?} for {} clients that wait", full.len());
}

#[test]
fn clients_that_ask_and_never_read_fill_only_their_own_sockets() {
    fill_only_their_own_sockets(&server(), |number| match number % 2 {
        0 => mux::TPING.to_vec(),
        _ => mux::tdispatch(number, &mux::addr(b"", &["#", "io.l5d.fs", "many"], "default").write()),
    });
}

#[test]
fn calls_behind_one_that_waits_fill_only_their_own_sockets() {
    let rosterd = server();
    let ask = |stamp: &[u8]| mux::bind("", stamp, &["svc", "web"], "default").write();
    let mut session = mux::session(port(&rosterd));
    session.send(&mux::tdispatch(2, &ask(b"")));
    let stamp = mux::stamp(&mux::reply(&session.frame()));
    // Answers of plain thrift come in the order of the calls, and nothing changes for the first.
    fill_only_their_own_sockets(&rosterd, |number| if number == 2 { ask(&stamp) } else { ask(b"") });
}
