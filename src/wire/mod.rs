//! What every server of ours does with the bytes of a connection, whatever they mean.

mod input;
mod linger;
mod output;
mod room;
mod spare;

pub use input::Input;
pub use linger::linger;
pub use output::Output;
pub use room::{Room, Taken};
use spare::{give_back, take_buffer};
