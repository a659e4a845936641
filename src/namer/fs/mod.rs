//! `io.l5d.fs`: addresses from files.

mod config;

pub use config::FsConfig;
