//! Kubernetes: a thin client of its API, and the one loop behind everything that is watched there.
//!
//! * [`ApiServer`]: where requests go, and as whom; who asks the same server shares its connections ([`ApiServers`]).
//! * `Reflector`: a watch, by list and then watch; whatever is watched, it is this one loop.
//! * [`Namespaces`]: who is interested in what of a namespace. A few names have a watch each, many share one of the whole
//!   namespace, and everything that is learnt about a name passes one lock: that of its namespace.

mod access;
mod collection;
mod error;
mod event;
mod http;
mod journal;
mod kind;
mod kubeconfig;
mod metrics;
mod namespace;
mod reflector;
mod resource;
mod server;
mod split;
#[cfg(test)]
pub(crate) mod testing;
mod token;
mod transport;

pub use access::ApiConfig;
pub use error::ApiError;
pub use journal::Journal;
pub use kind::{Kind, Object, Room, Unread};
pub use metrics::ApiMetrics;
pub use namespace::{Member, Namespaces};
pub use resource::{Resource, Select};
pub use server::{ApiServer, ApiServers, ServerFigures};
