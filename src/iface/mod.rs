//! Interfaces: how clients ask. One folder per protocol.

mod config;
mod core;
pub mod http;
mod names;

pub use config::{InterfaceBlock, InterfaceConfig, KINDS};
pub use core::{Core, IfaceMetrics, Serving};
pub use names::NameReader;
