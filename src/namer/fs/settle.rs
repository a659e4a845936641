//! When what a file says may be believed. A file is often written in place: it is empty for a moment, then half
//! written, and neither may reach a router.

use std::time::{Duration, SystemTime};

/// A file at rest for this long is complete if nobody said when its writer was done.
pub(super) const QUIET: Duration = Duration::from_millis(100);

/// The longest time for which a file that never rests is not believed.
pub(super) const LIMIT: Duration = Duration::from_millis(250);

/// How long a closed file stays empty before that is believed: scripts empty a file and then append to it.
const EMPTY_CLOSED: Duration = Duration::from_millis(100);

/// The same while its writer may still have it open.
const EMPTY_OPEN: Duration = Duration::from_millis(500);

/// The longest time for which an empty file that never rests is not believed.
const EMPTY_LIMIT: Duration = Duration::from_secs(1);

/// How long a name is gone before that is believed: some editors move a file away before they write the new one.
pub(super) const GONE: Duration = Duration::from_millis(100);

/// What is known of somebody writing to a file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Writing {
    /// When the last writer that is known of closed the file or renamed it into place.
    pub(super) done: Option<SystemTime>,
    /// How long ago the first change was noticed that has not been published.
    pub(super) noticed: Option<Duration>,
}

impl Writing {
    /// Is there a change that has not been published?
    pub(super) fn noticed(&self) -> bool {
        self.noticed.is_some()
    }

    /// How much longer to wait before a file last modified at `modified` is believed.
    pub(super) fn wait(&self, empty: bool, modified: SystemTime, now: SystemTime) -> Option<Duration> {
        // A later modification is another writer's. A clock ahead of ours makes us wait for the limit at most.
        let done = self.done.is_some_and(|done| modified <= done);
        let (rest, limit) = match (done, empty) {
            (true, false) => return None,
            (true, true) => (EMPTY_CLOSED, EMPTY_LIMIT),
            (false, false) => (QUIET, LIMIT),
            (false, true) => (EMPTY_OPEN, EMPTY_LIMIT),
        };
        let age = now.duration_since(modified).unwrap_or_default();
        let left = rest.saturating_sub(age).min(limit.saturating_sub(self.noticed.unwrap_or_default()));
        (!left.is_zero()).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(1_000_000 + ms)
    }

    fn wait(writing: Writing, empty: bool, modified: u64, now: u64) -> u128 {
        writing.wait(empty, at(modified), at(now)).unwrap_or_default().as_millis()
    }

    fn noticed(ms: u64) -> Writing {
        Writing { done: None, noticed: Some(Duration::from_millis(ms)) }
    }

    fn done(ms: u64) -> Writing {
        Writing { done: Some(at(ms)), noticed: Some(Duration::ZERO) }
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
    fn emptiness_is_believed_late() {
        assert_eq!(wait(done(1), true, 0, 2), 98);
        assert_eq!(wait(Writing::default(), true, 0, 30), 470);
    }

    #[test]
    fn a_file_that_never_rests_is_believed_in_the_end() {
        assert_eq!(wait(noticed(200), false, 1000, 1000), 50);
        assert_eq!(wait(noticed(250), false, 1000, 1000), 0);
        assert_eq!(wait(noticed(990), true, 1000, 1000), 10);
        assert_eq!(wait(noticed(250), false, 90_000, 1000), 0, "a clock that is ahead");
    }
}
