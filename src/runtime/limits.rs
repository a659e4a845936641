//! What `limits:` refuses, counted by limit.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::name;

/// A limit on single requests. (Connections are counted where they are accepted.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// `limits.bodyBytes`
    BodyBytes,
    /// `limits.dtabBytes`, `limits.depth` and `limits.pathSegments`
    Name(name::Limit),
    /// `limits.requestsPerSecondPerClient`
    RequestsPerSecondPerClient,
}

/// How often each limit refused something. Cloning shares the counts.
#[derive(Clone, Debug, Default)]
pub struct LimitCounts {
    counts: Arc<[AtomicU64; Limit::ALL.len()]>,
}

// === impl Limit ===

impl Limit {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::BodyBytes,
        Self::Name(name::Limit::DtabBytes),
        Self::Name(name::Limit::Depth),
        Self::Name(name::Limit::PathSegments),
        Self::RequestsPerSecondPerClient,
    ];

    fn place(self) -> usize {
        match self {
            Self::BodyBytes => 0,
            Self::Name(name::Limit::DtabBytes) => 1,
            Self::Name(name::Limit::Depth) => 2,
            Self::Name(name::Limit::PathSegments) => 3,
            Self::RequestsPerSecondPerClient => 4,
        }
    }
}

impl fmt::Display for Limit {
    /// The configuration key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BodyBytes => f.write_str("limits.bodyBytes"),
            Self::Name(limit) => limit.fmt(f),
            Self::RequestsPerSecondPerClient => f.write_str("limits.requestsPerSecondPerClient"),
        }
    }
}

// === impl LimitCounts ===

impl LimitCounts {
    /// Something was refused.
    pub fn refused(&self, limit: Limit) {
        self.counts[limit.place()].fetch_add(1, Ordering::Relaxed);
    }

    /// How often, since the start.
    pub fn count(&self, limit: Limit) -> u64 {
        self.counts[limit.place()].load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_is_counted_for_itself_and_called_by_its_key() {
        let counts = LimitCounts::default();
        for (times, limit) in (1..).zip(Limit::ALL) {
            (0..times).for_each(|_| counts.refused(limit));
        }
        let shown = Limit::ALL.map(|limit| format!("{limit} {}", counts.count(limit)));
        assert_eq!(
            shown,
            [
                "limits.bodyBytes 1",
                "limits.dtabBytes 2",
                "limits.depth 3",
                "limits.pathSegments 4",
                "limits.requestsPerSecondPerClient 5",
            ]
        );
    }
}
