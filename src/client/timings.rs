//! How long things may take, and how long to wait before the next attempt.

use std::time::Duration;

use rand::RngExt;

use crate::config::tree::Node;
use crate::config::{Fields, FromNode, Report};

/// `retry`: the least and the most time between attempts, as Linkerd's interpreters spell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// `baseSeconds`
    pub base: Duration,
    /// `maxSeconds`
    pub max: Duration,
}

/// Times that bound everything the client waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timings {
    /// Between attempts.
    pub retry: Retry,
    /// To make a connection, TLS included.
    pub connect: Duration,
    /// From the connection to the end of the protocol's own handshake, or to the head of an answer.
    pub handshake: Duration,
    /// Between pings.
    pub ping_period: Duration,
    /// Until a ping is answered.
    pub ping_deadline: Duration,
    /// Until somebody else is asked, too, where nothing was heard yet.
    pub first_answer: Duration,
    /// Until a poll that is not answered is asked again, perhaps of somebody else. Longer than servers that answer
    /// parked polls of themselves take (rosterd: 90 s + 20 %); namerd never does.
    pub poll_age: Duration,
    /// Until everything is asked anew even though nothing is wrong, so that load spreads over servers that came later.
    pub seat_age: Duration,
    /// Until a stream is opened anew, where the protocol has no sign of life.
    pub stream_age: Duration,
    /// Many who have to move do so within this time, not in one moment.
    pub spread: Duration,
    /// A connection that nobody uses is closed after this time.
    pub linger: Duration,
}

/// The part by which ages vary, either way, so that a fleet does not move in step.
const JITTER: f64 = 0.2;

// === impl Retry ===

impl Default for Retry {
    fn default() -> Self {
        Self { base: Duration::from_secs(1), max: Duration::from_secs(10) }
    }
}

impl FromNode for Retry {
    fn from_node(node: &Node, report: &Report) -> Option<Self> {
        Fields::read(node, "retry", report, |fields| {
            let (base, max): (Option<i32>, Option<i32>) = (fields.req("baseSeconds"), fields.req("maxSeconds"));
            let (base, max) = (base?, max?);
            match (u64::try_from(base), u64::try_from(max)) {
                (Ok(from @ 1..), Ok(to)) if from <= to => {
                    Some(Self { base: Duration::from_secs(from), max: Duration::from_secs(to) })
                }
                _ => {
                    // The text is Linkerd's (NamerdInterpreterInitializer.scala).
                    let message = format!("illegal retry values: baseSeconds={base} maxSeconds={max}");
                    fields.report().problem(node.span, message);
                    None
                }
            }
        })
    }
}

// === impl Timings ===

impl Default for Timings {
    fn default() -> Self {
        Self {
            retry: Retry::default(),
            connect: Duration::from_secs(3),
            handshake: Duration::from_secs(5),
            ping_period: Duration::from_secs(5),
            ping_deadline: Duration::from_secs(4),
            first_answer: Duration::from_secs(10),
            poll_age: Duration::from_secs(140),
            seat_age: Duration::from_secs(300),
            stream_age: Duration::from_secs(60),
            spread: Duration::from_millis(500),
            linger: Duration::from_secs(30),
        }
    }
}

/// An age, a fifth more or less.
pub(super) fn about(age: Duration) -> Duration {
    rand::rng().random_range(age.mul_f64(1.0 - JITTER)..=age.mul_f64(1.0 + JITTER))
}

/// The least that [`about`] makes of an age.
pub(super) fn at_least(age: Duration) -> Duration {
    age.mul_f64(1.0 - JITTER)
}

/// A moment within a time.
pub(super) fn within(spread: Duration) -> Duration {
    rand::rng().random_range(Duration::ZERO..=spread)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read_text;

    fn read(retry: &str) -> Result<Retry, String> {
        read_text("f", &format!("retry: {retry}"), "the test", |fields| fields.req("retry"))
            .map(|(retry, _)| retry)
            .map_err(|problems| problems.list()[0].message.clone())
    }

    #[test]
    fn retry_is_spelt_and_refused_as_in_linkerd() {
        let retry = Retry { base: Duration::from_secs(5), max: Duration::from_secs(600) };
        assert_eq!(read("{baseSeconds: 5, maxSeconds: 600}"), Ok(retry));
        assert_eq!(read("{baseSeconds: 1, maxSeconds: 1}").map(|retry| retry.max), Ok(Duration::from_secs(1)));
        for (base, max) in [(0, 5), (-1, 5), (5, 1), (5, -5)] {
            let refusal = format!("illegal retry values: baseSeconds={base} maxSeconds={max}");
            assert_eq!(read(&format!("{{baseSeconds: {base}, maxSeconds: {max}}}")), Err(refusal));
        }
        assert_eq!(read("{baseSeconds: 1}"), Err("'maxSeconds' is required for retry".to_owned()));
    }

    #[test]
    fn ages_vary_by_a_fifth_either_way() {
        let ages: Vec<_> = (0..500).map(|_| about(Duration::from_secs(10)).as_millis()).collect();
        assert!(ages.iter().all(|age| (8_000..=12_000).contains(age)));
        assert!(ages.iter().any(|age| *age < 9_000) && ages.iter().any(|age| *age > 11_000));
    }
}
