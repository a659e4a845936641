//! rosterd: names in, addresses out. See ARCHITECTURE.md; modules are listed in data-flow order.
#![forbid(unsafe_code)]

pub mod text;

pub mod name;

pub mod store;

pub mod backend;
pub mod client;
pub mod consul;
pub mod k8s;

pub mod namer;
pub mod storage;
pub mod transformer;

pub mod interpreter;

pub mod http1;
pub mod iface;
pub mod ledger;
pub mod mesh;
pub mod mux;
pub mod thrift;
pub mod wire;

pub mod admin;
pub mod app;
pub mod cli;

pub mod config;
pub mod runtime;
pub mod telemetry;
