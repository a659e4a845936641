//! Real servers are restarted and moved, again and again, while everything changes ten times a second.
//!
//! `ROSTERD_TEST_RESTARTS` makes the storm longer: 50 take some minutes.

use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rosterd::client::{Feed, Tcp, Timings};
use rosterd::name::AddrSet;
use rustix::process::Signal;

use super::churn::{NAMES, Names};
use super::{Client, value};
use crate::support::mux::{addr, bind, reply, session, stamp, tdispatch};
use crate::support::{Next, PATIENCE, Rosterd, folder, metric, wait_until};

/// How often all of them change.
const CHANGE: Duration = Duration::from_millis(100);

/// How far behind a watch may be at most, at any time, around a planned restart and around a kill.
const PLANNED: Duration = Duration::from_secs(2);
const KILLED: Duration = Duration::from_secs(5);

/// So late the name service hears that a server is gone.
const HEARSAY: Duration = Duration::from_millis(300);

fn server(names: &Names, ip: &str, port: u16) -> Rosterd {
    names.server(&format!("{{kind: io.l5d.thriftNameInterpreter, ip: {ip}, port: {port}}}"))
}

/// Ends a server: with goodbyes, or without.
fn end(mut server: Rosterd, planned: bool) {
    server.signal(if planned { Signal::TERM } else { Signal::KILL });
    server.wait(PATIENCE).expect("it ends");
}

fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr()).expect("a free port").port()
}

/// A client of three servers, and the name service that it learns their addresses from.
struct Storm {
    names: Names,
    port: u16,
    ips: [String; 3],
    servers: [Option<Rosterd>; 3],
    client: Client,
    feeds: Vec<Feed<AddrSet>>,
}

impl Storm {
    /// Begins to watch all names. Within a runtime.
    fn begin() -> Self {
        let (names, port) = (Names::changing_every(CHANGE), free_port());
        let ips = [2, 3, 4].map(|n| format!("127.0.0.{n}"));
        let servers = [0, 1, 2].map(|n: usize| Some(server(&names, &ips[n], port)));
        let timings = Timings {
            ping_period: Duration::from_millis(500),
            ping_deadline: Duration::from_millis(1_000),
            ..Timings::default()
        };
        let client = Client::new(Tcp, timings, &[]);
        let feeds = (0..NAMES).map(|name| client.addr(&format!("/#/io.l5d.fs/{name}"))).collect();
        let storm = Self { names, port, ips, servers, client, feeds };
        storm.tell(None);
        storm
    }

    /// The name service knows all servers, or all but one.
    fn tell(&self, without: Option<usize>) {
        let known = (0..3).filter(|n| Some(*n) != without);
        let known: Vec<String> = known.map(|n| format!("{}:{}", self.ips[n], self.port)).collect();
        self.client.servers(&known.iter().map(String::as_str).collect::<Vec<_>>());
    }

    /// Looks at all watches for this time, and until each holds something that became true after its beginning; says
    /// how far the worst has been behind meanwhile.
    fn watch(&self, least: Duration, limit: Duration) -> Duration {
        let (began, mut worst) = (Instant::now(), Duration::ZERO);
        loop {
            let mut fresh = true;
            for feed in &self.feeds {
                let has = value(&feed.cell().snapshot());
                worst = worst.max(self.names.behind(has.as_ref()));
                fresh &= self.names.is_since(began, has.as_ref());
            }
            if fresh && began.elapsed() >= least {
                return worst;
            }
            assert!(began.elapsed() < least + limit, "{worst:?} behind: {}", self.client.upstream.page());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn three_servers_are_restarted_in_turn_and_moved_and_no_watch_stays_behind() {
    let restarts = std::env::var("ROSTERD_TEST_RESTARTS").ok().and_then(|count| count.parse().ok()).unwrap_or(9);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("threads");
    let _within = runtime.enter();
    let mut storm = Storm::begin();
    storm.watch(Duration::ZERO, PATIENCE);
    let (began, mut next_ip, mut behind) = (Instant::now(), 5, [Vec::new(), Vec::new()]);
    for restart in 0..restarts {
        let (which, planned, moves) = (restart % 3, restart % 2 == 0, restart % 4 > 1);
        let limit = if planned { PLANNED } else { KILLED };
        end(storm.servers[which].take().expect("it runs"), planned);
        let mut worst = storm.watch(HEARSAY, limit);
        storm.tell(Some(which));
        if moves {
            storm.ips[which] = format!("127.0.0.{next_ip}");
            next_ip += 1;
        }
        worst = worst.max(storm.watch(Duration::ZERO, limit));
        storm.servers[which] = Some(server(&storm.names, &storm.ips[which], storm.port));
        storm.tell(None);
        worst = worst.max(storm.watch(Duration::from_millis(500), limit));
        assert!(worst < limit, "restart {restart}, planned {planned}, moves {moves}: {worst:?} behind");
        behind[usize::from(!planned)].push(worst);
    }
    for (kind, behind) in ["planned", "killed"].into_iter().zip(&mut behind) {
        behind.sort_unstable();
        let (median, most) = (behind[behind.len() / 2].as_millis(), behind[behind.len() - 1].as_millis());
        println!(
            "{} restarts, {kind}: the worst watch was {median} ms behind (median), {most} ms at most",
            behind.len()
        );
    }
    println!("{restarts} restarts in {} s", began.elapsed().as_secs());
}

/// What a router sees: how many answers, and whatever was none.
#[derive(Default)]
struct Router {
    answers: AtomicU32,
    wrong: Mutex<Vec<String>>,
    newest: Mutex<Vec<u8>>,
}

impl Router {
    /// Polls as Linkerd does, each poll with the stamp of the answer before, until told to stop.
    fn poll(&self, port: u16, over: &AtomicBool) {
        let mut frames = session(port);
        let mut stamps = [Vec::new(), Vec::new()];
        let ask = |which: u32, stamp: &[u8]| {
            let message = match which {
                0 => addr(stamp, &["#", "io.l5d.fs", "0"], "default"),
                _ => bind("", stamp, &["svc", "0"], "default"),
            };
            tdispatch(2 + which, &message.write())
        };
        (0..2).for_each(|which| frames.send(&ask(which, b"")));
        while !over.load(Ordering::SeqCst) {
            let frame = match frames.next(Duration::from_millis(200)) {
                Next::Frame(frame) => frame,
                Next::Silence => continue,
                Next::Closed => return self.wrong.lock().push("the relay closed the connection".to_owned()),
            };
            let which = u32::from(frame[3]) - 2;
            if frame[0] != 0xfe || frame[4] != 0 || reply(&frame).body.field(0).is_none() {
                self.wrong.lock().push(format!("{frame:?}"));
                return;
            }
            self.answers.fetch_add(1, Ordering::SeqCst);
            stamps[which as usize] = stamp(&reply(&frame));
            if which == 0 {
                *self.newest.lock() = frame;
            }
            frames.send(&ask(which, &stamps[which as usize]));
        }
    }
}

#[test]
fn a_router_behind_a_relay_sees_no_failed_poll_while_servers_are_killed_and_moved() {
    let names = Names::changing_every(CHANGE);
    let place = folder();
    let file: PathBuf = place.path().join("namerd");
    let tell = |ports: &[u16]| {
        let text: String = ports.iter().map(|port| format!("127.0.0.1 {port}\n")).collect();
        let made = place.path().join(".namerd");
        std::fs::write(&made, text).expect("written");
        std::fs::rename(made, &file).expect("renamed");
    };
    let mut ports = vec![free_port(), free_port()];
    let mut servers: Vec<Option<Rosterd>> = ports.iter().map(|port| Some(server(&names, "127.0.0.1", *port))).collect();
    tell(&ports);
    let relay = Rosterd::start(&format!(
        "interpreter: {{kind: io.l5d.namerd, dst: /#/io.l5d.fs/namerd}}\n\
         namers: [{{kind: io.l5d.fs, rootDir: {}}}]\n\
         interfaces: [{{kind: io.l5d.thriftNameInterpreter, port: 0}}]\n",
        place.path().display()
    ));
    let (router, over) = (Arc::new(Router::default()), Arc::new(AtomicBool::new(false)));
    let polling = std::thread::spawn({
        let (router, over, port) = (router.clone(), over.clone(), relay.port("io.l5d.thriftNameInterpreter"));
        move || router.poll(port, &over)
    });
    wait_until("the router has answers", || router.answers.load(Ordering::SeqCst) > 5);
    let tasks = || metric(&relay, "rosterd_tasks ");
    let tasks_before = tasks();
    for (round, planned) in [true, false, false, true].into_iter().enumerate() {
        let which = round % 2;
        end(servers[which].take().expect("it runs"), planned);
        std::thread::sleep(Duration::from_millis(400)); // the name service hears of it late
        tell(&[ports[1 - which]]);
        ports[which] = free_port();
        servers[which] = Some(server(&names, "127.0.0.1", ports[which]));
        tell(&ports);
        std::thread::sleep(Duration::from_millis(600));
    }
    // Nobody is there for a while, and the router does not notice either.
    for running in &mut servers {
        end(running.take().expect("it runs"), false);
    }
    std::thread::sleep(Duration::from_secs(1));
    let before = router.answers.load(Ordering::SeqCst);
    servers[0] = Some(server(&names, "127.0.0.1", ports[0]));
    wait_until("answers come again", || router.answers.load(Ordering::SeqCst) > before + 5);
    wait_until("no task is left behind", || tasks() <= tasks_before);
    over.store(true, Ordering::SeqCst);
    polling.join().expect("no panic");
    assert_eq!(*router.wrong.lock(), Vec::<String>::new());
    let answers = router.answers.load(Ordering::SeqCst);
    println!("{answers} answers, none of them a failure");
    assert!(answers > 20, "{answers}");
}
