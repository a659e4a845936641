//! The way out, phase by phase.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

use super::{Drain, Phase, Readiness, Request, Way};

/// How long the phases of a drain take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// `drain.lameDuckMs`
    pub lame_duck: Duration,
    /// `drain.spreadMs`: time over which sessions are ended.
    pub spread: Duration,
    /// How much longer that takes where clients have to find out by themselves that they are to go. `spread` holds it
    /// already if `drain.pingSilence` says that they always have to.
    pub silence: Duration,
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
        if !self.silence.is_zero() {
            tracing::debug!("after a hand-over it takes up to {} ms more", self.silence.as_millis());
        }
    }
}

/// A client that was accepted before a hand-over says within this time what it wants.
const JUST_ACCEPTED: Duration = Duration::from_secs(1);
/// And one that is in a handshake, of TLS or of ThriftMux, ends that within this time.
const HANDSHAKES: Duration = Duration::from_secs(5);

/// Waits for the drain to be asked for and carries it out. `interfaces` are the servers that end at
/// [`Phase::Close`], `admin` the one that ends at [`Phase::Done`]. True if everybody could be answered in time; what is
/// left then is cut.
pub async fn drain_all(
    drain: &Drain,
    plan: Plan,
    readiness: &Readiness,
    interfaces: JoinSet<()>,
    admin: impl Future<Output = ()>,
) -> bool {
    // Serves until `Phase::Done`, or until its listener is with another process and its last connection has gone.
    let mut admin = std::pin::pin!(admin);
    let mut leaving = std::pin::pin!(leave(drain, plan, readiness, interfaces));
    let ((clean, deadline), admin_is_gone) = tokio::select! {
        outcome = &mut leaving => (outcome, false),
        () = &mut admin => (leaving.await, true),
    };
    drain.enter(Phase::Done);
    if !admin_is_gone {
        // Whoever asked for the drain over HTTP gets its answer even if the grace is over.
        let last = deadline.max(Instant::now() + Duration::from_millis(500));
        let _ = timeout_at(last, admin).await;
    }
    if clean {
        tracing::info!("every client was answered; good bye");
    } else {
        tracing::warn!("the grace period is over and clients were left without an answer; raise admin.shutdownGraceMs");
    }
    clean
}

/// All phases up to [`Phase::Close`]: whether everybody could be answered, and when the time for that was or is over.
async fn leave(drain: &Drain, plan: Plan, readiness: &Readiness, mut interfaces: JoinSet<()>) -> (bool, Instant) {
    let Request { by, grace, way } = drain.requested().await;
    if way == Way::Stay {
        tracing::info!("Received {by}. Clients are moved away; the process stays until it is told to end");
    } else {
        tracing::info!("Received {by}. Shutting down ...");
    }
    if way < Way::HandOver {
        readiness.off();
        drain.enter(Phase::LameDuck);
        tokio::select! {
            () = tokio::time::sleep(plan.lame_duck) => {}
            // The address goes on being served.
            _ = drain.accepts_until(Phase::Close) => {}
        }
    }
    drain.enter(Phase::Leave);
    let mut times = Times::from_now(plan, grace);
    if way == Way::HandOver {
        // Nobody comes any more, but who was accepted a moment ago has not said yet what is to be waited for.
        let _ = timeout(HANDSHAKES, drain.greeted()).await;
        tokio::time::sleep(JUST_ACCEPTED).await;
    }
    let mut clean = times.wait(drain, 2, drain.finished(Phase::Leave)).await;
    drain.enter(Phase::EndStreams);
    clean &= times.wait(drain, 4, drain.finished(Phase::EndStreams)).await;
    if drain.way() == Some(Way::Stay) {
        drain.enter(Phase::Away);
        tracing::info!(clean, "clients have been moved away; whoever comes all the same is served");
        let Request { by, grace, .. } = drain.told_to_end().await;
        tracing::info!("Received {by}. Shutting down ...");
        // Those who were left without an answer then are no matter of this end.
        times = Times::from_now(plan, grace);
        drain.enter(Phase::LeaveAgain);
        clean = times.wait(drain, 4, drain.finished(Phase::LeaveAgain)).await;
    }
    drain.enter(Phase::Close);
    let closed = timeout_at(times.deadline, async { while interfaces.join_next().await.is_some() {} }).await.is_ok();
    (clean && closed, times.deadline)
}

/// When the time for clients is over.
struct Times {
    deadline: Instant,
    grace: Duration,
    /// What a hand-over adds: see [`Plan::silence`]. Zero once it has been added.
    silence: Duration,
}

impl Times {
    fn from_now(plan: Plan, grace: Option<Duration>) -> Self {
        let grace = grace.unwrap_or(plan.grace);
        Self { deadline: Instant::now() + plan.spread + grace, grace, silence: plan.silence }
    }

    /// Whether something happens while there is more than one `part` of the grace left: a session that cannot be ended
    /// must not keep the streams from their final chunk. When another process takes over meanwhile, those who have not
    /// been told to go yet have to find out by themselves, and there is the time for that.
    async fn wait(&mut self, drain: &Drain, part: u32, what: impl Future<Output = ()>) -> bool {
        let mut what = std::pin::pin!(what);
        if !self.silence.is_zero() {
            tokio::select! {
                biased;
                () = drain.handed_over() => self.deadline += std::mem::take(&mut self.silence),
                happened = timeout_at(self.deadline - self.grace / part, &mut what) => return happened.is_ok(),
            }
        }
        timeout_at(self.deadline - self.grace / part, what).await.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Hold, readiness};
    use super::*;

    const PLAN: Plan = Plan {
        lame_duck: Duration::from_secs(75),
        spread: Duration::from_secs(2),
        silence: Duration::from_secs(10),
        grace: Duration::from_secs(10),
    };

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
        drain.request(Request { grace, ..Request::end("SIGTERM") });
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

    #[tokio::test(start_paused = true)]
    async fn who_was_taken_over_goes_at_once_and_stays_ready_in_the_eyes_of_who_is_connected() {
        let (drain, readiness) = (Drain::new(), Readiness::new());
        let servers = server(&drain, Duration::from_secs(1));
        let admin = drain.clone();
        let began = Instant::now();
        drain.request(Request::hand_over("process 2"));
        let admin = async move {
            admin.accepts_until(Phase::Done).await;
        };
        assert!(drain_all(&drain, PLAN, &readiness, servers, admin).await);
        assert_eq!(
            (began.elapsed(), readiness.state()),
            (JUST_ACCEPTED + Duration::from_secs(1), readiness::State::Ready(Vec::new()))
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_drained_process_serves_who_comes_until_it_is_told_to_end() {
        let (drain, readiness) = (Drain::new(), Readiness::new());
        let servers = server(&drain, Duration::from_secs(1));
        let (admin, draining) = (drain.clone(), drain.clone());
        drain.request(Request::stay("POST /admin/drain"));
        let process = tokio::spawn({
            let readiness = readiness.clone();
            async move {
                drain_all(&draining, PLAN, &readiness, servers, async move { admin.reached(Phase::Done).await }).await
            }
        });
        drain.reached(Phase::Away).await;
        assert_eq!(readiness.state(), readiness::State::Draining);
        let late = drain.hold(Phase::LeaveAgain);
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        assert!(!process.is_finished() && drain.phase() == Phase::Away);
        let told = Instant::now();
        assert!(drain.request(Request::end("SIGTERM")));
        late.over().await;
        assert_eq!(drain.phase(), Phase::LeaveAgain);
        drop(late);
        assert!(process.await.expect("no panic"), "everybody was answered");
        assert_eq!(told.elapsed(), Duration::ZERO, "there is no second lame duck");
    }

    #[tokio::test(start_paused = true)]
    async fn a_hand_over_in_the_middle_of_the_end_gives_clients_the_time_to_notice() {
        let (drain, readiness) = (Drain::new(), Readiness::new());
        let hold = drain.hold(Phase::Leave);
        let mut servers = JoinSet::new();
        let going = drain.clone();
        // Its turn comes after the hand-over, so it is silent for ten seconds.
        let session = tokio::spawn(async move {
            hold.over().await;
            tokio::time::sleep(Duration::from_secs(12)).await;
            assert_eq!(going.phase(), Phase::Leave, "no stream ends, and nobody is cut, before it has noticed");
            drop(hold);
        });
        let other = drain.clone();
        servers.spawn(async move {
            other.reached(Phase::Leave).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            other.request(Request::hand_over("process 2"));
        });
        drain.request(Request::end("SIGTERM"));
        let plan = Plan { lame_duck: Duration::from_secs(1), ..PLAN };
        let admin = drain.clone();
        let clean = drain_all(&drain, plan, &readiness, servers, async move { admin.reached(Phase::Done).await }).await;
        session.await.expect("it had its time");
        assert!(clean);
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_in_a_handshake_when_another_process_takes_over_is_waited_for() {
        for (takes, waited) in
            [(Duration::from_secs(4), Duration::from_secs(5)), (Duration::MAX, Duration::from_secs(6))]
        {
            let (drain, readiness) = (Drain::new(), Readiness::new());
            let greeting = drain.greet();
            let handshake = tokio::spawn(async move {
                tokio::time::sleep(takes).await;
                drop(greeting);
            });
            let began = Instant::now();
            drain.request(Request::hand_over("process 2"));
            let admin = drain.clone();
            let admin = async move { admin.reached(Phase::Done).await };
            assert!(drain_all(&drain, PLAN, &readiness, JoinSet::new(), admin).await);
            assert_eq!(began.elapsed(), waited);
            handshake.abort();
        }
    }
}
