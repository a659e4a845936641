//! The server assembled: file → parts → ports.

mod file;
mod with;

pub use file::Config;
