//! Consul: a thin client of its HTTP API, and the loop behind everything that is watched there.
//!
//! * [`Agent`]: where requests go, and as whom; agents with one address share its connections ([`Agents`]).
//! * [`Request`], [`Answer`], [`ConsulError`]: one exchange.
//! * [`Poll`]: a watch, by blocking queries; whatever is watched, it is this one loop.

mod agent;
mod answer;
mod config;
mod error;
mod journal;
mod metrics;
mod places;
mod poll;
mod request;
mod rules;
#[cfg(test)]
pub(crate) mod testing;
mod transport;
mod turns;

pub use agent::{Agent, AgentFigures, Agents};
pub use answer::{Answer, LARGEST, Undecoded};
pub use config::{AgentConfig, read_consistency};
pub use error::ConsulError;
pub use journal::Journal;
pub use metrics::ConsulMetrics;
pub use poll::{Delays, Given, Offered, Poll, PollCounters, Query, Rhythm, Sink, WAIT};
pub use request::{Consistency, Request};
pub use turns::Rank;
