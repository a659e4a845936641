//! The least time between questions of one watch.

use std::time::Duration;

use tokio::time::Instant;

/// A bucket of turns that fills with time: a server that answers everything at once must not make a watch spin.
#[derive(Debug)]
pub struct Pace {
    spacing: Duration,
    burst: u32,
    /// When the bucket will be full again.
    full: Instant,
}

impl Pace {
    /// A full bucket: `burst` questions may follow each other at once, then there is one every `spacing`.
    pub fn new(spacing: Duration, burst: u32) -> Self {
        Self { spacing, burst, full: Instant::now() }
    }

    /// Waits until the next question may be asked, which counts then. Cancelled, it counts as asked too.
    pub async fn next(&mut self) {
        let now = Instant::now();
        self.full = self.full.max(now) + self.spacing;
        let saved_up = self.spacing * self.burst;
        if self.full > now + saved_up {
            tokio::time::sleep_until(self.full - saved_up).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPACING: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn two_at_once_then_one_a_second() {
        let began = Instant::now();
        let mut pace = Pace::new(SPACING, 2);
        let mut times = Vec::new();
        for _ in 0..5 {
            pace.next().await;
            times.push(began.elapsed().as_secs());
        }
        assert_eq!(times, [0, 0, 1, 2, 3]);
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_quiet_moment_there_is_no_wait() {
        let mut pace = Pace::new(SPACING, 2);
        for _ in 0..20 {
            pace.next().await;
        }
        tokio::time::advance(SPACING).await;
        let before = Instant::now();
        pace.next().await;
        assert_eq!(before.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_than_a_burst_is_saved_up() {
        let mut pace = Pace::new(SPACING, 20);
        tokio::time::advance(1_000 * SPACING).await;
        let began = Instant::now();
        for _ in 0..30 {
            pace.next().await;
        }
        assert_eq!(began.elapsed(), 10 * SPACING);
    }
}
