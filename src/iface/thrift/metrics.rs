//! What is counted about the thrift interface, under rosterd's own names.

use std::array;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::session::{DIALECTS, FAULTS, OVERDUE};
use crate::thrift::Method;

/// Figures of the thrift interface. All its interfaces share them.
#[derive(Clone, Debug)]
pub struct ThriftMetrics {
    sessions: Family<Dialect, Gauge>,
    parked: Gauge,
    /// By method and outcome, made once: there are a hundred thousand answers a second.
    answers: [[Counter; Outcome::ALL.len()]; Method::ALL.len()],
    unknown_methods: Counter,
    discards: Counter,
    refused: Family<Why, Counter>,
    ended: Family<Why, Counter>,
    foreign: Family<Speaks, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Dialect {
    dialect: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answer {
    method: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Why {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Speaks {
    protocol: &'static str,
}

/// What an answer said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// A value.
    Value,
    /// The value that the client has already, because the poll had become old.
    MaxAge,
    /// The failure that the method declares.
    Failure,
    /// A TApplicationException.
    Exception,
}

/// What was not done for a client because of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// No topic for it.
    Capacity,
    /// No further watch on one connection.
    Watches,
    /// `limits.requestsPerSecondPerClient`
    Rate,
    /// Too many delegations at a time.
    Delegations,
}

/// One more of something, until this is dropped.
#[derive(Debug)]
pub(super) struct Counted(Gauge);

/// How many there are of something, all of which go when this is dropped.
#[derive(Debug)]
pub(super) struct Share {
    gauge: Gauge,
    count: i64,
}

// === impl ThriftMetrics ===

impl ThriftMetrics {
    /// Makes and registers them.
    pub fn register(registry: &mut Registry) -> Self {
        let answers = Family::<Answer, Counter>::default();
        let counter = |method: usize, outcome: usize| {
            let (method, outcome) = (Method::ALL[method].name(), Outcome::ALL[outcome].name());
            answers.get_or_create(&Answer { method, outcome }).clone()
        };
        let this = Self {
            sessions: Family::default(),
            parked: Gauge::default(),
            answers: array::from_fn(|method| array::from_fn(|outcome| counter(method, outcome))),
            unknown_methods: Counter::default(),
            discards: Counter::default(),
            refused: Family::default(),
            ended: Family::default(),
            foreign: Family::default(),
        };
        // Counters that are not there before the first event cannot be compared with what they were.
        for dialect in DIALECTS {
            drop(this.sessions.get_or_create(&Dialect { dialect }));
        }
        for refused in Refused::ALL {
            drop(this.refused.get_or_create(&Why { reason: refused.name() }));
        }
        for reason in FAULTS.into_iter().chain(OVERDUE) {
            drop(this.ended.get_or_create(&Why { reason }));
        }
        let thrift = registry.sub_registry_with_prefix("thrift");
        thrift.register("sessions", "Connections that are open now, by what they speak", this.sessions.clone());
        thrift.register("parked_polls", "Polls that wait for a change now", this.parked.clone());
        thrift.register("answers", "Answers by method and what they said", answers);
        thrift.register("unknown_methods", "Calls of methods that there are not", this.unknown_methods.clone());
        thrift.register("discards", "Requests that clients gave up before they were answered", this.discards.clone());
        thrift.register("refused", "Requests refused, by the limit that they met", this.refused.clone());
        thrift.register(
            "ended_sessions",
            "Connections that the server ended for a fault, by reason",
            this.ended.clone(),
        );
        thrift.register(
            "foreign_connections",
            "Connections closed because they spoke something else, by what that was",
            this.foreign.clone(),
        );
        this
    }

    pub(super) fn session(&self, dialect: &'static str) -> Counted {
        let gauge = self.sessions.get_or_create(&Dialect { dialect }).clone();
        gauge.inc();
        Counted(gauge)
    }

    pub(super) fn parked(&self) -> Share {
        Share { gauge: self.parked.clone(), count: 0 }
    }

    pub(super) fn answered(&self, method: Method, outcome: Outcome) {
        self.answers[method as usize][outcome as usize].inc();
    }

    pub(super) fn unknown_method(&self) {
        self.unknown_methods.inc();
    }

    pub(super) fn discarded(&self) {
        self.discards.inc();
    }

    pub(super) fn refused(&self, why: Refused) {
        self.refused.get_or_create(&Why { reason: why.name() }).inc();
    }

    pub(super) fn ended(&self, reason: &'static str) {
        self.ended.get_or_create(&Why { reason }).inc();
    }

    pub(super) fn foreign(&self, protocol: &'static str) {
        self.foreign.get_or_create(&Speaks { protocol }).inc();
    }
}

// === impl Refused ===

impl Refused {
    const ALL: [Self; 4] = [Self::Capacity, Self::Watches, Self::Rate, Self::Delegations];

    const fn name(self) -> &'static str {
        match self {
            Self::Capacity => "capacity",
            Self::Watches => "watches",
            Self::Rate => "rate",
            Self::Delegations => "delegations",
        }
    }
}

// === impl Outcome ===

impl Outcome {
    const ALL: [Self; 4] = [Self::Value, Self::MaxAge, Self::Failure, Self::Exception];

    const fn name(self) -> &'static str {
        match self {
            Self::Value => "value",
            Self::MaxAge => "max_age",
            Self::Failure => "failure",
            Self::Exception => "exception",
        }
    }
}

// === impl Counted, Share ===

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Share {
    /// So many there are now.
    pub(super) fn set(&mut self, count: usize) {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        if count != self.count {
            self.gauge.inc_by(count - self.count);
            self.count = count;
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_and_outcomes_are_counted_at_their_places() {
        for (place, method) in Method::ALL.into_iter().enumerate() {
            assert_eq!(method as usize, place);
        }
        for (place, outcome) in Outcome::ALL.into_iter().enumerate() {
            assert_eq!(outcome as usize, place);
        }
    }

    #[test]
    fn a_share_takes_what_it_counted_with_it() {
        let metrics = ThriftMetrics::register(&mut Registry::default());
        let (mut one, mut other) = (metrics.parked(), metrics.parked());
        one.set(3);
        other.set(2);
        one.set(1);
        assert_eq!(metrics.parked.get(), 3);
        drop(one);
        assert_eq!(metrics.parked.get(), 2);
    }
}
