//! The least time between questions of one watch.

use std::time::Duration;

use tokio::time::Instant;

/// So many answers may come one right after the other…
const BURST: u32 = 20;

/// …and then one in this time. Whoever changes more often is followed at this pace.
const SPACING: Duration = Duration::from_millis(50);

/// A server that answers everything at once must not make a watch spin.
#[derive(Debug)]
pub(super) struct Pace {
    /// When a whole burst may come again.
    full: Instant,
}

impl Pace {
    pub(super) fn new() -> Self {
        Self { full: Instant::now() }
    }

    /// Waits until the next question may be asked.
    pub(super) async fn next(&mut self) {
        let now = Instant::now();
        self.full = self.full.max(now) + SPACING;
        let saved_up = SPACING * BURST;
        if self.full > now + saved_up {
            tokio::time::sleep_until(self.full - saved_up).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_is_free_and_what_follows_is_not() {
        let began = Instant::now();
        let mut pace = Pace::new();
        for _ in 0..BURST {
            pace.next().await;
        }
        assert_eq!(began.elapsed(), Duration::ZERO);
        for _ in 0..10 {
            pace.next().await;
        }
        assert_eq!(began.elapsed(), SPACING * 10);
        tokio::time::advance(Duration::from_secs(60)).await;
        let later = Instant::now();
        for _ in 0..BURST {
            pace.next().await;
        }
        assert_eq!(later.elapsed(), Duration::ZERO);
    }
}
