//! Seldom: keeps a log readable while the same thing happens many times a second.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Lets the first of a streak through, then one in each period, which tells how many were left out.
#[derive(Debug)]
pub struct Seldom {
    period: Duration,
    next: Mutex<Option<Instant>>,
    left_out: AtomicU64,
}

impl Seldom {
    /// One in each `period`.
    pub const fn new(period: Duration) -> Self {
        Self { period, next: Mutex::new(None), left_out: AtomicU64::new(0) }
    }

    /// Is it time to log again? The number of times that were left out since the last one, if so.
    pub fn due(&self) -> Option<u64> {
        let now = Instant::now();
        let mut next = self.next.lock();
        if next.is_some_and(|next| now < next) {
            self.left_out.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        *next = Some(now + self.period);
        Some(self.left_out.swap(0, Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn repeats_are_counted_and_not_logged() {
        let seldom = Seldom::new(Duration::from_secs(10));
        assert_eq!(seldom.due(), Some(0));
        assert_eq!((seldom.due(), seldom.due()), (None, None));
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(seldom.due(), Some(2));
        assert_eq!(seldom.due(), None);
    }
}
