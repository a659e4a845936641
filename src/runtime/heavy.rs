//! Heavy work: what takes longer than a moment is done on threads of its own, a few at a time, so that neither the
//! runtime nor the machine is busy with nothing else.

use std::sync::LazyLock;
use std::thread;

use tokio::sync::Semaphore;

/// As many at a time as there are cores. Those who wait are served in order.
static PLACES: LazyLock<Semaphore> =
    LazyLock::new(|| Semaphore::new(thread::available_parallelism().map_or(1, usize::from)));

/// Does `work` on a thread that may block, once there is a place. None if it panicked, which has been logged.
///
/// Who drops the future while it waits gives up his turn; what has begun is finished all the same, in its place.
pub async fn heavy<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let place = PLACES.acquire().await.ok()?;
    let working = tokio::task::spawn_blocking(move || {
        let _place = place;
        work()
    });
    working.await.ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use tokio::task::JoinSet;

    use super::*;

    #[tokio::test]
    async fn no_more_is_done_at_a_time_than_there_are_cores() {
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let mut all = JoinSet::new();
        for _ in 0..100 {
            let (now, most) = (now.clone(), most.clone());
            all.spawn(heavy(move || {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                thread::sleep(Duration::from_millis(1));
                now.fetch_sub(1, Ordering::SeqCst);
            }));
        }
        while let Some(done) = all.join_next().await {
            assert_eq!(done.expect("not cancelled"), Some(()));
        }
        let cores = thread::available_parallelism().map_or(1, usize::from);
        assert!(most.load(Ordering::SeqCst) <= cores);
    }

    #[tokio::test]
    async fn a_panic_gives_the_place_back() {
        for _ in 0..100 {
            let outcome: Option<()> = heavy(|| std::panic::resume_unwind(Box::new("a defect"))).await;
            assert_eq!(outcome, None);
        }
        assert_eq!(heavy(|| 7).await, Some(7));
    }
}
