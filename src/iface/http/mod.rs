//! `io.l5d.httpController`: dtabs and names over HTTP.

mod config;

pub use config::HttpControllerConfig;
