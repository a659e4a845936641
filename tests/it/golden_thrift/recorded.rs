//! The recorded server itself, played from its frames. What differs from it on purpose must not fit it, all else must.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};

use super::compare::{Decoded, Protocol, Stamps};
use super::recording::{Deed, From, Recording, Step, Want};
use super::replay::World;
use crate::support::PATIENCE;
use crate::support::thrift::{Message, Value};

/// Plays a recording; what it sends goes through a change first.
pub struct Recorded {
    listener: TcpListener,
    peers: BTreeMap<String, TcpStream>,
    protocols: BTreeMap<String, Protocol>,
    change: fn(Protocol, &[u8]) -> Vec<u8>,
    /// Those that were sent: as recorded, and as changed.
    stamps: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Recorded {
    pub fn playing(change: fn(Protocol, &[u8]) -> Vec<u8>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        Self { listener, peers: BTreeMap::new(), protocols: BTreeMap::new(), change, stamps: Vec::new() }
    }
}

impl World for Recorded {
    fn connect(&mut self, conn: &str) -> TcpStream {
        let client = TcpStream::connect(self.listener.local_addr().expect("it is bound")).expect("it listens");
        let (server, _) = self.listener.accept().expect("someone connected");
        server.set_read_timeout(Some(PATIENCE)).expect("a fresh socket takes options");
        self.peers.insert(conn.to_owned(), server);
        client
    }

    fn act(&mut self, _deed: &Deed) -> Result<(), String> {
        Ok(())
    }

    fn sent(&mut self, conn: &str, recorded: &[u8], sent: &[u8]) {
        self.protocols.entry(conn.to_owned()).or_insert_with(|| Protocol::of(sent));
        let mut got = vec![0; sent.len()];
        (&self.peers[conn]).read_exact(&mut got).expect("the client has sent them");
        let mut meant = recorded.to_vec();
        for (stamp, changed) in &self.stamps {
            if let Some(at) = meant.windows(8).position(|window| window == stamp) {
                meant[at..at + 8].copy_from_slice(changed);
            }
        }
        assert_eq!(got, meant, "clients quote the stamps that they were sent");
    }

    fn awaited(&mut self, step: &Step) {
        match step {
            Step::Expect { conn, want: Want::Frame(bytes) } => {
                let changed = (self.change)(self.protocols[conn], bytes);
                if let Some(at) = stamp_of(bytes) {
                    self.stamps.push((bytes[at..at + 8].to_vec(), changed[at..at + 8].to_vec()));
                }
                (&self.peers[conn]).write_all(&changed).expect("the client reads");
            }
            Step::ServerCloses { conn } => {
                self.peers[conn].shutdown(Shutdown::Both).ok();
            }
            _ => {}
        }
    }
}

/// The frame with other stamps, and the entries of its maps and sets in another order.
pub fn rearranged(protocol: Protocol, frame: &[u8]) -> Vec<u8> {
    let at = match (protocol, &frame[4..]) {
        (Protocol::Mux, [0xfe, 0..0x80, _, _, 0, ..]) => 11,
        (Protocol::Thrift, [0, ..]) => 5,
        (Protocol::Thrift, _) => 4,
        _ => return frame.to_vec(),
    };
    let Ok(mut message) = Message::read(&frame[at..]) else {
        return frame.to_vec();
    };
    if message.name != "delegate"
        && let Some(Value::Binary(stamp)) = message.body.field_mut(0).and_then(|result| result.field_mut(1))
    {
        stamp.iter_mut().for_each(|byte| *byte ^= 0x5a);
    }
    reverse(&mut message.body);
    [&frame[..at], &message.write()].concat()
}

fn reverse(value: &mut Value) {
    match value {
        Value::Struct(fields) => fields.iter_mut().for_each(|(_, value)| reverse(value)),
        Value::List(_, values) => values.iter_mut().for_each(reverse),
        Value::Set(_, values) => values.reverse(),
        Value::Map(_, _, entries) => {
            entries.iter_mut().for_each(|(_, value)| reverse(value));
            entries.reverse();
        }
        _ => {}
    }
}

/// Every byte of every whole answer is changed, one after the other: the places where that is not noticed.
pub fn unnoticed(recording: &Recording) -> Vec<String> {
    let mut unnoticed = Vec::new();
    let mut protocols: BTreeMap<String, Protocol> = BTreeMap::new();
    for (at, frame) in recording.frames.iter().enumerate() {
        let Some(bytes) = frame.bytes() else {
            continue;
        };
        let protocol = *protocols.entry(frame.connection()).or_insert_with(|| Protocol::of(&bytes));
        if frame.from != From::Server || Decoded::read(protocol, &bytes[4..]).is_err() {
            continue;
        }
        let want = Want::Frame(bytes.clone());
        let stamp = stamp_of(&bytes).map_or(0..0, |at| at..at + 8);
        for place in (4..bytes.len()).filter(|place| !stamp.contains(place)) {
            let mut changed = bytes.clone();
            changed[place] ^= 1 << (place % 8);
            if Stamps::default().compare(protocol, &want, &changed[4..]).is_ok() {
                unnoticed.push(format!("{}, frame {at}, byte {place}", recording.name));
            }
        }
    }
    unnoticed
}

/// Where the stamp of an answer stands: in the first field of the result. A delegation's is compared as it is.
fn stamp_of(bytes: &[u8]) -> Option<usize> {
    let holds = |mark: &[u8]| bytes.windows(mark.len()).position(|window| window == mark);
    const RESULT: &[u8] = &[0x0c, 0, 0, 0x0b, 0, 1, 0, 0, 0, 8];
    if holds(b"delegate").is_some() {
        None
    } else {
        holds(RESULT).map(|at| at + RESULT.len()).filter(|at| at + 8 <= bytes.len())
    }
}
