//! Listeners with TLS, over real sockets.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rcgen::date_time_ymd;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::version::TLS12;
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::task::AbortOnDropHandle;

use super::super::{Conn, Connections, Drain, Endpoint, Listener, Phase, accept};
use super::reload::Lookout;
use super::testing::{Authority, Issued, file, server};
use super::{Reason, Renewals, Server};
use crate::config::{ServerTls, SocketOptions};

/// A server that sends back what it gets, and a client that trusts it.
struct World {
    tls: Arc<Server>,
    address: SocketAddr,
    authority: Authority,
    folder: TempDir,
    connections: Arc<Connections>,
    drain: Drain,
    server: AbortOnDropHandle<()>,
}

async fn echo(mut conn: Conn, _: SocketAddr) {
    let mut byte = [0];
    while matches!(conn.read(&mut byte).await, Ok(1)) {
        conn.write_all(&byte).await.expect("the client reads");
        conn.flush().await.expect("the client reads");
    }
    let _ = conn.shutdown().await;
}

impl World {
    fn start() -> Self {
        Self::with(|_| ())
    }

    /// With changes of the `tls` block.
    fn with(change: impl FnOnce(&mut ServerTls)) -> Self {
        let (authority, folder, tls) = server(change);
        let listener = Listener::bind(Endpoint {
            what: "echo".to_owned(),
            key: "interfaces[0]".to_owned(),
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            options: SocketOptions::default(),
            tls: Some(tls.clone()),
        })
        .expect("free port");
        let address = listener.address();
        let drain = Drain::new();
        let connections = Connections::new(1_000);
        let (going, counted) = (drain.clone(), connections.clone());
        let server = AbortOnDropHandle::new(tokio::spawn(async move {
            accept(listener, counted, &going, Phase::Close, echo).await;
        }));
        Self { tls, address, authority, folder, connections, drain, server }
    }

    async fn tcp(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("connect")
    }

    async fn connect(&self) -> TlsStream<TcpStream> {
        self.connect_as(None).await.expect("a handshake")
    }

    /// Connects with this certificate.
    async fn connect_as(&self, own: Option<&Issued>) -> io::Result<TlsStream<TcpStream>> {
        connect(self.tcp().await, self.authority.client(own)).await
    }

    /// Waits until so many connections have been accepted and are open.
    async fn open(&self, count: usize) {
        within(async {
            while self.connections.open() != count {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }

    /// Waits until one handshake has failed, for this reason.
    async fn fails(&self, reason: Reason) {
        within(async {
            while self.failures() != [(reason, 1)] {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }

    fn failures(&self) -> Vec<(Reason, u64)> {
        let all = Reason::ALL.into_iter().map(|reason| (reason, self.tls.failed(reason)));
        all.filter(|(_, count)| *count > 0).collect()
    }
}

/// The certificate that the server showed.
fn shown(stream: &TlsStream<TcpStream>) -> &[CertificateDer<'static>] {
    stream.get_ref().1.peer_certificates().expect("servers show one")
}

/// Makes a handshake and, since a server of TLS 1.3 refuses only after the client is done, hears one echo.
async fn connect(stream: TcpStream, client: Arc<ClientConfig>) -> io::Result<TlsStream<TcpStream>> {
    let name = ServerName::try_from("localhost").expect("a name");
    let mut stream = TlsConnector::from(client).connect(name, stream).await?;
    stream.write_all(b"a").await?;
    within(stream.read_u8()).await.map(|echo| assert_eq!(echo, b'a'))?;
    Ok(stream)
}

async fn within<F: Future>(future: F) -> F::Output {
    timeout(Duration::from_secs(5), future).await.expect("in time")
}

async fn echoes(stream: &mut TlsStream<TcpStream>) -> bool {
    stream.write_all(b"a").await.expect("write");
    within(stream.read_u8()).await.expect("read") == b'a'
}

#[tokio::test]
async fn what_is_said_over_tls_is_what_is_heard() {
    let world = World::start();
    let mut client = world.connect().await;
    assert!(echoes(&mut client).await);
    assert_eq!((world.tls.done(), world.failures()), (1, vec![]));
    client.shutdown().await.expect("open");
    assert_eq!(within(client.read(&mut [0])).await.expect("close_notify, not a cut"), 0);
}

#[tokio::test]
async fn a_client_that_goes_without_a_word_is_no_failure() {
    let mut world = World::start();
    let stream = world.tcp().await;
    world.open(1).await;
    drop(stream);
    world.drain.enter(Phase::Close);
    within(&mut world.server).await.expect("ends with its connections");
    assert_eq!(world.failures(), []);
}

#[tokio::test]
async fn a_client_without_tls_is_closed_and_counted() {
    let world = World::start();
    let mut stream = world.tcp().await;
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.expect("write");
    let mut rest = Vec::new();
    within(stream.read_to_end(&mut rest)).await.expect("an end, not a reset");
    assert!(rest.is_empty());
    assert_eq!(world.failures(), [(Reason::NotTls, 1)]);
}

#[tokio::test]
async fn a_client_that_does_not_trust_the_certificate_is_counted_as_such() {
    let (world, other) = (World::start(), Authority::new());
    connect(world.tcp().await, other.client(None)).await.expect_err("another CA is trusted");
    world.fails(Reason::Untrusted).await;
}

#[tokio::test]
async fn clients_must_show_a_certificate_of_the_ca_where_that_is_required() {
    let world = World::with(|tls| {
        tls.require_client_auth = true;
        tls.ca_cert_path = Some(tls.cert_path.with_file_name("ca.pem"));
    });
    let known = world.authority.issue(|_| ());
    world.connect_as(Some(&known)).await.expect("a certificate of the CA");
    world.connect_as(None).await.expect_err("no certificate");
    world.fails(Reason::ClientCertificate).await;
    let expired = world.authority.issue(|params| params.not_after = date_time_ymd(2000, 1, 1));
    let foreign = Authority::new().issue(|_| ());
    for other in [expired, foreign] {
        world.connect_as(Some(&other)).await.expect_err("a bad certificate");
    }
    within(async {
        while world.tls.failed(Reason::ClientCertificate) != 3 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_client_without_a_common_version_is_counted_as_such() {
    let world = World::with(|tls| tls.protocols = Some(vec!["TLSv1.3".to_owned()]));
    let client = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&TLS12])
        .expect("ring has suites for it")
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    connect(world.tcp().await, Arc::new(client)).await.expect_err("nothing in common");
    world.fails(Reason::NothingInCommon).await;
}

#[tokio::test]
async fn renewed_files_are_used_for_new_connections_and_old_ones_go_on() {
    let world = World::start();
    let mut old = world.connect().await;
    let mut lookout = Lookout::at(&world.tls);
    world.authority.issue(|_| ()).write_to(world.folder.path());
    lookout.look();
    assert_eq!(shown(&world.connect().await), shown(&old), "one look is not enough");
    lookout.look();
    assert_ne!(shown(&world.connect().await), shown(&old));
    assert!(echoes(&mut old).await);
    assert_eq!((world.tls.renewals(), world.tls.degradation()), (Renewals { used: 1, refused: 0 }, None));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_hangs_in_the_handshake_is_closed_after_ten_seconds() {
    let world = World::start();
    let (began, mut stream) = (Instant::now(), world.tcp().await);
    stream.write_all(b"\x16\x03\x01").await.expect("write");
    let mut rest = Vec::new();
    let _ = timeout(Duration::from_secs(60), stream.read_to_end(&mut rest)).await.expect("closed");
    assert!(began.elapsed() >= Duration::from_secs(10), "{:?}", began.elapsed());
    assert!(began.elapsed() < Duration::from_secs(12), "{:?}", began.elapsed());
    assert_eq!(world.failures(), [(Reason::Slow, 1)]);
}

#[tokio::test]
async fn handshakes_that_hang_delay_nobody() {
    let world = World::start();
    let mut hanging = Vec::new();
    for _ in 0..500 {
        let mut stream = world.tcp().await;
        stream.write_all(b"\x16\x03\x01").await.expect("write");
        hanging.push(stream);
    }
    world.open(500).await;
    let began = Instant::now();
    assert!(echoes(&mut world.connect().await).await);
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_handshake_that_hangs_does_not_hold_up_the_end() {
    let mut world = World::start();
    let mut client = world.connect().await;
    let mut stream = world.tcp().await;
    stream.write_all(b"\x16\x03\x01").await.expect("write");
    world.open(2).await;
    let began = Instant::now();
    world.drain.enter(Phase::Close);
    let mut rest = Vec::new();
    // What was not read of it makes the end a reset.
    let _ = within(stream.read_to_end(&mut rest)).await;
    assert!(echoes(&mut client).await, "what was there goes on");
    drop(client);
    within(&mut world.server).await.expect("ends with its connections");
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
}

/// The first message of a client, which costs the server a signature.
fn hello(client: Arc<ClientConfig>) -> Vec<u8> {
    let name = ServerName::try_from("localhost").expect("a name");
    let mut session = rustls::ClientConnection::new(client, name).expect("the configuration is complete");
    let mut hello = Vec::new();
    session.write_tls(&mut hello).expect("memory takes all");
    hello
}

#[tokio::test]
async fn a_hello_may_come_in_pieces() {
    let world = World::start();
    let hello = hello(world.authority.client(None));
    let mut stream = world.tcp().await;
    for piece in [&hello[..1], &hello[1..4], &hello[4..100], &hello[100..hello.len() - 1]] {
        stream.write_all(piece).await.expect("write");
        let early = timeout(Duration::from_millis(20), stream.read_u8()).await;
        assert!(early.is_err(), "{early:?}");
    }
    stream.write_all(&hello[hello.len() - 1..]).await.expect("write");
    assert_eq!(within(stream.read_u8()).await.expect("an answer"), 0x16);
    let mut half = world.tcp().await;
    half.write_all(&hello[..100]).await.expect("write");
    drop((stream, half));
    within(async {
        while world.failures() != [(Reason::Gone, 2)] {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn renewed_cas_of_clients_are_used_for_new_connections() {
    let world = World::with(|tls| {
        tls.require_client_auth = true;
        tls.ca_cert_path = Some(tls.cert_path.with_file_name("ca.pem"));
    });
    let (old, next) = (world.authority.issue(|_| ()), Authority::new());
    let new = next.issue(|_| ());
    let mut open = world.connect_as(Some(&old)).await.expect("a certificate of the CA");
    std::fs::write(world.folder.path().join("ca.pem"), &next.pem).expect("the folder is writable");
    let mut lookout = Lookout::at(&world.tls);
    lookout.look();
    lookout.look();
    world.connect_as(Some(&new)).await.expect("a certificate of the new CA");
    world.connect_as(Some(&old)).await.expect_err("of the old one");
    assert!(echoes(&mut open).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_herd_of_clients_leaves_turns_for_everything_else() {
    const HERD: usize = 400;
    let world = World::with(|tls| (tls.cert_path, tls.key_path) = (file("rsa.pem"), file("rsa.key")));
    let hello = hello(world.authority.client(None));
    let mut herd = Vec::new();
    for _ in 0..HERD {
        herd.push(world.tcp().await);
    }
    world.open(HERD).await;
    let turns = Arc::new(AtomicUsize::new(0));
    let counting = turns.clone();
    let _everything_else = AbortOnDropHandle::new(tokio::spawn(async move {
        loop {
            sleep(Duration::from_millis(1)).await;
            counting.fetch_add(1, Ordering::Relaxed);
        }
    }));
    for stream in &mut herd {
        stream.write_all(&hello).await.expect("write");
    }
    for stream in &mut herd {
        timeout(Duration::from_secs(20), stream.read_u8()).await.expect("in time").expect("an answer");
    }
    // Without turns it is one in about sixty handshakes.
    let turns = turns.load(Ordering::Relaxed);
    assert!(turns > HERD / 10, "{turns}");
}
