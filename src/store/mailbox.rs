//! Mailbox: how one consumer waits on many cells.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// A consumer's own name for one of the cells it watches; dense small numbers are cheapest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(pub u32);

/// The consumer's half: it is woken when any of its keys is marked, and takes all of them in one turn.
///
/// A key is in the mailbox at most once, so a slow consumer costs no memory and skips to the newest value.
#[derive(Debug, Default)]
pub struct Mailbox {
    shared: Arc<Shared>,
}

/// The half that cells hold: marks a key and wakes the consumer.
#[derive(Clone, Debug)]
pub struct Marker {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    marks: Mutex<Marks>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct Marks {
    order: Vec<Key>,
    /// One bit a key: is it in `order`?
    present: Vec<u64>,
}

// === impl Mailbox ===

impl Mailbox {
    /// An empty mailbox.
    pub fn new() -> Self {
        Self::default()
    }

    /// A handle with which cells mark this mailbox.
    pub fn marker(&self) -> Marker {
        Marker { shared: self.shared.clone() }
    }

    /// Waits until at least one key is marked. Cancel safe; only one task may wait.
    pub async fn marked(&self) {
        while self.shared.marks.lock().order.is_empty() {
            // A mark between the check and the wait leaves a permit, so it is not missed.
            self.shared.wake.notified().await;
        }
    }

    /// Moves all marked keys into `into` (cleared first), oldest mark first.
    pub fn take_marked(&self, into: &mut Vec<Key>) {
        into.clear();
        let mut marks = self.shared.marks.lock();
        std::mem::swap(&mut marks.order, into);
        for key in into.iter() {
            let (word, bit) = place(*key);
            marks.present[word] &= !bit;
        }
    }
}

// === impl Marker ===

impl Marker {
    /// Marks `key`; a key that is already marked stays where it is and wakes nobody again.
    pub fn mark(&self, key: Key) {
        let (word, bit) = place(key);
        {
            let mut marks = self.shared.marks.lock();
            if marks.present.len() <= word {
                marks.present.resize(word + 1, 0);
            }
            if marks.present[word] & bit != 0 {
                return;
            }
            marks.present[word] |= bit;
            marks.order.push(key);
            if marks.order.len() > 1 {
                return; // the consumer has been woken for the first one and takes all
            }
        }
        self.shared.wake.notify_one();
    }
}

fn place(key: Key) -> (usize, u64) {
    (key.0 as usize / 64, 1 << (key.0 % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_key_is_taken_once_however_often_it_is_marked() {
        let mailbox = Mailbox::new();
        let marker = mailbox.marker();
        for _ in 0..1000 {
            marker.mark(Key(7));
            marker.mark(Key(70));
        }
        mailbox.marked().await;
        let mut taken = Vec::new();
        mailbox.take_marked(&mut taken);
        assert_eq!(taken, [Key(7), Key(70)]);
        mailbox.take_marked(&mut taken);
        assert!(taken.is_empty());
        marker.mark(Key(7));
        mailbox.marked().await;
        mailbox.take_marked(&mut taken);
        assert_eq!(taken, [Key(7)]);
    }

    #[tokio::test]
    async fn a_mark_from_another_thread_wakes_the_consumer() {
        let mailbox = Mailbox::new();
        let marker = mailbox.marker();
        let thread = std::thread::spawn(move || marker.mark(Key(1)));
        tokio::time::timeout(std::time::Duration::from_secs(5), mailbox.marked()).await.expect("woken");
        thread.join().expect("marker thread");
    }
}
