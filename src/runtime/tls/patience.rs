//! How long a client is waited for.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// The time that a client may take for the whole of its handshake. What passes while the client waits for the server,
/// because thousands of others came at the same time, does not count.
pub(super) struct Patience<'a> {
    left: Duration,
    last: Duration,
    ending: &'a CancellationToken,
}

impl<'a> Patience<'a> {
    /// Waits for `whole` in all; once `ending` says that the server accepts no more, for `last`.
    pub(super) fn new(whole: Duration, last: Duration, ending: &'a CancellationToken) -> Self {
        Self { left: whole, last, ending }
    }

    /// Waits for something that the client has to do. None if the time is over.
    pub(super) async fn wait<F: Future>(&mut self, client: F) -> Option<F::Output> {
        let began = Instant::now();
        let over = async {
            tokio::select! {
                () = sleep(self.left) => {}
                () = async { self.ending.cancelled().await; sleep(self.last).await } => {}
            }
        };
        let output = tokio::select! {
            biased;
            output = client => Some(output),
            () = over => None,
        };
        if self.ending.is_cancelled() {
            self.left = self.left.min(self.last);
        }
        self.left = self.left.saturating_sub(began.elapsed());
        output
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn the_time_is_that_of_all_waits_together() {
        let ending = CancellationToken::new();
        let mut patience = Patience::new(10 * SECOND, SECOND, &ending);
        assert_eq!(patience.wait(sleep(6 * SECOND)).await, Some(()));
        sleep(100 * SECOND).await;
        let began = Instant::now();
        assert_eq!(patience.wait(sleep(6 * SECOND)).await, None);
        assert_eq!(began.elapsed(), 4 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn at_the_end_it_is_short_whatever_was_left() {
        let ending = CancellationToken::new();
        let mut patience = Patience::new(10 * SECOND, SECOND, &ending);
        ending.cancel();
        assert_eq!(patience.wait(sleep(SECOND / 2)).await, Some(()));
        let began = Instant::now();
        assert_eq!(patience.wait(std::future::pending::<()>()).await, None);
        assert_eq!(began.elapsed(), SECOND / 2);
    }
}
