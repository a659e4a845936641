//! Watchdog: a runtime that does not turn any more is worse than none, because its clients go on waiting for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tokio_util::task::AbortOnDropHandle;

const TICK: Duration = Duration::from_secs(1);
/// So many of the thread's own ticks without one of the runtime's. Counting them, rather than reading a clock, a
/// process that was suspended is not taken for one that hangs.
const PATIENCE: u32 = 10;

/// Aborts the process when the runtime has not turned for ten seconds, for as long as this lives.
#[derive(Debug)]
pub struct Watchdog {
    _heart: AbortOnDropHandle<()>,
    over: Arc<AtomicBool>,
}

impl Watchdog {
    /// Starts it. Must be called within the runtime to be watched.
    pub fn start() -> Self {
        Self::with(TICK, || {
            tracing::error!(seconds = PATIENCE, "the runtime has not turned: abort");
            std::process::abort();
        })
    }

    fn with(tick: Duration, hung: impl FnOnce() + Send + 'static) -> Self {
        let (beats, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let beating = beats.clone();
        let heart = AbortOnDropHandle::new(tokio::spawn(async move {
            let mut ticks = tokio::time::interval(tick);
            loop {
                ticks.tick().await;
                beating.fetch_add(1, Ordering::Relaxed);
            }
        }));
        let stopped = over.clone();
        thread::spawn(move || {
            let (mut last, mut missed) = (beats.load(Ordering::Relaxed), 0);
            while !stopped.load(Ordering::Relaxed) {
                thread::sleep(tick);
                let now = beats.load(Ordering::Relaxed);
                missed = if now == last { missed + 1 } else { 0 };
                last = now;
                if missed >= PATIENCE && !stopped.load(Ordering::Relaxed) {
                    return hung();
                }
            }
        });
        Self { _heart: heart, over }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_runtime_that_hangs_is_noticed_and_one_that_works_is_not() {
        let tick = Duration::from_millis(20);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("runtime");
        let (tell, told) = mpsc::channel();
        let _watchdog = runtime.block_on(async {
            let watchdog = Watchdog::with(tick, move || tell.send(()).expect("test waits"));
            tokio::time::sleep(tick * 3 * PATIENCE).await;
            watchdog
        });
        assert!(told.try_recv().is_err(), "the runtime was turning");
        // Nobody turns the runtime now.
        told.recv_timeout(Duration::from_secs(20)).expect("noticed");
    }
}
