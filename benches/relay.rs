//! What a relay takes that follows 500 names with 80 addresses each, bound and polled by a router over thrift.
//!
//! `cargo bench --bench relay`, or one protocol: `-- io.l5d.namerd.http`

#![expect(clippy::print_stdout, reason = "a bench tells what it measured")]

#[allow(dead_code, unused_imports, reason = "shared with the tests")]
#[path = "../tests/it/support/mod.rs"]
mod support;

use std::fmt::Write;
use std::time::{Duration, Instant};

use support::mux::{addr, bind, session, tdispatch};
use support::{Rosterd, folder};

const NAMES: usize = 500;
const ADDRESSES: usize = 80;
/// Bytes with the protocol under which all watches share a connection, and with the one where each has its own.
const LIMITS: [u64; 2] = [20 << 20, 60 << 20];

fn main() {
    let server = server();
    let kinds = [("io.l5d.namerd", "io.l5d.thriftNameInterpreter"), ("io.l5d.namerd.http", "io.l5d.httpController")];
    // Cargo adds `--bench`.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|kind| !kind.starts_with('-')).collect();
    let wanted = |kind: &str| wanted.is_empty() || wanted.iter().any(|wanted| wanted == kind);
    let mut too_large = Vec::new();
    for ((kind, interface), limit) in kinds.into_iter().zip(LIMITS).filter(|((kind, _), _)| wanted(kind)) {
        let taken = relay(kind, server.port(interface));
        if taken >= limit {
            too_large.push(format!("{kind}: {taken} of {limit} bytes"));
        }
    }
    assert!(too_large.is_empty(), "{too_large:?}");
}

fn server() -> Rosterd {
    let folder = folder();
    std::fs::create_dir(folder.path().join("disco")).expect("the folder is writable");
    for name in 0..NAMES {
        let mut text = String::new();
        for address in 0..ADDRESSES {
            let _ = writeln!(text, "10.{}.{}.{} {}", name / 250, name % 250, address, 8000 + address);
        }
        std::fs::write(folder.path().join(format!("disco/name-{name}")), text).expect("the folder is writable");
    }
    Rosterd::start_in(
        folder,
        "storage: {kind: io.l5d.inMemory, namespaces: {default: /svc => /#/io.l5d.fs}}\n\
         namers: [{kind: io.l5d.fs, rootDir: disco}]\n\
         interfaces:\n\
         - {kind: io.l5d.thriftNameInterpreter, port: 0}\n\
         - {kind: io.l5d.httpController, port: 0}\n",
    )
}

/// Bytes that it takes.
fn relay(kind: &str, port: u16) -> u64 {
    let state = folder();
    let relay = Rosterd::start(&format!(
        "stateDir: {}\n\
         interpreter: {{kind: {kind}, dst: /$/inet/127.0.0.1/{port}}}\n\
         interfaces: [{{kind: io.l5d.thriftNameInterpreter, port: 0}}]\n",
        state.path().display()
    ));
    let idle = relay.resident();
    let began = Instant::now();
    let mut router = session(relay.port("io.l5d.thriftNameInterpreter"));
    for name in 0..NAMES {
        let (tag, name) = (u32::try_from(2 + 2 * name).expect("a tag"), format!("name-{name}"));
        router.send(&tdispatch(tag, &bind("", b"", &["svc", &name], "default").write()));
        router.send(&tdispatch(tag + 1, &addr(b"", &["#", "io.l5d.fs", &name], "default").write()));
    }
    for _ in 0..2 * NAMES {
        router.frame_within(Duration::from_secs(30));
    }
    let took = began.elapsed();
    std::thread::sleep(Duration::from_secs(7)); // the file of last values has been written by then
    let resident = relay.resident();
    let file = std::fs::metadata(state.path().join("relay.snapshot.gz")).expect("it is written").len();
    println!(
        "{kind}: {NAMES} names × {ADDRESSES} addresses: {:.1} MB resident ({:.1} MB before), all answers within {took:.0?}, \
         {:.2} MB in stateDir",
        megabytes(resident),
        megabytes(idle),
        megabytes(file)
    );
    resident
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
