//! Listening sockets that somebody else has opened.

use std::net::{SocketAddr, TcpListener};

use rustix::net::sockopt::socket_cookie;
use socket2::SockRef;

use super::super::Endpoint;
use super::message::Passed;

/// Sockets that wait for the block of the configuration that they belong to.
#[derive(Debug, Default)]
pub struct Inherited {
    sockets: Vec<Socket>,
}

/// One of them.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) listener: TcpListener,
    pub(super) address: SocketAddr,
    /// What it was to another rosterd, if one had it. Others pass what they have opened themselves, and will pass to
    /// whoever comes next: supervisors.
    pub(super) was: Option<Passed>,
    /// How messages call it.
    pub(super) name: String,
}

/// A socket that found its block.
#[derive(Debug)]
pub(in super::super) struct Found {
    pub(in super::super) listener: TcpListener,
    pub(in super::super) lives_on: bool,
}

// === impl Inherited ===

impl Inherited {
    /// Adds those of another source; the first that fits a block is taken.
    pub fn and(mut self, other: Self) -> Self {
        self.sockets.extend(other.sockets);
        self
    }

    /// Are there any?
    pub fn is_empty(&self) -> bool {
        self.sockets.is_empty()
    }

    /// Adds one.
    ///
    /// # Errors
    /// It is no listening TCP socket.
    pub(super) fn add(&mut self, listener: TcpListener, was: Option<Passed>, name: String) -> Result<(), String> {
        let address = listener.local_addr().map_err(|error| format!("{name} is no TCP socket: {error}"))?;
        if !SockRef::from(&listener).is_listener().unwrap_or(false) {
            return Err(format!("{name} ({address}) does not listen"));
        }
        self.sockets.push(Socket { listener, address, was, name });
        Ok(())
    }

    /// Takes the one that a block of the configuration has its place at.
    pub(in super::super) fn take(&mut self, endpoint: &Endpoint) -> Option<Found> {
        let place = self.sockets.iter().position(|socket| socket.fits(endpoint))?;
        let socket = self.sockets.remove(place);
        let mut lives_on = socket.lives_on();
        let Socket { listener, address, name, .. } = socket;
        // What a supervisor has comes from the old process, too.
        let cookie = socket_cookie(&listener).ok();
        self.sockets.retain(|other| {
            let is_same = cookie.is_some() && socket_cookie(&other.listener).ok() == cookie;
            lives_on |= is_same && other.lives_on();
            !is_same
        });
        tracing::info!(%address, socket = name, "{} takes a socket that is open already", endpoint.key);
        Some(Found { listener, lives_on })
    }

    /// All blocks have what they need. What is left of another rosterd is closed there and here: its blocks.
    ///
    /// # Errors
    /// A supervisor has passed a socket that nobody would accept from: its clients would wait for ever.
    pub fn finish(self) -> Result<Vec<String>, String> {
        let mut left = Vec::new();
        for socket in self.sockets {
            let Socket { address, name, .. } = &socket;
            if socket.lives_on() {
                return Err(format!(
                    "the supervisor passes {name} ({address}), where the configuration has nothing; take it out of the \
                     socket unit, or set `ip` and `port` of a block to it"
                ));
            }
            tracing::info!(%address, socket = *name, "not in this configuration any more: closed");
            left.extend(socket.was.map(|was| was.key));
        }
        Ok(left)
    }
}

// === impl Socket ===

impl Socket {
    fn lives_on(&self) -> bool {
        self.was.as_ref().is_none_or(|was| was.lives_on)
    }

    fn fits(&self, endpoint: &Endpoint) -> bool {
        let (wanted, is) = (endpoint.address, self.address);
        if wanted.port() == 0 {
            // Any port will do, so it keeps the one that it had.
            return self
                .was
                .as_ref()
                .is_some_and(|was| (&was.key, &was.what, was.configured) == (&endpoint.key, &endpoint.what, wanted));
        }
        // A supervisor's socket for all addresses is one for both families unless told otherwise.
        wanted == is
            || wanted.port() == is.port()
                && wanted.ip().is_unspecified()
                && is.ip().is_unspecified()
                && is.is_ipv6()
                && self.lives_on()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SocketOptions;

    fn endpoint(key: &str, address: SocketAddr) -> Endpoint {
        let options = SocketOptions::default();
        Endpoint { what: "test".to_owned(), key: key.to_owned(), address, options, tls: None }
    }

    fn bound() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        (listener, address)
    }

    fn passed(key: &str, configured: SocketAddr) -> Option<Passed> {
        Some(Passed { key: key.to_owned(), what: "test".to_owned(), configured, lives_on: false })
    }

    #[test]
    fn a_block_gets_the_socket_of_its_address_or_with_port_0_that_of_its_predecessor() {
        let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
        let mut inherited = Inherited::default();
        let ((first, at), (second, _)) = (bound(), bound());
        inherited.add(first, passed("interfaces[0]", any), "x".to_owned()).expect("listens");
        inherited.add(second, passed("interfaces[1]", any), "y".to_owned()).expect("listens");
        assert!(inherited.take(&endpoint("interfaces[2]", any)).is_none());
        assert!(inherited.take(&endpoint("admin", "127.0.0.1:1".parse().expect("an address"))).is_none());
        assert!(inherited.take(&endpoint("interfaces[1]", any)).is_some());
        assert!(inherited.take(&endpoint("interfaces[7]", at)).is_some(), "blocks may change places");
        assert!(inherited.is_empty());
    }

    #[test]
    fn a_socket_that_comes_from_the_old_process_and_from_the_supervisor_is_one() {
        let (listener, at) = bound();
        let twin = listener.try_clone().expect("a descriptor");
        let mut inherited = Inherited::default();
        inherited.add(listener, passed("admin", at), "x".to_owned()).expect("listens");
        inherited.add(twin, None, "descriptor 3".to_owned()).expect("listens");
        assert!(inherited.take(&endpoint("admin", at)).expect("it is there").lives_on);
        inherited.finish().expect("nothing is left");
    }

    #[test]
    fn what_does_not_listen_is_refused() {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
        socket.bind(&"127.0.0.1:0".parse::<SocketAddr>().expect("an address").into()).expect("a free port");
        let refused = Inherited::default().add(socket.into(), None, "descriptor 3".to_owned());
        assert!(refused.expect_err("refused").contains("does not listen"));
    }

    #[test]
    fn a_socket_of_a_supervisor_that_nobody_would_accept_from_is_an_error() {
        let ((kept, at), (closed, _)) = (bound(), bound());
        let mut inherited = Inherited::default();
        inherited.add(closed, passed("admin", at), "x".to_owned()).expect("listens");
        inherited.add(kept, None, "descriptor 3".to_owned()).expect("listens");
        let error = inherited.finish().expect_err("refused");
        assert!(error.contains(&format!("descriptor 3 ({at})")), "{error}");
    }
}
