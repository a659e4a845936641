//! Interfaces: how clients ask. One folder per protocol.

mod config;
pub mod http;

pub use config::{InterfaceBlock, InterfaceConfig, KINDS};
