//! Watches of the HTTP controller, as stories of namers follow them.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Chunk, PATIENCE, Rosterd, Wire};

/// A watch of the HTTP controller: each value as it comes.
pub struct Follow {
    wire: Wire,
    unread: Vec<u8>,
    /// All values so far, shortened for messages.
    pub seen: Vec<String>,
}

impl Follow {
    /// The addresses of an id.
    pub fn addr(rosterd: &Rosterd, id: &str) -> Self {
        Self::open(rosterd, &format!("/api/1/addr/default?watch=true&path={}", id.replace('#', "%23")))
    }

    /// The tree of a name.
    pub fn bind(rosterd: &Rosterd, name: &str) -> Self {
        Self::bind_in(rosterd, "default", name)
    }

    /// The tree of a name in a namespace.
    pub fn bind_in(rosterd: &Rosterd, namespace: &str, name: &str) -> Self {
        Self::open(rosterd, &format!("/api/1/bind/{namespace}?watch=true&path={}", name.replace('#', "%23")))
    }

    pub fn open(rosterd: &Rosterd, target: &str) -> Self {
        let mut wire = Wire::open(rosterd.http());
        wire.send(format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes());
        assert_eq!(wire.head().status(), 200);
        Self { wire, unread: Vec::new(), seen: Vec::new() }
    }

    /// The next value, if one comes in time.
    pub fn next(&mut self, limit: Duration) -> Option<Value> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=end).collect();
                let value: Value = serde_json::from_slice(&line).expect("a line of JSON");
                self.seen.push(value.to_string().chars().take(300).collect());
                return Some(value);
            }
            match self.wire.chunk(deadline.saturating_duration_since(Instant::now())) {
                Chunk::Data(data) => self.unread.extend(data),
                Chunk::Silence => return None,
                end => panic!("the watch ended: {end:?}, after {:?}", self.seen),
            }
        }
    }

    /// Waits for a value that is as `wanted` says; how long that took.
    pub fn until(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> Duration {
        self.until_at_most(3 * PATIENCE, what, wanted)
    }

    pub fn until_at_most(&mut self, limit: Duration, what: &str, wanted: impl Fn(&Value) -> bool) -> Duration {
        self.within(limit, wanted).unwrap_or_else(|| panic!("{what} never came; seen: {:#?}", self.seen))
    }

    /// How long a value took that is as `wanted` says, if it came.
    pub fn within(&mut self, limit: Duration, wanted: impl Fn(&Value) -> bool) -> Option<Duration> {
        let began = Instant::now();
        while began.elapsed() < limit {
            if let Some(value) = self.next(limit.saturating_sub(began.elapsed()))
                && wanted(&value)
            {
                return Some(began.elapsed());
            }
        }
        None
    }

    /// Waits for exactly these addresses, given as `ip:port`.
    pub fn until_addrs(&mut self, addrs: &[&str]) -> Duration {
        self.until(&format!("{addrs:?}"), |value| shown(value) == addrs)
    }

    /// Nothing may come for so long.
    pub fn stays(&mut self, time: Duration) {
        if let Some(value) = self.next(time) {
            panic!("it changed: {value}; before: {:#?}", self.seen);
        }
    }
}

/// `ip:port` of each address; nothing for what is not bound.
pub fn shown(value: &Value) -> Vec<String> {
    let addrs = value["addrs"].as_array().map(Vec::as_slice).unwrap_or_default();
    // The JVM writes IPv6 with all its zeros.
    let ip = |addr: &Value| addr["ip"].as_str().and_then(|ip| ip.parse::<IpAddr>().ok()).expect("an ip");
    let text = |addr: &Value| format!("{}:{}", ip(addr), addr["port"]);
    addrs.iter().map(text).collect()
}

/// Does the name not exist?
pub fn is_neg(value: &Value) -> bool {
    value["type"] == "neg"
}
