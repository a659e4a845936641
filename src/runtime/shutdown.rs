//! The way out, phase by phase.

use std::time::Duration;

use futures_util::FutureExt;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::{Drain, Phase, Readiness};

/// How long the phases of a drain take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// `drain.lameDuckMs`
    pub lame_duck: Duration,
    /// `drain.spreadMs`: time over which sessions are ended.
    pub spread: Duration,
    /// `admin.shutdownGraceMs`: what clients get for the request in hand.
    pub grace: Duration,
}

// === impl Plan ===

impl Plan {
    /// The time after which the process is gone at the latest.
    pub fn total(&self) -> Duration {
        self.lame_duck + self.spread + self.grace
    }

    /// Logs it, so that whoever stops the process knows how long to wait before killing it.
    pub fn announce(&self) {
        tracing::info!(
            lame_duck_ms = self.lame_duck.as_millis(),
            spread_ms = self.spread.as_millis(),
            grace_ms = self.grace.as_millis(),
            "a stop takes up to {} ms; allow for it in TimeoutStopSec or terminationGracePeriodSeconds",
            self.total().as_millis(),
        );
    }
}

/// Waits for the drain to be asked for and carries it out. `interfaces` are the servers that end at
/// [`Phase::Close`], `admin` the one that ends at [`Phase::Done`]. True if everybody could be answered in time; what is
/// left then is cut.
pub async fn drain_all(
    drain: &Drain,
    plan: Plan,
    readiness: &Readiness,
    mut interfaces: JoinSet<()>,
    admin: impl Future<Output = ()>,
) -> bool {
    let mut admin = std::pin::pin!(admin.fuse());
    let (by, grace) = tokio::select! {
        request = drain.requested() => request,
        () = &mut admin => drain.requested().await, // never: it serves until `Phase::Done`
    };
    let plan = Plan { grace: grace.unwrap_or(plan.grace), ..plan };
    tracing::info!("Received {by}. Shutting down ...");
    readiness.off();
    drain.enter(Phase::LameDuck);
    let interfaces_gone = async {
        tokio::time::sleep(plan.lame_duck).await;
        drain.enter(Phase::Leave);
        let deadline = Instant::now() + plan.spread + plan.grace;
        // A session that cannot be ended must not keep the streams from their final chunk.
        let left = timeout_at(deadline - plan.grace / 2, drain.finished(Phase::Leave)).await.is_ok();
        drain.enter(Phase::EndStreams);
        let ended = timeout_at(deadline - plan.grace / 4, drain.finished(Phase::EndStreams)).await.is_ok();
        drain.enter(Phase::Close);
        let closed = timeout_at(deadline, async { while interfaces.join_next().await.is_some() {} }).await.is_ok();
        (left && ended && closed, deadline)
    };
    let (clean, deadline) = tokio::select! {
        outcome = interfaces_gone => outcome,
        () = &mut admin => (false, Instant::now()),
    };
    drain.enter(Phase::Done);
    // Whoever asked for the drain over HTTP gets its answer even if the grace is over.
    let last = deadline.max(Instant::now() + Duration::from_millis(500));
    let _ = timeout_at(last, admin).await;
    if clean {
        tracing::info!("every client was answered; good bye");
    } else {
        tracing::warn!("the grace period is over and clients were left without an answer; raise admin.shutdownGraceMs");
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::super::{Hold, readiness};
    use super::*;

    const PLAN: Plan =
        Plan { lame_duck: Duration::from_secs(75), spread: Duration::from_secs(2), grace: Duration::from_secs(10) };

    /// A server with one stream, which takes `ending` to end.
    fn server(drain: &Drain, ending: Duration) -> JoinSet<()> {
        let stream: Hold = drain.hold(Phase::EndStreams);
        let drain = drain.clone();
        let mut servers = JoinSet::new();
        servers.spawn(async move {
            stream.over().await;
            tokio::time::sleep(ending).await;
            drop(stream);
            drain.reached(Phase::Close).await;
        });
        servers
    }

    async fn carried_out(ending: Duration, grace: Option<Duration>) -> (bool, Duration) {
        let (drain, readiness) = (Drain::new(), Readiness::new());
        let servers = server(&drain, ending);
        let admin = drain.clone();
        let began = Instant::now();
        drain.request("SIGTERM", grace);
        let clean = drain_all(&drain, PLAN, &readiness, servers, async move { admin.reached(Phase::Done).await }).await;
        assert_eq!(readiness.state(), readiness::State::Draining);
        (clean, began.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_drain_ends_as_soon_as_everybody_was_answered() {
        assert_eq!(carried_out(Duration::from_secs(1), None).await, (true, Duration::from_secs(76)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_cannot_be_answered_is_cut_within_the_announced_time() {
        let (clean, took) = carried_out(Duration::from_secs(1000), None).await;
        assert!(!clean);
        assert!(took <= PLAN.total() + Duration::from_millis(500), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn the_grace_of_the_request_counts() {
        let (clean, took) = carried_out(Duration::from_secs(1000), Some(Duration::from_secs(1))).await;
        assert!(!clean);
        assert!(took <= Duration::from_secs(79), "{took:?}");
    }
}
