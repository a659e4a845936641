//! The handshake of one connection, in the connection's own task.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::io::ioctl_fionread;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::super::{Conn, foreign};
use super::Server;
use super::failure::Failure;
use super::paced::paced;
use super::patience::Patience;

/// A client that is waited for longer than this in a handshake is closed.
const PATIENCE: Duration = Duration::from_secs(10);
/// A handshake that is under way when the server ends must be finished after this time.
const LAST_HANDSHAKE: Duration = Duration::from_secs(1);
/// How long, and how much, is read over after a failure, so that a reset does not overtake the alert.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES: u64 = 64 << 10;
/// A record of TLS begins with its kind, version and length, and has no more than this behind that.
const HEADER: usize = 5;
const MAX_RECORD: usize = 1 << 14;

impl Server {
    /// Makes a TLS connection of a TCP one. None if that failed, which has been counted and logged. `ending` says that
    /// the server accepts no more.
    pub(in super::super) async fn handshake(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        ending: &CancellationToken,
    ) -> Option<Conn> {
        let patience = Patience::new(PATIENCE, LAST_HANDSHAKE, ending);
        match self.negotiate(stream, patience).await {
            Ok(conn) => {
                self.done.fetch_add(u64::from(conn.is_some()), Ordering::Relaxed);
                conn
            }
            Err((failure, left)) => {
                self.note(peer, &failure);
                if let Some(stream) = left {
                    let _ = timeout(LINGER, linger(stream)).await;
                }
                None
            }
        }
    }

    /// None if the client goes before it says anything, as health checks do.
    async fn negotiate(
        &self,
        stream: TcpStream,
        mut patience: Patience<'_>,
    ) -> Result<Option<Conn>, (Failure, Option<TcpStream>)> {
        let slow = || (Failure::slow(), None);
        let mut first = [0; 16];
        let Ok(length @ 1..) = patience.wait(stream.peek(&mut first)).await.ok_or_else(slow)? else { return Ok(None) };
        if first[0] != 0x16 {
            return Err((Failure::not_tls(foreign::guess(&first[..length])), Some(stream)));
        }
        if let Err(error) = patience.wait(first_record(&stream)).await.ok_or_else(slow)? {
            return Err((Failure::of(&error), None));
        }
        let accepting = TlsAcceptor::from(self.current().config.clone()).accept(stream).into_fallible();
        match paced(accepting, &mut patience).await.ok_or_else(slow)? {
            Ok(stream) => Ok(Some(Conn::Tls(Box::new(stream)))),
            Err((error, stream)) => Err((Failure::of(&error), Some(stream))),
        }
    }

    fn note(&self, peer: SocketAddr, failure: &Failure) {
        let Failure { reason, what, remedy } = failure;
        let failures = &self.failed[*reason as usize];
        failures.count.fetch_add(1, Ordering::Relaxed);
        match failures.log.due() {
            Some(left_out) => {
                tracing::warn!(%peer, server = self.key, left_out, "TLS handshake failed: {what}; {remedy}");
            }
            None => tracing::debug!(%peer, server = self.key, "TLS handshake failed: {what}"),
        }
    }
}

/// Waits until the client's first record is there. Until then it stays with the kernel: whoever sends half of it does
/// not take up the memory of a handshake.
async fn first_record(stream: &TcpStream) -> io::Result<()> {
    let mut header = [0; HEADER];
    there_are(stream, HEADER).await?;
    stream.peek(&mut header).await?;
    let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
    there_are(stream, HEADER + length.min(MAX_RECORD)).await
}

/// Waits until there is so much to read. Cancel safe.
async fn there_are(stream: &TcpStream, wanted: usize) -> io::Result<()> {
    loop {
        let ready = stream.ready(Interest::READABLE).await?;
        let enough = stream.try_io(Interest::READABLE, || match ioctl_fionread(stream)? {
            there if there >= wanted as u64 => Ok(()),
            _ => Err(io::ErrorKind::WouldBlock.into()),
        });
        match enough {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            Err(_) if ready.is_read_closed() => return Err(io::ErrorKind::UnexpectedEof.into()),
            Err(_) => {}
            Ok(()) => return Ok(()),
        }
    }
}

async fn linger(mut stream: TcpStream) -> io::Result<()> {
    stream.shutdown().await?;
    tokio::io::copy(&mut stream.take(LINGER_BYTES), &mut tokio::io::sink()).await.map(drop)
}
