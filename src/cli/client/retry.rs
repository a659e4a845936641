//! When to ask a lost server again.

use std::time::Duration;

use rand::RngExt;

const FLOOR: Duration = Duration::from_millis(500);
const CAP: Duration = Duration::from_secs(30);

/// Delays that grow from half a second to half a minute, each drawn between the floor and the envelope, so that many
/// clients of one server do not come back in step.
#[derive(Debug)]
pub(in crate::cli) struct Retry {
    envelope: Duration,
}

impl Retry {
    pub(in crate::cli) fn new() -> Self {
        Self { envelope: FLOOR }
    }

    /// The server answered.
    pub(in crate::cli) fn reset(&mut self) {
        self.envelope = FLOOR;
    }

    /// How long to wait now.
    pub(in crate::cli) fn delay(&mut self) -> Duration {
        self.envelope = (self.envelope * 2).min(CAP);
        rand::rng().random_range(FLOOR..=self.envelope)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_to_the_cap_and_start_anew_after_an_answer() {
        let mut retry = Retry::new();
        for _ in 0..100 {
            assert!((FLOOR..=CAP).contains(&retry.delay()));
        }
        assert_eq!(retry.envelope, CAP);
        retry.reset();
        assert!(retry.delay() <= FLOOR * 2);
    }
}
