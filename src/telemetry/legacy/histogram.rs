//! Distributions, as namerd shows them: by windows, and only the last one that is over.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hdrhistogram::Histogram as Buckets;
use parking_lot::Mutex;
use tokio::time::Instant;

/// Digits of a quantile that are right: within 1 %.
const DIGITS: u8 = 2;

/// A distribution of whole numbers. Its memory does not grow with what is recorded.
#[derive(Clone)]
pub struct Histogram {
    inner: Arc<Inner>,
}

/// Where windows begin, and how long they are; one for all histograms, so that they turn together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Windows {
    pub(super) epoch: Instant,
    pub(super) length: Duration,
}

/// What a window held.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Summary {
    /// Values recorded.
    pub count: u64,
    /// Their sum.
    pub sum: u64,
    /// The smallest.
    pub min: u64,
    /// The largest.
    pub max: u64,
    /// The mean.
    pub avg: f64,
    /// Quantiles 0.5, 0.9, 0.95, 0.99, 0.999 and 0.9999.
    pub quantiles: [u64; 6],
}

struct Inner {
    windows: Windows,
    state: Mutex<State>,
}

struct State {
    window: u64,
    /// None until something is recorded: many histograms never are used.
    buckets: Option<Buckets<u32>>,
    count: u64,
    sum: u64,
    min: u64,
    max: u64,
    last: Option<Summary>,
}

// === impl Windows ===

impl Windows {
    fn now(self) -> u64 {
        let length = self.length.as_millis().max(1);
        u64::try_from(self.epoch.elapsed().as_millis() / length).unwrap_or(u64::MAX)
    }
}

// === impl Histogram ===

impl Histogram {
    pub(super) fn new(windows: Windows) -> Self {
        let state = State { window: windows.now(), buckets: None, count: 0, sum: 0, min: 0, max: 0, last: None };
        Self { inner: Arc::new(Inner { windows, state: Mutex::new(state) }) }
    }

    /// Records one value.
    pub fn record(&self, value: u64) {
        let window = self.inner.windows.now();
        let mut state = self.inner.state.lock();
        state.turn_to(window);
        state.record(value);
    }

    /// Records a duration in milliseconds.
    pub fn record_ms(&self, duration: Duration) {
        self.record(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX));
    }

    /// The last window that is over; none before the first is.
    pub fn last_window(&self) -> Option<Summary> {
        let window = self.inner.windows.now();
        let mut state = self.inner.state.lock();
        state.turn_to(window);
        state.last
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Histogram").finish_non_exhaustive()
    }
}

// === impl State ===

impl State {
    /// Closes windows that are over. There is no task that does so: whoever comes first does.
    fn turn_to(&mut self, window: u64) {
        if window == self.window {
            return;
        }
        let just_over = window == self.window + 1;
        self.last = Some(if just_over { self.summary() } else { Summary::default() });
        (self.window, self.count, self.sum, self.min, self.max) = (window, 0, 0, 0, 0);
        if let Some(buckets) = &mut self.buckets {
            buckets.reset();
        }
    }

    fn record(&mut self, value: u64) {
        self.min = if self.count == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.count += 1;
        self.sum = self.sum.saturating_add(value);
        if self.buckets.is_none() {
            self.buckets = Buckets::new(DIGITS).ok(); // fails for a number of digits that we do not use
        }
        if let Some(buckets) = &mut self.buckets {
            let _ = buckets.record(value); // fails where there is less memory than addresses; min and max still hold
        }
    }

    fn summary(&self) -> Summary {
        let Some(buckets) = self.buckets.as_ref().filter(|_| self.count > 0) else { return Summary::default() };
        let quantiles = [0.5, 0.9, 0.95, 0.99, 0.999, 0.9999]
            .map(|quantile| buckets.value_at_quantile(quantile).clamp(self.min, self.max));
        let avg = self.sum as f64 / self.count as f64;
        Summary { count: self.count, sum: self.sum, min: self.min, max: self.max, avg, quantiles }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_secs(60);

    fn histogram() -> Histogram {
        Histogram::new(Windows { epoch: Instant::now(), length: WINDOW })
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_last_window_that_is_over_is_shown() {
        let histogram = histogram();
        histogram.record(7);
        assert_eq!(histogram.last_window(), None);
        tokio::time::advance(WINDOW).await;
        let first = histogram.last_window().expect("over");
        assert_eq!((first.count, first.sum, first.min, first.max), (1, 7, 7, 7));
        histogram.record(9);
        assert_eq!(histogram.last_window(), Some(first));
        tokio::time::advance(WINDOW).await;
        assert_eq!(histogram.last_window().map(|window| window.sum), Some(9));
        tokio::time::advance(WINDOW).await;
        assert_eq!(histogram.last_window(), Some(Summary::default()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_window_in_which_nobody_looked_is_not_shown_late() {
        let histogram = histogram();
        histogram.record(7);
        tokio::time::advance(3 * WINDOW).await;
        assert_eq!(histogram.last_window(), Some(Summary::default()));
    }

    #[tokio::test(start_paused = true)]
    async fn quantiles_are_within_a_hundredth() {
        let histogram = histogram();
        for value in 1..=100_000 {
            histogram.record(value);
        }
        tokio::time::advance(WINDOW).await;
        let window = histogram.last_window().expect("over");
        assert_eq!((window.count, window.min, window.max), (100_000, 1, 100_000));
        assert!((window.avg - 50_000.5).abs() < 1e-9);
        for (shown, wanted) in window.quantiles.into_iter().zip([50_000, 90_000, 95_000, 99_000, 99_900, 99_990_u64]) {
            assert!(shown.abs_diff(wanted) * 100 <= wanted, "{shown} for {wanted}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn zero_and_the_largest_number_can_be_recorded() {
        let histogram = histogram();
        histogram.record(0);
        histogram.record(u64::MAX);
        histogram.record(u64::MAX);
        tokio::time::advance(WINDOW).await;
        let window = histogram.last_window().expect("over");
        assert_eq!((window.count, window.sum, window.min, window.max), (3, u64::MAX, 0, u64::MAX));
    }
}
