//! The recorded namerd as the server behind a relay: what it answered to others a relay answers to its own clients.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::recording::{From, Recording};
use crate::support::thrift::{Message, REPLY, Value};
use crate::support::{Connection, Frames, Next, PATIENCE, Rosterd, mux};

/// A call without its stamp: method, dtab, path and namespace.
type Asked = String;

/// What namerd answered first to calls without a stamp.
#[derive(Default)]
struct Answers {
    /// The call as it was made, and the Rdispatch without its tag.
    known: BTreeMap<Asked, (Vec<u8>, Vec<u8>)>,
    /// Its Rinit.
    rinit: Vec<u8>,
    /// What was asked and is not known.
    unknown: Mutex<Vec<Asked>>,
}

impl Answers {
    fn load() -> Self {
        let mut answers = Self::default();
        let (binds, addrs) = (Recording::all("thrift", "bind"), Recording::all("thrift", "addr"));
        for recording in binds.iter().chain(&addrs) {
            let mut calls: BTreeMap<(String, u32), (Asked, Vec<u8>)> = BTreeMap::new();
            for frame in &recording.frames {
                let Some(bytes) = frame.bytes() else { continue };
                let (Some(body), conn) = (bytes.get(4..), frame.connection()) else { continue };
                let at = |body: &[u8]| (conn.clone(), mux::tag(body));
                match (frame.from, body) {
                    (From::Client, [2, _, _, _, 0, 0, 0, 0, 0, 0, message @ ..]) => {
                        if let Ok(call) = Message::read(message)
                            && let Some((asked, stamp)) = asked(&call)
                            && stamp.is_empty()
                        {
                            calls.insert(at(body), (asked, message.to_vec()));
                        }
                    }
                    (From::Server, [0xfe, ..]) => {
                        if let Some((asked, call)) = calls.remove(&at(body)) {
                            answers.known.entry(asked).or_insert((call, body[4..].to_vec()));
                        }
                    }
                    (From::Server, [0xbc, ..]) => answers.rinit = body.to_vec(),
                    _ => {}
                }
            }
        }
        answers
    }

    /// Answers calls that come without a stamp, and holds all others, as namerd does while nothing changes.
    fn serve(&self, mut frames: Frames) {
        loop {
            let frame = match frames.next(PATIENCE) {
                Next::Frame(frame) => frame,
                Next::Silence => continue,
                Next::Closed => return,
            };
            match frame.as_slice() {
                [0x7f, ..] => frames.send(&frame),
                [0x44, ..] => frames.send(&self.rinit),
                [0x41, ..] => frames.send(mux::RPING),
                [2, tag @ ..] if frame.len() > 10 => {
                    let call = Message::read(&frame[10..]).expect("clients send calls");
                    let (asked, stamp) = asked(&call).expect("a poll");
                    if !stamp.is_empty() {
                        continue;
                    }
                    match self.known.get(&asked) {
                        Some((_, answer)) => frames.send(&[&[0xfe][..], &tag[..3], answer].concat()),
                        None => self.unknown.lock().push(asked),
                    }
                }
                _ => {}
            }
        }
    }
}

/// What a poll asks, and its stamp.
fn asked(call: &Message) -> Option<(Asked, Vec<u8>)> {
    let request = call.body.field(1)?;
    let (dtab, name) = match call.name.as_str() {
        "bind" => (request.field(1), request.field(2)?),
        "addr" => (None, request.field(1)?),
        _ => return None,
    };
    let Some(Value::Binary(stamp)) = name.field(1) else { return None };
    // Namespaces of addresses are not looked at.
    let ns = if call.name == "bind" { name.field(3) } else { None };
    Some((format!("{} {dtab:?} {:?} {ns:?}", call.name, name.field(2)?), stamp.clone()))
}

/// A reply without its stamp and its number.
fn without_stamp(message: &Message) -> serde_json::Value {
    let mut message = message.clone();
    message.seqid = 0;
    if let Some(stamp) = message.body.field_mut(0).and_then(|result| result.field_mut(1)) {
        *stamp = Value::Binary(Vec::new());
    }
    message.body = message.body.in_order();
    message.to_json()
}

#[test]
fn a_relay_of_the_recorded_server_answers_as_that_did() {
    let answers = Arc::new(Answers::load());
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    let server = answers.clone();
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let server = server.clone();
            std::thread::spawn(move || server.serve(Frames::on(Connection::on(stream))));
        }
    });
    let relay = Rosterd::start(&format!(
        "interpreter: {{kind: io.l5d.namerd, dst: /$/inet/127.0.0.1/{port}}}\n\
         interfaces: [{{kind: io.l5d.thriftNameInterpreter, port: 0}}]\n"
    ));
    let mut router = mux::session(relay.port("io.l5d.thriftNameInterpreter"));
    let (mut values, mut failures, mut differ) = (0, 0, Vec::new());
    for (asked, (call, answer)) in &answers.known {
        let Ok(recorded) = Message::read(&answer[3..]) else { continue };
        if recorded.kind != REPLY {
            continue; // an exception: nobody's answer to a question that can be understood
        }
        router.send(&mux::tdispatch(2, call));
        let reply = mux::reply(&router.frame_within(Duration::from_secs(20)));
        if recorded.body.field(0).is_some() {
            values += 1
        } else {
            failures += 1
        }
        let (want, got) = (without_stamp(&recorded), without_stamp(&reply));
        if want != got {
            differ.push(format!("{asked}: {got} instead of {want}"));
        }
    }
    assert_eq!(*answers.unknown.lock(), Vec::<Asked>::new());
    assert!(differ.is_empty(), "{} of {} differ:\n{}", differ.len(), values + failures, differ.join("\n"));
    println!("{values} values and {failures} declared failures came through the relay as recorded");
    assert!(values > 40, "{values}");
}
