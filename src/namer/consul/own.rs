//! What the agent says of itself: its datacenter, which `.local` stands for, and the domain of its DNS.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use crate::consul::{Agent, Answer, Poll, PollCounters, Query, Request, Rhythm, Undecoded};
use crate::store::Cell;

/// How often it is read; also when the agent was lost and is back, which may be another one.
const EVERY: Duration = Duration::from_secs(300);

/// The domain where nothing is said of one.
const DOMAIN: &str = "consul";

/// What an agent says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Own {
    /// Its datacenter. An agent that does not say is asked for `.local` (`LookupCache.scala:112-115`).
    pub(super) datacenter: Option<Box<str>>,
    /// The domain of its DNS, without dots around it.
    pub(super) domain: Box<str>,
}

/// It, watched.
#[derive(Debug)]
pub(super) struct WatchedOwn {
    pub(super) own: Arc<Cell<Own>>,
    _poll: Poll<Own>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Document {
    config: Option<Config>,
    debug_config: Option<DebugConfig>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Config {
    datacenter: Option<String>,
    domain: Option<String>,
}

#[derive(Deserialize)]
struct DebugConfig {
    #[serde(rename = "DNSDomain")]
    dns_domain: Option<String>,
}

// === impl Own ===

impl Own {
    /// Reads `/v1/agent/self`. `Config.Domain`, which namerd reads, is only there in agents before 1.0; later ones have
    /// `DebugConfig.DNSDomain`.
    pub(super) fn decode(answer: &Answer, body: &[u8]) -> Result<Self, Undecoded> {
        if !answer.found {
            return Err(Undecoded::Unreadable("it is a 404".to_owned()));
        }
        let document: Document =
            serde_json::from_slice(body).map_err(|error| Undecoded::Unreadable(error.to_string()))?;
        let (datacenter, old_domain) =
            document.config.map_or((None, None), |config| (config.datacenter, config.domain));
        let domain = old_domain.or_else(|| document.debug_config?.dns_domain);
        let domain = domain.as_deref().unwrap_or(DOMAIN).trim_matches('.');
        let datacenter = datacenter.filter(|datacenter| !datacenter.is_empty());
        Ok(Self { datacenter: datacenter.map(Into::into), domain: domain.into() })
    }
}

// === impl WatchedOwn ===

impl WatchedOwn {
    /// Begins to watch.
    pub(super) fn watch(agent: &Agent) -> Self {
        let own = Cell::new();
        let query = Query::new(Request::get("/v1/agent/self"), Rhythm::Every(EVERY), Own::decode);
        Self { own: own.clone(), _poll: Poll::start(agent, query, own, PollCounters::default()) }
    }
}
