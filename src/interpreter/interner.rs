//! The request's own dtabs, each kept once.

use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, LazyLock, OnceLock, Weak};

use parking_lot::Mutex;

use crate::name::{Dtab, IndexedDtab};
use crate::store::{Client, OverBudget};

/// A request's own dtab, indexed. Equal ones that are in use at the same time are one; comparing is a pointer compare.
#[derive(Clone)]
pub struct LocalDtab(Arc<Interned>);

struct Interned {
    dtab: IndexedDtab,
    /// The size of the table, in nodes of its trees.
    nodes: usize,
    /// Its text, once somebody wants it.
    text: OnceLock<Arc<str>>,
    owner: Option<(Interner, Client)>,
}

/// Keeps each local dtab once, and counts how many each client uses.
#[derive(Clone, Default)]
pub(super) struct Interner {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    dtabs: HashMap<Dtab, Weak<Interned>>,
    clients: HashMap<Client, Share>,
}

/// What a client uses.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    dtabs: usize,
    nodes: usize,
}

/// How many different local dtabs one client may use at a time.
const MAX_PER_CLIENT: usize = 1_000;
/// How many nodes the trees of all of them may have.
const MAX_NODES_PER_CLIENT: usize = 250_000;

static EMPTY: LazyLock<LocalDtab> = LazyLock::new(|| {
    let (dtab, text) = (IndexedDtab::new(Dtab::empty()), OnceLock::new());
    LocalDtab(Arc::new(Interned { dtab, nodes: 0, text, owner: None }))
});

// === impl LocalDtab ===

impl LocalDtab {
    /// No dentries.
    pub fn empty() -> Self {
        EMPTY.clone()
    }

    /// Are there no dentries?
    pub fn is_empty(&self) -> bool {
        self.0.dtab.dtab().is_empty()
    }

    /// The table.
    pub fn indexed(&self) -> &IndexedDtab {
        &self.0.dtab
    }

    /// Its text, as it is sent to other name servers.
    pub(super) fn text(&self) -> &Arc<str> {
        self.0.text.get_or_init(|| self.0.dtab.dtab().to_string().into())
    }

    /// The number of nodes of its trees.
    pub(super) fn nodes(&self) -> usize {
        self.0.nodes
    }
}

impl PartialEq for LocalDtab {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for LocalDtab {}

impl Hash for LocalDtab {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

impl fmt::Debug for LocalDtab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LocalDtab").field(&self.0.dtab.dtab().to_string()).finish()
    }
}

// === impl Interner ===

impl Interner {
    /// The one copy of `dtab`.
    pub(super) fn intern(&self, client: Client, dtab: Dtab) -> Result<LocalDtab, OverBudget> {
        if dtab.is_empty() {
            return Ok(LocalDtab::empty());
        }
        if let Some(known) = self.state.lock().dtabs.get(&dtab).and_then(Weak::upgrade) {
            return Ok(LocalDtab(known));
        }
        let indexed = IndexedDtab::new(dtab.clone()); // outside the lock: it may be large
        let mut state = self.state.lock();
        if let Some(known) = state.dtabs.get(&dtab).and_then(Weak::upgrade) {
            return Ok(LocalDtab(known));
        }
        let (len, nodes) = (state.dtabs.len(), dtab.nodes(MAX_NODES_PER_CLIENT));
        let share = state.clients.get(&client).copied().unwrap_or_default();
        let over = |table, len, budget, share| Err(OverBudget { table, len, budget, share, client });
        if share.dtabs >= MAX_PER_CLIENT {
            return over("local dtabs", len, MAX_PER_CLIENT, share.dtabs);
        }
        if share.nodes + nodes > MAX_NODES_PER_CLIENT {
            return over("entries of local dtabs", share.nodes + nodes, MAX_NODES_PER_CLIENT, share.nodes);
        }
        state.clients.insert(client, Share { dtabs: share.dtabs + 1, nodes: share.nodes + nodes });
        let interned =
            Arc::new(Interned { dtab: indexed, nodes, text: OnceLock::new(), owner: Some((self.clone(), client)) });
        state.dtabs.insert(dtab, Arc::downgrade(&interned));
        Ok(LocalDtab(interned))
    }

    fn forget(&self, client: Client, dtab: &Dtab, nodes: usize) {
        let mut state = self.state.lock();
        // The same table may have been interned anew since the last user let go.
        if state.dtabs.get(dtab).is_some_and(|known| known.strong_count() == 0) {
            state.dtabs.remove(dtab);
        }
        if let Some(share) = state.clients.get_mut(&client) {
            share.dtabs -= 1;
            share.nodes -= nodes;
            if share.dtabs == 0 {
                state.clients.remove(&client);
            }
        }
    }
}

impl Drop for Interned {
    fn drop(&mut self) {
        if let Some((interner, client)) = self.owner.take() {
            interner.forget(client, self.dtab.dtab(), self.nodes);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    fn client(n: u8) -> Client {
        Client(IpAddr::V4(Ipv4Addr::new(192, 0, 2, n)))
    }

    fn dtab(n: usize) -> Dtab {
        Dtab::parse(&format!("/a=>/b{n}")).expect("dtab")
    }

    #[test]
    fn equal_local_dtabs_are_one_for_all_clients() {
        let interner = Interner::default();
        let first = interner.intern(client(1), dtab(1)).expect("room");
        assert_eq!(interner.intern(client(2), dtab(1)).expect("room"), first);
        assert_ne!(interner.intern(client(2), dtab(2)).expect("room"), first);
    }

    #[test]
    fn a_dropped_local_dtab_leaves_nothing_behind() {
        let interner = Interner::default();
        drop(interner.intern(client(1), dtab(1)).expect("room"));
        let state = interner.state.lock();
        assert!(state.dtabs.is_empty() && state.clients.is_empty());
    }

    #[test]
    fn a_client_with_a_thousand_local_dtabs_is_refused_the_next_and_others_are_not() {
        let interner = Interner::default();
        let mut held: Vec<_> =
            (0..1000).map(|n| interner.intern(client(1), dtab(n)).expect("within the limit")).collect();
        interner.intern(client(1), dtab(5)).expect("a known one is no new one");
        interner.intern(client(1), dtab(1000)).expect_err("one too many");
        interner.intern(client(2), dtab(1000)).expect("another client");
        held.pop();
        interner.intern(client(1), dtab(2000)).expect("room again");
    }

    #[test]
    fn a_few_huge_local_dtabs_are_as_much_as_many_small_ones() {
        let interner = Interner::default();
        let huge = |n: usize| Dtab::parse(&format!("/a=>/b{n}{}", "&/c".repeat(99_998))).expect("dtab");
        let first = interner.intern(client(1), huge(1)).expect("room");
        let _second = interner.intern(client(1), huge(2)).expect("room");
        let refused = interner.intern(client(1), huge(3)).expect_err("too much");
        assert_eq!((refused.len, refused.budget, refused.share), (300_000, 250_000, 200_000));
        interner.intern(client(2), huge(3)).expect("another client");
        drop(first);
        interner.intern(client(1), huge(3)).expect("room again");
    }
}
