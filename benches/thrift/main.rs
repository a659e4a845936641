//! The thrift interface under the load of a fleet: how fast a change reaches everybody who polls, what a waiting poll
//! costs, and what a stampede does. Server and clients are processes of their own. Clients poll again after every answer,
//! as routers do.
//!
//! `cargo bench --bench thrift` takes some minutes and fails when a limit is not kept; with words behind `--` only the
//! parts whose names contain one of them run. `cargo test` runs all parts small, and only checks that all is answered.

#![expect(clippy::print_stdout, reason = "a bench tells what it measured")]

mod fan_out;
mod load;
mod many;
mod server;
#[allow(dead_code, unused_imports, reason = "shared with the tests")]
#[path = "../../tests/it/support/mod.rs"]
mod support;

use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// How long anything may take before it counts as lost.
const LIMIT: Duration = Duration::from_secs(30);

/// How large the parts are, and whether they are held against limits.
struct Scale {
    full: bool,
}

/// One question, with the clients and the server that answer it.
type Part = fn(&Scale);

fn main() {
    // Cargo says `--bench` when it runs benches.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let scale = Scale { full: arguments.iter().any(|argument| argument == "--bench") };
    let words: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    let hard = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: hard, maximum: hard }).expect("up to the hard limit");
    let parts: [(&str, Part); 7] = [
        ("shared", fan_out::shared),
        ("distinct", fan_out::distinct),
        ("address", fan_out::address),
        ("growth", fan_out::growth),
        ("memory", many::memory),
        ("herd", many::herd),
        ("cut", many::cut),
    ];
    for (name, part) in parts {
        if words.is_empty() || words.iter().any(|word| name.contains(word.as_str())) {
            part(&scale);
        }
    }
}

// === impl Scale ===

impl Scale {
    fn of(&self, full: usize, small: usize) -> usize {
        if self.full { full } else { small }
    }

    /// A time that is not to be exceeded.
    fn limit(&self, what: &str, time: Duration, limit: Duration) {
        assert!(!self.full || time < limit, "{what} takes {time:.1?}, more than {limit:?}");
    }
}
