//! One look-up of one host, whoever answers it.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use async_trait::async_trait;

/// Answers one look-up.
#[async_trait]
pub trait Resolve: fmt::Debug + Send + Sync + 'static {
    /// The addresses of `host`, which is in small letters and no literal. The caller bounds the time.
    ///
    /// # Errors
    /// [`Unresolved`], which tells "there is none" from "nobody knows".
    async fn resolve(&self, host: &str) -> Result<Answer, Unresolved>;
}

/// Addresses, at least one, and how long they are good for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// In any order.
    pub addrs: Vec<IpAddr>,
    /// The time left of the record with the least.
    pub ttl: Duration,
}

/// Why there are no addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unresolved {
    /// The name server says that there is no such host, or that it has no such records.
    #[error("no such host")]
    NoSuchHost,
    /// Nobody said anything that can be relied on.
    #[error("{0}")]
    Unavailable(String),
}
