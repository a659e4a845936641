//! Hand-over: a new process takes the place of a running one on the same addresses, and no client notices.
//!
//! The listening sockets themselves change hands, over a unix socket in `stateDir`: a connection that waits in their queue
//! waits for whichever process accepts. (A second listener with `SO_REUSEPORT` has a queue of its own, and loses what is
//! in it when it closes.) The new process first becomes ready on its own state, then accepts, then tells the old one to
//! leave. If it fails before that, at whatever point, nothing has changed for the old one.
//!
//! Files in `stateDir` have one owner, who holds the lock there. The old process keeps them until it ends, with the last
//! of its sessions; then the new one takes them up, one after the other where there are several. Sockets that a supervisor has opened come by another way
//! ([`activated`]) to the same place.

mod activation;
mod channel;
mod files;
mod give;
mod message;
mod sockets;
mod take;
#[cfg(test)]
mod tests;

pub use activation::activated;
pub use files::Files;
pub use give::Offer;
pub use sockets::Inherited;
pub use take::{Predecessor, TakeOver, TakeOverError};

/// The socket in `stateDir`.
const SOCKET: &str = "handover.sock";
