//! What two processes say to each other in a hand-over.
//!
//! ```text
//! new                                   old
//! Hello       ─────────────────────►
//!             ◄─────────────────────    Listeners, with the sockets (or Refused, or Ending)
//!   (starts, gets ready on its own state, accepts nothing)
//! Ready       ─────────────────────►
//!             ◄─────────────────────    GoAhead
//!   (accepts)
//! Serving     ─────────────────────►
//!             ◄─────────────────────    Leaving (accepts nothing any more)
//! ```
//!
//! Until `Serving` the new process can vanish at any moment and the old one has not changed anything.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// Of what is said here. Processes that differ in it do not hand over; `Hello` and `Refused` never change.
pub(super) const VERSION: u32 = 1;
/// Bytes of one message.
pub(super) const MOST_BYTES: usize = 64 << 10;
/// Sockets that go with one message: less than the kernel's own 253.
pub(super) const MOST_SOCKETS: usize = 128;

/// One message: a JSON object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "camelCase")]
pub(super) enum Message {
    /// A new process wants to take over.
    Hello {
        /// What it speaks.
        version: u32,
    },
    /// What the sockets are that come with this message, in their order.
    Listeners {
        /// One for each.
        listeners: Vec<Passed>,
    },
    /// There is nothing to be had, for this reason.
    Refused {
        /// For people.
        reason: String,
    },
    /// There is nothing to be had any more: the ports are closed, and the process ends.
    Ending,
    /// The new process could serve now.
    Ready,
    /// It is to begin.
    GoAhead,
    /// It does.
    Serving {
        /// Blocks of the old process whose sockets it has not taken: nobody else accepts from them.
        #[serde(default)]
        left: Vec<String>,
    },
    /// The old process accepts no more, and leaves.
    Leaving,
}

/// A listening socket that changes hands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Passed {
    /// The block of the configuration: `admin`, `interfaces[0]`.
    pub(super) key: String,
    /// What is served there.
    pub(super) what: String,
    /// The address in that block; its port may be 0.
    pub(super) configured: SocketAddr,
    /// It is somebody else's, too, who will pass it to whoever comes next.
    pub(super) lives_on: bool,
}
