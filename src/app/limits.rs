//! `limits:` put to work: what enforces each, and where its use is shown.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::config::OwnLimits;
use crate::iface::NameReader;
use crate::name;
use crate::runtime::{Connections, Limit, LimitCounts, RateLimit};
use crate::telemetry::LimitFigures;

/// Descriptors kept for files, backends and the admin server when `limits.connections` says nothing; at most half of
/// what there are, since a server without connections is of no use.
const RESERVED_DESCRIPTORS: usize = 256;

/// What enforces the limits.
pub(super) struct Limits {
    /// Those of all interfaces together.
    pub(super) connections: Arc<Connections>,
    pub(super) names: NameReader,
    pub(super) body_bytes: usize,
    pub(super) rate: Option<Arc<RateLimit>>,
    pub(super) counts: LimitCounts,
    set: Vec<(Limit, u64)>,
}

impl Limits {
    /// `descriptors` is how many the process may have.
    pub(super) fn new(config: &OwnLimits, descriptors: usize) -> Self {
        let OwnLimits {
            connections,
            watches_per_connection: _, // an HTTP/1.1 connection has one at a time
            body_bytes,
            names,
            requests_per_second_per_client: rate,
        } = *config;
        let connections =
            connections.map_or(descriptors - RESERVED_DESCRIPTORS.min(descriptors / 2), |limit| limit as usize);
        let counts = LimitCounts::default();
        let mut set = vec![
            (Limit::BodyBytes, body_bytes as u64),
            (Limit::Name(name::Limit::DtabBytes), names.dtab_bytes as u64),
            (Limit::Name(name::Limit::Depth), names.depth as u64),
            (Limit::Name(name::Limit::PathSegments), names.path_segments as u64),
        ];
        set.extend(rate.map(|rate| (Limit::RequestsPerSecondPerClient, rate.into())));
        Self {
            connections: Connections::new(connections.max(1)),
            names: NameReader::new(names, counts.clone()),
            body_bytes,
            rate: rate.map(RateLimit::new).map(Arc::new),
            counts,
            set,
        }
    }

    /// For metrics.
    pub(super) fn figures(&self) -> LimitFigures {
        LimitFigures::new(self.set.clone(), self.counts.clone())
    }

    /// `/limits.json`: each limit by its key, with what is in use of it and what it refused.
    pub(super) fn page(&self) -> impl Fn() -> Option<Value> + Send + Sync + 'static {
        let (connections, counts, set) = (self.connections.clone(), self.counts.clone(), self.set.clone());
        move || {
            let refused = connections.refusals();
            let refused = refused.over_limit + refused.no_descriptor;
            let (limit, open) = (connections.limit(), connections.open());
            let mut page = Map::new();
            page.insert("limits.connections".to_owned(), json!({ "limit": limit, "inUse": open, "refused": refused }));
            for (limit, value) in &set {
                page.insert(limit.to_string(), json!({ "limit": value, "refused": counts.count(*limit) }));
            }
            Some(page.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn where_descriptors_are_few_half_of_them_are_for_connections() {
        for (descriptors, connections) in [(64, 32), (300, 150), (512, 256), (1024, 768)] {
            assert_eq!(Limits::new(&OwnLimits::default(), descriptors).connections.limit(), connections);
        }
    }

    #[tokio::test]
    async fn the_page_shows_each_limit_that_is_set_with_what_it_refused() {
        let limits = Limits::new(&OwnLimits::default(), 1_000);
        assert!(limits.names.path(&"/a".repeat(1_001)).is_err());
        let page = limits.page()().expect("a page");
        assert_eq!(
            page,
            json!({
                "limits.connections": { "limit": 744, "inUse": 0, "refused": 0 },
                "limits.bodyBytes": { "limit": 16_777_216, "refused": 0 },
                "limits.dtabBytes": { "limit": 16_777_216, "refused": 0 },
                "limits.depth": { "limit": 64, "refused": 0 },
                "limits.pathSegments": { "limit": 1_000, "refused": 1 },
            })
        );
        let config =
            OwnLimits { connections: Some(5), requests_per_second_per_client: Some(2), ..OwnLimits::default() };
        let limits = Limits::new(&config, 1_000);
        let page = limits.page()().expect("a page");
        assert_eq!(page["limits.connections"]["limit"], 5);
        assert_eq!(page["limits.requestsPerSecondPerClient"]["limit"], 2);
        assert!(limits.rate.is_some());
    }
}
