//! HTTP/1.1 as namerd's clients speak it.
//!
//! Neither request targets nor answers are what general HTTP libraries allow: a target may hold a raw `#`, `>` or `"`
//! (`path=/#/io.l5d.fs/web`, `dtab=/a=>/b`), which such libraries cut off or refuse; a request of HTTP/1.0 is answered
//! with a status line of HTTP/1.1 and chunks; malformed ones with a status line of HTTP/1.0. So this is a server of its
//! own, small and strict about framing, with one task a connection.

mod body;
mod chunked;
mod coding;
mod conn;
mod head;
mod params;
mod reading;
mod receive;
mod request;
mod response;
mod stream;
#[cfg(test)]
mod tests;

pub use coding::Coding;
pub use conn::{Server, Service, serve};
pub use head::Head;
pub use params::Params;
pub use request::Request;
pub use response::{Body, Lines, Response};
