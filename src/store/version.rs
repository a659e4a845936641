//! Versions: one counter for the whole process.

use std::num::NonZeroU64;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The version of a cell's value. Only equality and "newer within this process" mean anything.
///
/// All cells draw from one counter whose start cannot be predicted, so that neither a cell made anew nor a
/// restarted process repeats a version that a client may still hold (linkerd#807).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(NonZeroU64);

/// Starts in the lower half of the range, which leaves 2^63 versions before the counter could wrap.
static FIRST: LazyLock<u64> = LazyLock::new(|| (rand::random::<u64>() >> 1) | 1);
static NEXT: LazyLock<AtomicU64> = LazyLock::new(|| AtomicU64::new(*FIRST));

impl Version {
    /// Draws a version that this process has not used before.
    pub fn next() -> Self {
        Self(NonZeroU64::new(NEXT.fetch_add(1, Ordering::Relaxed)).unwrap_or(NonZeroU64::MIN))
    }

    /// Is this the stamp of a version that another process has drawn? An empty one is nobody's.
    pub fn is_foreign(stamp: &[u8]) -> bool {
        match stamp.try_into().map(u64::from_be_bytes) {
            Ok(number) => number < *FIRST || number >= NEXT.load(Ordering::Relaxed),
            Err(_) => !stamp.is_empty(),
        }
    }

    /// The first number of this process, and the next one.
    pub fn given() -> (u64, u64) {
        (*FIRST, NEXT.load(Ordering::Relaxed))
    }

    /// The number behind the version, from which stamps are made.
    pub fn get(self) -> u64 {
        self.0.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_only_go_up() {
        let (a, b) = (Version::next(), Version::next());
        assert!(b > a);
    }

    #[test]
    fn stamps_of_other_processes_are_told_from_our_own() {
        let own = Version::next().get();
        assert!(!Version::is_foreign(&own.to_be_bytes()) && !Version::is_foreign(b""));
        assert!(Version::is_foreign(&(own + (1 << 40)).to_be_bytes()) && Version::is_foreign(&0_u64.to_be_bytes()));
        assert!(Version::is_foreign(b"one"));
    }
}
