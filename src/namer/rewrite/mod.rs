//! `io.l5d.rewrite`: names that match a pattern become other names.

mod config;
mod namer;
mod pattern;

pub use config::RewriteConfig;
pub use namer::rewrite;
pub use pattern::{Captures, PathEnded, Pattern};
