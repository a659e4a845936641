//! The process and its sockets: listeners, TLS, connection limits, readiness, drain, signals, logs, and a place for heavy
//! work. Knows no protocol and no backend.

mod accept;
mod backoff;
mod conn;
mod descriptors;
mod drain;
mod foreign;
pub mod handover;
mod heavy;
mod limits;
mod listener;
pub mod logs;
mod pace;
mod probe;
mod rate;
mod readiness;
mod seldom;
mod shutdown;
mod signals;
mod state_dir;
mod supervisor;
pub mod tls;
mod watchdog;

pub use accept::{Connections, Refusals, accept};
pub use backoff::Backoff;
pub use conn::Conn;
pub use descriptors::raise_descriptor_limit;
pub use drain::{Drain, Greeting, Hold, Phase, Queue, Request, Way};
pub use foreign::guess;
pub use heavy::heavy;
pub use limits::{Limit, LimitCounts};
pub use listener::{BindError, Endpoint, Listener, bind_all};
pub use pace::Pace;
pub use probe::Probe;
pub use rate::RateLimit;
pub use readiness::{Pending, Readiness, State as ReadyState};
pub use seldom::Seldom;
pub use shutdown::{Plan, drain_all};
pub use signals::handle_signals;
pub use state_dir::{FileHealth, LastingFile, StateDir};
pub use supervisor::{tell_main_process, tell_supervisor};
pub use watchdog::Watchdog;
