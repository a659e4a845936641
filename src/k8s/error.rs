//! What can go wrong with a request, in words that name the remedy.

use std::time::Duration;

use http::StatusCode;

use super::Resource;
use super::event::Status;

/// How much of a server's words is shown.
const SHOWN: usize = 300;

/// What a request is about, for messages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    pub(super) server: &'a str,
    pub(super) resource: Resource,
    pub(super) namespace: &'a str,
    /// `get`, `list` or `watch`.
    pub(super) verb: &'static str,
}

/// Why a request, or a stream, gave nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// 403.
    #[error("Kubernetes at {server} refuses to {verb} {resource} in namespace {namespace}: {rule}{}", words(.said))]
    Forbidden {
        /// `host:port`
        server: String,
        /// `get`, `list` or `watch`.
        verb: &'static str,
        /// The plural.
        resource: &'static str,
        /// Where.
        namespace: Box<str>,
        /// The rule that is missing.
        rule: Box<str>,
        /// The server's words.
        said: Box<str>,
    },
    /// 401.
    #[error("Kubernetes at {server} does not know who asks (401): {remedy}")]
    Unauthorized {
        /// `host:port`
        server: String,
        /// What to do.
        remedy: String,
    },
    /// The token cannot be read.
    #[error("no request to Kubernetes at {server}: {reason}")]
    NoToken {
        /// `host:port`
        server: String,
        /// Which file, and why.
        reason: String,
    },
    /// 404 where there must be something: no such API.
    #[error("Kubernetes at {server} does not have {path} (404){}; is it an API server, and new enough?", words(.said))]
    Missing {
        /// `host:port`
        server: String,
        /// What was asked for.
        path: String,
        /// The object that is not there, where it is a server of objects that says so.
        object: Option<Box<str>>,
        /// The server's words.
        said: String,
    },
    /// 410: the version, or the rest of a list, is no longer known.
    #[error("Kubernetes at {server} no longer knows this version of {path}")]
    Gone {
        /// `host:port`
        server: String,
        /// What was asked for.
        path: String,
    },
    /// 429.
    #[error("Kubernetes at {server} has too much to do (429){}", words(.said))]
    Limited {
        /// `host:port`
        server: String,
        /// `Retry-After`.
        after: Option<Duration>,
        /// The server's words.
        said: String,
    },
    /// Any other status.
    #[error("Kubernetes at {server} answers {path} with {status}{}", words(.said))]
    Status {
        /// `host:port`
        server: String,
        /// What was asked for.
        path: String,
        /// The status.
        status: StatusCode,
        /// `Retry-After`.
        after: Option<Duration>,
        /// The server's words.
        said: String,
    },
    /// An `ERROR` in a stream, other than 410.
    #[error("Kubernetes at {server} ends the watch of {path} with an error ({code}){}", words(.said))]
    Event {
        /// `host:port`
        server: String,
        /// What is watched.
        path: String,
        /// Its code; 0 if it has none.
        code: u16,
        /// The server's words.
        said: String,
    },
    /// No connection.
    #[error("Kubernetes is unreachable at {server}: {cause}")]
    Unreachable {
        /// `host:port`
        server: String,
        /// The innermost cause.
        cause: String,
    },
    /// No TLS session.
    #[error("no TLS session with Kubernetes at {server}: {cause}")]
    NoSession {
        /// `host:port`
        server: String,
        /// The innermost cause.
        cause: String,
    },
    /// The connection ended in the middle.
    #[error("the connection to Kubernetes at {server} ended during {path}: {cause}")]
    Broken {
        /// `host:port`
        server: String,
        /// What was asked for.
        path: String,
        /// The innermost cause.
        cause: String,
    },
    /// Nothing came in time.
    #[error("Kubernetes at {server} did not answer {path} within {seconds} s")]
    Silent {
        /// `host:port`
        server: String,
        /// What was asked for.
        path: String,
        /// The time.
        seconds: u64,
    },
    /// What came is not what this route answers with.
    #[error("what Kubernetes at {server} answers {path} with cannot be read: {reason}")]
    Unreadable {
        /// `host:port`
        server: String,
        /// What was asked for.
        path: String,
        /// Why.
        reason: String,
    },
    /// Streams end as soon as they begin.
    #[error(
        "Kubernetes at {server} ends each watch of {path} at once, so that it can only be listed now and then; is there a \
         proxy between that does not let streams through?"
    )]
    Fruitless {
        /// `host:port`
        server: String,
        /// What is watched.
        path: String,
    },
    /// A defect.
    #[error("internal error while {path} was watched; please report it with the log")]
    Panicked {
        /// What was asked for.
        path: String,
    },
}

// === impl ApiError ===

impl ApiError {
    /// Judges a bad status.
    pub(super) fn of_status(asked: Asked<'_>, status: StatusCode, after: Option<Duration>, body: &[u8]) -> Self {
        let Asked { server, resource, namespace, verb } = asked;
        let (server, path) = (server.to_owned(), resource.path(namespace));
        let status_body: Status = serde_json::from_slice(body).unwrap_or_default();
        let object = status_body.object_not_found();
        let said = shortened(&status_body.message.unwrap_or_else(|| String::from_utf8_lossy(body).into_owned()));
        match status {
            StatusCode::UNAUTHORIZED => {
                let remedy = "give rosterd a token that is valid (`inCluster`, or `token` or `tokenFile` of the \
                              kubeconfig), or let it ask a kubectl proxy"
                    .to_owned();
                Self::Unauthorized { server, remedy }
            }
            StatusCode::FORBIDDEN => {
                let rule = rule(resource).into();
                let (resource, namespace) = (resource.plural, namespace.into());
                Self::Forbidden { server, verb, resource, namespace, rule, said: said.into() }
            }
            StatusCode::NOT_FOUND => Self::Missing { server, path, object, said },
            StatusCode::GONE => Self::Gone { server, path },
            StatusCode::TOO_MANY_REQUESTS => Self::Limited { server, after, said },
            status => Self::Status { server, path, status, after, said },
        }
    }

    /// Does it say that the resource cannot be had in this way, so that another way may be tried?
    pub(super) fn is_refusal(&self) -> bool {
        matches!(self, Self::Forbidden { .. } | Self::Missing { .. })
    }

    /// Does it concern whatever is asked of the server?
    pub(super) fn is_of_server(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::NoSession { .. } | Self::Unauthorized { .. })
            || matches!(self, Self::NoToken { .. } | Self::Silent { .. } | Self::Broken { .. })
    }

    /// How long the server wants to be left alone.
    pub(super) fn after(&self) -> Option<Duration> {
        match self {
            Self::Limited { after, .. } | Self::Status { after, .. } => *after,
            _ => None,
        }
    }

    /// One word for metrics.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Forbidden { .. } => "forbidden",
            Self::Unauthorized { .. } => "unauthorized",
            Self::NoToken { .. } => "no_token",
            Self::Missing { .. } => "missing",
            Self::Gone { .. } => "gone",
            Self::Limited { .. } => "limited",
            Self::Status { .. } => "status",
            Self::Event { .. } => "error_event",
            Self::Unreachable { .. } => "unreachable",
            Self::NoSession { .. } => "no_tls_session",
            Self::Broken { .. } => "broken",
            Self::Silent { .. } => "silent",
            Self::Unreadable { .. } => "unreadable",
            Self::Fruitless { .. } => "fruitless",
            Self::Panicked { .. } => "panicked",
        }
    }
}

/// What a Role has to say, in its own language.
fn rule(resource: Resource) -> String {
    let Resource { group, plural, .. } = resource;
    format!(
        "a Role or ClusterRole of rosterd's account needs {{apiGroups: [\"{group}\"], resources: [\"{plural}\"], verbs: \
         [\"get\", \"list\", \"watch\"]}}"
    )
}

/// One line of bounded length.
pub(super) fn shortened(text: &str) -> String {
    let line: String = text.trim().chars().take(SHOWN).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if line.starts_with('<') { "a web page".to_owned() } else { line }
}

fn words(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(": {text}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(resource: Resource, status: u16, body: &str) -> ApiError {
        let asked = Asked { server: "k8s:443", resource, namespace: "srv", verb: "list" };
        ApiError::of_status(asked, StatusCode::from_u16(status).expect("a status"), None, body.as_bytes())
    }

    #[test]
    fn a_denial_names_the_missing_rule() {
        let denied = r#"{"kind":"Status","message":"endpoints is forbidden: User \"reader\" cannot list","code":403}"#;
        let text = of(Resource::ENDPOINTS, 403, denied).to_string();
        for part in
            ["list endpoints", "namespace srv", "apiGroups: [\"\"]", "[\"endpoints\"]", "User \"reader\" cannot"]
        {
            assert!(text.contains(part), "{text}");
        }
        assert!(of(Resource::SLICES, 403, "").to_string().contains("apiGroups: [\"discovery.k8s.io\"]"));
    }

    #[test]
    fn what_a_server_says_is_one_bounded_line() {
        let text = of(Resource::SERVICES, 502, &format!("bad\ngateway {}", "x".repeat(9_000))).to_string();
        assert!(text.contains("bad gateway") && text.len() < 600 && !text.contains('\n'), "{text}");
        assert_eq!(of(Resource::SERVICES, 404, "404 page not found").word(), "missing");
    }
}
