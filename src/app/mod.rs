//! The server assembled: file → parts → ports.

mod file;
mod parts;
mod shown;
mod with;

pub use file::Config;
pub use parts::Parts;
