//! Reads: one read serves many who ask.

use std::sync::atomic::{AtomicU64, Ordering};

/// Reads for many who ask, one at a time: nobody gets an answer to a question older than his own, and however many ask
/// there are at most two reads in a row.
#[derive(Debug)]
pub struct Reads<T> {
    begun: AtomicU64,
    /// The number of the last one that gave an answer, and the answer. Whoever reads holds it.
    last: tokio::sync::Mutex<Option<(u64, T)>>,
}

// === impl Reads ===

impl<T> Default for Reads<T> {
    fn default() -> Self {
        Self { begun: AtomicU64::new(0), last: tokio::sync::Mutex::default() }
    }
}

impl<T: Clone> Reads<T> {
    /// Ends when a read that began after this call has given an answer: one of its own if need be.
    ///
    /// # Errors
    /// Those of its own `read`, which serve nobody else.
    pub async fn after_now<E>(&self, read: impl AsyncFnOnce() -> Result<T, E>) -> Result<T, E> {
        let before = self.begun.load(Ordering::SeqCst);
        let mut last = self.last.lock().await;
        if let Some((_, answer)) = last.as_ref().filter(|(number, _)| *number > before) {
            return Ok(answer.clone());
        }
        let number = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let answer = read().await?;
        *last = Some((number, answer.clone()));
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::time::{Instant, sleep};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn many_who_ask_at_once_are_served_by_two_reads_and_none_by_one_that_began_before() {
        let (reads, made) = (Arc::new(Reads::default()), Arc::new(AtomicU64::new(0)));
        let ask = || {
            let (reads, made) = (reads.clone(), made.clone());
            tokio::spawn(async move {
                reads
                    .after_now(async || {
                        made.fetch_add(1, Ordering::SeqCst);
                        sleep(Duration::from_secs(1)).await;
                        Ok::<_, ()>(7)
                    })
                    .await
            })
        };
        let first = ask();
        sleep(Duration::from_millis(500)).await;
        let others: Vec<_> = (0..50).map(|_| ask()).collect();
        let began = Instant::now();
        for asked in std::iter::once(first).chain(others) {
            assert_eq!(asked.await.expect("not cancelled"), Ok(7));
        }
        assert_eq!(made.load(Ordering::SeqCst), 2);
        assert_eq!(began.elapsed(), Duration::from_millis(1500));
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_that_fails_serves_nobody_else() {
        let reads = Reads::default();
        let fails = reads.after_now(async || {
            sleep(Duration::from_secs(1)).await;
            Err("lost")
        });
        let reads_itself = reads.after_now(async || Ok::<_, &str>(7));
        assert_eq!(tokio::join!(fails, reads_itself), (Err("lost"), Ok(7)));
    }
}
