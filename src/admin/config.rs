//! `admin:` of the configuration.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use regex::Regex;

use crate::config::tree::Node;
use crate::config::{Fields, FromNode, Port, Report, SocketOptions};
use crate::runtime::tls;

/// Clients have at least this time when the process ends, as in namerd.
const SHORTEST_GRACE: Duration = Duration::from_secs(1);

/// The admin server. Without `admin:` it has all defaults.
#[derive(Clone, Debug)]
pub struct AdminConfig {
    /// Where it listens: `ip`, loopback by default, and `port`, 9991 by default.
    pub address: SocketAddr,
    /// `socketOptions`.
    pub socket_options: SocketOptions,
    /// `tls`, with its files.
    pub tls: Option<tls::Loaded>,
    /// `security`; none = every path is served.
    pub security: Option<Security>,
    /// `shutdownGraceMs`: how long a shutdown waits for clients, at least a second.
    pub shutdown_grace: Duration,
}

impl Default for AdminConfig {
    fn default() -> Self {
        Self {
            address: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9991),
            socket_options: SocketOptions::default(),
            tls: None,
            security: None,
            shutdown_grace: Duration::from_secs(10),
        }
    }
}

impl FromNode for AdminConfig {
    fn from_node(node: &Node, report: &Report) -> Option<Self> {
        let default = Self::default();
        Fields::read(node, "admin", report, |fields| {
            let ip = fields.or("ip", default.address.ip());
            let Port(port) = fields.or("port", Port(default.address.port()));
            let _: (Option<Port>, Option<u32>) = (fields.opt("httpIdentifierPort"), fields.opt("workerThreads"));
            fields.without_effect(&["httpIdentifierPort", "workerThreads"], "");
            let grace = fields.millis_or("shutdownGraceMs", default.shutdown_grace);
            if grace < SHORTEST_GRACE {
                let message = "shutdownGraceMs is less than 1000, which is taken instead";
                report.warn(fields.span_of("shutdownGraceMs"), message);
            }
            Some(Self {
                address: SocketAddr::new(ip, port),
                socket_options: fields.or("socketOptions", default.socket_options),
                tls: tls::Loaded::read(fields),
                security: fields.opt("security"),
                shutdown_grace: grace.max(SHORTEST_GRACE),
            })
        })
    }
}

/// Which paths of the admin server are served.
#[derive(Clone, Debug)]
pub struct Security {
    /// `uiEnabled`: pages for people.
    pub ui_enabled: bool,
    /// `controlEnabled`: what changes the process.
    pub control_enabled: bool,
    /// `diagnosticsEnabled`: everything else.
    pub diagnostics_enabled: bool,
    /// `pathWhitelist`: served whatever their category.
    pub path_whitelist: Vec<PathPattern>,
    /// `pathBlacklist`: never served.
    pub path_blacklist: Vec<PathPattern>,
}

impl FromNode for Security {
    fn from_node(node: &Node, report: &Report) -> Option<Self> {
        Fields::read(node, "security", report, |fields| {
            Some(Self {
                ui_enabled: fields.or("uiEnabled", true),
                control_enabled: fields.or("controlEnabled", true),
                diagnostics_enabled: fields.or("diagnosticsEnabled", true),
                path_whitelist: fields.or("pathWhitelist", Vec::new()),
                path_blacklist: fields.or("pathBlacklist", Vec::new()),
            })
        })
    }
}

/// A regular expression for whole paths.
#[derive(Clone, Debug)]
pub struct PathPattern(Regex);

impl PathPattern {
    /// Whether the whole path matches.
    #[must_use]
    pub fn matches(&self, path: &str) -> bool {
        self.0.is_match(path)
    }
}

impl FromNode for PathPattern {
    fn from_node(node: &Node, report: &Report) -> Option<Self> {
        let pattern = String::from_node(node, report)?;
        // Checked by itself first: the group around it would hide a parenthesis too many.
        match Regex::new(&pattern).and_then(|_| Regex::new(&format!("^(?:{pattern})$"))) {
            Ok(regex) => Some(Self(regex)),
            Err(error) => {
                let reason = error.to_string();
                let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ");
                let message = format!(
                    "{} is not a regular expression known here: {reason} (look-around and back-references of Java are \
                     not available)",
                    node.describe()
                );
                report.problem(node.span, message);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Problems, Warning, read_text};

    fn read(admin: &str) -> Result<(AdminConfig, Vec<Warning>), Problems> {
        read_text("f", &format!("admin: {admin}"), "the test", |fields| fields.opt("admin"))
    }

    fn refused(admin: &str, fragment: &str) {
        let problems = read(admin).expect_err("must be refused").to_string();
        assert!(problems.contains(fragment), "{problems}");
    }

    #[test]
    fn every_key_is_read() {
        let (admin, warnings) = read(
            "{ip: 0.0.0.0, port: 9990, shutdownGraceMs: 20000, socketOptions: {backlog: 1}, httpIdentifierPort: 8080,
              workerThreads: 3, security: {uiEnabled: false, controlEnabled: false, diagnosticsEnabled: false}}",
        )
        .expect("valid");
        assert_eq!(admin.address, SocketAddr::from(([0, 0, 0, 0], 9990)));
        assert_eq!(admin.shutdown_grace, Duration::from_secs(20));
        assert_eq!(admin.socket_options.backlog, Some(1));
        let security = admin.security.expect("given");
        assert!(!security.ui_enabled && !security.control_enabled && !security.diagnostics_enabled);
        let warnings: Vec<String> = warnings.into_iter().map(|Warning(text)| text).collect();
        assert_eq!(warnings, ["f:1:107: httpIdentifierPort has no effect", "f:2:30: workerThreads has no effect"]);
    }

    #[test]
    fn the_grace_is_at_least_a_second() {
        assert_eq!(read("{shutdownGraceMs: 0}").expect("valid").0.shutdown_grace, Duration::from_secs(1));
        assert_eq!(read("{port: 1}").expect("valid").0.shutdown_grace, Duration::from_secs(10));
    }

    #[test]
    fn patterns_match_whole_paths() {
        let (admin, _) =
            read("{security: {pathWhitelist: ['^/admin/ping$', '/a|/b'], pathBlacklist: ['/config[.]json']}}")
                .expect("valid");
        let security = admin.security.expect("given");
        let [ping, either] = &security.path_whitelist[..] else { panic!("two patterns") };
        assert!(ping.matches("/admin/ping") && !ping.matches("/admin/ping/x"));
        assert!(either.matches("/a") && either.matches("/b") && !either.matches("/ab") && !either.matches("/a/b"));
        assert!(!security.path_blacklist[0].matches("/configXjson"));
    }

    #[test]
    fn bad_patterns_are_refused_one_by_one() {
        refused("{security: {pathWhitelist: ['/(']}}", "'/(' is not a regular expression known here: unclosed group");
        refused("{security: {pathBlacklist: ['/)(']}}", "'/)(' is not a regular expression");
        refused("{security: {pathBlacklist: ['(?=/a)']}}", "look-around");
    }

    #[test]
    fn unknown_keys_and_bad_values_are_refused() {
        refused("{ip: localhost}", "'localhost' is not an IP string literal.");
        refused("{port: \"9991\"}", "not numeric");
        refused("{shutdownGracesMs: 1}", "did you mean \"shutdownGraceMs\"?");
        refused("{tls: {certPath: nope, keyPath: nope}}", "nope: cannot be read");
    }
}
