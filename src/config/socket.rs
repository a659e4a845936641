//! `socketOptions` of interfaces and of the admin server.

use std::time::Duration;

use super::tree::Node;
use super::{Fields, FromNode, Millis, Report};

/// Options of a listening socket and its connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketOptions {
    /// `TCP_NODELAY`.
    pub no_delay: bool,
    /// `SO_REUSEADDR` of the listener.
    pub reuse_addr: bool,
    /// `SO_REUSEPORT` of the listener.
    pub reuse_port: bool,
    /// Longest time that a write may wait for the client. (namerd takes the two time-outs for each other.)
    pub write_timeout: Option<Duration>,
    /// Longest time without a byte from the client.
    pub read_timeout: Option<Duration>,
    /// `SO_KEEPALIVE`.
    pub keep_alive: Option<bool>,
    /// Length of the queue of the listener.
    pub backlog: Option<u32>,
}

impl Default for SocketOptions {
    fn default() -> Self {
        Self {
            no_delay: true,
            reuse_addr: true,
            reuse_port: false,
            write_timeout: None,
            read_timeout: None,
            keep_alive: None,
            backlog: None,
        }
    }
}

impl FromNode for SocketOptions {
    fn from_node(node: &Node, report: &Report) -> Option<Self> {
        let default = Self::default();
        Fields::read(node, "socketOptions", report, |fields| {
            Some(Self {
                no_delay: fields.or("noDelay", default.no_delay),
                reuse_addr: fields.or("reuseAddr", default.reuse_addr),
                reuse_port: fields.or("reusePort", default.reuse_port),
                write_timeout: fields.opt("writeTimeoutMs").map(|Millis(time)| time),
                read_timeout: fields.opt("readTimeoutMs").map(|Millis(time)| time),
                keep_alive: fields.opt("keepAlive"),
                backlog: fields.opt("backlog"),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::read_text;
    use super::*;

    #[test]
    fn every_option_is_read_and_the_others_keep_their_defaults() {
        let read = |text: &str| {
            read_text("f", text, "the test", |fields| fields.req::<SocketOptions>("o")).map(|(options, _)| options)
        };
        assert_eq!(
            read("o: {backlog: 128, readTimeoutMs: 1500}").expect("valid"),
            SocketOptions {
                backlog: Some(128),
                read_timeout: Some(Duration::from_millis(1500)),
                ..SocketOptions::default()
            }
        );
        let all = "o: {noDelay: false, reuseAddr: false, reusePort: true, writeTimeoutMs: 1, readTimeoutMs: 2, \
                   keepAlive: true, backlog: 3}";
        assert_eq!(
            read(all).expect("valid"),
            SocketOptions {
                no_delay: false,
                reuse_addr: false,
                reuse_port: true,
                write_timeout: Some(Duration::from_millis(1)),
                read_timeout: Some(Duration::from_millis(2)),
                keep_alive: Some(true),
                backlog: Some(3),
            }
        );
        let problems = read("o: {noDelai: true}").expect_err("refused").to_string();
        assert!(problems.contains("did you mean \"noDelay\"?"), "{problems}");
    }
}
