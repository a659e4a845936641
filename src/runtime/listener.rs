//! Listening sockets: all are bound before anything else is done.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;
use rustix::net::{SocketFlags, acceptfrom_with, listen};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};

use super::handover::Inherited;
use super::tls;
use crate::config::SocketOptions;

/// The length of the queue of connections that wait to be accepted, where the configuration gives none.
const BACKLOG: u32 = 4096;

/// Where a server is to listen, and how it is called in messages.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// What is served there, as the start line says it: `http`, `io.l5d.httpController interface`.
    pub what: String,
    /// The block of the configuration whose `ip` and `port` move it: `admin`, `interfaces[0]`.
    pub key: String,
    /// The address; port 0 takes any free one.
    pub address: SocketAddr,
    /// `socketOptions` of the block.
    pub options: SocketOptions,
    /// `tls` of the block; none = plain text.
    pub tls: Option<Arc<tls::Server>>,
}

/// A bound socket that does not accept yet: clients that connect wait in its queue.
#[derive(Debug)]
pub struct Listener {
    pub(super) socket: Arc<TcpListener>,
    pub(super) options: SocketOptions,
    pub(super) tls: Option<Arc<tls::Server>>,
    /// The socket is somebody else's, too, and outlives the process: what waits in its queue is for whoever comes next.
    pub(super) lives_on: bool,
    /// See [`Listener::is_left`].
    pub(super) left: Arc<AtomicBool>,
    what: String,
    key: String,
    configured: SocketAddr,
    address: SocketAddr,
}

/// Why a server cannot listen; names the server, the address and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Somebody else has the port.
    #[error(
        "address in use: {what} cannot listen on {address}; \
         stop the process that does (is it another rosterd or namerd?) or change `port` of {key}"
    )]
    InUse {
        /// See [`Endpoint::what`].
        what: String,
        /// See [`Endpoint::key`].
        key: String,
        /// The address.
        address: SocketAddr,
    },
    /// Ports below 1024 need a capability.
    #[error(
        "permission denied: {what} may not listen on {address}; \
         give the process CAP_NET_BIND_SERVICE or change `port` of {key} to 1024 or above"
    )]
    Denied {
        /// See [`Endpoint::what`].
        what: String,
        /// See [`Endpoint::key`].
        key: String,
        /// The address.
        address: SocketAddr,
    },
    /// The address is none of this machine's.
    #[error(
        "address not available: {what} cannot listen on {address}, which is no address of this machine; \
         change `ip` of {key}"
    )]
    NotHere {
        /// See [`Endpoint::what`].
        what: String,
        /// See [`Endpoint::key`].
        key: String,
        /// The address.
        address: SocketAddr,
    },
    /// Anything else.
    #[error("{what} cannot listen on {address}: {source}; see `ip`, `port` and `socketOptions` of {key}")]
    Other {
        /// See [`Endpoint::what`].
        what: String,
        /// See [`Endpoint::key`].
        key: String,
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
}

/// Binds all sockets, in order, and takes those that somebody else has opened already. Must be called within a runtime.
///
/// # Errors
/// The first that cannot be bound. The others are closed again.
pub fn bind_all(endpoints: Vec<Endpoint>, inherited: &mut Inherited) -> Result<Vec<Listener>, BindError> {
    endpoints.into_iter().map(|endpoint| Listener::open(endpoint, inherited)).collect()
}

// === impl Listener ===

impl Listener {
    /// Binds one socket. Must be called within a runtime.
    ///
    /// # Errors
    /// [`BindError`]
    pub fn bind(endpoint: Endpoint) -> Result<Self, BindError> {
        Self::open(endpoint, &mut Inherited::default())
    }

    fn open(endpoint: Endpoint, inherited: &mut Inherited) -> Result<Self, BindError> {
        let found = inherited.take(&endpoint);
        let lives_on = found.as_ref().is_some_and(|found| found.lives_on);
        let Endpoint { what, key, address, options, tls } = endpoint;
        let opened = match found {
            // Until it is ours to accept from, nothing about it changes.
            Some(found) => open(found.listener.into()),
            None => bound(address, &options).and_then(|socket| {
                socket.listen(backlog(&options))?;
                open(socket)
            }),
        };
        match opened {
            Ok((socket, is)) => {
                let (socket, left) = (Arc::new(socket), Arc::default());
                Ok(Self { socket, options, tls, lives_on, left, what, key, configured: address, address: is })
            }
            Err(source) => Err(match source.kind() {
                io::ErrorKind::AddrInUse => BindError::InUse { what, key, address },
                io::ErrorKind::PermissionDenied => BindError::Denied { what, key, address },
                io::ErrorKind::AddrNotAvailable => BindError::NotHere { what, key, address },
                _ => BindError::Other { what, key, address, source },
            }),
        }
    }

    /// The address it really has: the port is never 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its block of the configuration, and the address there.
    pub fn place(&self) -> (&str, SocketAddr) {
        (&self.key, self.configured)
    }

    /// The options that its connections have.
    pub fn options(&self) -> &SocketOptions {
        &self.options
    }

    /// Whether its connections are TLS.
    pub fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// What is served there.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// Another process has taken over, and not this socket: nobody else accepts from it.
    pub(super) fn is_left(&self) -> bool {
        self.left.load(Ordering::Acquire)
    }

    /// Accepting begins: the queue of a socket that was another rosterd's gets the length of this configuration. That of a
    /// supervisor's has the length that the supervisor gave it.
    pub(super) fn begin(&self) {
        if !self.lives_on
            && let Err(error) = listen(&*self.socket, backlog(&self.options))
        {
            tracing::debug!(%error, what = self.what, "the queue keeps its length");
        }
    }

    /// Takes a connection that is in the queue already. Never waits.
    pub(super) fn next_in_queue(&self) -> Option<(TcpStream, SocketAddr)> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        loop {
            match acceptfrom_with(&self.socket, flags) {
                Ok((socket, peer)) => {
                    let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
                    if let (Some(peer), Ok(stream)) = (peer, TcpStream::from_std(socket.into())) {
                        return Some((stream, peer));
                    }
                }
                // One of them has gone meanwhile; there may be more behind it.
                Err(Errno::CONNABORTED | Errno::INTR | Errno::PROTO) => {}
                Err(_) => return None,
            }
        }
    }

    /// Logs that this server can be reached, in namerd's words: scripts wait for this line.
    pub fn announce(&self) {
        tracing::info!("serving {} on /{}", self.what, self.address);
    }
}

fn bound(address: SocketAddr, options: &SocketOptions) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(options.reuse_addr)?;
    if options.reuse_port {
        socket.set_reuse_port(true)?;
    }
    socket.bind(&address.into())?;
    Ok(socket)
}

fn backlog(options: &SocketOptions) -> i32 {
    i32::try_from(options.backlog.unwrap_or(BACKLOG)).unwrap_or(i32::MAX)
}

/// Takes a socket that listens.
fn open(socket: Socket) -> io::Result<(TcpListener, SocketAddr)> {
    socket.set_nonblocking(true)?;
    let listener = TcpListener::from_std(socket.into())?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(what: &str, address: SocketAddr) -> Endpoint {
        let options = SocketOptions::default();
        Endpoint { what: what.to_owned(), key: "admin".to_owned(), address, options, tls: None }
    }

    #[tokio::test]
    async fn port_0_takes_a_free_port_and_says_which() {
        let listener = Listener::bind(endpoint("http", SocketAddr::from(([127, 0, 0, 1], 0)))).expect("free port");
        assert_ne!(listener.address().port(), 0);
        assert_eq!(listener.what(), "http");
    }

    #[tokio::test]
    async fn a_taken_port_is_named_with_its_server_and_the_remedy() {
        let first = Listener::bind(endpoint("http", SocketAddr::from(([127, 0, 0, 1], 0)))).expect("free port");
        let both = vec![
            endpoint("one", SocketAddr::from(([127, 0, 0, 1], 0))),
            endpoint("io.l5d.httpController interface", first.address()),
        ];
        let both = bind_all(both, &mut Inherited::default());
        let text = both.expect_err("taken").to_string();
        let start = format!("address in use: io.l5d.httpController interface cannot listen on {}; ", first.address());
        assert!(text.starts_with(&start) && text.ends_with("change `port` of admin"), "{text}");
    }

    #[tokio::test]
    async fn an_address_of_another_machine_is_named() {
        let error = Listener::bind(endpoint("http", SocketAddr::from(([192, 0, 2, 1], 0)))).expect_err("not here");
        assert!(matches!(error, BindError::NotHere { .. }), "{error}");
    }
}
