//! Requests that nobody in his right mind sends. They are refused with the reason, and everybody else is served on.

use std::time::{Duration, Instant};

use crate::support::{Answer, Rosterd, Wire, get, request};

const CONFIG: &str = "storage: {kind: io.l5d.inMemory}\ninterfaces: [{kind: io.l5d.httpController, port: 0}]\n";

fn put(rosterd: &Rosterd, namespace: &str, kind: &str, dtab: &str) -> Answer {
    let head =
        format!("PUT /api/1/dtabs/{namespace} HTTP/1.1\r\nContent-Type: {kind}\r\nContent-Length: {}", dtab.len());
    request(rosterd.http(), &format!("{head}\r\n\r\n{dtab}"))
}

/// The longest time that a ping took while `work` was going on.
fn slowest_ping(rosterd: &Rosterd, work: impl FnOnce() + Send) -> Duration {
    std::thread::scope(|scope| {
        let working = scope.spawn(work);
        let mut slowest = Duration::ZERO;
        while !working.is_finished() {
            let began = Instant::now();
            assert_eq!(get(rosterd.admin(), "/admin/ping").text(), "pong");
            slowest = slowest.max(began.elapsed());
            std::thread::sleep(Duration::from_millis(10));
        }
        working.join().expect("the work is done");
        slowest
    })
}

#[test]
fn a_question_whose_dtab_goes_round_in_wide_circles_is_answered_at_once_and_holds_nobody_up() {
    let rosterd = Rosterd::start(CONFIG);
    let slowest = slowest_ping(&rosterd, || {
        for separator in ["%26", "%7C"] {
            let dtab = format!("/a=>{}", vec!["/a"; 12_000].join(separator));
            let answer = get(rosterd.http(), &format!("/api/1/bind/default?path=/a&dtab={dtab}"));
            assert_eq!(
                (answer.head.status(), answer.text()),
                (500, "Max recursion level: 100 reached in Namer lookup")
            );
            let answer = get(rosterd.http(), &format!("/api/1/delegate/default?path=/a&dtab={dtab}"));
            assert_eq!((answer.head.status(), answer.text()), (500, "Max recursion level reached."));
        }
    });
    assert!(slowest < Duration::from_secs(1), "{slowest:?}");
}

#[test]
fn a_dtab_that_could_not_be_read_again_is_not_stored() {
    let rosterd = Rosterd::start(&format!("{CONFIG}limits: {{dtabBytes: 50000}}\n"));
    let huge = format!("{}*/b & /c", "9".repeat(400));
    for (kind, dtab) in [
        ("application/dtab", format!("/a => {huge}")),
        ("application/json", format!(r#"[{{"prefix":"/a","dst":"{huge}"}}]"#)),
    ] {
        let refused = put(&rosterd, "d", kind, &dtab);
        assert_eq!(refused.head.status(), 400);
        assert!(refused.text().starts_with("the dtab could not be read again once it is stored: "), "{refused:?}");
    }
    // What is sent is within the limit; with two decimals for each weight it would not be.
    let long = format!("/a=>{}", vec!["9*/b"; 9_000].join("&"));
    let refused = put(&rosterd, "d", "text/plain", &long);
    assert_eq!(refused.head.status(), 400);
    assert!(refused.text().contains("limits.dtabBytes"), "{refused:?}");
    assert_eq!(get(rosterd.http(), "/api/1/dtabs/d").head.status(), 404);
}

#[test]
fn an_answer_that_would_fill_the_memory_is_refused() {
    let rosterd = Rosterd::start(CONFIG);
    // Each of a thousand steps repeats the entry, of a megabyte, that led to it.
    let branches: Vec<_> = (0..1000).map(|n| format!("/b/{n}/{}", "x".repeat(1000))).collect();
    assert_eq!(put(&rosterd, "d", "text/plain", &format!("/a => {}", branches.join("|"))).head.status(), 204);
    let slowest = slowest_ping(&rosterd, || {
        let answer = get(rosterd.http(), "/api/1/delegate/d?path=/a");
        assert_eq!(answer.head.status(), 500);
        assert!(answer.text().starts_with("the answer is larger than 64 MiB"), "{answer:?}");
    });
    assert!(slowest < Duration::from_secs(1), "{slowest:?}");
    assert!(rosterd.resident() < 400 << 20, "{}", rosterd.resident());
}

#[test]
fn a_form_is_not_longer_than_a_request_line() {
    let rosterd = Rosterd::start(CONFIG);
    let form = |length: usize| {
        let body = format!("path=/a&dtab=/x=>/{}", "y".repeat(length));
        let head = "POST /api/1/bind/default HTTP/1.1\r\nContent-Type: application/x-www-form-urlencoded";
        request(rosterd.http(), &format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()))
    };
    assert_eq!(form(60_000).text(), "{\"type\":\"neg\"}\n");
    assert_eq!(form(70_000).head.status(), 413);
}

#[test]
fn a_body_in_pieces_that_others_could_read_otherwise_is_refused() {
    let rosterd = Rosterd::start(CONFIG);
    for chunks in ["6\r\r\n/a=>/b\r\n0\r\n\r\n", "6\x0c\r\n/a=>/b\r\n0\r\n\r\n", "6;x\r1\r\n/a=>/b\r\n0\r\n\r\n"] {
        let head = "PUT /api/1/dtabs/d HTTP/1.1\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked";
        let mut wire = Wire::open(rosterd.http());
        wire.send(format!("{head}\r\n\r\n{chunks}DELETE /api/1/dtabs/default HTTP/1.1\r\n\r\n").as_bytes());
        assert_eq!(wire.answer(false).head.status(), 400, "{chunks:?}");
        assert!(wire.rest(Duration::from_secs(5)).is_empty() && wire.closed(), "nothing behind it is looked at");
    }
    assert_eq!(get(rosterd.http(), "/api/1/dtabs").text(), "[]\n");
}
