//! Connections and polls over many hand-overs. `ROSTERD_TEST_HANDOVERS` says how many; a hundred take five minutes.

#![allow(clippy::print_stdout, reason = "the counts are for whoever reads the output of the tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rustls::ClientConfig;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::router::{Seen, World, ask_twice, connect, follow};
use super::{Home, THRIFT, times};
use crate::support::{Authority, Rosterd};

const ROUTERS: usize = 10;
const NAMES: usize = 10;
const CONNECTS_PER_SECOND: u32 = 300;
/// A handshake takes both sides, and the machine of the tests, more than a connection does.
const HANDSHAKES_PER_SECOND: u32 = 60;
/// From one hand-over to the next. A process needs ten seconds to leave, so that several do at a time.
const PAUSE: Duration = Duration::from_millis(1_500);
/// A client that waits longer for its answer calls it a failure.
const PATIENCE: Duration = Duration::from_secs(20);

/// Clients that connect, ask, and go.
struct Storm {
    rate: u32,
    began: Instant,
    seen: Arc<Asked>,
    task: AbortOnDropHandle<()>,
}

#[derive(Default)]
struct Asked {
    begun: AtomicUsize,
    served: AtomicUsize,
    failures: Mutex<Vec<String>>,
}

/// Where a storm goes.
#[derive(Clone)]
struct Ports {
    http: u16,
    thrift: u16,
    tls: Option<Arc<ClientConfig>>,
}

impl Storm {
    fn on(ports: Ports) -> Self {
        let rate = if ports.tls.is_some() { HANDSHAKES_PER_SECOND } else { CONNECTS_PER_SECOND };
        let seen = Arc::new(Asked::default());
        let counting = seen.clone();
        let task = AbortOnDropHandle::new(tokio::spawn(async move {
            let mut ticks = interval(Duration::from_secs(1) / rate);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
            for n in 0.. {
                ticks.tick().await;
                let (seen, ports) = (counting.clone(), ports.clone());
                seen.begun.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(async move {
                    match timeout(PATIENCE, ports.ask(n)).await {
                        Ok(Ok(())) => drop(seen.served.fetch_add(1, Ordering::Relaxed)),
                        Ok(Err(why)) => seen.failures.lock().push(why),
                        Err(_) => seen.failures.lock().push(format!("no answer in time to {}", n % 3)),
                    }
                });
            }
        }));
        Self { rate, began: Instant::now(), seen, task }
    }

    /// Ends it, and waits for those who still wait for an answer. How many were served, and what went wrong.
    async fn end(self) -> (usize, Vec<String>) {
        let took = self.began.elapsed();
        drop(self.task);
        let over = async {
            let seen = &self.seen;
            while seen.served.load(Ordering::Relaxed) + seen.failures.lock().len() < seen.begun.load(Ordering::Relaxed)
            {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE * 2, over).await.expect("each ends in one way or the other");
        let served = self.seen.served.load(Ordering::Relaxed);
        let wanted = took.as_secs_f64() * f64::from(self.rate) * 0.8;
        assert!(served as f64 >= wanted, "{served} served, where {wanted} should have been in {took:?}");
        (served, self.seen.failures.lock().clone())
    }
}

impl Ports {
    async fn ask(&self, n: usize) -> Result<(), String> {
        let tls = self.tls.as_ref();
        match n % 3 {
            0 => {
                let mut stream = connect(self.http, tls).await?;
                let request = b"GET /api/1/dtabs/default HTTP/1.1\r\nConnection: close\r\n\r\n";
                stream.write_all(request).await.map_err(|error| format!("write: {error}"))?;
                let mut answer = String::new();
                stream.read_to_string(&mut answer).await.map_err(|error| format!("read: {error}"))?;
                if answer.starts_with("HTTP/1.1 200 ") { Ok(()) } else { Err(format!("answered {answer:?}")) }
            }
            1 => self.ask_on_one_connection().await,
            _ => ask_twice(self.thrift, tls, &format!("name{}", n % NAMES)).await,
        }
    }

    /// Three requests, on one connection for as long as the server does not say that it closes.
    async fn ask_on_one_connection(&self) -> Result<(), String> {
        let mut kept = None;
        for n in 0..3 {
            let mut stream = match kept.take() {
                Some(stream) => stream,
                None => connect(self.http, self.tls.as_ref()).await?,
            };
            let at = |error: std::io::Error| format!("request {n} on a kept connection: {error}");
            stream.write_all(b"GET /api/1/dtabs HTTP/1.1\r\n\r\n").await.map_err(at)?;
            let (mut answer, end) = (Vec::new(), b"[\"default\"]\n");
            while !answer.ends_with(end) {
                if stream.read_buf(&mut answer).await.map_err(at)? == 0 {
                    return Err(format!("request {n} on a kept connection: closed without an answer"));
                }
            }
            let closes = String::from_utf8_lossy(&answer).to_ascii_lowercase().contains("connection: close");
            kept = (!closes).then_some(stream);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }
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
    hand_overs(Home::new(), None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hand_over_with_tls_breaks_no_handshake_and_fails_no_poll() {
    let authority = Authority::new();
    hand_overs(Home::with_tls(&authority), Some(authority.client(None))).await;
}

async fn hand_overs(home: Home, tls: Option<Arc<ClientConfig>>) {
    let handovers = times("ROSTERD_TEST_HANDOVERS", 5);
    let home = Arc::new(home);
    let names: Vec<String> = (0..NAMES).map(|n| format!("name{n}")).collect();
    names.iter().for_each(|name| home.set(name, 1));
    let mut process = home.start("drain: {spreadMs: 200}\n");
    let (admin, http, thrift) = (process.admin(), process.http(), process.port(THRIFT));
    let (_addresses, addresses) = watch::channel(vec![thrift]);
    let world = World { addresses, tls: tls.clone(), seen: Arc::new(Seen::default()) };
    let routers: Vec<_> = (0..ROUTERS).map(|number| follow(number, &names, &world)).collect();
    let (storm, churning) = (Storm::on(Ports { http, thrift, tls }), churn(home.clone(), names.clone()));
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
    let (asked, refused) = storm.end().await;
    let (answered, failed) = (world.seen.answered.load(Ordering::Relaxed), world.seen.failures.lock().clone());
    println!(
        "{handovers} hand-overs: {asked} clients served, {} not; {answered} polls answered, {} failed; {sessions} sessions",
        refused.len(),
        failed.len()
    );
    assert!(refused.is_empty(), "{refused:#?}");
    assert!(failed.is_empty(), "{failed:#?}");
    let least = ROUTERS * NAMES * handovers; // each name changes twice a second
    assert!(answered >= least, "{answered} polls answered, of {least}");
    drop(churning);

    // And everybody is where the names are now.
    names.iter().for_each(|name| home.set(name, 4_242));
    world.is_fresh(ROUTERS, &names, 4_242).await;
    drop(routers);
}
