//! Interfaces: how clients ask. One folder per protocol.

mod config;
mod core;
pub mod http;

pub use config::{InterfaceBlock, InterfaceConfig, KINDS};
pub use core::{Core, IfaceMetrics, Serving};
