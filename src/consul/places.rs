//! Places that are shared by groups: within a group, first come first served.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// A number of places.
pub(super) struct Places<G: Ord + Clone> {
    sharing: Sharing,
    state: Mutex<State<G>>,
}

/// Which group gets a place that is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sharing {
    /// The first one in order of which somebody waits.
    InOrder,
    /// One that holds fewer places than are free: so however many places some groups hold for long, a few stay for those
    /// that come later.
    Fairly,
}

struct State<G: Ord + Clone> {
    /// Below 0 while more are held than there are to be.
    free: isize,
    ticket: u64,
    groups: BTreeMap<G, Group<G>>,
}

struct Group<G: Ord + Clone> {
    held: isize,
    /// By ticket.
    waiting: BTreeMap<u64, oneshot::Sender<Place<G>>>,
}

/// A place, until it is dropped.
pub(super) struct Place<G: Ord + Clone> {
    places: Arc<Places<G>>,
    group: G,
}

/// One who waits, and who may give up.
struct Waiting<'a, G: Ord + Clone> {
    places: &'a Places<G>,
    group: G,
    ticket: u64,
}

// === impl Places ===

impl<G: Ord + Clone> Places<G> {
    pub(super) fn new(sharing: Sharing, size: usize) -> Arc<Self> {
        let state = State { free: size as isize, ticket: 0, groups: BTreeMap::new() };
        Arc::new(Self { sharing, state: Mutex::new(state) })
    }

    /// A place, when it is the turn of who asks.
    pub(super) async fn take(self: &Arc<Self>, group: G) -> Place<G> {
        let (sender, granted) = oneshot::channel();
        let _waiting = {
            let mut state = self.state.lock();
            state.ticket += 1;
            let ticket = state.ticket;
            state.group(&group).waiting.insert(ticket, sender);
            Waiting { places: self, group, ticket }
        };
        self.hand_out();
        granted.await.expect("the other end is held until a place is sent, or until this future is dropped")
    }

    /// How many are held.
    pub(super) fn held(&self) -> usize {
        let state = self.state.lock();
        let held: isize = state.groups.values().map(|group| group.held).sum();
        held.unsigned_abs()
    }

    /// There are `before` places, and will be `now`.
    pub(super) fn resize(self: &Arc<Self>, before: usize, now: usize) {
        self.state.lock().free += now as isize - before as isize;
        self.hand_out();
    }

    fn hand_out(self: &Arc<Self>) {
        // What a waiter that has just gone did not take is dropped outside of the lock, and comes back here.
        while let Some((group, waiter)) = self.next() {
            drop(waiter.send(Place { places: self.clone(), group }));
        }
    }

    /// Takes a free place for who is next.
    fn next(&self) -> Option<(G, oneshot::Sender<Place<G>>)> {
        let mut state = self.state.lock();
        let free = state.free;
        if free <= 0 {
            return None;
        }
        let has_turn = |group: &Group<G>| self.sharing == Sharing::InOrder || free > group.held;
        let next = state.groups.iter_mut().find(|(_, group)| has_turn(group) && !group.waiting.is_empty())?;
        let (name, group) = (next.0.clone(), next.1);
        let (_, waiter) = group.waiting.pop_first()?;
        group.held += 1;
        state.free -= 1;
        Some((name, waiter))
    }
}

// === impl State ===

impl<G: Ord + Clone> State<G> {
    fn group(&mut self, name: &G) -> &mut Group<G> {
        self.groups.entry(name.clone()).or_insert_with(|| Group { held: 0, waiting: BTreeMap::new() })
    }

    /// Only groups that hold or want something are remembered.
    fn forget(&mut self, name: &G) {
        if self.groups.get(name).is_some_and(|group| group.held == 0 && group.waiting.is_empty()) {
            self.groups.remove(name);
        }
    }
}

// === impl Place ===

impl<G: Ord + Clone> Drop for Place<G> {
    fn drop(&mut self) {
        {
            let mut state = self.places.state.lock();
            state.free += 1;
            state.group(&self.group).held -= 1;
            state.forget(&self.group);
        }
        self.places.hand_out();
    }
}

// === impl Waiting ===

impl<G: Ord + Clone> Drop for Waiting<'_, G> {
    fn drop(&mut self) {
        let mut state = self.places.state.lock();
        state.group(&self.group).waiting.remove(&self.ticket);
        state.forget(&self.group);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn earlier_groups_come_first_and_within_one_who_came_first() {
        let places = Places::new(Sharing::InOrder, 1);
        let held = places.take("b").await;
        let mut waiting = Vec::new();
        for (group, name) in [("c", "c1"), ("b", "b1"), ("c", "c2"), ("b", "b2"), ("a", "a1")] {
            let mut taken = Box::pin(places.take(group));
            assert!((&mut taken).now_or_never().is_none());
            waiting.push((name, taken));
        }
        waiting.retain(|(name, _)| *name != "b1"); // gives up
        let (mut order, mut held) = (Vec::new(), Some(held));
        while held.take().is_some() {
            for (name, taken) in &mut waiting {
                held = taken.now_or_never();
                if held.is_some() {
                    order.push(*name);
                    break;
                }
            }
            let got = order.last().copied();
            waiting.retain(|(name, _)| Some(*name) != got);
        }
        assert_eq!(order, ["a1", "b2", "c1", "c2"]);
        assert!(places.state.lock().groups.is_empty(), "nothing is left behind");
    }

    #[tokio::test]
    async fn however_many_groups_keep_what_they_get_there_is_a_place_for_the_next() {
        let places = Places::new(Sharing::Fairly, 21);
        let (mut held, mut counts) = (Vec::new(), Vec::new());
        for group in 0..4 {
            let before = held.len();
            while let Some(place) = places.take(group).now_or_never() {
                held.push(place);
            }
            counts.push(held.len() - before);
        }
        assert_eq!(counts, [11, 5, 3, 1]);
        assert!(places.take(9).now_or_never().is_some(), "and one who gives it back at once is never refused");
        assert!(places.take(0).now_or_never().is_none());
        held.clear();
        assert!(places.take(0).now_or_never().is_some());
        assert!(places.state.lock().groups.is_empty(), "nothing is left behind");
    }

    #[tokio::test]
    async fn there_may_be_fewer_places_than_are_held_and_more_again() {
        let places = Places::new(Sharing::InOrder, 3);
        let (one, two, three) = (places.take(()).await, places.take(()).await, places.take(()).await);
        places.resize(3, 1);
        drop((one, two));
        assert!(places.take(()).now_or_never().is_none());
        drop(three);
        let one = places.take(()).await;
        let mut next = Box::pin(places.take(()));
        assert!((&mut next).now_or_never().is_none());
        places.resize(1, 2);
        assert!(next.now_or_never().is_some());
        drop(one);
    }
}
