//! The handshake of one connection, in the connection's own task.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::super::{Conn, foreign};
use super::Server;
use super::failure::Failure;
use super::paced::paced;

/// A client that has not finished the handshake after this time is closed.
const PATIENCE: Duration = Duration::from_secs(10);
/// A handshake that is under way when the server ends must be finished after this time.
const LAST_HANDSHAKE: Duration = Duration::from_secs(1);
/// How long, and how much, is read over after a failure, so that a reset does not overtake the alert.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES: u64 = 64 << 10;

impl Server {
    /// Makes a TLS connection of a TCP one. None if that failed, which has been counted and logged. `ending` says that
    /// the server accepts no more.
    pub(in super::super) async fn handshake(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        ending: &CancellationToken,
    ) -> Option<Conn> {
        let patience = async {
            tokio::select! {
                () = sleep(PATIENCE) => {}
                () = async { ending.cancelled().await; sleep(LAST_HANDSHAKE).await } => {}
            }
        };
        let (failure, left) = tokio::select! {
            biased;
            done = self.negotiate(stream) => match done {
                Ok(Some(conn)) => {
                    self.done.fetch_add(1, Ordering::Relaxed);
                    return Some(conn);
                }
                Ok(None) => return None,
                Err(failed) => failed,
            },
            () = patience => (Failure::slow(), None),
        };
        self.note(peer, &failure);
        if let Some(stream) = left {
            let _ = timeout(LINGER, linger(stream)).await;
        }
        None
    }

    /// None if the client goes before it says anything, as health checks do.
    async fn negotiate(&self, stream: TcpStream) -> Result<Option<Conn>, (Failure, Option<TcpStream>)> {
        let mut first = [0; 16];
        let Ok(length @ 1..) = stream.peek(&mut first).await else { return Ok(None) };
        if first[0] != 0x16 {
            return Err((Failure::not_tls(foreign::guess(&first[..length])), Some(stream)));
        }
        let accepting = TlsAcceptor::from(self.current().config.clone()).accept(stream).into_fallible();
        match paced(accepting).await {
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

async fn linger(mut stream: TcpStream) -> io::Result<()> {
    stream.shutdown().await?;
    tokio::io::copy(&mut stream.take(LINGER_BYTES), &mut tokio::io::sink()).await.map(drop)
}
