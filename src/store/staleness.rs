//! How much of what is known is not as fresh as it should be.

use tokio::time::Instant;

use super::{Snapshot, Standing};

/// Values that are the last good ones because their source fails. It is computed when somebody asks: going stale wakes
/// nobody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Staleness {
    /// How many there are.
    pub count: usize,
    /// Since when the one is that has been so for longest.
    pub since: Option<Instant>,
}

impl Staleness {
    /// Takes a value into account.
    pub fn add<T>(&mut self, snapshot: &Snapshot<T>) {
        if let (Some(_), Standing::Stale { since, .. }) = (snapshot.value(), &snapshot.standing) {
            self.add_since(*since);
        }
    }

    /// Takes a value into account that has been stale for this time.
    pub fn add_since(&mut self, since: Instant) {
        self.count += 1;
        self.since = Some(self.since.map_or(since, |oldest| oldest.min(since)));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::store::Cell;

    #[tokio::test(start_paused = true)]
    async fn only_last_good_values_count_and_the_oldest_is_told() {
        let (fresh, first, second, never) = (Cell::ready(1), Cell::ready(2), Cell::ready(3), Cell::<i32>::new());
        let began = Instant::now();
        first.fail("gone");
        never.fail("gone");
        tokio::time::advance(Duration::from_secs(5)).await;
        second.fail("gone");
        let mut staleness = Staleness::default();
        [fresh, first, second, never].iter().for_each(|cell| staleness.add(&cell.snapshot()));
        assert_eq!(staleness, Staleness { count: 2, since: Some(began) });
    }
}
