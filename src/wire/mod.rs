//! What every server of ours does with the bytes of a connection, whatever they mean.

mod linger;
mod output;
mod room;

pub use linger::linger;
pub use output::Output;
pub use room::{Room, Taken};
