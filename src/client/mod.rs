//! The client of other name servers: what it follows there it follows until nobody wants to know it any more.
//!
//! * [`Upstream`] is one name server, at one or more addresses; [`Upstream::follow`] starts the loop that every protocol
//!   shares and gives a [`Feed`], whose cell holds the last good value.
//! * [`Protocol`] is a way to ask: [`mux::ThriftMux`], [`http::Http`]. [`Connect`] makes its connections.
//! * [`End`] says how one attempt of the loop ended. None of its kinds ends the loop.

mod ask;
mod attempt;
mod config;
mod connect;
mod end;
mod feed;
mod follow;
mod grudges;
pub mod http;
mod journal;
mod metrics;
pub mod mux;
mod once;
mod protocol;
mod servers;
mod timings;
mod upstream;

pub use ask::{Answer, Ask, Named};
pub use config::{Speaks, Threshold, UpstreamConfig};
pub use connect::{Connect, Stream, Tcp, Tls};
pub use end::{End, Failure, Reason};
pub use feed::{Feed, Told};
pub use metrics::ClientMetrics;
pub use protocol::{Ages, Explain, Explained, News, Protocol};
pub use servers::Server;
pub use timings::{Retry, Timings};
pub use upstream::Upstream;

pub use crate::thrift::reply::BoundName;

/// A namespace that nobody has, for what is to be looked up without any stored dtab: a missing one counts as empty.
pub const NO_NAMESPACE: &str = "io.rosterd.none";
