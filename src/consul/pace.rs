//! The least time between requests of one watch.

use std::time::Duration;

use tokio::time::Instant;

/// A request is due so long after the last one…
const SPACING: Duration = Duration::from_secs(1);

/// …except that so many may be saved up.
const BURST: u32 = 2;

/// A bucket of turns that fills with time.
#[derive(Debug)]
pub(super) struct Pace {
    /// When the bucket will be full again.
    full: Instant,
}

impl Pace {
    pub(super) fn new() -> Self {
        Self { full: Instant::now() }
    }

    /// Waits until a request may be made, which counts then. Without one for a moment it does not wait: a change after
    /// a quiet second is seen at once, and constant change is followed once a second.
    pub(super) async fn next(&mut self) {
        let now = Instant::now();
        let full = self.full.max(now);
        let due = full.checked_sub(SPACING * (BURST - 1)).unwrap_or(now);
        self.full = full + SPACING;
        if due > now {
            tokio::time::sleep_until(due).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn two_at_once_then_one_a_second() {
        let began = Instant::now();
        let mut pace = Pace::new();
        let mut times = Vec::new();
        for _ in 0..5 {
            pace.next().await;
            times.push(began.elapsed().as_secs());
        }
        assert_eq!(times, [0, 0, 1, 2, 3]);
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_quiet_second_there_is_no_wait() {
        let mut pace = Pace::new();
        for _ in 0..20 {
            pace.next().await;
        }
        tokio::time::advance(SPACING).await;
        let before = Instant::now();
        pace.next().await;
        assert_eq!(before.elapsed(), Duration::ZERO);
    }
}
