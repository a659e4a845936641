//! How long to wait before the next attempt.

use std::time::Duration;

use backoff::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use rand::RngExt;

/// Delays that grow from a floor to a cap, each drawn between the floor and an envelope that doubles: many who lost the
/// same server do not come back in step.
#[derive(Debug)]
pub struct Backoff {
    floor: Duration,
    plan: ExponentialBuilder,
    envelope: ExponentialBackoff,
}

// === impl Backoff ===

impl Backoff {
    /// Delays between `floor` and `cap`, which must not be below it.
    pub fn new(floor: Duration, cap: Duration) -> Self {
        // The first delay is drawn too, so the envelope begins above the floor.
        let first = (floor * 2).min(cap);
        let plan = ExponentialBuilder::new().with_min_delay(first).with_max_delay(cap).without_max_times();
        Self { floor, plan, envelope: plan.build() }
    }

    /// An attempt succeeded: the next failure is the first again.
    pub fn reset(&mut self) {
        self.envelope = self.plan.build();
    }

    /// How long to wait now.
    pub fn next_delay(&mut self) -> Duration {
        // The envelope has no end, since there is no limit of times.
        let envelope = self.envelope.next().unwrap_or(self.floor).max(self.floor);
        rand::rng().random_range(self.floor..=envelope)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOOR: Duration = Duration::from_millis(500);
    const CAP: Duration = Duration::from_secs(30);

    /// The longest of many delays at a place in the streak.
    fn longest(place: usize) -> Duration {
        let delays = (0..500).map(|_| {
            let mut backoff = Backoff::new(FLOOR, CAP);
            for _ in 0..place {
                backoff.next_delay();
            }
            backoff.next_delay()
        });
        delays.inspect(|delay| assert!((FLOOR..=CAP).contains(delay), "{delay:?}")).max().expect("some")
    }

    #[test]
    fn delays_double_up_to_the_cap() {
        for (place, least, most) in [(0, 800, 1_000), (1, 1_500, 2_000), (3, 6_000, 8_000), (50, 25_000, 30_000)] {
            let longest = longest(place);
            assert!((least..=most).contains(&longest.as_millis()), "{place}: {longest:?}");
        }
    }

    #[test]
    fn a_success_ends_the_streak() {
        let mut backoff = Backoff::new(FLOOR, CAP);
        for _ in 0..50 {
            backoff.next_delay();
        }
        backoff.reset();
        assert!(backoff.next_delay() <= FLOOR * 2);
    }
}
