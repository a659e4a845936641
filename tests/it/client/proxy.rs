//! A TCP proxy that does to connections what networks and dying hosts do.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

/// A proxy in front of one server, at an address of its own that stays the same.
pub struct Proxy {
    pub address: SocketAddr,
    shared: Arc<Shared>,
    /// None while connections are refused.
    listening: Mutex<Option<AbortOnDropHandle<()>>>,
}

struct Shared {
    server: SocketAddr,
    mode: watch::Sender<Mode>,
    /// How the connections that are open end, and how often that was said.
    ends: watch::Sender<(u64, End)>,
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
    pub async fn start(server: SocketAddr, seed: u64) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let (mode, ends) = (watch::Sender::new(Mode::Pass), watch::Sender::new((0, End::Fin)));
        let shared = Arc::new(Shared { server, mode, ends, seed });
        let listening = Mutex::new(Some(listen(listener, shared.clone())));
        Self { address, shared, listening }
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
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let mut words = None;
    tokio::select! {
        () = pipe(&mut from_client, &mut to_server, &shared, false) => {}
        () = pipe(&mut from_server, &mut to_client, &shared, true) => {}
        _ = ends.changed() => words = Some(ends.borrow().1),
    }
    match words {
        Some(End::Rst) => {
            SockRef::from(to_client.as_ref()).set_linger(Some(Duration::ZERO)).ok();
        }
        Some(End::Words(bytes)) => {
            if to_client.write_all(bytes).await.is_ok() {
                // What the client still says goes nowhere; it is for it to leave.
                let mut rest = [0; 1024];
                let leave = async { while let Ok(1..) = from_client.read(&mut rest).await {} };
                tokio::time::timeout(Duration::from_secs(2), leave).await.ok();
            }
        }
        Some(End::Fin) | None => {}
    }
}

/// Carries bytes one way until one side is done.
async fn pipe(from: &mut OwnedReadHalf, to: &mut OwnedWriteHalf, shared: &Shared, answers: bool) {
    let mut mode = shared.mode.subscribe();
    let mut rng = StdRng::seed_from_u64(shared.seed);
    let mut buffer = [0; 16 << 10];
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
                    return;
                }
            }
            Mode::Garbage if answers => rng.fill_bytes(&mut bytes),
            Mode::Duplicate if answers => bytes.extend_from_within(..),
            _ => {}
        }
        if to.write_all(&bytes).await.is_err() {
            return;
        }
    }
}
