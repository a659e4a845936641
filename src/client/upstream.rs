//! One name server, however many processes that is, and everything that is followed there.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use serde_json::{Value, json};
use slab::Slab;
use tokio::runtime::Handle;

use super::feed::Feed;
use super::journal::{Condition, Journal};
use super::protocol::Protocol;
use super::servers::{ServerFigures, Servers, Unserved};
use super::{Answer, Ask, ClientMetrics, Failure, Reason, Timings};
use crate::name::Addr;
use crate::runtime::Seldom;
use crate::store::{self, Staleness, Watch};
use crate::text::calendar;

/// The same thing is logged at most once in this time.
const LOG_PERIOD: Duration = Duration::from_secs(10);

/// Another name server. Cloning shares everything.
#[derive(Clone)]
pub struct Upstream {
    pub(super) shared: Arc<Shared>,
}

pub(super) struct Shared {
    pub(super) name: Arc<str>,
    pub(super) protocol: Arc<dyn Protocol>,
    pub(super) servers: Servers,
    pub(super) timings: Timings,
    pub(super) metrics: ClientMetrics,
    journals: Mutex<Slab<Arc<Journal>>>,
    logs: [Seldom; Reason::ALL.len()],
    restored: Seldom,
}

/// Keeps the journal of a watch where pages and metrics see it.
pub(super) struct Shown {
    upstream: Arc<Shared>,
    place: usize,
}

/// What metrics show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Figures {
    pub waiting: usize,
    pub current: usize,
    pub stale: Staleness,
    pub usable: usize,
    pub avoided: usize,
    pub draining: usize,
}

// === impl Upstream ===

impl Upstream {
    /// The server that messages call `name`, at these addresses. Nothing is contacted before something is followed.
    /// Must be called within a runtime.
    pub fn new(
        name: impl Into<Arc<str>>,
        protocol: Arc<dyn Protocol>,
        addrs: Watch<Addr>,
        timings: Timings,
        metrics: ClientMetrics,
    ) -> Self {
        let shared = Shared {
            name: name.into(),
            protocol,
            servers: Servers::new(addrs, timings.retry),
            timings,
            metrics,
            journals: Mutex::default(),
            logs: Reason::ALL.map(|_| Seldom::new(LOG_PERIOD)),
            restored: Seldom::new(LOG_PERIOD),
        };
        Self { shared: Arc::new(shared) }
    }

    /// What messages call it.
    pub fn name(&self) -> &Arc<str> {
        &self.shared.name
    }

    /// A feed of the answers to `ask`; nothing is followed before [`Feed::begin`]. `convert` makes a value of an answer;
    /// it runs in the feed's own task, and what it refuses counts as nonsense of the server.
    ///
    /// May be called outside of a runtime, but `runtime` must be one.
    pub fn feed<T>(
        &self,
        runtime: &Handle,
        ask: Ask,
        convert: impl Fn(Answer) -> Result<T, String> + Send + Sync + 'static,
    ) -> Feed<T>
    where
        T: PartialEq + Send + Sync + 'static,
    {
        Feed::new(runtime, &self.shared, ask, convert)
    }

    /// How many values are the last good ones because nobody vouches for them.
    pub fn staleness(&self) -> Staleness {
        self.shared.figures().stale
    }

    /// What is wrong, for people: since when values are stale, and why nobody can be asked, or has answered anything.
    pub fn degradation(&self) -> Option<String> {
        let Figures { waiting, current, stale, .. } = self.shared.figures();
        let stale_since = stale.since.map(|since| {
            let since = calendar::java(SystemTime::now() - since.elapsed());
            format!("stale since {since} (values: {})", stale.count)
        });
        let (what, failure, server) = match self.shared.servers.trouble() {
            Some(Unserved { failure, server, .. }) => ("no server can be asked", Some(failure), server),
            // One that takes connections and answers nothing is none to rely on either; one that says that there is no
            // answer has answered.
            None if waiting > 0 && current == 0 && stale.count == 0 => {
                let mut errors = self.shared.journals().into_iter().filter_map(|journal| journal.error());
                let (failure, server) = errors.find(|(failure, _)| failure.reason != Reason::Declared).unzip();
                ("no answer yet", failure, server.flatten())
            }
            None => ("", None, None),
        };
        let server = server.map(|server| format!("{server}: ")).unwrap_or_default();
        let trouble = failure.map(|failure| format!("{what}: {server}{failure}"));
        let parts: Vec<String> = stale_since.into_iter().chain(trouble).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    pub(super) fn downgrade(&self) -> Weak<Shared> {
        Arc::downgrade(&self.shared)
    }

    /// Everything that is known of servers and watches, for a state page.
    pub fn page(&self) -> Value {
        let (servers, doubt) = self.shared.servers.figures();
        let servers: Vec<Value> = servers
            .iter()
            .map(|ServerFigures { address, watches, avoided, draining, failure }| {
                let mut server = json!({ "address": address.to_string(), "watches": watches });
                for (key, holds) in [("avoided", *avoided), ("draining", *draining)] {
                    if holds {
                        server[key] = true.into();
                    }
                }
                if let Some(failure) = failure {
                    server["error"] = failure.as_str().into();
                }
                server
            })
            .collect();
        let mut page = json!({ "kind": self.shared.protocol.name(), "dst": &*self.shared.name, "servers": servers });
        if let Some(doubt) = doubt {
            page["addresses"] = doubt.into();
        }
        for journal in self.shared.journals() {
            let ask = journal.ask();
            let shown = journal.page();
            match ask {
                Ask::Bind { ns, dtab, path } => page["bind"][&**ns][path.to_string()][&**dtab] = shown,
                Ask::Addr { id } => page["addr"][id.to_string()] = shown,
                Ask::Dtab { ns } => page["dtab"][&**ns] = shown,
                Ask::Namespaces | Ask::Names => page[ask.kind()] = shown,
            }
        }
        page
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream").field("name", &self.shared.name).finish_non_exhaustive()
    }
}

// === impl Shared ===

impl Shared {
    pub(super) fn show(self: &Arc<Self>, journal: Arc<Journal>) -> Shown {
        Shown { upstream: self.clone(), place: self.journals.lock().insert(journal) }
    }

    /// Counts a failure and logs it.
    pub(super) fn note(&self, what: &dyn fmt::Display, failure: &Failure, server: Option<SocketAddr>) {
        self.metrics.ended(&self.name, failure.reason);
        self.log(what, failure, server);
    }

    /// Logs a failure that is not this watch's own, or that ended nothing; the first of a streak at once.
    pub(super) fn log(&self, what: &dyn fmt::Display, failure: &Failure, server: Option<SocketAddr>) {
        let Failure { reason, text } = failure;
        let server = server.map(|server| server.to_string()).unwrap_or_default();
        let upstream = &*self.name;
        match self.logs[*reason as usize].due() {
            Some(left_out) => {
                tracing::warn!(upstream, server, watch = %what, %reason, left_out, "{text}; what is known stays, trying again");
            }
            None => tracing::debug!(upstream, server, watch = %what, %reason, "{text}; trying again"),
        }
    }

    /// A failure as those are told who wait for an answer: with the name of this server, and of the process it was at.
    pub(super) fn told(&self, failure: &Failure, server: Option<SocketAddr>) -> store::Reason {
        match server {
            Some(server) => format!("{} ({server}): {failure}", self.name).into(),
            None => format!("{}: {failure}", self.name).into(),
        }
    }

    /// A watch that was lost is current again.
    pub(super) fn note_restored(&self, ask: &Ask) {
        let upstream = &*self.name;
        match self.restored.due() {
            Some(left_out) => tracing::info!(upstream, watch = %ask, left_out, "answers again"),
            None => tracing::debug!(upstream, watch = %ask, "answers again"),
        }
    }

    /// Copied out: new names wait for this lock.
    fn journals(&self) -> Vec<Arc<Journal>> {
        self.journals.lock().iter().map(|(_, journal)| journal.clone()).collect()
    }

    pub(super) fn figures(&self) -> Figures {
        let mut figures = Figures::default();
        for journal in self.journals() {
            match journal.condition() {
                Condition::Waiting => figures.waiting += 1,
                Condition::Current => figures.current += 1,
                Condition::Stale { since } => figures.stale.add_since(since),
            }
        }
        for server in self.servers.figures().0 {
            let count = match server {
                ServerFigures { avoided: true, .. } => &mut figures.avoided,
                ServerFigures { draining: true, .. } => &mut figures.draining,
                _ => &mut figures.usable,
            };
            *count += 1;
        }
        figures
    }
}

// === impl Shown ===

impl Drop for Shown {
    fn drop(&mut self) {
        self.upstream.journals.lock().remove(self.place);
    }
}
