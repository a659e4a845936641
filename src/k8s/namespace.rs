//! Who is interested in what of a namespace.
//!
//! A few names have a watch each, since the rights to watch a whole namespace may be lacking and most of it may be of no
//! interest. From a certain number on there is one watch of the whole namespace in their place, if it is allowed. All that
//! any of them learns passes the lock of the namespace, which lets nobody write but the watch in charge: a name has one
//! owner at any time, and one that is replaced has no say any more.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::collection::Collection;
use super::error::ApiError;
use super::reflector::{Reflector, Sink, Task, Way};
use super::{ApiServer, Journal, Kind, Object, Resource, Room, Select};

/// From so many names of a namespace on it is watched as a whole.
const WHOLE_FROM: usize = 20;

/// How long it is not tried again where that is forbidden.
const FORBIDDEN_FOR: Duration = Duration::from_secs(600);

/// A watch that was in charge is given up after so many refusals in a row that last for so long: a server that has just
/// started knows neither its rules nor all of its APIs.
const REFUSALS: u32 = 3;
const REFUSED_FOR: Duration = Duration::from_secs(30);

/// All that is watched of one kind at a server. Cloning shares it.
pub struct Namespaces<K: Kind> {
    shared: Arc<Shared<K>>,
}

struct Shared<K: Kind> {
    server: ApiServer,
    kind: Arc<K>,
    all: Mutex<HashMap<Box<str>, Weak<Namespace<K>>>>,
}

struct Namespace<K: Kind> {
    own: Weak<Self>,
    shared: Arc<Shared<K>>,
    name: Box<str>,
    state: Mutex<State<K::Value>>,
}

struct State<T> {
    /// By group.
    members: HashMap<Box<str>, Joined<T>>,
    whole: Option<Source<T>>,
    /// Until when the whole is not tried.
    forbidden_until: Option<Instant>,
    next: u64,
}

/// Somebody is interested in a group.
struct Joined<T> {
    id: u64,
    room: Arc<dyn Room<T>>,
    /// The watch of this group alone, unless that of the whole namespace is in charge.
    single: Option<Source<T>>,
}

/// A watch and what it knows.
struct Source<T> {
    id: u64,
    reflector: Reflector,
    objects: Collection<T>,
    /// Has it said anything yet?
    answered: bool,
    /// Refusals since it said something last, and when they began.
    refused: Option<(u32, Instant)>,
}

/// Keeps a group watched; dropping it ends that.
pub struct Member<K: Kind> {
    namespace: Arc<Namespace<K>>,
    group: Box<str>,
    id: u64,
}

/// The sink of one watch.
struct Feed<K: Kind> {
    namespace: Weak<Namespace<K>>,
    /// The group it is about; none: the whole namespace.
    group: Option<Box<str>>,
    id: u64,
}

// === impl Namespaces ===

impl<K: Kind> Namespaces<K> {
    /// Nothing is watched yet.
    pub fn new(server: ApiServer, kind: K) -> Self {
        Self { shared: Arc::new(Shared { server, kind: Arc::new(kind), all: Mutex::default() }) }
    }

    /// Watches a group of a namespace for `room`. What is known of it already is told before this returns.
    pub fn join(&self, namespace: &str, group: &str, room: Arc<dyn Room<K::Value>>) -> Member<K> {
        let namespace = self.shared.namespace(namespace);
        let id = namespace.join(group, room);
        Member { namespace, group: group.into(), id }
    }
}

impl<K: Kind> Clone for Namespaces<K> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<K: Kind> fmt::Debug for Namespaces<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Namespaces").field("server", &self.shared.server).finish_non_exhaustive()
    }
}

// === impl Shared ===

impl<K: Kind> Shared<K> {
    fn namespace(self: &Arc<Self>, name: &str) -> Arc<Namespace<K>> {
        let mut all = self.all.lock();
        if let Some(known) = all.get(name).and_then(Weak::upgrade) {
            return known;
        }
        if all.len() == all.capacity() {
            all.retain(|_, namespace| namespace.strong_count() > 0);
        }
        let (shared, kept) = (self.clone(), name.into());
        let state = State { members: HashMap::new(), whole: None, forbidden_until: None, next: 0 };
        let made = Arc::new_cyclic(|own: &Weak<_>| Namespace {
            own: own.clone(),
            shared,
            name: kept,
            state: Mutex::new(state),
        });
        all.insert(name.into(), Arc::downgrade(&made));
        made
    }
}

// === impl Namespace ===

impl<K: Kind> Namespace<K> {
    fn join(&self, group: &str, room: Arc<dyn Room<K::Value>>) -> u64 {
        let mut state = self.state.lock();
        let id = state.take_id();
        let known = state.whole.as_ref().filter(|whole| whole.answered).map(|whole| whole.objects.members(group));
        let single = match known {
            Some(members) => {
                room.publish(&members);
                None
            }
            None => Some(self.watch(&mut state, Some(group))),
        };
        // One who was there before has no say any more: his watch ends here.
        state.members.insert(group.into(), Joined { id, room, single });
        self.consider_whole(&mut state);
        id
    }

    fn leave(&self, group: &str, id: u64) {
        let mut state = self.state.lock();
        if state.members.get(group).is_some_and(|joined| joined.id == id) {
            state.members.remove(group);
        }
        if state.members.is_empty() {
            state.whole = None;
        }
    }

    fn journal(&self, group: &str) -> Option<Arc<Journal>> {
        let state = self.state.lock();
        let single = state.members.get(group).and_then(|joined| joined.single.as_ref());
        single.or(state.whole.as_ref()).map(|source| source.reflector.journal().clone())
    }

    /// Begins to watch the whole namespace where many names are of interest.
    fn consider_whole(&self, state: &mut State<K::Value>) {
        let forbidden = state.forbidden_until.is_some_and(|until| Instant::now() < until);
        if state.whole.is_none() && !forbidden && state.members.len() >= WHOLE_FROM {
            state.whole = Some(self.watch(state, None));
        }
    }

    /// A watch of a group, or of all there is.
    fn watch(&self, state: &mut State<K::Value>, group: Option<&str>) -> Source<K::Value> {
        let id = state.take_id();
        let kind = self.shared.kind.clone();
        let feed = Feed { namespace: self.own.clone(), group: group.map(Into::into), id };
        let reflector = Reflector::start(Task {
            server: self.shared.server.clone(),
            namespace: self.name.clone(),
            ways: ways(&*kind, group),
            kind,
            sink: Arc::new(feed),
        });
        Source { id, reflector, objects: Collection::default(), answered: false, refused: None }
    }

    /// The whole may not be watched: each name has its own watch again.
    fn give_up_whole(&self, state: &mut State<K::Value>) {
        state.whole = None;
        state.forbidden_until = Some(Instant::now() + FORBIDDEN_FOR);
        let alone: Vec<Box<str>> = state
            .members
            .iter()
            .filter(|(_, joined)| joined.single.is_none())
            .map(|(group, _)| group.clone())
            .collect();
        for group in alone {
            let source = self.watch(state, Some(&group));
            if let Some(joined) = state.members.get_mut(&group) {
                joined.single = Some(source);
            }
        }
    }
}

/// Every resource by list and watch; at the end, where an object has the name of its group, it alone.
fn ways<K: Kind>(kind: &K, group: Option<&str>) -> Vec<Way> {
    let select = |resource: Resource| group.map_or(Select::All, |group| kind.select(resource, group));
    let listed = |resource: &Resource| Way { resource: *resource, select: select(*resource), reads: None };
    let mut ways: Vec<Way> = kind.sources().iter().map(listed).collect();
    for resource in kind.sources() {
        if let Select::Name(name) = select(*resource) {
            ways.push(Way { resource: *resource, select: Select::Name(name.clone()), reads: Some(name) });
        }
    }
    ways
}

// === impl State ===

impl<T> State<T> {
    fn take_id(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

// === impl Feed ===

impl<K: Kind> Feed<K> {
    /// Changes what this watch knows, and tells those whom it concerns: the groups that `change` names, or all. Nothing
    /// happens if it is no longer in charge.
    fn change(&self, change: impl FnOnce(&mut Collection<K::Value>) -> Option<[Option<Box<str>>; 2]>) -> bool {
        let Some(namespace) = self.namespace.upgrade() else { return false };
        let mut state = namespace.state.lock();
        let State { members, whole, .. } = &mut *state;
        match &self.group {
            Some(group) => {
                let Some(Joined { room, single: Some(source), .. }) = members.get_mut(group) else { return false };
                if source.id != self.id {
                    return false;
                }
                change(&mut source.objects);
                source.answered = true;
                let changed = room.publish(&source.objects.members(group));
                // Rights may have been given since: names that come and go are not the only ones to notice.
                namespace.consider_whole(&mut state);
                changed
            }
            None => {
                let Some(source) = whole.as_mut().filter(|whole| whole.id == self.id) else { return false };
                source.refused = None;
                let concerned = change(&mut source.objects);
                if !std::mem::replace(&mut source.answered, true) {
                    // From here on it is in charge of all.
                    members.values_mut().for_each(|joined| joined.single = None);
                }
                let objects = &source.objects;
                let tell = |group: &str, joined: &Joined<K::Value>| joined.room.publish(&objects.members(group));
                match concerned {
                    None => members.iter().fold(false, |changed, (group, joined)| tell(group, joined) | changed),
                    Some(groups) => groups.iter().flatten().fold(false, |changed, group| {
                        members.get(group).is_some_and(|joined| tell(group, joined)) | changed
                    }),
                }
            }
        }
    }
}

impl<K: Kind> Sink<K::Value> for Feed<K> {
    fn replace(&self, objects: Vec<Object<K::Value>>, unread: &HashSet<Box<str>>) -> bool {
        self.change(|known| {
            known.replace(objects, unread);
            None
        })
    }

    fn apply(&self, object: Object<K::Value>) -> bool {
        self.change(|known| Some(known.apply(object)))
    }

    fn remove(&self, name: &str) -> bool {
        self.change(|known| Some([known.remove(name), None]))
    }

    fn confirm(&self) {
        self.change(|_| None);
    }

    fn fail(&self, error: &ApiError) {
        let Some(namespace) = self.namespace.upgrade() else { return };
        let mut state = namespace.state.lock();
        let reason: crate::store::Reason = error.to_string().into();
        match &self.group {
            Some(group) => {
                let joined = state.members.get(group);
                if let Some(joined) = joined.filter(|j| j.single.as_ref().is_some_and(|s| s.id == self.id)) {
                    joined.room.fail(reason);
                }
            }
            None => {
                let Some(source) = state.whole.as_mut().filter(|whole| whole.id == self.id) else { return };
                let was_in_charge = source.answered;
                if !error.is_refusal() {
                    source.refused = None; // a server that is down refuses nothing
                }
                let holds = error.is_refusal() && {
                    let (count, since) = source.refused.get_or_insert((0, Instant::now()));
                    *count += 1;
                    !was_in_charge || (*count >= REFUSALS && since.elapsed() >= REFUSED_FOR)
                };
                if holds {
                    namespace.give_up_whole(&mut state);
                } else if was_in_charge {
                    state.members.values().for_each(|joined| joined.room.fail(reason.clone()));
                }
            }
        }
    }
}

// === impl Member ===

impl<K: Kind> Member<K> {
    /// What pages show of the watch that this one depends on now.
    pub fn journal(&self) -> Option<Arc<Journal>> {
        self.namespace.journal(&self.group)
    }
}

impl<K: Kind> Drop for Member<K> {
    fn drop(&mut self) {
        self.namespace.leave(&self.group, self.id);
    }
}

impl<K: Kind> fmt::Debug for Member<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member").field("group", &self.group).finish_non_exhaustive()
    }
}
