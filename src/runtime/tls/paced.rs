//! Handshakes take turns.
//!
//! One step of a handshake computes for about a millisecond, and thousands of clients may come back at once. The runtime
//! looks at sockets and timers only once in dozens of steps while it has something to do, so that without turns all
//! others would wait for a tenth of a second and more.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::LazyLock;
use std::task::Poll;
use std::thread::available_parallelism;

use tokio::sync::Semaphore;
use tokio::task::yield_now;

use super::patience::Patience;

/// As many handshakes compute at a time as there are cores. Those who wait are served in order.
static TURNS: LazyLock<Semaphore> = LazyLock::new(|| Semaphore::new(available_parallelism().map_or(1, usize::from)));

/// Does a handshake, each of whose steps waits for its turn and until everything else that is ready has been done. None
/// if the client took too long.
pub(super) async fn paced<F: Future + Unpin>(mut handshake: F, patience: &mut Patience<'_>) -> Option<F::Output> {
    loop {
        // It is never closed.
        let turn = TURNS.acquire().await;
        // This comes back when sockets and timers have been looked at.
        yield_now().await;
        let step = poll_fn(|cx| Poll::Ready(Pin::new(&mut handshake).poll(cx))).await;
        drop(turn);
        if let Poll::Ready(output) = step {
            return Some(output);
        }
        // The handshake has left word to be woken, which wakes this.
        let mut woken = false;
        let wake = poll_fn(|_| if std::mem::replace(&mut woken, true) { Poll::Ready(()) } else { Poll::Pending });
        patience.wait(wake).await?;
    }
}
