//! TLS of listeners: handshakes.

mod failure;
mod handshake;
#[cfg(test)]
mod tests;

pub use failure::Reason;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::Seldom;

/// The TLS side of one listener: what handshakes are made with, and how they went.
#[derive(Debug)]
pub struct Server {
    key: String,
    config: Arc<rustls::ServerConfig>,
    done: AtomicU64,
    failed: [Failures; Reason::ALL.len()],
}

/// Handshakes that failed for one reason.
#[derive(Debug)]
struct Failures {
    count: AtomicU64,
    log: Seldom,
}

// === impl Server ===

impl Server {
    /// Makes handshakes with `config`. `key` is the block of the configuration that messages name: `interfaces[0]`.
    pub fn new(key: String, config: Arc<rustls::ServerConfig>) -> Arc<Self> {
        let failed =
            Reason::ALL.map(|_| Failures { count: AtomicU64::new(0), log: Seldom::new(Duration::from_secs(60)) });
        Arc::new(Self { key, config, done: AtomicU64::new(0), failed })
    }

    /// Handshakes that were finished.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Handshakes that failed for this reason. Clients that went before they said anything are not counted.
    pub fn failed(&self, reason: Reason) -> u64 {
        self.failed[reason as usize].count.load(Ordering::Relaxed)
    }
}
