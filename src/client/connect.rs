//! Connections to servers. What makes them is a trait, so that tests can simulate the network.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rustls::pki_types::ServerName;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;

use super::{Failure, Reason};
use crate::config::ClientTls;
use crate::runtime::tls;

/// A connection that is ready to be spoken on.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Makes connections.
#[async_trait]
pub trait Connect: Send + Sync + 'static {
    /// Connects to `address`, and makes the handshake of TLS if that is spoken. Whoever calls bounds the time.
    ///
    /// # Errors
    /// What went wrong.
    async fn connect(&self, address: SocketAddr) -> Result<Box<dyn Stream>, Failure>;
}

/// TCP.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tcp;

/// TLS over TCP.
pub struct Tls {
    connector: TlsConnector,
    name: ServerName<'static>,
    /// Has the files of the configuration renewed.
    _current: AbortOnDropHandle<()>,
}

/// The name that the library is told where none can be asked for: what is checked is decided elsewhere.
const NO_NAME: &str = "name-server.invalid";

/// Silence after which the kernel asks whether the other side is there, and the time between further questions.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// What was sent must be acknowledged within this time, probes of the kernel too: a host that vanished is noticed.
const USER_TIMEOUT: Duration = Duration::from_secs(20);

// === impl Tcp ===

#[async_trait]
impl Connect for Tcp {
    async fn connect(&self, address: SocketAddr) -> Result<Box<dyn Stream>, Failure> {
        Ok(Box::new(dial(address).await?))
    }
}

// === impl Tls ===

impl Tls {
    /// Makes handshakes as a block of the configuration says. Reads its files. Must be called within a runtime.
    ///
    /// # Errors
    /// The block allows no version that is spoken here.
    pub fn new(block: &ClientTls) -> Result<Self, String> {
        let client = tls::Client::new(block.clone());
        let name = client.asked_name().unwrap_or(NO_NAME).to_owned();
        let name = ServerName::try_from(name).map_err(|error| error.to_string())?;
        let connector = TlsConnector::from(Arc::new(client.config()?));
        Ok(Self { connector, name, _current: client.keep_current() })
    }
}

#[async_trait]
impl Connect for Tls {
    async fn connect(&self, address: SocketAddr) -> Result<Box<dyn Stream>, Failure> {
        let stream = dial(address).await?;
        let stream = self.connector.connect(self.name.clone(), stream).await;
        let stream = stream.map_err(|error| Failure::new(Reason::Tls, format!("TLS: {error}")))?;
        Ok(Box::new(stream))
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("name", &self.name).finish_non_exhaustive()
    }
}

async fn dial(address: SocketAddr) -> Result<TcpStream, Failure> {
    let stream = TcpStream::connect(address).await;
    let stream = stream.map_err(|error| Failure::new(Reason::Connect, format!("cannot connect: {error}")))?;
    watch_over(&stream);
    Ok(stream)
}

/// Options without which a vanished host goes unnoticed, or small messages late. A system that refuses them serves all
/// the same.
fn watch_over(stream: &TcpStream) {
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE / 3);
    let socket = SockRef::from(stream);
    let mut refused =
        [stream.set_nodelay(true), socket.set_tcp_keepalive(&keepalive)].into_iter().find_map(Result::err);
    #[cfg(target_os = "linux")]
    if let Err(error) = socket.set_tcp_user_timeout(Some(USER_TIMEOUT)) {
        refused = Some(error);
    }
    if let Some(error) = refused {
        tracing::debug!(%error, "a socket option was refused");
    }
}
