//! The admin server: health, metrics, state pages, log level, web page.

mod config;

pub use config::{AdminConfig, PathPattern, Security};
