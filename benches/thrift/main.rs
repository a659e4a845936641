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

use std::cell::RefCell;
use std::fmt::Debug;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// How long anything may take before it counts as lost.
const LIMIT: Duration = Duration::from_secs(30);

/// How large the parts are, and the limits that were not kept.
struct Scale {
    /// Full size, and held against limits.
    full: bool,
    missed: RefCell<Vec<String>>,
}

/// One question, with the clients and the server that answer it.
type Part = fn(&Scale);

fn main() {
    // Cargo says `--bench` when it runs benches.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let full = arguments.iter().any(|argument| argument == "--bench");
    let scale = Scale { full, missed: RefCell::default() };
    let words: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    let hard = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: hard, maximum: hard }).expect("up to the hard limit");
    let parts: [(&str, Part); 9] = [
        ("shared-1000", fan_out::shared),
        ("shared-9000", fan_out::shared_by_many),
        ("distinct-1000", fan_out::distinct),
        ("distinct-9000", fan_out::distinct_by_many),
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
    let missed = scale.missed.into_inner();
    assert!(missed.is_empty(), "limits that were not kept:\n{}", missed.join("\n"));
}

// === impl Scale ===

impl Scale {
    fn of(&self, full: usize, small: usize) -> usize {
        if self.full { full } else { small }
    }

    /// A figure that must be less than its limit.
    fn limit<T: PartialOrd + Debug>(&self, what: &str, figure: T, limit: T) {
        if self.full && figure >= limit {
            println!("    that is a limit not kept: {what} {figure:.2?}, not less than {limit:.2?}");
            self.missed.borrow_mut().push(format!("{what}: {figure:.2?}, not less than {limit:.2?}"));
        }
    }
}
