//! Agents: where requests go, and what all who ask one agent share.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::metrics::ConsulMetrics;
use super::transport::{Http, Limit, Transport};
use super::turns::Turns;
use super::{AgentConfig, Answer, ConsulError, Request};
use crate::backend::{Address, Links};
use crate::config::ClientTls;
use crate::runtime::tls;

/// One Consul agent as one part of the program asks it. Cloning shares it.
#[derive(Clone)]
pub struct Agent {
    shared: Arc<Shared>,
}

struct Shared {
    name: String,
    shows_token: bool,
    transport: Box<dyn Transport>,
    turns: Arc<Turns>,
    metrics: ConsulMetrics,
    runtime: Handle,
}

/// What there is already, for as long as somebody uses it.
type Known<K, V> = Arc<Mutex<Vec<(K, Weak<V>)>>>;

/// The agents of the process. Who asks for the same address as the same client gets the same agent; those with one address
/// share its places, and its connections unless they speak TLS in different ways. Cloning shares them.
#[derive(Clone)]
pub struct Agents {
    known: Known<AgentConfig, Shared>,
    turns: Known<Address, Turns>,
    links: Known<(Address, Option<ClientTls>), Links>,
    metrics: ConsulMetrics,
    runtime: Handle,
}

/// What metrics show of an agent.
#[derive(Clone, Debug)]
pub struct AgentFigures {
    /// `host:port`
    pub agent: String,
    /// Names, keys and lists that are watched there.
    pub watches: usize,
    /// Polls that are open now.
    pub open: usize,
    /// Polls that may be.
    pub limit: usize,
    /// Time since the last good answer of the watch that has gone without for longest.
    pub oldest: Duration,
}

// === impl Agents ===

impl Agents {
    /// No agents yet. Must be called within a runtime, on which all watches will run.
    #[expect(clippy::new_without_default, reason = "a default that must be called within a runtime would surprise")]
    pub fn new() -> Self {
        let (known, turns, links) = (Arc::default(), Arc::default(), Arc::default());
        Self { known, turns, links, metrics: ConsulMetrics::default(), runtime: Handle::current() }
    }

    /// An agent. Nothing is contacted.
    ///
    /// # Errors
    /// One line that names the key, for what only shows now.
    pub fn agent(&self, config: &AgentConfig) -> Result<Agent, String> {
        let mut known = self.known.lock();
        known.retain(|(_, agent)| agent.strong_count() > 0);
        let same = known.iter().find(|(other, _)| other.is_same_client(config));
        if let Some(shared) = same.and_then(|(_, agent)| agent.upgrade()) {
            shared.turns.limit(config.max_polls);
            return Ok(Agent { shared });
        }
        let transport = Http::new(config, self.links(config)?)?;
        let agent = self.with_transport(config, Box::new(transport));
        known.push((config.clone(), Arc::downgrade(&agent.shared)));
        Ok(agent)
    }

    pub(super) fn with_transport(&self, config: &AgentConfig, transport: Box<dyn Transport>) -> Agent {
        let (name, shows_token) = (config.address.to_string(), config.token.is_some());
        let turns = self.turns(&config.address, config.max_polls);
        let (metrics, runtime) = (self.metrics.clone(), self.runtime.clone());
        Agent { shared: Arc::new(Shared { name, shows_token, transport, turns, metrics, runtime }) }
    }

    fn turns(&self, address: &Address, most: Option<usize>) -> Arc<Turns> {
        let mut all = self.turns.lock();
        all.retain(|(_, turns)| turns.strong_count() > 0);
        if let Some(turns) = all.iter().find(|(known, _)| known == address).and_then(|(_, turns)| turns.upgrade()) {
            turns.limit(most);
            return turns;
        }
        let turns = Turns::new(address.to_string());
        turns.limit(most);
        all.push((address.clone(), Arc::downgrade(&turns)));
        turns
    }

    /// However many tokens are shown at an address, its connections are no more than its places.
    fn links(&self, config: &AgentConfig) -> Result<Arc<Links>, String> {
        let mut all = self.links.lock();
        all.retain(|(_, links)| links.strong_count() > 0);
        let as_same = |(address, tls): &(Address, _)| *address == config.address && *tls == config.tls;
        if let Some(links) = all.iter().find(|(known, _)| as_same(known)).and_then(|(_, links)| links.upgrade()) {
            return Ok(links);
        }
        let links = Links::new(&config.address, config.tls.clone().map(tls::Client::new))?;
        all.push(((config.address.clone(), config.tls.clone()), Arc::downgrade(&links)));
        Ok(links)
    }

    pub(super) fn metrics(&self) -> &ConsulMetrics {
        &self.metrics
    }

    /// What metrics show.
    pub fn figures(&self) -> Vec<AgentFigures> {
        let all: Vec<Arc<Turns>> = self.turns.lock().iter().filter_map(|(_, turns)| turns.upgrade()).collect();
        all.iter().map(|turns| turns.figures()).collect()
    }
}

impl fmt::Debug for Agents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Agents").field(&self.figures()).finish()
    }
}

// === impl Agent ===

impl Agent {
    /// `host:port`, for messages.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// One request that does not wait for a change, within `patience` in all: a write, or a read of the present.
    ///
    /// # Errors
    /// [`ConsulError`]. Of a write it says whether it is certain that nothing was written.
    pub async fn once(&self, request: &Request, patience: Duration) -> Result<Answer, ConsulError> {
        let deadline = Instant::now() + patience;
        let place = tokio::time::timeout_at(deadline, self.turns().single()).await;
        let _place = place.map_err(|_| ConsulError::Crowded { agent: self.name().to_owned() })?;
        self.send(request, &request.target(None, None), Limit { head: deadline, whole: Some(deadline) }).await
    }

    pub(super) async fn send(&self, request: &Request, target: &str, limit: Limit) -> Result<Answer, ConsulError> {
        let reply = self.shared.transport.send(request, target, limit).await?;
        reply.judged(request.asked(self.name()))
    }

    pub(super) fn shows_token(&self) -> bool {
        self.shared.shows_token
    }

    pub(super) fn turns(&self) -> &Arc<Turns> {
        &self.shared.turns
    }

    pub(super) fn metrics(&self) -> &ConsulMetrics {
        &self.shared.metrics
    }

    pub(super) fn runtime(&self) -> &Handle {
        &self.shared.runtime
    }
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Agent").field(&self.name()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Secret;

    #[tokio::test]
    async fn who_asks_one_agent_as_the_same_client_shares_its_connections_and_all_who_ask_it_its_places() {
        let agents = Agents::new();
        let agent = |port, token: Option<&str>, max_polls| {
            let address = Address { host: "localhost".to_owned(), port };
            let config = AgentConfig { address, token: token.map(Secret::new), tls: None, max_polls };
            agents.agent(&config).expect("a host name")
        };
        let first = agent(8500, None, None);
        assert_eq!(agents.figures()[0].limit, 150);
        let same = agent(8500, None, Some(500));
        assert!(Arc::ptr_eq(&first.shared, &same.shared));
        assert_eq!(agents.figures()[0].limit, 500);
        let with_token = agent(8500, Some("t"), Some(40));
        assert!(!Arc::ptr_eq(&first.shared, &with_token.shared));
        assert!(Arc::ptr_eq(first.turns(), with_token.turns()));
        agent(8500, Some("t"), None);
        agent(8500, Some("t"), Some(60));
        assert_eq!((agents.figures().len(), agents.figures()[0].limit), (1, 40));
        let elsewhere = agent(8501, None, None);
        assert!(!Arc::ptr_eq(first.turns(), elsewhere.turns()));
    }
}
