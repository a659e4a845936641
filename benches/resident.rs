//! What a running rosterd takes: time from exec to ready, memory when idle, and memory with 1,000 names of the fs namer,
//! 100 addresses each, resolved and watched. Memory is what the kernel says is resident.
//!
//! `cargo bench --bench resident`

#![expect(clippy::print_stdout, reason = "a bench tells what it measured")]

#[allow(dead_code, unused_imports, reason = "shared with the tests")]
#[path = "../tests/it/support/mod.rs"]
mod support;

use std::fmt::Write;
use std::time::{Duration, Instant};

use support::{Chunk, PATIENCE, Rosterd, Wire, folder};

const NAMES: usize = 1_000;
const ADDRESSES: usize = 100;
const STARTS: usize = 20;

const IDLE: &str = "storage: {kind: io.l5d.inMemory}\ninterfaces: [{kind: io.l5d.httpController, port: 0}]\n";

fn main() {
    starts();
    idle();
    files();
}

/// From exec until the process says that it is ready; the median of several.
fn starts() {
    let mut times: Vec<_> = (0..STARTS)
        .map(|_| {
            let began = Instant::now();
            let rosterd = Rosterd::start(IDLE);
            let took = began.elapsed();
            drop(rosterd);
            took
        })
        .collect();
    times.sort();
    let (median, worst) = (times[STARTS / 2], times[STARTS - 1]);
    println!("exec to ready: median {median:.1?}, worst of {STARTS} {worst:.1?}");
    assert!(median < Duration::from_millis(100), "starting takes {median:?}");
}

fn idle() {
    let rosterd = Rosterd::start(IDLE);
    std::thread::sleep(Duration::from_secs(1));
    let resident = rosterd.resident();
    println!("resident when idle: {:.1} MB", megabytes(resident));
    assert!(resident < 12 << 20, "{resident} bytes");
}

fn files() {
    let folder = folder();
    std::fs::create_dir(folder.path().join("disco")).expect("the folder is writable");
    for name in 0..NAMES {
        let mut text = String::new();
        for address in 0..ADDRESSES {
            let _ = writeln!(text, "10.{}.{}.{} {}", name / 250, name % 250, address, 8000 + address);
        }
        std::fs::write(folder.path().join(format!("disco/name-{name}")), text).expect("the folder is writable");
    }
    let rosterd = Rosterd::start_in(
        folder,
        "storage: {kind: io.l5d.inMemory, namespaces: {default: /svc => /#/io.l5d.fs}}\n\
         namers: [{kind: io.l5d.fs, rootDir: disco}]\n\
         interfaces: [{kind: io.l5d.httpController, port: 0}]\n",
    );
    let began = Instant::now();
    let mut watches: Vec<_> = (0..NAMES)
        .map(|name| {
            let mut wire = Wire::open(rosterd.http());
            let target = format!("/api/1/resolve/default?path=/svc/name-{name}&watch=true");
            wire.send(format!("GET {target} HTTP/1.1\r\n\r\n").as_bytes());
            wire
        })
        .collect();
    for watch in &mut watches {
        watch.head();
        let Chunk::Data(line) = watch.chunk(PATIENCE) else { panic!("no first line") };
        assert!(line.len() > ADDRESSES * 30, "a whole set: {} bytes", line.len());
    }
    let took = began.elapsed();
    std::thread::sleep(Duration::from_secs(1));
    let resident = rosterd.resident();
    println!(
        "resident with {NAMES} names × {ADDRESSES} addresses, each resolved and watched: {:.1} MB (all first answers in {took:.1?})",
        megabytes(resident)
    );
    assert!(resident < 60 << 20, "{resident} bytes");
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
