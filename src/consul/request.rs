//! What is asked of an agent.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::Method;

use super::error::Asked;
use crate::text::url::component;

/// How fresh an answer has to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Consistency {
    /// As the leader knows it; sends no parameter.
    #[default]
    Default,
    /// As any server knows it, with or without a leader.
    Stale,
    /// As a majority of the servers confirms it.
    Consistent,
}

/// One request, without what makes it a blocking query.
#[derive(Clone, Debug)]
pub struct Request {
    method: Method,
    path: String,
    consistency: Consistency,
    datacenter: String,
    parameters: String,
    body: Bytes,
}

/// From where, and how long, a blocking query waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct From {
    pub(super) index: u64,
    pub(super) wait: Duration,
}

// === impl Consistency ===

impl Consistency {
    /// The modes of namerd, by the text that configures each.
    ///
    /// # Errors
    /// namerd's own message for any other text.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "default" => Ok(Self::Default),
            "stale" => Ok(Self::Stale),
            "consistent" => Ok(Self::Consistent),
            _ => Err(format!("Illegal Consul consistency mode level: {text} (known: default, stale, consistent)")),
        }
    }

    fn parameter(self) -> &'static str {
        match self {
            Self::Default => "",
            Self::Stale => "stale=true",
            Self::Consistent => "consistent=true",
        }
    }
}

// === impl Request ===

impl Request {
    fn new(method: Method, path: impl Into<String>) -> Self {
        Self {
            method,
            path: path.into(),
            consistency: Consistency::Default,
            datacenter: String::new(),
            parameters: String::new(),
            body: Bytes::new(),
        }
    }

    /// Reads. Segments of `path` that are not the program's own must be escaped ([`component`]).
    pub fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path)
    }

    /// Writes `body`.
    pub fn put(path: impl Into<String>, body: impl Into<Bytes>) -> Self {
        Self { body: body.into(), ..Self::new(Method::PUT, path) }
    }

    /// Removes.
    pub fn delete(path: impl Into<String>) -> Self {
        Self::new(Method::DELETE, path)
    }

    /// With this consistency.
    #[must_use]
    pub fn consistency(mut self, consistency: Consistency) -> Self {
        self.consistency = consistency;
        self
    }

    /// About a datacenter. Its place among the parameters is that of the call, as with [`Request::with`].
    #[must_use]
    pub fn datacenter(self, datacenter: &str) -> Self {
        let mut request = self.with("dc", datacenter);
        datacenter.clone_into(&mut request.datacenter);
        request
    }

    /// With one parameter more, after those that are there.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.parameters.push('&');
        self.parameters.push_str(name);
        self.parameters.extend(["=", &component(value).to_string()]);
        self
    }

    /// The path without parameters.
    pub fn path(&self) -> &str {
        &self.path
    }

    pub(super) fn about(&self) -> &str {
        &self.datacenter
    }

    pub(super) fn mode(&self) -> Consistency {
        self.consistency
    }

    pub(super) fn method(&self) -> &Method {
        &self.method
    }

    pub(super) fn body(&self) -> &Bytes {
        &self.body
    }

    pub(super) fn asked<'a>(&'a self, agent: &'a str) -> Asked<'a> {
        let writes = self.method != Method::GET;
        Asked { agent, path: &self.path, writes, datacenter: &self.datacenter }
    }

    /// Path and parameters, in namerd's order: consistency, index, the others (`BaseApi.scala:65-83`). `wait`, which
    /// namerd never sends, follows the index.
    pub(super) fn target(&self, from: Option<From>, consistency: Option<Consistency>) -> String {
        let mut target = self.path.clone();
        let mut mark = '?';
        let mut add = |parameters: fmt::Arguments<'_>| {
            target.push(std::mem::replace(&mut mark, '&'));
            // A String takes everything.
            let _ = fmt::Write::write_fmt(&mut target, parameters);
        };
        match consistency.unwrap_or(self.consistency).parameter() {
            "" => {}
            parameter => add(format_args!("{parameter}")),
        }
        if let Some(From { index, wait }) = from {
            add(format_args!("index={index}&wait={}", duration(wait)));
        }
        if let Some(parameters) = self.parameters.strip_prefix('&') {
            add(format_args!("{parameters}"));
        }
        target
    }
}

/// In Go's words.
fn duration(duration: Duration) -> String {
    match duration.as_millis() {
        millis if millis % 60_000 == 0 => format!("{}m", millis / 60_000),
        millis if millis % 1_000 == 0 => format!("{}s", millis / 1_000),
        millis => format!("{millis}ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_in_namerds_order() {
        let request = Request::get("/v1/health/service/web")
            .consistency(Consistency::Stale)
            .datacenter("dc1")
            .with("tag", "a b")
            .with("passing", "true");
        assert_eq!(request.target(None, None), "/v1/health/service/web?stale=true&dc=dc1&tag=a%20b&passing=true");
        let from = From { index: 12, wait: Duration::from_secs(300) };
        assert_eq!(
            request.target(Some(from), Some(Consistency::Consistent)),
            "/v1/health/service/web?consistent=true&index=12&wait=5m&dc=dc1&tag=a%20b&passing=true"
        );
        assert_eq!(duration(Duration::from_secs(90)), "90s");
        assert_eq!(duration(Duration::from_millis(1_500)), "1500ms");
        assert_eq!(Request::get("/v1/agent/self").target(None, None), "/v1/agent/self");
    }

    #[test]
    fn consistency_modes_are_namerds() {
        assert_eq!(Consistency::parse("stale"), Ok(Consistency::Stale));
        let refused = Consistency::parse("Stale").expect_err("capitals are refused");
        assert!(refused.starts_with("Illegal Consul consistency mode level: Stale"));
    }
}
