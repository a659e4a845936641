//! Topics: what can be polled, one for each distinct question, shared by all sessions.

use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;

use super::config::{CacheLimits, ThriftConfig};
use crate::interpreter::{BoundTree, Hold, Interpreter, LocalDtab, strip_transformers};
use crate::ledger::{Asks, WatchKey};
use crate::name::{Addr, Path};
use crate::storage::VersionedDtab;
use crate::store::{
    Client, Key, Mailbox, Observer, OverBudget, Policy, Reason, Snapshot, Standing, State, Subscription, Table, Usage,
    Watch,
};
use crate::telemetry::Scope;
use crate::thrift::{Method, result};

/// A key that was asked for within this time is never dropped to make room: its client is about to ask again.
const PROTECT: Duration = Duration::from_secs(60);

/// So many bytes of a key take about as much memory as a topic alone.
const BYTES_PER_TOPIC: usize = 512;

/// All topics of an interface. Cloning shares them.
#[derive(Clone)]
pub(super) struct Topics {
    bindings: Table<Binding, Topic>,
    addresses: Table<Path, Topic>,
    dtabs: Table<Arc<str>, Topic>,
    limits: ThriftConfig,
    lone_weights: bool,
}

/// What a bound tree depends on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Binding {
    pub(super) ns: Arc<str>,
    pub(super) local: LocalDtab,
    pub(super) path: Path,
}

/// One question, with its answer encoded for the newest version that somebody asked for.
#[derive(Debug, Default)]
pub(super) struct Topic {
    source: OnceLock<(Source, Arc<WatchKey>)>,
    /// Sessions that care.
    seats: AtomicUsize,
    encoded: Mutex<Option<Encoded>>,
}

/// The body of a reply.
#[derive(Debug)]
struct Encoded {
    /// The version of the cell for which it was made.
    of: u64,
    /// The stamp in it.
    version: u64,
    body: Bytes,
}

/// Where the answer comes from.
#[derive(Debug)]
enum Source {
    Bind { watch: Watch<BoundTree>, ns: Arc<str> },
    Addr { watch: Watch<Addr>, lone_weights: bool },
    Dtab(Watch<Option<VersionedDtab>>),
}

/// A session's share in a topic: keeps it going, and its encoded answer there.
#[derive(Debug)]
pub(super) struct Seat {
    topic: Observer<Topic>,
}

/// What is known at a moment.
#[derive(Debug)]
pub(super) struct Newest {
    /// Changes exactly when the rest does. It is the stamp of a value.
    pub(super) version: u64,
    pub(super) known: Known,
}

#[derive(Debug)]
pub(super) enum Known {
    /// The body of the reply.
    Value(Bytes),
    /// There is no value, for good reason and not only for the moment.
    Failed(Reason),
    /// There is no value yet; perhaps because of this.
    Nothing(Option<Reason>),
}

/// Why a topic cannot be had, in the words of namerd.
#[derive(Debug, thiserror::Error)]
#[error("The maximum number of concurrent observations has been reached ({0})")]
pub(super) struct NoRoom(usize);

// === impl Topics ===

impl Topics {
    pub(super) fn new(config: &ThriftConfig, lone_weights: bool) -> Self {
        let policy = |limits: CacheLimits| Policy {
            idle: limits.ttl,
            protect: PROTECT,
            budget: limits.active.saturating_add(limits.inactive),
            in_use: limits.active,
        };
        Self {
            bindings: Table::weighed("bindings of thrift", policy(config.bindings), Binding::weight, |_, _| {
                Topic::default()
            }),
            addresses: Table::weighed("addresses of thrift", policy(config.addresses), path_weight, |_, _| {
                Topic::default()
            }),
            dtabs: Table::new("dtabs of thrift", policy(CacheLimits::default()), |_, _| Topic::default()),
            limits: *config,
            lone_weights,
        }
    }

    /// The gauges by which namerd shows its caches (`delegationcache` is that of dtabs).
    pub(super) fn register(&self, scope: &Scope) {
        let gauges = |cache: &str, usage: fn(&Self) -> Usage| {
            let (active, all) = (self.clone(), self.clone());
            let scope = scope.scope(cache);
            scope.gauge("active", move || usage(&active).in_use as f64);
            scope.gauge("inactive", move || {
                let usage = usage(&all);
                usage.len.saturating_sub(usage.in_use) as f64
            });
        };
        gauges("bindingcache", |topics| topics.bindings.usage());
        gauges("addrcache", |topics| topics.addresses.usage());
        gauges("delegationcache", |topics| topics.dtabs.usage());
    }

    /// How many topics sessions care for.
    #[cfg(test)]
    pub(super) fn in_use(&self) -> usize {
        self.bindings.usage().in_use + self.addresses.usage().in_use + self.dtabs.usage().in_use
    }

    /// What a name is bound to.
    pub(super) fn bind(
        &self,
        interpreter: &dyn Interpreter,
        client: Client,
        binding: &Binding,
    ) -> Result<Seat, NoRoom> {
        let no_room = |_| NoRoom(self.limits.bindings.active);
        let topic = self.bindings.observe(client, binding).map_err(no_room)?;
        let Binding { ns, local, path } = binding;
        topic
            .sourced(|| {
                let watch = interpreter.bind(client, ns, local, path, Hold::Watch)?;
                let dtab = if local.is_empty() { String::new() } else { local.indexed().dtab().to_string() };
                let path = path.to_string().into();
                let key = WatchKey { asks: Asks::Bind, ns: (**ns).into(), dtab: dtab.into(), path };
                Ok((Source::Bind { watch, ns: ns.clone() }, key))
            })
            .map_err(no_room)?;
        Ok(Seat::new(topic))
    }

    /// The addresses of an id.
    pub(super) fn addr(&self, interpreter: &dyn Interpreter, client: Client, id: &Path) -> Result<Seat, NoRoom> {
        let no_room = |_| NoRoom(self.limits.addresses.active);
        let stripped = strip_transformers(id);
        let topic = self.addresses.observe(client, &stripped).map_err(no_room)?;
        let lone_weights = self.lone_weights;
        topic
            .sourced(|| {
                let watch = interpreter.addr(client, id)?;
                let path = stripped.to_string().into();
                let key = WatchKey { asks: Asks::Addr, ns: "".into(), dtab: "".into(), path };
                Ok((Source::Addr { watch, lone_weights }, key))
            })
            .map_err(no_room)?;
        Ok(Seat::new(topic))
    }

    /// The dtab of a namespace.
    pub(super) fn dtab(&self, interpreter: &dyn Interpreter, client: Client, ns: &Arc<str>) -> Result<Seat, NoRoom> {
        let no_room = |_| NoRoom(CacheLimits::default().active);
        let topic = self.dtabs.observe(client, ns).map_err(no_room)?;
        topic
            .sourced(|| {
                let key = WatchKey { asks: Asks::Dtab, ns: (**ns).into(), dtab: "".into(), path: "".into() };
                Ok((Source::Dtab(interpreter.dtab(client, ns)?), key))
            })
            .map_err(no_room)?;
        Ok(Seat::new(topic))
    }
}

impl Binding {
    fn weight(&self) -> usize {
        1 + (self.ns.len() + self.path.bytes()) / BYTES_PER_TOPIC
    }
}

fn path_weight(path: &Path) -> usize {
    1 + path.bytes() / BYTES_PER_TOPIC
}

// === impl Topic ===

impl Topic {
    /// Takes the source up, if that has not been done. (Not where the topic is made: that happens under a lock, and
    /// can fail here.)
    fn sourced(&self, source: impl FnOnce() -> Result<(Source, WatchKey), OverBudget>) -> Result<(), OverBudget> {
        if self.source.get().is_none() {
            let (source, key) = source()?;
            self.source.get_or_init(|| (source, Arc::new(key)));
        }
        Ok(())
    }

    fn source(&self) -> &Source {
        &self.source.get().expect("a seat is given only in a topic that has its source").0
    }

    /// What the watch ledger calls it.
    pub(super) fn watch_key(&self) -> &Arc<WatchKey> {
        &self.source.get().expect("a seat is given only in a topic that has its source").1
    }

    /// Which method asks this.
    pub(super) fn method(&self) -> Method {
        match self.source() {
            Source::Bind { .. } => Method::Bind,
            Source::Addr { .. } => Method::Addr,
            Source::Dtab(_) => Method::Dtab,
        }
    }

    /// Has `key` of `mailbox` marked whenever the version changes.
    pub(super) fn subscribe(&self, mailbox: &Mailbox, key: Key) -> Subscription {
        match self.source() {
            Source::Bind { watch, .. } => watch.subscribe(mailbox, key).1,
            Source::Addr { watch, .. } => watch.subscribe(mailbox, key).1,
            Source::Dtab(watch) => watch.subscribe(mailbox, key).1,
        }
    }

    /// The version of this moment.
    pub(super) fn version(&self) -> u64 {
        match self.source() {
            Source::Bind { watch, .. } => watch.cell().version(),
            Source::Addr { watch, .. } => watch.cell().version(),
            Source::Dtab(_) => self.newest().version,
        }
    }

    /// Takes everything into account that was published before.
    pub(super) fn refresh(&self) {
        match self.source() {
            Source::Bind { watch, .. } => watch.current_version(),
            Source::Addr { watch, .. } => watch.current_version(),
            Source::Dtab(watch) => watch.current_version(),
        };
    }

    /// What is known now.
    pub(super) fn newest(&self) -> Newest {
        // One encodes, the others wait for that: it is what they need.
        let mut encoded = self.encoded.lock();
        // What only one session wants is sent once, and not kept for others.
        let keep = self.seats.load(Ordering::Acquire) > 1;
        match self.source() {
            Source::Bind { watch, ns } => newest(watch.cell().snapshot(), &mut encoded, keep, |version, tree| {
                Ok(result::bound(version, tree, ns))
            }),
            Source::Addr { watch, lone_weights } => {
                newest(watch.cell().snapshot(), &mut encoded, keep, |version, addr| match addr {
                    Addr::Bound(set) => Ok(result::addr(version, Some(set), *lone_weights)),
                    Addr::Neg => Ok(result::addr(version, None, *lone_weights)),
                    Addr::Failed(reason) => Err(reason.clone().unwrap_or_else(|| "".into())),
                })
            }
            Source::Dtab(watch) => {
                let snapshot = watch.cell().snapshot();
                // Whoever stores the same text again makes a new version of it, which is none for those who only see
                // the text.
                if let (Some(dtab), Some(known)) = (snapshot.value(), encoded.as_mut())
                    && known.of != snapshot.version.get()
                    && result::dtab(known.version, &shown(dtab)) == known.body
                {
                    known.of = snapshot.version.get();
                }
                newest(snapshot, &mut encoded, true, |version, dtab| Ok(result::dtab(version, &shown(dtab))))
            }
        }
    }
}

/// A dtab as routers see it; one that there is not is empty.
fn shown(dtab: &Option<VersionedDtab>) -> String {
    dtab.as_ref().map(|dtab| dtab.dtab().to_string()).unwrap_or_default()
}

fn newest<T>(
    snapshot: Snapshot<T>,
    encoded: &mut Option<Encoded>,
    keep: bool,
    encode: impl FnOnce(u64, &T) -> Result<Bytes, Reason>,
) -> Newest {
    let version = snapshot.version.get();
    let known = match (&snapshot.state, snapshot.standing) {
        (State::Ready(value), _) => match &*encoded {
            Some(known) if known.of == version => {
                return Newest { version: known.version, known: Known::Value(known.body.clone()) };
            }
            _ => match encode(version, value) {
                Ok(body) => {
                    *encoded = keep.then(|| Encoded { of: version, version, body: body.clone() });
                    Known::Value(body)
                }
                Err(reason) => Known::Failed(reason),
            },
        },
        (State::Failed(reason), _) => Known::Failed(reason.clone()),
        (State::Pending, Standing::Suspended { reason, .. }) => Known::Nothing(reason),
        (State::Pending, _) => Known::Nothing(None),
    };
    Newest { version, known }
}

// === impl Seat ===

impl Seat {
    fn new(topic: Observer<Topic>) -> Self {
        topic.seats.fetch_add(1, Ordering::AcqRel);
        Self { topic }
    }

    /// The same number for all seats in one topic.
    pub(super) fn place(&self) -> usize {
        std::ptr::from_ref::<Topic>(&self.topic).addr()
    }
}

impl Deref for Seat {
    type Target = Topic;

    fn deref(&self) -> &Topic {
        &self.topic
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if self.topic.seats.fetch_sub(1, Ordering::AcqRel) == 1 {
            // Nobody is left to send it to; whoever comes next has it made again.
            let mut encoded = self.topic.encoded.lock();
            if self.topic.seats.load(Ordering::Acquire) == 0 {
                *encoded = None;
            }
        }
    }
}
