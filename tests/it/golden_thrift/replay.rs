//! One conversation, held again.

use std::collections::{BTreeMap, VecDeque};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::compare::{Protocol, Stamps};
use super::recording::{Deed, Step, Want};
use crate::support::thrift::hex;
use crate::support::{Frames, Next, mux};

/// How long silence must last to count.
const SILENCE: Duration = Duration::from_millis(200);
/// How long an answer may take.
const SOON: Duration = Duration::from_secs(5);

/// Who is spoken to, and what the outside can do to it.
pub trait World {
    fn connect(&mut self, conn: &str) -> TcpStream;
    fn act(&mut self, deed: &Deed) -> Result<(), String>;
    /// The client has sent this, which is what was recorded with the stamps that were seen.
    fn sent(&mut self, _conn: &str, _recorded: &[u8], _sent: &[u8]) {}
    /// The client waits for this now.
    fn awaited(&mut self, _step: &Step) {}
}

/// Holds the conversation; the failure says at which frame it went another way.
pub fn converse(world: &mut impl World, steps: &[(Option<usize>, Step)]) -> Result<(), String> {
    let mut talk = Talk { world, connections: BTreeMap::new(), stamps: Stamps::default() };
    for (frame, step) in steps {
        let place = || frame.map_or("an event".to_owned(), |frame| format!("frame {frame}"));
        talk.step(step).map_err(|why| format!("{}: {why}", place()))?;
    }
    talk.connections.values().try_for_each(Connection::nothing_left)
}

struct Talk<'a, W> {
    world: &'a mut W,
    connections: BTreeMap<String, Connection>,
    stamps: Stamps,
}

impl<W: World> Talk<'_, W> {
    fn step(&mut self, step: &Step) -> Result<(), String> {
        self.world.awaited(step);
        match step {
            Step::Open { conn } | Step::Act(Deed::Connect { connect: conn }) => {
                let stream = self.world.connect(conn);
                self.connections.insert(conn.clone(), Connection::on(stream));
            }
            Step::Act(deed) => self.world.act(deed)?,
            Step::Send { conn, bytes } => {
                let sent = self.stamps.in_request(bytes);
                let connection = self.connection(conn)?;
                connection.protocol.get_or_insert_with(|| Protocol::of(bytes));
                connection.frames.send_raw(&sent);
                self.world.sent(conn, bytes, &sent);
            }
            Step::Expect { conn, want } => {
                let connection = self.connections.get_mut(conn).ok_or("no such connection")?;
                connection.expect(want, &mut self.stamps)?;
            }
            Step::Silence { conn } => {
                let connection = self.connection(conn)?;
                connection.nothing_left()?;
                match connection.frames.next(SILENCE) {
                    Next::Silence => {}
                    other => return Err(format!("silence expected, got {}", shown(&other))),
                }
            }
            Step::ServerCloses { conn } => {
                let connection = self.connection(conn)?;
                connection.nothing_left()?;
                match connection.frames.next(SOON) {
                    Next::Closed => {}
                    other => return Err(format!("the end of the connection expected, got {}", shown(&other))),
                }
            }
            Step::ClientCloses { conn } => {
                self.connection(conn)?.nothing_left()?;
                self.connections.remove(conn);
            }
        }
        Ok(())
    }

    fn connection(&mut self, conn: &str) -> Result<&mut Connection, String> {
        self.connections.get_mut(conn).ok_or_else(|| format!("no connection {conn:?}"))
    }
}

struct Connection {
    frames: Frames,
    protocol: Option<Protocol>,
    /// Frames that came before they were expected: answers of mux have no order.
    early: VecDeque<Vec<u8>>,
    /// Fragments so far: those recorded and those seen.
    fragments: (Vec<u8>, Vec<u8>),
}

impl Connection {
    fn on(stream: TcpStream) -> Self {
        Self {
            frames: Frames::on(crate::support::Connection::on(stream)),
            protocol: None,
            early: VecDeque::new(),
            fragments: (Vec::new(), Vec::new()),
        }
    }

    fn expect(&mut self, want: &Want, stamps: &mut Stamps) -> Result<(), String> {
        let protocol = self.protocol.ok_or("the server speaks first")?;
        let got = self.matching(protocol, want)?;
        let Want::Frame(recorded) = want else {
            return stamps.compare(protocol, want, &got);
        };
        let more = protocol == Protocol::Mux && recorded[5] & 0x80 != 0;
        if !more && self.fragments.0.is_empty() {
            return stamps.compare(protocol, want, &got);
        }
        // Of fragments the cut must be the same; the message is compared when it is whole.
        if (recorded.len() - 4, &recorded[4..8]) != (got.len(), &got[..4]) {
            return Err(format!("a fragment like {} expected, got {}", hex(&recorded[4..]), hex(&got)));
        }
        self.fragments.0.extend(&recorded[8..]);
        self.fragments.1.extend(&got[4..]);
        if more {
            return Ok(());
        }
        let (want, whole) = std::mem::take(&mut self.fragments);
        let want = [&recorded[..8], &want].concat();
        stamps.compare(protocol, &Want::Frame(want), &[&got[..4], &whole].concat())
    }

    /// The frame that is meant: the next one, or with mux the next one for the same tag.
    fn matching(&mut self, protocol: Protocol, want: &Want) -> Result<Vec<u8>, String> {
        let fits = |frame: &[u8]| match want {
            _ if protocol == Protocol::Thrift || frame.len() < 4 => true,
            Want::DeclaredFailure { tag, .. } => mux::tag(frame) == *tag,
            // The tag of pings and drains says nothing.
            Want::Frame(recorded) | Want::OtherText(recorded) => {
                let same_tag = mux::tag(frame) == mux::tag(&recorded[4..]);
                same_tag && (mux::tag(frame) > 1 || frame[0] == recorded[4])
            }
        };
        if let Some(at) = self.early.iter().position(|frame| fits(frame)) {
            return Ok(self.early.remove(at).expect("it was found there"));
        }
        let deadline = Instant::now() + SOON;
        loop {
            match self.frames.next(deadline.saturating_duration_since(Instant::now())) {
                Next::Frame(frame) if fits(&frame) => return Ok(frame),
                Next::Frame(frame) => self.early.push_back(frame),
                other => {
                    let early: Vec<_> = self.early.iter().map(|frame| hex(frame)).collect();
                    return Err(format!("{want:?} expected, got {}; before that: {early:?}", shown(&other)));
                }
            }
        }
    }

    fn nothing_left(&self) -> Result<(), String> {
        match self.early.front() {
            None => Ok(()),
            Some(frame) => Err(format!("nothing expected, got {}", hex(frame))),
        }
    }
}

fn shown(next: &Next) -> String {
    match next {
        Next::Frame(frame) => format!("{} {:?}", hex(frame), String::from_utf8_lossy(frame)),
        Next::Silence => "silence".to_owned(),
        Next::Closed => "the end of the connection".to_owned(),
    }
}
