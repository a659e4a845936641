//! `io.l5d.rewrite`: names that match a pattern become other names.

mod config;

pub use config::RewriteConfig;
