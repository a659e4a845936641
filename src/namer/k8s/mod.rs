//! Kubernetes: the addresses behind services (`io.l5d.k8s`, and for one namespace `io.l5d.k8s.ns`), and the load balancers
//! in front of them (`io.l5d.k8s.external`).
//!
//! Names are `/<namespace>/<port>/<service>`, the port by its name in the endpoints, or by its number in the service; with
//! `labelSelector` a value of that label follows. There is one watch for each service that somebody asks about, or one of a
//! whole namespace ([`crate::k8s`]), whatever the number of names that lead to it.

mod backends;
mod config;
mod endpoints;
mod external;
mod meta;
mod names;
mod page;
mod services;
#[cfg(test)]
mod tests;
mod watched;

pub use config::{K8sConfig, K8sExternalConfig, K8sNsConfig};
pub(crate) use endpoints::{EndpointsNamer, EndpointsRules};

use crate::k8s::Resource;

/// How many services may be watched at once, missing ones included: clients choose the names.
const SERVICES: usize = 100_000;

/// `source`: where addresses are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Endpoints, as namerd.
    Endpoints,
    /// EndpointSlices.
    Slices,
    /// EndpointSlices, or Endpoints where these are forbidden or unknown.
    Auto,
}

// === impl Source ===

impl Source {
    fn resources(self) -> Vec<Resource> {
        match self {
            Self::Endpoints => vec![Resource::ENDPOINTS],
            Self::Slices => vec![Resource::SLICES],
            Self::Auto => vec![Resource::SLICES, Resource::ENDPOINTS],
        }
    }
}
