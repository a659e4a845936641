//! Stories a user would tell, one module each.

mod backends;
mod bounds;
mod cases;
mod client;
mod coming_and_going;
mod commands;
mod configs;
mod consul;
mod consul_kv;
mod docs;
mod fixes;
mod fuzz_entries;
mod golden_http;
mod golden_thrift;
mod handover;
mod kubernetes;
mod name_values;
mod relay;
mod relay_dtabs;
mod stale_values;
mod starting;
mod state_dir;
mod support;
mod tables;
mod thrift_hostile;
mod tls;
