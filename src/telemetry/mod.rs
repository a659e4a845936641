//! Telemetry: metrics and their exporters.

mod config;

pub use config::{KINDS, PrometheusConfig, TelemeterBlock, TelemeterConfig};
