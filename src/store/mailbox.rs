//! Mailbox: how one consumer waits on many cells.

use std::cell::RefCell;
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
    /// Its wakes are never held back.
    is_prompt: bool,
}

#[derive(Debug, Default)]
struct Marks {
    order: Vec<Key>,
    /// One bit a key: is it in `order`?
    present: Vec<u64>,
}

thread_local! {
    /// Where this thread's wakes go while they are held back.
    static HELD: RefCell<Option<Vec<Arc<Shared>>>> = const { RefCell::new(None) };
}

/// Wakes that were held back: the marks are made, their consumers do not run yet. Dropping them wakes all.
///
/// One change marks keys of thousands of consumers, and several keys of each. Those who are woken when all is marked
/// take everything in one turn; and those who are woken in portions leave room for other tasks.
#[derive(Debug, Default)]
pub(super) struct Wakes {
    held: Vec<Arc<Shared>>,
}

/// Holds back the wakes of this thread until it is dropped. Must not live across an await.
pub(super) struct Holding<'w> {
    wakes: &'w mut Wakes,
}

// === impl Wakes ===

impl Wakes {
    /// Holds back the wakes that this thread would make.
    pub(super) fn hold(&mut self) -> Holding<'_> {
        let held = std::mem::take(&mut self.held);
        HELD.with(|place| *place.borrow_mut() = Some(held));
        Holding { wakes: self }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Wakes some of the consumers, those first who were marked first.
    pub(super) fn wake(&mut self, most: usize) {
        let count = self.held.len().min(most);
        self.held.drain(..count).for_each(|shared| shared.wake.notify_one());
    }
}

impl Drop for Wakes {
    fn drop(&mut self) {
        self.wake(usize::MAX);
    }
}

// === impl Holding ===

impl Drop for Holding<'_> {
    fn drop(&mut self) {
        self.wakes.held = HELD.with(|place| place.borrow_mut().take()).unwrap_or_default();
    }
}

// === impl Mailbox ===

impl Mailbox {
    /// An empty mailbox.
    pub fn new() -> Self {
        Self::default()
    }

    /// A mailbox whose consumer passes on what it is told, and is woken at once.
    pub(super) fn prompt() -> Self {
        Self { shared: Arc::new(Shared { is_prompt: true, ..Shared::default() }) }
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
        let held_back = HELD.with(|place| match &mut *place.borrow_mut() {
            Some(held) if !self.shared.is_prompt => {
                held.push(self.shared.clone());
                true
            }
            _ => false,
        });
        if !held_back {
            self.shared.wake.notify_one();
        }
    }
}

fn place(key: Key) -> (usize, u64) {
    (key.0 as usize / 64, 1 << (key.0 % 64))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

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

    #[tokio::test]
    async fn wakes_that_are_held_back_are_made_in_portions_and_when_dropped() {
        let woken = Arc::new(AtomicUsize::new(0));
        let markers: Vec<Marker> = (0..3)
            .map(|_| {
                let (mailbox, woken) = (Mailbox::new(), woken.clone());
                let marker = mailbox.marker();
                tokio::spawn(async move {
                    loop {
                        mailbox.marked().await;
                        mailbox.take_marked(&mut Vec::new());
                        woken.fetch_add(1, Ordering::Relaxed);
                    }
                });
                marker
            })
            .collect();
        // All tasks of this runtime take turns, so after this one they have done what they can.
        let woken = async || {
            tokio::task::yield_now().await;
            woken.swap(0, Ordering::Relaxed)
        };
        assert_eq!(woken().await, 0);
        let mut wakes = Wakes::default();
        {
            let _holding = wakes.hold();
            for marker in &markers {
                marker.mark(Key(1));
                marker.mark(Key(2));
            }
        }
        assert_eq!(woken().await, 0);
        wakes.wake(1);
        assert_eq!(woken().await, 1);
        drop(wakes);
        assert_eq!(woken().await, 2);
        // The thread wakes as before.
        markers[0].mark(Key(1));
        assert_eq!(woken().await, 1);
    }
}
