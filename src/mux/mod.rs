//! Mux as finagle 21.4 speaks it: frames, messages, fragments, and the words of the handshake. Knows only bytes.
//!
//! ```text
//! +-------------+----------+---------+----------------+
//! | length: 4   | kind: 1  | tag: 3  | body: length-4 |     all numbers big endian
//! +-------------+----------+---------+----------------+
//! ```
//!
//! * [`take_frame`] cuts frames from what was read; [`Frame`] is one with its header taken off.
//! * [`Reassembly`] puts the fragments of a message together.
//! * [`Message`] is what a frame says; [`Init`] what a handshake says.

mod fragments;
mod frame;
mod init;
mod message;
#[cfg(test)]
mod tests;
mod write;

pub use fragments::{Reassembly, write_reply};
pub use frame::{BadFrame, Frame, Kind, Tag, peek_frame, take_frame};
pub use init::{Init, Tls};
pub use message::{BadMessage, Message, Status};

/// The reason of the [`Message::Rerr`] with which a client asks whether its peer knows `Tinit`; the peer sends it back.
pub const PROBE: &[u8] = b"tinit check";
