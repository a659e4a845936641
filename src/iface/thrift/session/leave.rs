//! The way out. A router that is told to go elsewhere, and then gets all its answers in one turn, asks elsewhere without
//! noticing anything; one whose polls are cut waits for a while before it asks again.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use rand::RngExt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use super::dialect::Dialect;
use super::{End, Session};
use crate::mux::{Message, Tag};
use crate::runtime::{Drain, Greeting, Hold, Phase};

/// How long a client is waited for that was told to go.
const TOLD: Duration = Duration::from_secs(1);
/// How long pings are not answered before polls are: a router misses one after 4 s, and sends one every 5 s.
pub const SILENCE: Duration = Duration::from_secs(10);
/// How long a client may take to close after its last answer, before we do.
const FAREWELL: Duration = Duration::from_millis(500);
/// The same for a client that has not said yet that it knows: it may be asking something at this moment.
const LONG_FAREWELL: Duration = Duration::from_secs(3);

/// How far a session is on its way out.
pub(super) struct Leaving {
    stage: Stage,
    /// The client has said that it goes.
    known: bool,
    /// Nothing that is left to wait for is worth waiting for.
    last: bool,
    hold: Option<Hold>,
    /// Until it is known what the client speaks.
    greeting: Option<Greeting>,
    drain: Drain,
    /// The phase in which it leaves: a second one for who came when the others had gone.
    leaves_at: Phase,
    next_phase: Pin<Box<dyn Future<Output = ()> + Send>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Not going.
    Serving,
    /// Going when its turn comes.
    Placed { at: Instant },
    /// The client was told, and may take so long to say that it knows.
    Told { until: Instant },
    /// Pings are not answered, so that the client finds out by itself.
    Silent { until: Instant },
    /// Polls are answered at once.
    Answering,
    /// All have been. Once the time is over (None) what is still under way is waited for.
    Going { until: Option<Instant> },
}

// === impl Leaving ===

impl Leaving {
    pub(super) fn new(drain: &Drain) -> Self {
        let leaves_at = if drain.phase() == Phase::Away { Phase::LeaveAgain } else { Phase::Leave };
        let next_phase = reached(drain, leaves_at);
        Self {
            stage: Stage::Serving,
            known: false,
            last: false,
            hold: None,
            greeting: Some(drain.greet()),
            drain: drain.clone(),
            leaves_at,
            next_phase,
        }
    }

    /// Waits for the next phase of the drain that matters. Cancel safe.
    pub(super) async fn next_phase(&mut self) {
        self.next_phase.as_mut().await;
    }

    /// Is it on its way out?
    pub(super) fn is_leaving(&self) -> bool {
        self.stage != Stage::Serving
    }

    /// Are pings not to be answered?
    pub(super) fn is_silent(&self) -> bool {
        matches!(self.stage, Stage::Silent { .. })
    }

    /// Has the client been told to go?
    pub(super) fn is_told(&self) -> bool {
        matches!(self.stage, Stage::Told { .. } | Stage::Answering | Stage::Going { .. })
    }

    /// The client says that it goes.
    pub(super) fn client_knows(&mut self) {
        self.known = true;
        match &mut self.stage {
            Stage::Told { until } => *until = Instant::now(),
            Stage::Going { until: Some(until) } => *until = (*until).min(Instant::now() + FAREWELL),
            _ => {}
        }
    }

    /// Are polls answered at once?
    pub(super) fn answers_at_once(&self) -> bool {
        matches!(self.stage, Stage::Answering | Stage::Going { .. })
    }

    /// Are polls to be answered even if there is no value?
    pub(super) fn is_last(&self) -> bool {
        self.last
    }

    /// When it goes on by itself; perhaps a moment ago.
    pub(super) fn due(&self) -> Option<Instant> {
        match self.stage {
            Stage::Serving | Stage::Answering => None,
            Stage::Placed { at: due } | Stage::Told { until: due } | Stage::Silent { until: due } => Some(due),
            Stage::Going { until } => until,
        }
    }

    /// The client has all its answers: nobody has to wait for this session any more.
    pub(super) fn let_go(&mut self) {
        self.hold = None;
    }
}

impl fmt::Debug for Leaving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leaving").field("stage", &self.stage).finish_non_exhaustive()
    }
}

fn reached(drain: &Drain, phase: Phase) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    let drain = drain.clone();
    Box::pin(async move { drain.reached(phase).await })
}

// === impl Session ===

impl<IO: AsyncRead + AsyncWrite + Unpin + Send> Session<IO> {
    /// The drain has gone on.
    pub(super) fn phase(&mut self) {
        let leaving = &mut self.leaving;
        let phase = leaving.drain.phase();
        let leaves_at = leaving.leaves_at;
        // Who leaves late has nothing to do with the end of streams.
        let next = [leaves_at, Phase::EndStreams.max(leaves_at), Phase::Close].into_iter().find(|next| *next > phase);
        leaving.next_phase = match next {
            Some(next) => reached(&leaving.drain, next),
            None => Box::pin(std::future::pending()),
        };
        if phase >= leaves_at && leaving.stage == Stage::Serving {
            // Spread over all sessions: their routers come to the other replicas one by one.
            let spread = self.server.settings.spread;
            let delay = if spread.is_zero() { spread } else { rand::rng().random_range(Duration::ZERO..=spread) };
            leaving.stage = Stage::Placed { at: Instant::now() + delay };
        }
        if leaves_at == Phase::Leave && phase >= Phase::EndStreams && !leaving.answers_at_once() {
            self.answer_everything(); // the time for waiting is over
        }
        if phase >= Phase::Close {
            self.leaving.last = true;
            self.answer_everything();
        }
    }

    /// Takes part in the drain, once it is known what the client speaks; and if the drain is under way, at once.
    pub(super) fn begin_leaving(&mut self) {
        let (leaving, now) = (&mut self.leaving, Instant::now());
        leaving.hold = Some(leaving.drain.hold(leaving.leaves_at));
        leaving.greeting = None;
        let phase = leaving.drain.phase();
        if phase < leaving.leaves_at {
            return;
        }
        let waits_for_silence = phase == leaving.leaves_at;
        // It came in spite of that, so its address is still known; what it asks is answered at once.
        leaving.stage = Stage::Going { until: Some(now + TOLD) };
        match self.must_notice() {
            _ if !self.dialect.is_mux() => {}
            false => Message::Tdrain(Tag::CONTROL).write(&mut self.output),
            // But a router that is not told would ask again at once, over and over: it is left to find out by itself.
            true if waits_for_silence => self.leaving.stage = Stage::Silent { until: now + SILENCE },
            true => {}
        }
    }

    /// Must the router find out by itself? There is one address, from which it comes to another process, or will.
    fn must_notice(&self) -> bool {
        self.server.settings.ping_silence || self.leaving.drain.is_handed_over()
    }

    /// Its turn has come.
    fn tell(&mut self) {
        let now = Instant::now();
        if !self.dialect.is_mux() {
            return self.answer_everything();
        }
        self.leaving.stage = if self.must_notice() {
            Stage::Silent { until: now + SILENCE }
        } else {
            Message::Tdrain(Tag::CONTROL).write(&mut self.output);
            Stage::Told { until: now + TOLD }
        };
    }

    fn answer_everything(&mut self) {
        self.leaving.stage = Stage::Answering;
        self.marked = self.rows.all_waiting();
        self.give_up_held();
    }

    /// Goes on with the way out, as far as it goes.
    pub(super) fn leave(&mut self) -> Result<(), End> {
        let now = Instant::now();
        match self.leaving.stage {
            Stage::Serving => {}
            // A handshake is under way: nothing may be said before it is over, and that does not take long.
            _ if matches!(self.dialect, Dialect::Probed { .. }) => {
                if self.leaving.last {
                    return Err(End::Done);
                }
            }
            Stage::Placed { at } if at <= now => self.tell(),
            Stage::Told { until } | Stage::Silent { until } if until <= now => self.answer_everything(),
            Stage::Placed { .. } | Stage::Told { .. } | Stage::Silent { .. } => {}
            Stage::Answering => {}
            Stage::Going { until: Some(until) } if until > now => {}
            Stage::Going { .. } if self.is_quiet() => return Err(End::Done),
            Stage::Going { .. } => self.leaving.stage = Stage::Going { until: None },
        }
        if self.leaving.stage == Stage::Answering {
            self.deliver();
            if self.is_quiet() {
                if !self.dialect.is_mux() || self.leaving.last {
                    return Err(End::Done);
                }
                let farewell = if self.leaving.known || self.must_notice() { FAREWELL } else { LONG_FAREWELL };
                self.leaving.stage = Stage::Going { until: Some(now + farewell) };
            }
        }
        if self.leaving.answers_at_once() && self.has_only_polls_without_value() {
            self.leaving.hold = None; // they are answered as the last thing
        }
        Ok(())
    }

    /// Is there nothing but polls for which there is no value?
    fn has_only_polls_without_value(&self) -> bool {
        let waiting = self.rows.waiting();
        waiting > 0 && waiting == self.exchanges.len() && self.marked.is_empty() && self.output.is_sent()
    }

    /// Has everything been answered, and the answers sent?
    fn is_quiet(&self) -> bool {
        self.exchanges.is_empty() && self.inbox.is_empty() && self.output.is_sent()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_moment_that_passes_between_two_looks_is_not_lost() {
        let mut leaving = Leaving::new(&Drain::new());
        let at = Instant::now();
        tokio::time::advance(Duration::from_millis(1)).await;
        for stage in [Stage::Placed { at }, Stage::Told { until: at }, Stage::Silent { until: at }] {
            leaving.stage = stage;
            assert_eq!(leaving.due(), Some(at), "{stage:?}");
        }
        leaving.stage = Stage::Going { until: Some(at) };
        assert_eq!(leaving.due(), Some(at));
    }
}
