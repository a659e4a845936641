//! Memory for what is large, shared by all connections of a server.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// How long somebody waits for room.
const PATIENCE: Duration = Duration::from_secs(30);
/// Room is given in pieces of so many bytes.
const PIECE: usize = 4 << 10;

/// Memory for what clients send that is large. Who finds none has to wait, so that a few hundred clients cannot have it
/// all by announcing megabytes.
#[derive(Clone, Debug)]
pub struct Room {
    /// Counts pieces of [`PIECE`] bytes.
    pieces: Arc<Semaphore>,
}

/// Room that was taken: to be kept for as long as what is in it.
#[derive(Debug)]
pub struct Taken(OwnedSemaphorePermit);

// === impl Room ===

impl Room {
    /// What is not larger than this needs no room, where little of it comes at a time.
    pub const LARGE: usize = 64 << 10;

    /// Room for `times` of the largest, which has `largest` bytes.
    pub fn new(largest: usize, times: usize) -> Self {
        let pieces = (pieces(largest) as usize).saturating_mul(times).min(Semaphore::MAX_PERMITS);
        Self { pieces: Arc::new(Semaphore::new(pieces)) }
    }

    /// Waits for room, all of it in one go: those who wait for the rest of theirs could wait for each other. None if
    /// there is none within 30 s.
    pub async fn take(&self, bytes: usize) -> Option<Taken> {
        let taken = timeout(PATIENCE, self.pieces.clone().acquire_many_owned(pieces(bytes))).await;
        taken.ok().and_then(Result::ok).map(Taken)
    }
}

// === impl Taken ===

impl Taken {
    /// Gives back what is not needed for so many bytes.
    #[must_use]
    pub fn shrunk(mut self, bytes: usize) -> Option<Self> {
        self.0.split((pieces(bytes) as usize).min(self.0.num_permits())).map(Self)
    }
}

fn pieces(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(PIECE)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn there_is_room_for_a_few_of_the_largest_and_the_next_is_told() {
        let room = Room::new(1 << 20, 4);
        let mut taken = Vec::new();
        for _ in 0..4 {
            taken.push(room.take(1 << 20).await.expect("room"));
        }
        assert!(room.take(Room::LARGE + 1).await.is_none());
        let small = taken.pop().and_then(|last| last.shrunk(Room::LARGE + 1));
        let _other = room.take(1 << 19).await.expect("what a smaller one does not need is given back");
        drop(small);
    }
}
