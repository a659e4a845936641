//! 50,000 distinct bindings in one process: their memory, and how long one dtab PUT takes to re-evaluate them all while
//! the process goes on answering pings.
//!
//! `cargo bench --bench bindings`

#![expect(clippy::print_stdout, reason = "a bench tells what it measured")]

#[allow(dead_code, unused_imports, reason = "shared with the tests")]
#[path = "../tests/it/support/mod.rs"]
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use support::{Rosterd, Wire, get, request};

const BINDINGS: usize = 50_000;

const CONFIG: &str = "storage:\n  kind: io.l5d.inMemory\n  namespaces:\n    \
    default: /host => /$/inet/127.0.0.1/8080 ; /svc => /host\n\
    interfaces: [{kind: io.l5d.httpController, port: 0}]\n";

fn main() {
    let rosterd = Rosterd::start(CONFIG);
    let idle = rosterd.resident();
    let began = Instant::now();
    let mut wire = Wire::open(rosterd.http());
    for name in 0..BINDINGS {
        wire.send(format!("GET /api/1/bind/default?path=/svc/name-{name} HTTP/1.1\r\n\r\n").as_bytes());
        assert_eq!(wire.answer(false).head.status(), 200);
    }
    println!("{BINDINGS} first bindings over one connection: {:.1?}", began.elapsed());
    let resident = rosterd.resident();
    println!(
        "resident: {:.1} MB ({:.0} bytes a binding)",
        resident as f64 / f64::from(1 << 20),
        (resident - idle) as f64 / BINDINGS as f64
    );
    assert!(resident < 150 << 20, "{resident} bytes");

    let before = evaluations(rosterd.admin());
    let (stop, admin) = (Arc::new(AtomicBool::new(false)), rosterd.admin());
    let pings = thread::spawn({
        let stop = stop.clone();
        move || {
            let mut worst = Duration::ZERO;
            while !stop.load(Ordering::Relaxed) {
                let began = Instant::now();
                assert_eq!(get(admin, "/admin/ping").text(), "pong");
                worst = worst.max(began.elapsed());
                thread::sleep(Duration::from_millis(2));
            }
            worst
        }
    });
    let dtab = "/host => /$/inet/127.0.0.1/9090 ; /svc => /host";
    let put = format!(
        "PUT /api/1/dtabs/default HTTP/1.1\r\nContent-Type: application/dtab\r\nContent-Length: {}\r\n\r\n{dtab}",
        dtab.len()
    );
    let began = Instant::now();
    assert_eq!(request(rosterd.http(), &put).head.status(), 204);
    while evaluations(rosterd.admin()) < before + BINDINGS as f64 {
        assert!(began.elapsed() < Duration::from_secs(30), "not re-evaluated");
        thread::sleep(Duration::from_millis(5));
    }
    let took = began.elapsed();
    stop.store(true, Ordering::Relaxed);
    let worst = pings.join().expect("pings are answered");
    println!("one PUT re-evaluated all in {took:.0?}; the slowest ping meanwhile took {worst:.1?}");
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert!(worst < Duration::from_millis(100), "{worst:?}");
}

/// How many evaluations the process has made.
fn evaluations(admin: u16) -> f64 {
    let metrics = get(admin, "/metrics");
    let line = metrics.text().lines().find(|line| line.starts_with("rosterd_evaluations_total"));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).expect("a counter of evaluations")
}
