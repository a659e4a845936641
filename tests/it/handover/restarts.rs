//! Restarts: nobody is left without an answer. `ROSTERD_TEST_RESTARTS` says how many there are; fifty take three minutes.

#![allow(clippy::print_stdout, reason = "the counts are for whoever reads the output of the tests")]

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::process::Signal;
use tokio::sync::watch;
use tokio::time::interval;
use tokio_util::task::AbortOnDropHandle;

use super::router::{Seen, World, follow};
use super::{Home, THRIFT, times};
use crate::support::thrift::REPLY;
use crate::support::{Authority, Rosterd, folder, get, metric, mux, wait_until};

const SESSIONS: usize = 100;
const POLLS: usize = 100;
const ROUTERS: usize = 10;
const NAMES: usize = 10;
const TDRAIN: &[u8] = &[0x40, 0, 0, 1];
const RDRAIN: &[u8] = &[0xc0, 0, 0, 1];
const DRAIN: &str = "drain: {lameDuckMs: 300, spreadMs: 200}\n";
/// A lame duck, the spread, a client that says nothing, and a loaded machine.
const TO_END: Duration = Duration::from_secs(30);

#[test]
fn ten_thousand_parked_polls_are_answered_when_the_process_is_told_to_end() {
    let home = Home::new();
    (0..POLLS).for_each(|n| home.set(&format!("name{n}"), 1));
    let mut rosterd = home.start("");
    let mut sessions: Vec<_> = (0..SESSIONS).map(|_| mux::session(rosterd.port(THRIFT))).collect();
    let poll = |n: usize, stamp: &[u8]| {
        let tag = u32::try_from(n).expect("small") + 2;
        mux::tdispatch(tag, &mux::addr(stamp, &["#", "io.l5d.fs", &format!("name{n}")], "default").write())
    };
    let mut stamps = vec![Vec::new(); POLLS];
    for session in &mut sessions {
        (0..POLLS).for_each(|n| session.send(&poll(n, b"")));
        for _ in 0..POLLS {
            let frame = session.frame();
            stamps[mux::tag(&frame) as usize - 2] = mux::stamp(&mux::reply(&frame));
        }
        (0..POLLS).for_each(|n| session.send(&poll(n, &stamps[n])));
    }
    wait_until("all are parked", || metric(&rosterd, "rosterd_thrift_parked_polls") == (SESSIONS * POLLS) as u64);
    rosterd.signal(Signal::TERM);
    let answered: usize = std::thread::scope(|scope| {
        let stamps = &stamps;
        let waiting: Vec<_> = sessions
            .into_iter()
            .map(|mut session| {
                scope.spawn(move || {
                    assert_eq!(session.frame(), TDRAIN);
                    session.send(RDRAIN);
                    for _ in 0..POLLS {
                        let frame = session.frame();
                        let reply = mux::reply(&frame);
                        assert_eq!(reply.kind, REPLY);
                        assert_eq!(mux::stamp(&reply), stamps[mux::tag(&frame) as usize - 2]);
                    }
                    POLLS
                })
            })
            .collect();
        waiting.into_iter().map(|session| session.join().expect("every poll is answered")).sum()
    });
    assert_eq!(answered, 10_000);
    assert_eq!(rosterd.wait(TO_END).and_then(|status| status.code()), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarts_of_two_servers_in_turn_fail_no_poll() {
    restarts(None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarts_of_two_servers_in_turn_fail_no_poll_over_tls() {
    restarts(Some(&Authority::new())).await;
}

/// A server on these ports; its admin server, controller and thrift interface.
fn server(home: &Home, ports: [u16; 3], tls: &str) -> Rosterd {
    let [admin, http, thrift] = ports;
    let disco = home.folder.path().join("disco");
    Rosterd::start_in(
        folder(),
        &format!(
            "admin: {{port: {admin}}}
storage: {{kind: io.l5d.inMemory}}
namers: [{{kind: io.l5d.fs, rootDir: {}}}]
interfaces:
- {{kind: io.l5d.httpController, port: {http}}}
- {{kind: {THRIFT}, port: {thrift}{tls}}}
{DRAIN}",
            disco.display()
        ),
    )
}

fn ports(rosterd: &Rosterd) -> [u16; 3] {
    [rosterd.admin(), rosterd.http(), rosterd.port(THRIFT)]
}

async fn restarts(authority: Option<&Authority>) {
    let restarts = times("ROSTERD_TEST_RESTARTS", 4);
    let home = Arc::new(Home::new());
    let tls = authority.map_or(String::new(), |authority| {
        let path = home.folder.path();
        authority.issue().write_to(path);
        let path = path.display();
        format!(", tls: {{certPath: {path}/cert.pem, keyPath: {path}/key.pem}}")
    });
    let names: Vec<String> = (0..NAMES).map(|n| format!("name{n}")).collect();
    names.iter().for_each(|name| home.set(name, 1));
    let mut servers = [server(&home, [0; 3], &tls), server(&home, [0; 3], &tls)];
    let (say, addresses) = watch::channel(servers.iter().map(|server| server.port(THRIFT)).collect::<Vec<_>>());
    let tls_client = authority.map(|authority| authority.client(None));
    let world = World { addresses, tls: tls_client, seen: Arc::new(Seen::default()) };
    let routers: Vec<_> = (0..ROUTERS).map(|number| follow(number, &names, &world)).collect();
    let (churned, churning) = (home.clone(), names.clone());
    let churn = AbortOnDropHandle::new(tokio::spawn(async move {
        let mut ticks = interval(Duration::from_millis(20));
        for n in 0.. {
            ticks.tick().await;
            churned.set(&churning[n % NAMES], 10_000 + (n % 10_000) as u16);
        }
    }));
    for n in 0..restarts {
        let [first, second] = servers;
        let (mut old, other) = if n % 2 == 0 { (first, second) } else { (second, first) };
        let (say, home, tls) = (say.clone(), home.clone(), tls.clone());
        let work = move || {
            let places = ports(&old);
            old.signal(Signal::TERM);
            // A name service that asks for readiness takes the address out while it is still served.
            wait_until("it is not ready any more", || get(places[0], "/ready").head.status() == 503);
            say.send_modify(|addresses| addresses.retain(|port| *port != places[2]));
            assert_eq!(old.wait(TO_END).and_then(|status| status.code()), Some(0), "every client was answered");
            let new = server(&home, places, &tls);
            say.send_modify(|addresses| addresses.push(places[2]));
            new
        };
        let new = tokio::task::spawn_blocking(work).await.expect("restarted");
        servers = if n % 2 == 0 { [new, other] } else { [other, new] };
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let (answered, failed) = (world.seen.answered.load(Ordering::Relaxed), world.seen.failures.lock().clone());
    println!("{restarts} restarts: {answered} polls answered, {} failed", failed.len());
    assert!(failed.is_empty(), "{failed:#?}");
    drop(churn);
    names.iter().for_each(|name| home.set(name, 4_242));
    world.is_fresh(ROUTERS, &names, 4_242).await;
    drop(routers);
}
