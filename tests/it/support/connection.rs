//! A connection to a port of this machine, plain or with TLS.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use rustls::{ClientConfig, ClientConnection, StreamOwned};

use super::PATIENCE;

/// One connection.
pub struct Connection {
    stream: Box<dyn Stream>,
}

/// Bytes over a socket. There is one descriptor for each connection: stories have thousands.
trait Stream: Read + Write + Send {
    fn socket(&self) -> &TcpStream;
}

impl Stream for TcpStream {
    fn socket(&self) -> &TcpStream {
        self
    }
}

impl Stream for StreamOwned<ClientConnection, TcpStream> {
    fn socket(&self) -> &TcpStream {
        &self.sock
    }
}

impl Connection {
    /// Connects.
    pub fn open(port: u16) -> Self {
        Self::on(TcpStream::connect(("127.0.0.1", port)).expect("the port is served"))
    }

    /// Goes on with a socket that is connected.
    pub fn on(socket: TcpStream) -> Self {
        set_up(&socket);
        Self { stream: Box::new(socket) }
    }

    /// Connects with TLS; also the certificate that the server showed.
    ///
    /// # Errors
    /// The handshake's.
    pub fn open_tls(port: u16, client: Arc<ClientConfig>) -> io::Result<(Self, Vec<u8>)> {
        let mut socket = TcpStream::connect(("127.0.0.1", port)).expect("the port is served");
        set_up(&socket);
        let name = "localhost".try_into().expect("a name");
        let mut session = ClientConnection::new(client, name).expect("the configuration is complete");
        while session.is_handshaking() {
            session.complete_io(&mut socket)?;
        }
        let shown = session.peer_certificates().and_then(|chain| chain.first()).expect("servers show one").to_vec();
        Ok((Self { stream: Box::new(StreamOwned::new(session, socket)) }, shown))
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    /// The other side does not read.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)?;
        self.stream.flush()
    }

    /// Reads what comes within a limit, which is not zero.
    ///
    /// # Errors
    /// Nothing came (`WouldBlock` or `TimedOut`), or the connection broke; with TLS also if it ended without a word.
    pub fn read(&mut self, buffer: &mut [u8], limit: Duration) -> io::Result<usize> {
        self.stream.socket().set_read_timeout(Some(limit)).expect("the limit is not zero");
        self.stream.read(buffer)
    }
}

fn set_up(socket: &TcpStream) {
    socket.set_nodelay(true).expect("a fresh socket takes options");
    socket.set_write_timeout(Some(PATIENCE)).expect("a fresh socket takes options");
    socket.set_read_timeout(Some(PATIENCE)).expect("a fresh socket takes options");
}
