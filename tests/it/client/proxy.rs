//! A TCP proxy that does to connections what networks and dying hosts do, outside of TLS or within it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_util::task::AbortOnDropHandle;

/// A proxy in front of one server, at an address of its own that stays the same.
pub struct Proxy {
    pub address: SocketAddr,
    shared: Arc<Shared>,
    /// None while connections are refused.
    listening: Mutex<Option<AbortOnDropHandle<()>>>,
    /// Keeps the port ours while nobody listens, when it would be given to whoever asks for a free one.
    _port: TcpSocket,
}

struct Shared {
    server: SocketAddr,
    mode: watch::Sender<Mode>,
    /// How the connections that are open end, and how often that was said.
    ends: watch::Sender<(u64, End)>,
    /// Where the client speaks TLS with the proxy, which speaks without it to the server.
    tls: Option<TlsAcceptor>,
    accepted: AtomicUsize,
    seed: u64,
}

/// What happens to bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Pass,
    /// They take this much longer.
    Delay(Duration),
    /// They wait, on connections old and new, and are there when this is over.
    Stall,
    /// They vanish, on connections old and new; those are dead for good, and nobody is told.
    HalfOpen,
    /// Those of new connections wait, those of old ones pass.
    StallNew,
    /// After so many from the server the connection ends.
    Truncate(usize),
    /// Those of the server turn into others.
    Garbage,
    /// Those of the server come twice.
    Duplicate,
}

/// How connections end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Fin,
    Rst,
    /// The server says goodbye: these bytes, and then nothing else.
    Words(&'static [u8]),
}

impl Proxy {
    pub async fn start(server: SocketAddr, tls: Option<TlsAcceptor>, seed: u64) -> Self {
        let port = TcpSocket::new_v4().expect("a socket");
        port.set_reuseaddr(true).expect("a socket");
        port.bind(([127, 0, 0, 1], 0).into()).expect("a free port");
        let address = port.local_addr().expect("bound");
        let listener = TcpListener::bind(address).await.expect("our port");
        let (mode, ends) = (watch::Sender::new(Mode::Pass), watch::Sender::new((0, End::Fin)));
        let shared = Arc::new(Shared { server, mode, ends, tls, accepted: AtomicUsize::new(0), seed });
        let listening = Mutex::new(Some(listen(listener, shared.clone())));
        Self { address, shared, listening, _port: port }
    }

    /// How many connections there were.
    pub fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    pub fn mode(&self, mode: Mode) {
        self.shared.mode.send_replace(mode);
    }

    /// Ends the connections that are open.
    pub fn end(&self, end: End) {
        self.shared.ends.send_modify(|(times, how)| (*times, *how) = (*times + 1, end));
    }

    /// Connections are refused; those that are open go on.
    pub fn refuse(&self) {
        *self.listening.lock() = None;
    }

    /// As it was at the beginning, but for connections that were half open.
    pub async fn heal(&self) {
        self.mode(Mode::Pass);
        if self.listening.lock().is_some() {
            return;
        }
        // The port may still be held by the listener that is going.
        let listener = loop {
            match TcpListener::bind(self.address).await {
                Ok(listener) => break listener,
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        };
        *self.listening.lock() = Some(listen(listener, self.shared.clone()));
    }
}

impl Drop for Proxy {
    /// Nothing of it is left, not even what is half open.
    fn drop(&mut self) {
        self.end(End::Fin);
    }
}

fn listen(listener: TcpListener, shared: Arc<Shared>) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            shared.accepted.fetch_add(1, Ordering::SeqCst);
            // On their own, so that they go on when nobody listens any more.
            tokio::spawn(carry(client, shared.clone()));
        }
    }))
}

async fn carry(client: TcpStream, shared: Arc<Shared>) {
    let mut ends = shared.ends.subscribe();
    let stalled = *shared.mode.borrow() == Mode::StallNew;
    let Ok(server) = TcpStream::connect(shared.server).await else { return };
    for stream in [&client, &server] {
        stream.set_nodelay(true).ok();
    }
    if stalled {
        let mut mode = shared.mode.subscribe();
        tokio::select! {
            _ = mode.wait_for(|mode| *mode != Mode::StallNew) => {}
            _ = ends.changed() => return,
        }
    }
    // As long as this is held the connection does not end.
    let Ok(socket) = SockRef::from(&client).try_clone() else { return };
    let end = match &shared.tls {
        None => converse(client, server, &shared, &mut ends).await,
        Some(tls) => {
            let client = tokio::select! {
                client = tls.accept(client) => client,
                _ = ends.changed() => return,
            };
            let Ok(client) = client else { return };
            converse(client, server, &shared, &mut ends).await
        }
    };
    if end == Some(End::Rst) {
        socket.set_linger(Some(Duration::ZERO)).ok();
    }
}

/// Carries bytes both ways; how that was to end, if it was not one side that ended it.
async fn converse<C: AsyncRead + AsyncWrite>(
    client: C,
    server: TcpStream,
    shared: &Shared,
    ends: &mut watch::Receiver<(u64, End)>,
) -> Option<End> {
    let (mut from_client, mut to_client) = tokio::io::split(client);
    let (mut from_server, mut to_server) = server.into_split();
    let end = tokio::select! {
        () = pipe(&mut from_client, &mut to_server, shared, false) => None,
        () = pipe(&mut from_server, &mut to_client, shared, true) => None,
        _ = ends.changed() => Some(ends.borrow().1),
    };
    if let Some(End::Words(bytes)) = end
        && to_client.write_all(bytes).await.is_ok()
    {
        to_client.flush().await.ok();
        // What the client still says goes nowhere; it is for it to leave.
        let mut rest = [0; 1024];
        let leave = async { while let Ok(1..) = from_client.read(&mut rest).await {} };
        tokio::time::timeout(Duration::from_secs(2), leave).await.ok();
    }
    end
}

/// Carries bytes one way until one side is done.
async fn pipe<R, W>(from: &mut R, to: &mut W, shared: &Shared, answers: bool)
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut mode = shared.mode.subscribe();
    let mut rng = StdRng::seed_from_u64(shared.seed);
    let mut buffer = vec![0; 16 << 10];
    let mut dead = *mode.borrow() == Mode::HalfOpen;
    let mut left: Option<usize> = None;
    loop {
        let read = tokio::select! {
            read = from.read(&mut buffer) => read,
            _ = mode.changed() => {
                dead |= *mode.borrow() == Mode::HalfOpen;
                continue;
            }
        };
        let Ok(read @ 1..) = read else {
            if dead {
                std::future::pending::<()>().await; // nobody hears of it
            }
            to.shutdown().await.ok();
            return;
        };
        if dead {
            continue;
        }
        let mut bytes = buffer[..read].to_vec();
        let now = *mode.borrow();
        match now {
            Mode::Delay(delay) => tokio::time::sleep(delay).await,
            Mode::Stall => {
                if mode.wait_for(|mode| *mode != Mode::Stall).await.is_err() {
                    return;
                }
                dead |= *mode.borrow() == Mode::HalfOpen;
            }
            Mode::Truncate(most) if answers => {
                let room = left.get_or_insert(most);
                bytes.truncate(*room);
                *room -= bytes.len();
                if *room == 0 {
                    to.write_all(&bytes).await.ok();
                    to.flush().await.ok();
                    return;
                }
            }
            Mode::Garbage if answers => rng.fill_bytes(&mut bytes),
            Mode::Duplicate if answers => bytes.extend_from_within(..),
            _ => {}
        }
        if to.write_all(&bytes).await.is_err() || to.flush().await.is_err() {
            return;
        }
    }
}
