//! What stories about a running rosterd share: the process itself, and a client that shows bytes as they are on the wire.

mod backends;
mod connection;
mod consul;
mod follow;
mod frames;
mod kubernetes;
mod line;
pub mod mux;
mod played_consul;
mod process;
mod recorded;
mod stand_in;
pub mod thrift;
mod tls;
mod wire;

pub use connection::Connection;
pub use consul::{Agent, Consul, unique};
pub use follow::{Follow, is_neg, shown};
pub use frames::{Frames, Next, framed};
pub use kubernetes::Kubernetes;
pub use played_consul::PlayedConsul;
pub use process::{Rosterd, folder};
pub use recorded::{Action, Configuration, not_built};
pub use stand_in::{Reply, StandIn, consul_recording};
pub use tls::Authority;
pub use wire::{Answer, Chunk, Head, Wire, get, request};

use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long a test waits for what must come. Long enough for a busy machine; what must *not* come has waits of its own.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// A file of this repository.
pub fn in_project(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// What `/metrics` says under this name.
pub fn metric(rosterd: &Rosterd, name: &str) -> u64 {
    let metrics = get(rosterd.admin(), "/metrics");
    let line = metrics.text().lines().find(|line| line.starts_with(name)).map(str::to_owned);
    let value = line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    value.unwrap_or_else(|| panic!("no {name}")) as u64 // counts, all of them
}

/// Looks until it is so; fails the test when it never is.
pub fn wait_until(what: &str, mut reached: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !reached() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
