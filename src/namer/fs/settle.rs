//! When what a file says may be believed. A file is often written in place: it is empty for a moment, then half
//! written, and neither may reach a router.

use std::time::{Duration, SystemTime};

/// A file at rest for this long is complete if nobody said when its writer was done.
pub(super) const QUIET: Duration = Duration::from_millis(100);

/// A file that never rests is believed when it was found so for this long.
pub(super) const LIMIT: Duration = Duration::from_millis(250);

/// How long a closed file stays empty before that is believed: scripts empty a file and then append to it.
const EMPTY_CLOSED: Duration = Duration::from_millis(100);

/// The same while its writer may still have it open.
const EMPTY_OPEN: Duration = Duration::from_millis(500);

/// An empty file whose time lies ahead of our clock is believed when it was found so for this long.
const EMPTY_LIMIT: Duration = Duration::from_secs(1);

/// How long a name is gone before that is believed: some editors move a file away before they write the new one.
pub(super) const GONE: Duration = Duration::from_millis(100);

/// What is not believed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doubt {
    /// That the name is gone.
    Gone,
    /// That the file is empty.
    Empty,
    /// That the file is complete.
    Partial,
}

/// What is known of somebody writing to a file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Writing {
    /// Is there a change that has not been published?
    pub(super) changed: bool,
    /// When the last writer that is known of closed the file or renamed it into place.
    pub(super) done: Option<SystemTime>,
    /// What was doubted the last time the file was looked at, and for how long. It counts from the first look and not
    /// from the change: on a machine without time to look, what is seen once may still be seen in the wrong moment.
    pub(super) doubted: Option<(Doubt, Duration)>,
}

impl Writing {
    /// How much longer to wait before a file last modified at `modified` is believed, and what is doubted.
    pub(super) fn wait(&self, empty: bool, modified: SystemTime, now: SystemTime) -> Option<(Duration, Doubt)> {
        // A later modification is another writer's.
        let done = self.done.is_some_and(|done| modified <= done);
        let doubt = if empty { Doubt::Empty } else { Doubt::Partial };
        let (rest, limit) = match (done, doubt) {
            (true, Doubt::Partial | Doubt::Gone) => return None,
            (false, Doubt::Partial | Doubt::Gone) => (QUIET, Some(LIMIT)),
            (_, Doubt::Empty) if modified > now => (EMPTY_OPEN, Some(EMPTY_LIMIT)),
            (true, Doubt::Empty) => (EMPTY_CLOSED, None),
            (false, Doubt::Empty) => (EMPTY_OPEN, None),
        };
        let doubted = self.doubted.filter(|(kind, _)| *kind == doubt).map_or(Duration::ZERO, |(_, since)| since);
        let left = rest.saturating_sub(now.duration_since(modified).unwrap_or_default());
        let left = limit.map_or(left, |limit| left.min(limit.saturating_sub(doubted)));
        (!left.is_zero()).then_some((left, doubt))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(1_000_000 + ms)
    }

    /// Milliseconds left.
    fn wait(writing: Writing, empty: bool, modified: u64, now: u64) -> u128 {
        writing.wait(empty, at(modified), at(now)).map_or(0, |(left, _)| left.as_millis())
    }

    fn doubted(doubt: Doubt, ms: u64) -> Writing {
        Writing { changed: true, done: None, doubted: Some((doubt, Duration::from_millis(ms))) }
    }

    fn done(ms: u64) -> Writing {
        Writing { changed: true, done: Some(at(ms)), doubted: None }
    }

    #[test]
    fn a_file_at_rest_is_believed_at_once() {
        assert_eq!(wait(Writing::default(), false, 0, 100), 0);
        assert_eq!(wait(Writing::default(), true, 0, 500), 0);
    }

    #[test]
    fn a_fresh_file_is_believed_when_its_writer_is_done() {
        assert_eq!(wait(Writing::default(), false, 0, 30), 70);
        assert_eq!(wait(done(1), false, 0, 2), 0);
        assert_eq!(wait(done(1), false, 2, 3), 99, "somebody else wrote since");
    }

    #[test]
    fn emptiness_is_believed_late_and_only_at_rest() {
        assert_eq!(wait(done(1), true, 0, 2), 98);
        assert_eq!(wait(Writing::default(), true, 0, 30), 470);
        assert_eq!(wait(doubted(Doubt::Empty, 5_000), true, 1000, 1000), 500);
    }

    #[test]
    fn a_file_that_never_rests_is_believed_in_the_end() {
        assert_eq!(wait(doubted(Doubt::Partial, 200), false, 1000, 1000), 50);
        assert_eq!(wait(doubted(Doubt::Partial, 250), false, 1000, 1000), 0);
        assert_eq!(wait(doubted(Doubt::Empty, 250), false, 1000, 1000), 100, "the first look at a part");
    }

    #[test]
    fn a_clock_that_is_ahead_makes_nobody_wait_for_long() {
        assert_eq!(wait(doubted(Doubt::Partial, 250), false, 90_000, 1000), 0);
        assert_eq!(wait(doubted(Doubt::Empty, 990), true, 90_000, 1000), 10);
    }
}
