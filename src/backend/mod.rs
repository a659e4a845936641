//! HTTP to one backend: its address, its pool of connections, TLS, and what went wrong. Shared by the clients of Consul
//! and of Kubernetes.

mod address;
mod links;
mod pool;

pub use address::Address;
pub use links::{Broken, Exchange, Links};
pub use pool::{Fault, Pool, fault, secret};
