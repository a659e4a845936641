//! A stand-in for an agent, without sockets: tests of the loop pause the clock.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::answer::Reply;
use super::transport::{Limit, Transport};
use super::{Agent, AgentConfig, Agents, ConsulError, Request};
use crate::backend::Address;

/// Answers like an agent: at once without an index or with an old one, else when the value changes or the wait is over.
/// What is scripted comes first.
#[derive(Clone, Debug, Default)]
pub(crate) struct FakeConsul {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Body and index by path.
    values: HashMap<String, (String, u64)>,
    script: VecDeque<Step>,
    interrupts: VecDeque<Step>,
    /// Requests with one of these texts in them are never answered.
    silent: Vec<String>,
    log: Vec<(String, Instant)>,
    open: usize,
    most_open: usize,
}

/// What happens to one request.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// This status, these headers, this body.
    Reply(u16, Vec<(&'static str, String)>, String),
    /// After a time this status and this body.
    SlowReply(Duration, u16, String),
    /// No connection.
    Refuse,
    /// Never anything.
    Hold,
}

// === impl FakeConsul ===

impl FakeConsul {
    pub(crate) fn agent(&self) -> Agent {
        self.agent_with(None)
    }

    pub(crate) fn agent_with(&self, max_polls: impl Into<Option<usize>>) -> Agent {
        let address = Address { host: "consul.test".to_owned(), port: 8500 };
        let config = AgentConfig { address, token: None, tls: None, max_polls: max_polls.into() };
        Agents::new().with_transport(&config, Box::new(self.clone()))
    }

    /// The value of a path from now on.
    pub(crate) fn set(&self, path: &str, body: &str, index: u64) {
        self.shared.state.lock().values.insert(path.to_owned(), (body.to_owned(), index));
        self.shared.changed.notify_waiters();
    }

    /// What happens to the next request that nothing is scripted for.
    pub(crate) fn script(&self, step: Step) {
        self.shared.state.lock().script.push_back(step);
    }

    /// Nothing is scripted any more.
    pub(crate) fn forget_script(&self) {
        self.shared.state.lock().script.clear();
    }

    /// What happens to the request that is held now, or to the next one that would be.
    pub(crate) fn interrupt(&self, step: Step) {
        self.shared.state.lock().interrupts.push_back(step);
        self.shared.changed.notify_waiters();
    }

    pub(crate) fn say(&self, status: u16, body: &str) {
        self.script(Step::Reply(status, Vec::new(), body.to_owned()));
    }

    /// From now on requests with this text in them are never answered; those that are held stay so.
    pub(crate) fn silence(&self, part: &str) {
        self.shared.state.lock().silent.push(part.to_owned());
    }

    /// All are answered again.
    pub(crate) fn speak(&self) {
        self.shared.state.lock().silent.clear();
    }

    /// Requests so far, with the time of each.
    pub(crate) fn log(&self) -> Vec<(String, Instant)> {
        self.shared.state.lock().log.clone()
    }

    /// The last request.
    pub(crate) fn last(&self) -> String {
        self.log().last().map(|(target, _)| target.clone()).unwrap_or_default()
    }

    /// How many requests were open at once at most.
    pub(crate) fn most_open(&self) -> usize {
        self.shared.state.lock().most_open
    }

    async fn answer(&self, target: &str) -> Result<Reply, ConsulError> {
        if self.shared.state.lock().silent.iter().any(|part| target.contains(part)) {
            return std::future::pending().await;
        }
        let scripted = self.shared.state.lock().script.pop_front();
        if let Some(step) = scripted {
            return step.happen().await;
        }
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let parameter = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        let from: Option<u64> = parameter("index").and_then(|index| index.parse().ok());
        let until = Instant::now() + parameter("wait").map_or(Duration::from_secs(300), go_duration);
        loop {
            let mut changed = std::pin::pin!(self.shared.changed.notified());
            changed.as_mut().enable();
            let value = self.shared.state.lock().values.get(path).cloned();
            let Some((body, index)) = value else { return Ok(reply(500, Vec::new(), "rpc error".to_owned())) };
            if from.is_none_or(|from| from < index) || Instant::now() >= until {
                return Ok(reply(200, vec![("x-consul-index", index.to_string())], body));
            }
            let interrupted = self.shared.state.lock().interrupts.pop_front();
            if let Some(step) = interrupted {
                return step.happen().await;
            }
            let _ = timeout_at(until, changed).await;
        }
    }
}

// === impl Step ===

impl Step {
    /// A reply under an index.
    pub(crate) fn indexed(index: u64, body: &str) -> Self {
        Self::Reply(200, vec![("x-consul-index", index.to_string())], body.to_owned())
    }

    async fn happen(self) -> Result<Reply, ConsulError> {
        match self {
            Self::Reply(status, headers, body) => Ok(reply(status, headers, body)),
            Self::SlowReply(time, status, body) => {
                tokio::time::sleep(time).await;
                Ok(reply(status, Vec::new(), body))
            }
            Self::Refuse => Err(refused()),
            Self::Hold => std::future::pending().await,
        }
    }
}

#[async_trait]
impl Transport for FakeConsul {
    async fn send(&self, request: &Request, target: &str, limit: Limit) -> Result<Reply, ConsulError> {
        struct Open<'a>(&'a Shared);
        impl Drop for Open<'_> {
            fn drop(&mut self) {
                self.0.state.lock().open -= 1;
            }
        }
        {
            let mut state = self.shared.state.lock();
            state.log.push((target.to_owned(), Instant::now()));
            state.open += 1;
            state.most_open = state.most_open.max(state.open);
        }
        let _open = Open(&self.shared);
        let silent = |_| ConsulError::Silent {
            agent: "consul.test:8500".to_owned(),
            path: request.path().to_owned(),
            seconds: 0,
        };
        tokio::task::yield_now().await;
        timeout_at(limit.head, self.answer(target)).await.map_err(silent)?
    }
}

fn go_duration(text: &str) -> Duration {
    if let Some(millis) = text.strip_suffix("ms") {
        return Duration::from_millis(millis.parse().expect("a number"));
    }
    match text.split_at(text.len() - 1) {
        (seconds, "s") => Duration::from_secs(seconds.parse().expect("a number")),
        (minutes, "m") => Duration::from_secs(60 * minutes.parse::<u64>().expect("a number")),
        _ => panic!("{text} is no duration"),
    }
}

fn reply(status: u16, headers: Vec<(&'static str, String)>, body: String) -> Reply {
    let header = |(name, value): (&'static str, String)| {
        (HeaderName::from_static(name), HeaderValue::from_str(&value).expect("a header"))
    };
    let headers: HeaderMap = headers.into_iter().map(header).collect();
    Reply { status: StatusCode::from_u16(status).expect("a status"), headers, body: body.into() }
}

fn refused() -> ConsulError {
    ConsulError::Unreachable { agent: "consul.test:8500".to_owned(), cause: "Connection refused".to_owned() }
}
