//! TLS of listeners, and of clients of backends: what a `tls` block names, handshakes, and certificates that are renewed
//! while the process runs.

mod certificate;
mod client;
mod clients;
mod failure;
mod handshake;
mod key;
mod load;
mod paced;
mod patience;
pub mod pem;
mod reload;
mod suites;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use client::Client;
pub use failure::Reason;
pub use load::Loaded;
pub use reload::keep_current;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::{Mutex, RwLock};

use self::certificate::Now;
use super::Seldom;
use crate::text::calendar;

/// The TLS side of one listener: what handshakes are made with, and how they went.
#[derive(Debug)]
pub struct Server {
    key: String,
    current: RwLock<Arc<Loaded>>,
    /// Why the files of this moment are not the ones in use.
    refused: Mutex<Option<String>>,
    renewals: AtomicU64,
    refusals: AtomicU64,
    done: AtomicU64,
    failed: [Failures; Reason::ALL.len()],
}

/// Handshakes that failed for one reason.
#[derive(Debug)]
struct Failures {
    count: AtomicU64,
    log: Seldom,
}

/// How often changed files were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renewals {
    /// They are in use.
    pub used: u64,
    /// They cannot be used, and those before them go on.
    pub refused: u64,
}

// === impl Server ===

impl Server {
    /// Begins with what was loaded. `key` is the block of the configuration that messages name: `interfaces[0]`.
    pub fn new(key: String, loaded: Loaded) -> Arc<Self> {
        let failures = |_| Failures { count: AtomicU64::new(0), log: Seldom::new(Duration::from_secs(60)) };
        Arc::new(Self {
            key,
            current: RwLock::new(Arc::new(loaded)),
            refused: Mutex::default(),
            renewals: AtomicU64::new(0),
            refusals: AtomicU64::new(0),
            done: AtomicU64::new(0),
            failed: Reason::ALL.map(failures),
        })
    }

    /// The block of the configuration: `admin`, `interfaces[0]`.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Handshakes that were finished.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Handshakes that failed for this reason. Clients that went before they said anything are not counted.
    pub fn failed(&self, reason: Reason) -> u64 {
        self.failed[reason as usize].count.load(Ordering::Relaxed)
    }

    /// Changed files that were found since the start.
    pub fn renewals(&self) -> Renewals {
        Renewals { used: self.renewals.load(Ordering::Relaxed), refused: self.refusals.load(Ordering::Relaxed) }
    }

    /// Until when the certificate in use is valid, in seconds since 1970.
    pub fn not_after(&self) -> i64 {
        self.current().validity.not_after
    }

    /// What is wrong with the certificate, though handshakes are made: a line for operators.
    pub fn degradation(&self) -> Option<String> {
        let refused = self.refused.lock().as_ref().map(|why| format!("renewed files are not used: {why}"));
        refused.or_else(|| match self.current().validity.at(SystemTime::now()) {
            Now::Valid => None,
            Now::Expired => Some(format!("the certificate has expired ({})", date(self.not_after()))),
            Now::TooEarly => Some("the certificate is not valid yet".to_owned()),
        })
    }

    fn current(&self) -> Arc<Loaded> {
        self.current.read().clone()
    }
}

/// A moment in seconds since 1970, for people.
fn date(seconds: i64) -> String {
    calendar::iso(UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).unwrap_or_default()))
}
