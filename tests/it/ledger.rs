//! The watch ledger of two replicas that ask each other over TLS: what has stopped is reported, and by whom.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Authority, Connection, Frames, Rosterd, Wire, folder, mux};

/// Longer than anything here takes on a busy machine.
const LONG: Duration = Duration::from_secs(150);
const TOKEN: &str = "a word that all replicas know";

/// Two replicas with the same names.
struct Fleet {
    authority: Authority,
    disco: TempDir,
    states: [TempDir; 2],
    admin: [u16; 2],
    thrift: [u16; 2],
    replicas: [Option<Rosterd>; 2],
}

/// A router's session at a replica, with the polls of its loops: one tag each.
struct Session {
    frames: Frames,
    pinged: Instant,
}

impl Fleet {
    fn start() -> Self {
        let mut fleet = Self {
            authority: Authority::new(),
            disco: folder(),
            states: [folder(), folder()],
            admin: [free_port(), free_port()],
            thrift: [free_port(), free_port()],
            replicas: [None, None],
        };
        for replica in 0..2 {
            fleet.begin(replica);
        }
        fleet
    }

    fn begin(&mut self, replica: usize) {
        let place = folder();
        self.authority.issue().write_to(place.path());
        std::fs::write(place.path().join("ca.pem"), &self.authority.pem).expect("writable");
        let [one, other] = self.admin;
        let config = format!(
            "admin: {{ip: 127.0.0.1, port: {}, tls: {{certPath: cert.pem, keyPath: key.pem}}}}
storage: {{kind: io.l5d.inMemory}}
namers: [{{kind: io.l5d.fs, rootDir: {}}}]
interfaces: [{{kind: io.l5d.thriftNameInterpreter, ip: 127.0.0.1, port: {}}}]
stateDir: {}
maxPollAgeMs: 600000
ledger:
  peers: ['127.0.0.1:{one}', '127.0.0.1:{other}']
  token: {TOKEN}
  tls: {{commonName: localhost, trustCerts: [ca.pem]}}
  clientRetryMaxSeconds: 1
",
            self.admin[replica],
            self.disco.path().display(),
            self.thrift[replica],
            self.states[replica].path().display(),
        );
        self.replicas[replica] = Some(Rosterd::launch_in(place, &config));
    }

    fn kill(&mut self, replica: usize) {
        let mut rosterd = self.replicas[replica].take().expect("it runs");
        rosterd.signal(Signal::KILL);
        rosterd.wait(LONG).expect("it is dead");
    }

    fn change(&self, names: &[&str], port: u16) {
        for name in names {
            write_name(self.disco.path(), name, port);
        }
    }

    fn session(&self, replica: usize) -> Session {
        Session { frames: mux::session(self.thrift[replica]), pinged: Instant::now() }
    }

    /// What a replica reports as stopped, and how many peers it cannot ask.
    fn stopped(&self, replica: usize) -> (Vec<(String, u64)>, u64) {
        let connection = Connection::open_tls(self.admin[replica], self.authority.client(None)).expect("TLS").0;
        let mut wire = Wire::on(connection);
        wire.send(b"GET /admin/watches.json HTTP/1.1\r\nHost: x\r\n\r\n");
        let report: Value = serde_json::from_str(wire.answer(false).text()).expect("JSON");
        let suspects = report["suspects"].as_array().expect("a list").iter();
        let stopped = suspects.filter(|suspect| suspect["standing"] == "stopped").map(|suspect| {
            let name = suspect["path"].as_str().expect("a path").rsplit('/').next().unwrap_or_default();
            (name.to_owned(), suspect["watches"].as_u64().expect("a number"))
        });
        (stopped.collect(), report["peersAway"].as_u64().expect("a number"))
    }

    /// Waits until both replicas report this, while sessions are kept.
    fn wait_for(&self, expected: [&[(&str, u64)]; 2], sessions: &mut [&mut Session]) {
        let deadline = Instant::now() + LONG;
        loop {
            sessions.iter_mut().for_each(|session| session.ping());
            let told = [0, 1].map(|replica| self.stopped(replica));
            let found = told.each_ref().map(|(stopped, _)| {
                let mut stopped: Vec<(&str, u64)> = stopped.iter().map(|(name, count)| (&**name, *count)).collect();
                stopped.sort_unstable();
                stopped
            });
            if found.each_ref().map(|found| &found[..]) == expected && told.iter().all(|(_, away)| *away == 0) {
                return;
            }
            for (found, expected) in found.iter().zip(expected) {
                assert!(found.iter().all(|watch| expected.contains(watch)), "a false alarm: {found:?}");
            }
            assert!(Instant::now() < deadline, "{found:?} instead of {expected:?}, {told:?}");
            std::thread::sleep(Duration::from_millis(500));
        }
    }

    /// Waits until the replicas know each other.
    fn settle(&self) {
        self.wait_for([&[], &[]], &mut []);
    }
}

impl Session {
    /// Asks for the addresses of a name.
    fn ask(&mut self, tag: u32, name: &str, stamp: &[u8]) {
        let call = mux::addr(stamp, &["#", "io.l5d.fs", name], "default");
        self.frames.send(&mux::tdispatch(tag, &call.write()));
    }

    /// The next answer; its tag and stamp.
    fn answer(&mut self) -> (u32, Vec<u8>) {
        loop {
            let frame = self.frames.frame_within(LONG);
            match frame[0] {
                0xfe => return (mux::tag(&frame), mux::stamp(&mux::reply(&frame))),
                0x41 => self.frames.send(&[&[0xbf][..], &frame[1..]].concat()),
                _ => {}
            }
        }
    }

    /// Begins to watch a name, with its poll left waiting.
    fn watch(&mut self, tag: u32, name: &str) {
        self.ask(tag, name, b"");
        let stamp = self.answer().1;
        self.ask(tag, name, &stamp);
    }

    /// A ping every two seconds shows that it is there.
    fn ping(&mut self) {
        if self.pinged.elapsed() > Duration::from_secs(2) {
            self.pinged = Instant::now();
            self.frames.send(mux::TPING);
        }
    }
}

fn write_name(disco: &Path, name: &str, port: u16) {
    let new = disco.join(format!(".{name}.new"));
    std::fs::write(&new, format!("127.0.0.1 {port}\n")).expect("writable");
    std::fs::rename(&new, disco.join(name)).expect("writable");
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("bound").port()
}

#[test]
fn a_loop_that_stops_is_reported_also_behind_a_shared_address_and_one_that_moves_to_a_peer_is_not() {
    let fleet = Fleet::start();
    let names = ["stops", "moves", "shared", "moved-and-stops"];
    fleet.change(&names, 8_080);
    fleet.settle();
    let (mut one, mut other, mut there) = (fleet.session(0), fleet.session(0), fleet.session(1));
    for (tag, name) in (2..).zip(names) {
        one.watch(tag, name);
    }
    other.watch(2, "shared");
    // All wait together for longer than clocks of replicas are trusted.
    std::thread::sleep(Duration::from_secs(6));

    fleet.change(&names, 8_081);
    let answers: Vec<(u32, Vec<u8>)> = names.iter().map(|_| one.answer()).collect();
    let stamp = |tag: u32| &answers.iter().find(|(of, _)| *of == tag).expect("answered").1;
    // The first and the third end here. Two go to the other replica, where one of them ends.
    for (tag, name) in [(3, "moves"), (5, "moved-and-stops")] {
        there.ask(tag, name, stamp(tag));
        let (_, stamp) = there.answer();
        there.ask(tag, name, &stamp);
    }
    let (_, fresh) = other.answer();
    other.ask(2, "shared", &fresh);
    std::thread::sleep(Duration::from_secs(6));
    fleet.change(&["moved-and-stops"], 8_082);
    there.answer();

    let sessions = &mut [&mut one, &mut other, &mut there];
    fleet.wait_for([&[("shared", 1), ("stops", 1)], &[("moved-and-stops", 1)]], sessions);
    let output = fleet.replicas[0].as_ref().expect("it runs").output();
    assert!(output.contains("watches have stopped") && output.contains("127.0.0.1"), "{output}");
}

#[test]
fn a_loop_that_ends_while_its_server_dies_is_missed_by_the_next_process_and_by_nobody_else() {
    let mut fleet = Fleet::start();
    let names = ["ends", "goes-on", "moves"];
    fleet.change(&names, 8_080);
    fleet.settle();
    let (mut router, mut there) = (fleet.session(0), fleet.session(1));
    for (tag, name) in (2..).zip(names) {
        router.watch(tag, name);
    }
    // As long as it takes until the file has it, and the peer.
    std::thread::sleep(Duration::from_secs(6));
    fleet.kill(0);
    drop(router);
    there.watch(2, "moves");
    fleet.begin(0);
    let mut router = fleet.session(0);
    router.watch(2, "goes-on");
    fleet.wait_for([&[("ends", 1)], &[]], &mut [&mut router, &mut there]);
}
