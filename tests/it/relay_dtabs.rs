//! What a relay asks of the controller behind it, and what it makes of the answers.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::support::{Answer, Rosterd, get, request};

/// A controller that is played: what it answers to a request line, and what it was asked.
struct Controller {
    port: u16,
    seen: Arc<Mutex<Vec<String>>>,
}

type Answers = fn(&str) -> String;

const DTAB: &str = r#"[{"prefix":"/svc","dst":"/#/io.l5d.fs"}]"#;

impl Controller {
    fn start(answers: Answers) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = seen.clone();
        std::thread::spawn(move || {
            for socket in listener.incoming() {
                let log = log.clone();
                std::thread::spawn(move || serve(socket.expect("accepted"), answers, &log));
            }
        });
        Self { port, seen }
    }

    fn relay(&self) -> Rosterd {
        let port = self.port;
        Rosterd::start(&format!(
            "interpreter: {{kind: io.l5d.namerd, dst: /$/inet/127.0.0.1/{port}, controller: 'http://127.0.0.1:{port}'}}\n\
             interfaces: [{{kind: io.l5d.httpController, port: 0}}]\n"
        ))
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().iter().filter(|seen| seen.contains("HTTP/1.1")).cloned().collect()
    }
}

fn serve(socket: TcpStream, answers: Answers, log: &Mutex<Vec<String>>) {
    let mut line = String::new();
    if BufReader::new(&socket).read_line(&mut line).is_err() || !line.contains("HTTP/1.1") {
        return; // what the relay itself asks over mux is nobody's here
    }
    log.lock().push(line.trim().to_owned());
    // Whoever asks at the same time does so while this one is answered.
    std::thread::sleep(Duration::from_millis(50));
    (&socket).write_all(answers(&line).as_bytes()).ok();
}

fn answer(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len())
}

fn well(line: &str) -> String {
    match line.split(' ').next() {
        Some("GET") if line.contains("/dtabs ") => answer("200 OK", "Content-Type: application/json\r\n", r#"["x"]"#),
        Some("GET") => answer("200 OK", "Content-Type: application/json\r\nEtag: AAAAAAAAAAE=\r\n", DTAB),
        _ => answer("204 No Content", "", ""),
    }
}

fn put(port: u16) -> Answer {
    request(
        port,
        "PUT /api/1/dtabs/x HTTP/1.1\r\nHost: x\r\nContent-Type: application/dtab\r\nContent-Length: 6\r\n\r\n/a=>/b",
    )
}

#[test]
fn a_dtab_that_is_read_once_is_read_once_and_not_watched() {
    let controller = Controller::start(well);
    let relay = controller.relay();
    for n in 0..20 {
        let read = get(relay.http(), &format!("/api/1/dtabs/{n}"));
        assert_eq!((read.head.status(), read.head.header("etag")), (200, Some("AAAAAAAAAAE=")), "{read:?}");
    }
    let seen = controller.seen();
    assert_eq!(seen.len(), 20, "{seen:?}");
    assert!(!seen.iter().any(|seen| seen.contains("watch")), "{seen:?}");
}

#[test]
fn many_who_read_a_dtab_at_once_are_served_by_two_reads() {
    let controller = Controller::start(well);
    let relay = controller.relay();
    let port = relay.http();
    std::thread::scope(|scope| {
        for _ in 0..40 {
            scope.spawn(move || assert_eq!(get(port, "/api/1/dtabs/x").head.status(), 200));
        }
    });
    let seen = controller.seen();
    // Not all forty need have come within the time of one read.
    assert!(seen.len() <= 10, "{}: {seen:?}", seen.len());
}

#[test]
fn a_write_reads_back_what_somebody_looks_at_and_nothing_else() {
    let controller = Controller::start(well);
    let relay = controller.relay();
    assert_eq!(put(relay.http()).head.status(), 204);
    assert_eq!(controller.seen(), ["PUT /api/1/dtabs/x HTTP/1.1"], "nobody has asked for it here");
    assert_eq!(get(relay.http(), "/api/1/dtabs").text(), "[\"x\"]\n");
    assert_eq!(get(relay.http(), "/api/1/dtabs/x").head.status(), 200);
    controller.seen.lock().clear();
    assert_eq!(put(relay.http()).head.status(), 204);
    let back = ["PUT /api/1/dtabs/x HTTP/1.1", "GET /api/1/dtabs/x HTTP/1.1"];
    assert_eq!(controller.seen(), back, "the list has it already");
}

#[test]
fn what_the_controller_says_of_a_write_is_what_a_client_is_told() {
    let table: [(Answers, u16, bool); 8] = [
        (|_| answer("405 Method Not Allowed", "", "no"), 501, false),
        (|_| answer("302 Found", "Location: /\r\n", ""), 501, false),
        (|_| answer("401 Unauthorized", "", "who?"), 403, false),
        (|_| answer("429 Too Many Requests", "", ""), 503, true),
        // Nothing was done, or perhaps something was.
        (|_| answer("503 Service Unavailable", "Retry-After: 1\r\n", "later"), 503, true),
        (|_| answer("503 Service Unavailable", "", "it may be done"), 503, false),
        (|_| answer("500 Internal Server Error", "", "oops"), 503, false),
        (|_| answer("412 Precondition Failed", "", ""), 412, false),
    ];
    for (answers, status, later) in table {
        let controller = Controller::start(answers);
        let relay = controller.relay();
        let told = put(relay.http());
        let seen = (told.head.status(), told.head.header("retry-after").is_some());
        assert_eq!(seen, (status, later), "{}: {told:?}", answers(""));
        assert_eq!(controller.seen().len(), 1, "it is sent once");
    }
}

#[test]
fn what_is_no_dtab_there_is_told_with_its_place() {
    let controller = Controller::start(|_| answer("500 Internal Server Error", "", "dtab x is no dtab: 1:5"));
    let told = get(controller.relay().http(), "/api/1/dtabs/x");
    assert_eq!(told.head.status(), 500, "{told:?}");
    assert!(told.text().contains("dtab x is no dtab: 1:5"), "{told:?}");
}

#[test]
fn a_version_that_cannot_be_written_back_is_not_passed_over() {
    let weak = Controller::start(|_| answer("200 OK", "Etag: W/\"AAAAAAAAAAE=\"\r\n", DTAB));
    let told = get(weak.relay().http(), "/api/1/dtabs/x");
    assert_eq!((told.head.status(), told.head.header("etag")), (200, Some("AAAAAAAAAAE=")), "{told:?}");
    let strange = Controller::start(|_| answer("200 OK", "Etag: \"5f-abc\"\r\n", DTAB));
    let told = get(strange.relay().http(), "/api/1/dtabs/x");
    assert!(told.head.status() >= 500 && told.text().contains("is no version"), "{told:?}");
}
