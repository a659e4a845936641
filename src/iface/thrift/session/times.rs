//! What a session does when nothing happens: its times, of which only the next one is waited for.

use std::pin::Pin;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, Sleep, sleep_until};

use super::dialect::Dialect;
use super::{End, Session};
use crate::mux::{Message, Tag};

/// A client that has begun to say what it speaks, and does not go on, is not waited for any longer. (One that says
/// nothing is left to TCP keepalive: pools connect in advance.)
const HANDSHAKE: Duration = Duration::from_secs(10);
/// A frame that has begun must be whole after this time.
const FRAME: Duration = Duration::from_secs(60);
/// A router of which nothing was heard for so long is asked whether it is there. (It pings every few seconds.)
const PING_AFTER: Duration = Duration::from_secs(30);
/// If it says nothing for so long after that, it is not.
const SILENCE: Duration = Duration::from_secs(60);
/// A client for which something waits for so long is a slow one.
const SLOW: Duration = Duration::from_secs(1);
/// When nothing at all is due.
const IDLE: Duration = Duration::from_secs(3_600);

/// Polls are timed in units of this.
pub(super) const TICK: Duration = Duration::from_millis(100);

/// Reasons for which sessions end, as metrics call them.
pub(super) const UNREAD: &str = "unread";
pub(super) const QUIET: &str = "read_timeout";
pub(super) const NO_ROOM: &str = "no_room";
const HALF_HANDSHAKE: &str = "half_handshake";
const HALF_FRAME: &str = "half_frame";
pub(super) const SILENT: &str = "silent";
const HALF_CLOSED: &str = "half_closed";

/// All of these.
pub(in crate::iface::thrift) const OVERDUE: [&str; 7] =
    [UNREAD, QUIET, NO_ROOM, HALF_HANDSHAKE, HALF_FRAME, SILENT, HALF_CLOSED];

/// The times of a session.
#[derive(Debug)]
pub(super) struct Times {
    began: Instant,
    /// The present, as of the last look: thousands of polls ask for it.
    now: Instant,
    sleep: Pin<Box<Sleep>>,
    /// When something was last read.
    heard: Instant,
    /// Nothing was heard since a ping of ours.
    pinged: bool,
    /// It has not been answered.
    expects_answer: bool,
    /// By when the handshake must be over, once it has begun.
    handshake: Option<Instant>,
    /// By when the frame must be whole that has begun.
    frame: Option<Instant>,
    /// Since when nothing was taken of what is to be written.
    unread: Option<Instant>,
    /// Until when a client that has closed its side is served.
    half_closed: Option<Instant>,
}

// === impl Times ===

impl Times {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self {
            began: now,
            now,
            sleep: Box::pin(sleep_until(now + IDLE)),
            heard: now,
            pinged: false,
            expects_answer: false,
            handshake: None,
            frame: None,
            unread: None,
            half_closed: None,
        }
    }

    /// Looks at the clock: where time has passed, that is after each wait, and while requests are worked on.
    pub(super) fn look(&mut self) -> Instant {
        self.now = Instant::now();
        self.now
    }

    pub(super) fn age(&self) -> Duration {
        self.now.saturating_duration_since(self.began)
    }

    /// The present, in ticks of the session's life.
    pub(super) fn now(&self) -> u32 {
        ticks(self.age())
    }

    /// The present, in milliseconds of the session's life; wraps around.
    pub(super) fn millis(&self) -> u32 {
        self.age().as_millis() as u32
    }

    /// How long ago that was.
    pub(super) fn since(&self, millis: u32) -> Duration {
        Duration::from_millis(self.millis().wrapping_sub(millis).into())
    }

    /// The moment that a tick stands for.
    fn moment(&self, tick: u32) -> Instant {
        self.began + TICK * tick
    }

    pub(super) fn heard(&mut self) {
        self.heard = self.now;
        self.pinged = false;
    }

    /// When that was, in ticks of the session's life.
    pub(super) fn heard_at(&self) -> u32 {
        ticks(self.heard.saturating_duration_since(self.began))
    }

    /// How long ago that was.
    pub(super) fn unheard(&self) -> Duration {
        self.now.saturating_duration_since(self.heard)
    }

    /// Is this an answer to a ping of ours?
    pub(super) fn ping_is_answered(&mut self) -> bool {
        std::mem::take(&mut self.expects_answer)
    }

    /// Something was written; perhaps everything.
    pub(super) fn wrote(&mut self, all: bool) {
        if self.unread.is_some_and(|since| self.now.duration_since(since) > SLOW) {
            self.heard(); // nothing is read meanwhile, so this is how a slow client shows that it is there
        }
        self.unread = if all { None } else { Some(self.now) };
    }

    /// Something is to be written.
    pub(super) fn writes(&mut self) {
        self.unread.get_or_insert(self.now);
    }

    pub(super) fn expect_handshake(&mut self) {
        self.handshake = Some(self.now + HANDSHAKE);
    }

    pub(super) fn handshake_is_over(&mut self) {
        self.handshake = None;
    }

    /// The first bytes of a frame are there, perhaps the first of all.
    pub(super) fn frame_has_begun(&mut self, first: bool) {
        let patience = if first { HANDSHAKE } else { FRAME };
        self.frame.get_or_insert(self.now + patience);
    }

    pub(super) fn no_frame_has_begun(&mut self) {
        self.frame = None;
    }

    pub(super) fn set_half_closed(&mut self, patience: Duration) {
        self.half_closed = Some(self.now + patience);
    }

    /// Wakes the session at `due`, or before: it looks then.
    pub(super) fn set(&mut self, due: Instant) {
        if due < self.sleep.deadline() || self.sleep.is_elapsed() {
            self.sleep.as_mut().reset(due);
        }
    }

    /// Waits for that.
    pub(super) async fn elapsed(&mut self) {
        self.sleep.as_mut().await;
    }
}

pub(super) fn ticks(time: Duration) -> u32 {
    u32::try_from(time.as_millis() / TICK.as_millis()).unwrap_or(u32::MAX)
}

// === impl Session ===

impl<IO: AsyncRead + AsyncWrite + Unpin + Send> Session<IO> {
    /// When the next of all times is due.
    pub(super) fn due(&mut self) -> Instant {
        if !self.output.is_sent() {
            self.times.writes();
        }
        let times = &self.times;
        let written = times.unread.map(|since| since + self.write_patience());
        // With some in hand already, the next ones have to wait for these.
        let rows = Some(self.rows.due()).filter(|tick| *tick != u32::MAX && self.aged.is_empty());
        let rows = rows.map(|tick| times.moment(tick));
        let all = [times.handshake, times.frame, written, times.half_closed, rows, self.keepalive(), self.quiet()];
        // During a handshake the way out has to wait.
        let leaving = self.leaving.due().filter(|_| !matches!(self.dialect, Dialect::Probed { .. }));
        let next = all.into_iter().chain([leaving]).flatten().min();
        next.unwrap_or(times.now + IDLE)
    }

    /// When to ask whether the client is there, or when it has not answered that.
    fn keepalive(&self) -> Option<Instant> {
        let heard = self.times.heard;
        self.dialect.is_negotiated().then(|| match self.times.pinged {
            false => heard + PING_AFTER,
            true => heard + PING_AFTER + SILENCE,
        })
    }

    /// When a client has been silent for too long that waits for nothing.
    fn quiet(&self) -> Option<Instant> {
        let patience = self.server.read_timeout?;
        (self.exchanges.is_empty() && self.inbox.is_empty()).then(|| self.times.heard + patience)
    }

    /// Deals with what is due.
    pub(super) fn timed(&mut self) -> Result<(), End> {
        let now = self.times.now;
        let is_due = |when: Option<Instant>| when.is_some_and(|when| when <= now);
        let times = &self.times;
        let unread = times.unread.map(|since| since + self.write_patience());
        for (when, what) in [
            (times.handshake, HALF_HANDSHAKE),
            (times.frame, HALF_FRAME),
            (unread, UNREAD),
            (times.half_closed, HALF_CLOSED),
            (self.quiet(), QUIET),
        ] {
            if is_due(when) {
                return Err(End::TimedOut(what));
            }
        }
        if is_due(self.keepalive()) {
            if self.times.pinged {
                return Err(End::TimedOut(SILENT));
            }
            (self.times.pinged, self.times.expects_answer) = (true, true);
            Message::Tping(Tag::CONTROL).write(&mut self.output);
        }
        let tick = self.times.now();
        if self.aged.is_empty() && self.rows.due() <= tick {
            let look = self.watched.look(&self.times);
            let swept = self.rows.sweep(look, 2 * ticks(self.server.settings.max_poll_age));
            self.aged = self.watched.swept(swept, self.server.settings.watches);
        }
        Ok(())
    }
}
