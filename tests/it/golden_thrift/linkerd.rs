//! What a real Linkerd 1.7.5 sent to its name server (`tests/data/golden/linkerd-client`), contexts and all. Behind its
//! recordings stood a namerd, whose answers are compared, or a script, in whose place rosterd must answer properly.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::recording::{Events, From, Recording};
use super::replay;
use super::world::Running;
use crate::support::mux;
use crate::support::thrift::{REPLY, hex};
use crate::support::{Action, Frames, Next, PATIENCE, get};

/// Long enough for an answer that should not come.
const SILENCE: Duration = Duration::from_millis(100);
const TDRAIN: &[u8] = &[0x40, 0, 0, 1];

/// A rosterd as the routers of the recordings found their name server.
fn start(keys: &str) -> (Running, Events) {
    (Running::start(&Recording::load("linkerd-client", "thrift-basic"), keys), Events::load())
}

#[test]
fn a_router_is_answered_as_namerd_answered_it() {
    let (mut running, events) = start("");
    let mut failures = Vec::new();
    let recordings = Recording::all("linkerd-client", "thrift-");
    let proxied: Vec<_> = recordings.iter().filter(|recording| recording.namerd_config.is_some()).collect();
    assert_eq!(proxied.len(), 7);
    for recording in proxied {
        running.prepare(recording, &events);
        if let Err(why) = replay::converse(&mut running, &recording.steps(&events)) {
            failures.push(format!("{}, {why}", recording.name));
        }
    }
    assert!(failures.is_empty(), "{} conversations differ:\n{}\n", failures.len(), failures.join("\n"));
}

#[test]
fn every_poll_of_a_router_is_answered_or_held_after_all_that_a_script_did_to_it() {
    let (mut running, events) = start("");
    let mut scripted = 0;
    for recording in Recording::all("linkerd-client", "thrift-") {
        if recording.namerd_config.is_none() {
            running.prepare(&recording, &events);
            Router::of(&running).send_all(&recording, 0..recording.frames.len());
            scripted += 1;
        }
    }
    assert_eq!(scripted, 4);
}

#[test]
fn a_router_is_told_that_the_server_ends_and_loses_no_poll() {
    let recording = Recording::load("linkerd-client", "thrift-tdrain");
    let (mut running, events) = start("drain: {lameDuckMs: 500, spreadMs: 100}\n");
    running.prepare(&recording, &events);
    let told = recording.event("server sends Tdrain");
    let mut router = Router::of(&running);
    router.send_all(&recording, 0..told);
    let stamps = router.stamps.clone();
    let Router { mut sessions, .. } = router;
    let old = sessions.get_mut("1").expect("the first connection");

    running.rosterd.signal(Signal::TERM);
    running.rosterd.wait_for_output("SIGTERM");
    // As long as names may still lead here, nothing changes for anyone.
    old.send(mux::TPING);
    assert_eq!(old.frame(), mux::RPING);
    assert_eq!(get(running.rosterd.admin(), "/ready").head.status(), 503);
    assert_eq!(old.frame(), TDRAIN);
    old.send(&recording.bytes(told + 2)[4..]);
    // Both at once: as long as one poll of a session is pending, the router sends none of its polls elsewhere.
    let mut answers = [old.frame(), old.frame()];
    answers.sort_by_key(|frame| mux::tag(frame));
    for (frame, (tag, method)) in answers.iter().zip([(2, "addr"), (3, "bind")]) {
        let reply = mux::reply(frame);
        assert_eq!((mux::tag(frame), reply.name.as_str(), reply.kind), (tag, method, REPLY));
        assert_eq!(mux::stamp(&reply), stamps[method], "the value that the router has, with its stamp");
    }

    // It has nowhere else to go and comes back: it is told again, but only after the handshake, and served.
    let mut new = mux::session(running.port());
    assert_eq!(new.frame(), TDRAIN);
    for stamp in [&b""[..], &stamps["addr"]] {
        new.send(&mux::tdispatch(2, &mux::addr(stamp, &["#", "io.l5d.fs", "web"], "default").write()));
        assert_eq!(mux::stamp(&mux::reply(&new.frame())), stamps["addr"]);
    }
    drop((sessions, new));
    let status = running.rosterd.wait(PATIENCE).expect("all clients have left");
    assert!(status.success(), "{status}");
}

#[test]
fn behind_one_address_a_router_that_gets_no_pings_any_more_takes_its_polls_elsewhere() {
    let recording = Recording::load("linkerd-client", "thrift-pingsilence-then-answer");
    let (mut running, events) = start("drain: {pingSilence: true, spreadMs: 100}\n");
    running.prepare(&recording, &events);
    let silent = recording.event("server stops answering pings");
    let mut router = Router::of(&running);
    router.send_all(&recording, 0..silent);
    let stamps = router.stamps.clone();
    let Router { mut sessions, .. } = router;
    let old = sessions.get_mut("1").expect("the first connection");

    running.rosterd.signal(Signal::TERM);
    running.rosterd.wait_for_output("SIGTERM");
    let began = Instant::now();
    // Sent until it is sure that nobody answers pings any more; one may have been answered before that.
    old.send(&recording.bytes(silent + 1)[4..]);
    while old.next(SILENCE) == Next::Frame(mux::RPING.to_vec()) {
        old.send(mux::TPING);
    }
    let mut answers = [old.frame_within(Duration::from_secs(15)), old.frame()];
    // A router pings every 5 s and waits 4 s; before that an answered poll would come back to this session.
    assert!(began.elapsed() > Duration::from_secs(9), "answered after {:?}", began.elapsed());
    answers.sort_by_key(|frame| mux::tag(frame));
    for (frame, (tag, method)) in answers.iter().zip([(2, "addr"), (3, "bind")]) {
        let reply = mux::reply(frame);
        assert_eq!((mux::tag(frame), reply.name.as_str()), (tag, method));
        assert_eq!(mux::stamp(&reply), stamps[method]);
    }
    drop(sessions);
    let status = running.rosterd.wait(PATIENCE).expect("all clients have left");
    assert!(status.success(), "{status}");
}

/// Sends what a router sent. Where a script had answered a poll, a change is made, so that rosterd answers it.
struct Router<'a> {
    running: &'a Running,
    sessions: BTreeMap<String, Frames>,
    /// The last stamp by method: in these recordings, each asks for one name.
    stamps: BTreeMap<String, Vec<u8>>,
    /// Methods of the polls that are held, by connection and tag.
    held: BTreeMap<(String, u32), String>,
    changes: u16,
}

impl<'a> Router<'a> {
    fn of(running: &'a Running) -> Self {
        Self { running, sessions: BTreeMap::new(), stamps: BTreeMap::new(), held: BTreeMap::new(), changes: 0 }
    }

    fn send_all(&mut self, recording: &Recording, frames: std::ops::Range<usize>) {
        for frame in &recording.frames[frames] {
            if let (From::Client, Some(bytes)) = (frame.from, frame.bytes()) {
                self.send(frame.connection(), bytes[4..].to_vec());
            }
        }
    }

    fn send(&mut self, conn: String, mut frame: Vec<u8>) {
        let tag = mux::tag(&frame);
        if let Some(method) = self.held.remove(&(conn.clone(), tag)) {
            self.change(&method);
            let answer = self.sessions.get_mut(&conn).expect("it holds a poll").frame();
            assert_eq!(mux::tag(&answer), tag, "the poll of {method} is answered");
            self.met(&answer, &method);
        }
        let session = self.sessions.entry(conn.clone()).or_insert_with(|| Frames::open(self.running.port()));
        let asked = Asked::of(&frame);
        if let Some(Asked { stamp: Some(at), method }) = &asked {
            frame[*at..at + 8].copy_from_slice(&self.stamps[method]);
        }
        session.send(&frame);
        match (frame[0], asked) {
            (0x7f, _) => assert_eq!(session.frame(), frame, "the probe is echoed"),
            (0x44, _) => assert_eq!(session.frame()[..4], [0xbc, 0, 0, 1], "Rinit"),
            (0x41, _) => assert_eq!(session.frame(), [0xbf, frame[1], frame[2], frame[3]], "Rping"),
            // The script had sent Tdrain.
            (0xc0, _) => assert_eq!(mux::tag(&session.frame()), tag),
            (0x02, Some(Asked { stamp: None, method })) => {
                let answer = session.frame();
                assert_eq!(mux::tag(&answer), tag);
                self.met(&answer, &method);
            }
            (0x02, Some(Asked { stamp: Some(_), method })) => {
                let mut next = session.next(SILENCE);
                if let Next::Frame(answer) = &next {
                    // What was written a moment before the first answer is news, once.
                    let newer = mux::stamp(&mux::reply(answer));
                    assert_ne!(newer, self.stamps[&method], "a poll with the current stamp is held");
                    if let Some(Asked { stamp: Some(at), .. }) = Asked::of(&frame) {
                        frame[at..at + 8].copy_from_slice(&newer);
                    }
                    self.stamps.insert(method.clone(), newer);
                    session.send(&frame);
                    next = session.next(SILENCE);
                }
                assert_eq!(next, Next::Silence, "a poll with the current stamp is held");
                self.held.insert((conn, tag), method);
            }
            _ => panic!("no router sent {}", hex(&frame)),
        }
    }

    fn met(&mut self, answer: &[u8], method: &str) {
        let reply = mux::reply(answer);
        assert_eq!((reply.name.as_str(), reply.kind), (method, REPLY));
        let stamp = mux::stamp(&reply);
        assert_eq!(stamp.len(), 8);
        self.stamps.insert(method.to_owned(), stamp);
    }

    /// Changes what this method says.
    fn change(&mut self, method: &str) {
        self.changes += 1;
        let action = if method == "addr" {
            let text = format!("127.0.0.1 {}\n", 18_080 + self.changes);
            Action::Write { write: "web".to_owned(), text, shown: None }
        } else {
            let dtab = format!("/svc=>/#/io.l5d.fs;/svc/web=>/#/io.l5d.fs/web/{}", self.changes);
            Action::Put { put: "default".to_owned(), dtab }
        };
        self.running.act_on_data(&action);
    }
}

/// What a Tdispatch of a router asks for, and where its stamp stands if it has one.
struct Asked {
    method: String,
    stamp: Option<usize>,
}

impl Asked {
    fn of(frame: &[u8]) -> Option<Self> {
        let after = |mark: &[u8]| frame.windows(mark.len()).position(|window| window == mark).map(|at| at + mark.len());
        let name = after(&[0x80, 1, 0, 1, 0, 0, 0, 4])?;
        let method = String::from_utf8_lossy(&frame[name..name + 4]).into_owned();
        Some(Self { method, stamp: after(&[0x0b, 0, 1, 0, 0, 0, 8]) })
    }
}
