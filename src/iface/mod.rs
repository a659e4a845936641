//! Interfaces: how clients ask. One folder per protocol.

mod config;
mod core;
pub mod http;
pub mod mesh;
mod names;
#[cfg(test)]
mod testing;
pub mod thrift;

pub use config::{InterfaceBlock, InterfaceConfig, KINDS};
pub use core::{Core, IfaceMetrics, Serving, Sessions};
pub use names::NameReader;
