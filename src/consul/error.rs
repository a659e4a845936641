//! Why an agent gave no usable answer.

use http::StatusCode;

use super::rules;

/// Characters of an agent's text that are shown.
const SHOWN: usize = 300;

/// What went wrong with a request. `agent` is `host:port`, `path` the path without parameters.
///
/// Each text names the cause and, where there is one, the remedy; none shows a token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConsulError {
    /// 403 for want of a permission.
    #[error("Consul at {agent} refuses {path}: {text}; the policy of the token in `token` needs {rule}")]
    Forbidden {
        /// The agent.
        agent: String,
        /// What was asked for.
        path: String,
        /// What the agent says.
        text: String,
        /// The missing rule.
        rule: String,
    },
    /// 403, or a list from which everything was taken out, although nothing says so.
    #[error("Consul at {agent} leaves everything out of {path}; the policy of the token in `token` needs {rule}")]
    Filtered {
        /// The agent.
        agent: String,
        /// What was asked for.
        path: String,
        /// The missing rule.
        rule: String,
    },
    /// 403: the token itself is unknown.
    #[error("Consul at {agent} does not know the token in `token` (ACL not found): was it deleted or rotated?")]
    UnknownToken {
        /// The agent.
        agent: String,
    },
    /// 500: no such datacenter, or no link to it.
    #[error(
        "Consul at {agent} has no path to datacenter {datacenter}: the name is wrong, or the WAN link to it is down"
    )]
    NoPathToDatacenter {
        /// The agent.
        agent: String,
        /// As asked for; empty for the agent's own.
        datacenter: String,
    },
    /// 500: an election, or a lost quorum.
    #[error("Consul at {agent} has no cluster leader: an election is under way, or the servers have lost their quorum")]
    NoLeader {
        /// The agent.
        agent: String,
    },
    /// A 200 to wait on without an index to wait from.
    #[error("Consul at {agent} answered {path} without X-Consul-Index: does a proxy in between remove headers?")]
    NoIndex {
        /// The agent.
        agent: String,
        /// What was asked for.
        path: String,
    },
    /// No connection.
    #[error("no connection to Consul at {agent} ({cause}): is an agent running there? `host` and `port` say where")]
    Unreachable {
        /// The agent.
        agent: String,
        /// What the system says.
        cause: String,
    },
    /// The agent is there, and no TLS session comes to be with it.
    #[error(
        "no TLS session with Consul at {agent}: {cause}; does `tls` name the CA (`trustCertsBundle`) and the name in its \
         certificate (`commonName`)? An agent that speaks plain text needs no `tls`"
    )]
    NoSession {
        /// The agent.
        agent: String,
        /// What the library says.
        cause: String,
    },
    /// The connection ended before the answer did, or what came is no HTTP.
    #[error("Consul at {agent} broke off its answer to {path} ({cause})")]
    Broken {
        /// The agent.
        agent: String,
        /// What was asked for.
        path: String,
        /// What the library says.
        cause: String,
    },
    /// No answer within its time.
    #[error("Consul at {agent} has not answered {path} within {seconds} s")]
    Silent {
        /// The agent.
        agent: String,
        /// What was asked for.
        path: String,
        /// The limit.
        seconds: u64,
    },
    /// 429: the agent takes no more connections of this client.
    #[error(
        "Consul at {agent} takes no more connections of this client (429): raise limits.http_max_conns_per_client \
         of the agent, or lower `maxPolls`"
    )]
    Busy {
        /// The agent.
        agent: String,
    },
    /// 429 or 503: the servers take no more requests for now.
    #[error(
        "Consul at {agent} takes no more requests for now ({text}): see limits.request_limits of the servers, or lower \
         `maxPolls`"
    )]
    Limited {
        /// The agent.
        agent: String,
        /// What it says.
        text: String,
    },
    /// All places for such requests are taken.
    #[error(
        "Consul at {agent} answers none of the requests that were sent before; this one has waited for them in vain"
    )]
    Crowded {
        /// The agent.
        agent: String,
    },
    /// 413: a value larger than Consul stores.
    #[error("{text}")]
    TooLarge {
        /// What the agent says, which names its limit.
        text: String,
    },
    /// An answer that is longer than what is read.
    #[error("the answer of Consul at {agent} to {path} is longer than {limit} bytes, which is all that is read of one")]
    TooLong {
        /// The agent.
        agent: String,
        /// What was asked for.
        path: String,
        /// The limit.
        limit: usize,
    },
    /// An answer with a good status that cannot be read.
    #[error("the answer of Consul at {agent} to {path} cannot be read: {cause}; is something else listening there?")]
    Unreadable {
        /// The agent.
        agent: String,
        /// What was asked for.
        path: String,
        /// Why not.
        cause: String,
    },
    /// Redirects are not followed: the token would go with them.
    #[error("Consul at {agent} redirects {path} to {location}; redirects are not followed, name that server instead")]
    Redirected {
        /// The agent.
        agent: String,
        /// What was asked for.
        path: String,
        /// Where to.
        location: String,
    },
    /// Any other status.
    #[error("Consul at {agent} answered {path} with {status}{}", said(.text))]
    Status {
        /// The agent.
        agent: String,
        /// What was asked for.
        path: String,
        /// The status.
        status: StatusCode,
        /// What the agent says.
        text: String,
    },
    /// A defect of rosterd.
    #[error("internal error: reading the answer to {path} panicked; please report it with the log")]
    Panicked {
        /// What was asked for.
        path: String,
    },
}

/// What is known of a request when its answer is judged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    pub(super) agent: &'a str,
    pub(super) path: &'a str,
    pub(super) writes: bool,
    /// The value of `dc`.
    pub(super) datacenter: &'a str,
}

// === impl ConsulError ===

impl ConsulError {
    /// The error that a status other than 200 stands for. A text that begins with `rpc error` comes from a server
    /// behind the agent, and may hold any of the others.
    pub(super) fn of_status(asked: Asked<'_>, status: StatusCode, location: Option<&str>, text: &str) -> Self {
        let (agent, path) = (asked.agent.to_owned(), asked.path.to_owned());
        let text = shortened(text);
        match status.as_u16() {
            403 if text.contains("ACL not found") => Self::UnknownToken { agent },
            403 => Self::Forbidden { agent, rule: rules::needed(asked.path, asked.writes), path, text },
            413 => Self::TooLarge { text },
            429 | 500 | 503 if text.contains("rate limit") => Self::Limited { agent, text },
            429 => Self::Busy { agent },
            300..400 => Self::Redirected { agent, path, location: shortened(location.unwrap_or("nowhere")) },
            500 if text.contains("No path to datacenter") => {
                Self::NoPathToDatacenter { agent, datacenter: asked.datacenter.to_owned() }
            }
            500 if text.contains("No cluster leader") => Self::NoLeader { agent },
            500 if text.contains("ACL not found") => Self::UnknownToken { agent },
            500 if text.contains("Permission denied") => {
                Self::Forbidden { agent, rule: rules::needed(asked.path, asked.writes), path, text }
            }
            _ => Self::Status { agent, path, status, text },
        }
    }

    /// Does it say that there is no such thing? Only this may empty a name, and only one that never resolved.
    pub fn is_authoritative(&self) -> bool {
        matches!(self, Self::NoPathToDatacenter { .. })
    }

    /// Does it concern everything that is asked of this agent?
    pub fn is_of_agent(&self) -> bool {
        self.is_loss() || matches!(self, Self::Busy { .. } | Self::Limited { .. } | Self::Crowded { .. })
    }

    /// Is the agent not to be had? Then one success tells all who wait to try again. (Where it has too much to do, that
    /// would be no help.)
    pub fn is_loss(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Silent { .. } | Self::NoLeader { .. } | Self::Broken { .. })
            || matches!(self, Self::UnknownToken { .. } | Self::NoSession { .. })
    }

    /// May the same request succeed in a moment?
    pub fn is_passing(&self) -> bool {
        match self {
            Self::NoLeader { .. }
            | Self::Unreachable { .. }
            | Self::NoSession { .. }
            | Self::Broken { .. }
            | Self::Silent { .. }
            | Self::Busy { .. }
            | Self::Limited { .. }
            | Self::Crowded { .. } => true,
            Self::Status { status, .. } => status.is_server_error(),
            Self::Forbidden { .. }
            | Self::Filtered { .. }
            | Self::UnknownToken { .. }
            | Self::NoPathToDatacenter { .. }
            | Self::NoIndex { .. }
            | Self::TooLarge { .. }
            | Self::TooLong { .. }
            | Self::Unreadable { .. }
            | Self::Redirected { .. }
            | Self::Panicked { .. } => false,
        }
    }

    /// Is it certain that a write was not done? Without that nobody may say so.
    pub fn is_certainly_undone(&self) -> bool {
        match self {
            Self::Forbidden { .. }
            | Self::Filtered { .. }
            | Self::UnknownToken { .. }
            | Self::NoPathToDatacenter { .. }
            | Self::NoLeader { .. }
            | Self::Unreachable { .. }
            | Self::Busy { .. }
            | Self::Crowded { .. }
            | Self::TooLarge { .. }
            | Self::Redirected { .. } => true,
            Self::NoIndex { .. }
            | Self::NoSession { .. }
            | Self::Broken { .. }
            | Self::Silent { .. }
            | Self::Limited { .. }
            | Self::TooLong { .. }
            | Self::Unreadable { .. }
            | Self::Panicked { .. } => false,
            Self::Status { status, .. } => status.is_client_error(),
        }
    }

    /// Is it the store's word on what was asked for, such as a denial? Anything else means that there is no answer.
    pub fn is_denial(&self) -> bool {
        matches!(self, Self::Forbidden { .. } | Self::Filtered { .. } | Self::UnknownToken { .. })
    }

    /// One word for metrics.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Forbidden { .. } => "forbidden",
            Self::Filtered { .. } => "filtered",
            Self::UnknownToken { .. } => "unknown_token",
            Self::NoPathToDatacenter { .. } => "no_path_to_datacenter",
            Self::NoLeader { .. } => "no_leader",
            Self::NoIndex { .. } => "no_index",
            Self::Unreachable { .. } => "unreachable",
            Self::NoSession { .. } => "no_tls_session",
            Self::Broken { .. } => "broken",
            Self::Silent { .. } => "silent",
            Self::Busy { .. } => "busy",
            Self::Limited { .. } => "limited",
            Self::Crowded { .. } => "crowded",
            Self::TooLarge { .. } => "too_large",
            Self::TooLong { .. } => "too_long",
            Self::Unreadable { .. } => "unreadable",
            Self::Redirected { .. } => "redirected",
            Self::Status { .. } => "status",
            Self::Panicked { .. } => "panicked",
        }
    }
}

/// One line of bounded length.
fn shortened(text: &str) -> String {
    let line: String = text.trim().chars().take(SHOWN).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if line.starts_with('<') { "a web page".to_owned() } else { line }
}

fn said(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(": {text}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &str, status: u16, text: &str) -> ConsulError {
        let asked = Asked { agent: "consul:8500", path, writes: false, datacenter: "dc9" };
        ConsulError::of_status(asked, StatusCode::from_u16(status).unwrap(), None, text)
    }

    #[test]
    fn a_denial_names_the_missing_rule() {
        let denied = "Permission denied: token with AccessorID '00000000-0000-0000-0000-000000000002' lacks permission";
        for (path, rule) in [
            ("/v1/health/service/web", "service:read and node:read"),
            ("/v1/catalog/service/web", "service:read and node:read"),
            ("/v1/kv/namerd/dtabs/default", "key:read"),
            ("/v1/agent/self", "agent:read"),
            ("/v1/catalog/nodes", "node:read"),
        ] {
            let text = of(path, 403, denied).to_string();
            assert!(text.contains(rule) && text.contains(path) && text.contains("consul:8500"), "{text}");
        }
    }

    #[test]
    fn a_text_of_a_server_behind_the_agent_means_the_same() {
        let path = "/v1/health/service/web";
        let rpc = of(path, 403, "rpc error: code = Unknown desc = ACL not found");
        assert_eq!(rpc, of(path, 403, "ACL not found"));
        assert!(matches!(rpc, ConsulError::UnknownToken { .. }));
        assert_eq!(of(path, 500, "rpc error: No cluster leader"), of(path, 500, "No cluster leader"));
    }

    #[test]
    fn only_a_missing_datacenter_says_that_there_is_nothing() {
        let path = "/v1/catalog/service/web";
        let missing = of(path, 500, "No path to datacenter");
        assert!(missing.is_authoritative() && missing.to_string().contains("dc9"), "{missing}");
        for (status, text) in [(500, "No cluster leader"), (403, "ACL not found"), (404, ""), (500, "rpc error")] {
            assert!(!of(path, status, text).is_authoritative());
        }
    }

    #[test]
    fn too_many_connections_and_too_many_requests_are_told_apart() {
        assert_eq!(of("/v1/x", 429, "Your IP is issuing too many concurrent connections").word(), "busy");
        for (status, text) in [
            (429, "rate limit exceeded, try again later or against a different server"),
            (503, "rate limit exceeded for operation that can only be performed by the leader, try again later"),
            (500, "rpc error making call: rate limit exceeded, try again later or against a different server"),
        ] {
            let limited = of("/v1/x", status, text);
            assert!(limited.word() == "limited" && limited.to_string().contains("try again later"), "{limited}");
        }
    }

    #[test]
    fn what_an_agent_says_is_one_bounded_line() {
        let text = of("/v1/x", 502, &format!("bad\ngateway {}", "x".repeat(9_000))).to_string();
        assert!(text.contains("bad gateway") && text.len() < 500 && !text.contains('\n'), "{text}");
        assert!(of("/v1/x", 404, "<html>").to_string().ends_with("404 Not Found: a web page"));
    }
}
