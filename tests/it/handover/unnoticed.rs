//! Connections and polls over many hand-overs. `ROSTERD_TEST_HANDOVERS` says how many; a hundred take five minutes.

#![allow(clippy::print_stdout, reason = "the counts are for whoever reads the output of the tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::router::{Seen, World, follow};
use super::{Home, THRIFT, times};
use crate::support::Rosterd;

const ROUTERS: usize = 10;
const NAMES: usize = 10;
const CONNECTS_PER_SECOND: u32 = 300;
/// From one hand-over to the next. A process needs ten seconds to leave, so that several do at a time.
const PAUSE: Duration = Duration::from_millis(1_500);
/// A client that waits longer for its answer calls it a failure.
const PATIENCE: Duration = Duration::from_secs(10);

/// Clients that connect, ask, and go.
struct Storm {
    asked: Arc<AtomicUsize>,
    failures: Arc<Mutex<Vec<String>>>,
    _task: AbortOnDropHandle<()>,
}

impl Storm {
    fn on(port: u16) -> Self {
        let (asked, failures) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
        let (counting, noting) = (asked.clone(), failures.clone());
        let task = AbortOnDropHandle::new(tokio::spawn(async move {
            let mut ticks = interval(Duration::from_secs(1) / CONNECTS_PER_SECOND);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
            loop {
                ticks.tick().await;
                let (asked, failures) = (counting.clone(), noting.clone());
                tokio::spawn(async move {
                    match timeout(PATIENCE, ask(port)).await {
                        Ok(Ok(())) => drop(asked.fetch_add(1, Ordering::Relaxed)),
                        Ok(Err(why)) => failures.lock().push(why),
                        Err(_) => failures.lock().push("no answer in time".to_owned()),
                    }
                });
            }
        }));
        Self { asked, failures, _task: task }
    }
}

async fn ask(port: u16) -> Result<(), String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.map_err(|error| format!("connect: {error}"))?;
    let request = b"GET /api/1/dtabs/default HTTP/1.1\r\nConnection: close\r\n\r\n";
    stream.write_all(request).await.map_err(|error| format!("write: {error}"))?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.map_err(|error| format!("read: {error}"))?;
    if answer.starts_with("HTTP/1.1 200 ") { Ok(()) } else { Err(format!("answered {answer:?}")) }
}

/// Names whose addresses change all the time.
fn churn(home: Arc<Home>, names: Vec<String>) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        let mut ticks = interval(Duration::from_millis(50));
        for n in 0.. {
            ticks.tick().await;
            home.set(&names[n % names.len()], 10_000 + (n % 10_000) as u16);
        }
    }))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hand_over_refuses_no_connection_and_fails_no_poll() {
    let handovers = times("ROSTERD_TEST_HANDOVERS", 5);
    let home = Arc::new(Home::new());
    let names: Vec<String> = (0..NAMES).map(|n| format!("name{n}")).collect();
    names.iter().for_each(|name| home.set(name, 1));
    let mut process = home.start("drain: {spreadMs: 200}\n");
    let (admin, http, thrift) = (process.admin(), process.http(), process.port(THRIFT));
    let (_addresses, addresses) = watch::channel(vec![thrift]);
    let world = World { addresses, tls: None, seen: Arc::new(Seen::default()) };
    let routers: Vec<_> = (0..ROUTERS).map(|number| follow(number, &names, &world)).collect();
    let (storm, churning) = (Storm::on(http), churn(home.clone(), names.clone()));
    let mut leaving: Vec<Rosterd> = Vec::new();
    for n in 0..handovers {
        tokio::time::sleep(PAUSE).await;
        let new = {
            let home = home.clone();
            tokio::task::spawn_blocking(move || home.take_over("drain: {spreadMs: 200}\n")).await.expect("started")
        };
        assert_eq!((new.admin(), new.http(), new.port(THRIFT)), (admin, http, thrift), "hand-over {n}");
        leaving.push(std::mem::replace(&mut process, new));
        // Whoever is done is looked at at once, so that a hundred do not stay around.
        leaving.retain_mut(|old| match old.wait(Duration::ZERO) {
            None => true,
            Some(status) => {
                assert_eq!(status.code(), Some(0), "every client was answered");
                false
            }
        });
    }
    let ended = tokio::task::spawn_blocking(move || {
        leaving.iter_mut().map(|old| old.wait(Duration::from_secs(30)).and_then(|status| status.code())).collect()
    });
    let ended: Vec<Option<i32>> = ended.await.expect("no panic");
    assert!(ended.iter().all(|status| *status == Some(0)), "every client was answered: {ended:?}");
    let sessions = world.seen.sessions.load(Ordering::Relaxed);
    assert!(sessions > ROUTERS, "routers have come to new processes: {sessions} sessions");
    let (asked, refused) = (storm.asked.load(Ordering::Relaxed), storm.failures.lock().clone());
    let (answered, failed) = (world.seen.answered.load(Ordering::Relaxed), world.seen.failures.lock().clone());
    println!(
        "{handovers} hand-overs: {asked} connections served, {} not; {answered} polls answered, {} failed; {sessions} sessions",
        refused.len(),
        failed.len()
    );
    assert!(refused.is_empty(), "{refused:#?}");
    assert!(failed.is_empty(), "{failed:#?}");
    drop((storm, churning));

    // And everybody is where the names are now.
    names.iter().for_each(|name| home.set(name, 4_242));
    world.is_fresh(ROUTERS, &names, 4_242).await;
    drop(routers);
}
