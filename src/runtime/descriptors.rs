//! File descriptors: the limit of them, and one in reserve for the moment it is reached.

use std::fs::File;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What is assumed where the system names no limit.
const UNLIMITED: u64 = 1 << 20;

/// Raises the limit of open descriptors as far as the process may, logs it and returns it.
pub fn raise_descriptor_limit() -> usize {
    let before = getrlimit(Resource::Nofile);
    let most = before.maximum.unwrap_or(UNLIMITED);
    let had = before.current.unwrap_or(most);
    let now = if had < most {
        match setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: before.maximum }) {
            Ok(()) => most,
            Err(error) => {
                tracing::warn!(limit = had, %error, "the limit of open descriptors could not be raised");
                had
            }
        }
    } else {
        had
    };
    tracing::info!(limit = now, before = had, "open descriptors");
    usize::try_from(now).unwrap_or(usize::MAX)
}

/// A descriptor kept open so that there is one to give when all are used: without it a connection could only be left
/// waiting in the listener's queue, where its client learns nothing.
#[derive(Debug)]
pub(super) struct Spare(Option<File>);

impl Spare {
    pub(super) fn new() -> Self {
        Self(File::open("/dev/null").ok())
    }

    /// Gives the descriptor away; false when there is none.
    pub(super) fn release(&mut self) -> bool {
        self.0.take().is_some()
    }

    /// Takes one again, if there is one.
    pub(super) fn take_back(&mut self) {
        if self.0.is_none() {
            *self = Self::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_ends_up_at_what_the_system_allows() {
        let limit = raise_descriptor_limit();
        let system = getrlimit(Resource::Nofile);
        assert_eq!(system.current, system.maximum);
        assert_eq!(limit as u64, system.maximum.unwrap_or(UNLIMITED));
    }

    #[test]
    fn the_spare_is_given_once_until_taken_back() {
        let mut spare = Spare::new();
        assert!(spare.release());
        assert!(!spare.release());
        spare.take_back();
        assert!(spare.release());
    }
}
