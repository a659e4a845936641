//! Listeners with TLS, over real sockets.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::crypto::ring;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::task::AbortOnDropHandle;

use super::super::{Conn, Connections, Endpoint, Listener, accept};
use super::{Reason, Server};
use crate::config::SocketOptions;

/// A server that sends back what it gets, and a client that trusts it.
struct World {
    tls: Arc<Server>,
    address: SocketAddr,
    connector: TlsConnector,
    connections: Arc<Connections>,
    stop: Option<oneshot::Sender<()>>,
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
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate can be made");
        let key = PrivateKeyDer::try_from(signing_key.serialize_der()).expect("PKCS#8");
        let provider = Arc::new(ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .expect("ring has suites for them")
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)
            .expect("key and certificate belong together");
        let mut roots = RootCertStore::empty();
        roots.add(cert.der().clone()).expect("a certificate");
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("ring has suites for them")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let tls = Server::new("interfaces[0]".to_owned(), Arc::new(config));
        let listener = Listener::bind(Endpoint {
            what: "echo".to_owned(),
            key: "interfaces[0]".to_owned(),
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            options: SocketOptions::default(),
            tls: Some(tls.clone()),
        })
        .expect("free port");
        let address = listener.address();
        let (stop, stopped) = oneshot::channel::<()>();
        let stopped = async move { drop(stopped.await) };
        let connections = Connections::new(1_000);
        let server = AbortOnDropHandle::new(tokio::spawn(accept(listener, connections.clone(), stopped, echo)));
        Self { tls, address, connector: TlsConnector::from(Arc::new(client)), connections, stop: Some(stop), server }
    }

    async fn tcp(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("connect")
    }

    async fn connect(&self) -> TlsStream<TcpStream> {
        let name = ServerName::try_from("localhost").expect("a name");
        self.connector.connect(name, self.tcp().await).await.expect("a handshake")
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

    fn failures(&self) -> Vec<(Reason, u64)> {
        let all = Reason::ALL.into_iter().map(|reason| (reason, self.tls.failed(reason)));
        all.filter(|(_, count)| *count > 0).collect()
    }
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
    drop(world.stop.take());
    within(&mut world.server).await.expect("ends with its connections");
    assert_eq!(world.failures(), []);
}

#[tokio::test]
async fn a_client_without_tls_is_closed_and_counted() {
    let world = World::start();
    let mut stream = world.tcp().await;
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.expect("write");
    let mut rest = Vec::new();
    let _ = within(stream.read_to_end(&mut rest)).await; // a reset, since its request was not read
    assert!(rest.is_empty());
    assert_eq!(world.failures(), [(Reason::NotTls, 1)]);
}

#[tokio::test]
async fn a_client_that_does_not_trust_the_certificate_is_counted_as_such() {
    let world = World::start();
    let other = World::start();
    let name = ServerName::try_from("localhost").expect("a name");
    other.connector.connect(name, world.tcp().await).await.expect_err("another certificate is trusted");
    within(async {
        while world.failures() != [(Reason::Untrusted, 1)] {
            tokio::task::yield_now().await;
        }
    })
    .await;
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
    drop(world.stop.take());
    let mut rest = Vec::new();
    within(stream.read_to_end(&mut rest)).await.expect("closed");
    assert!(echoes(&mut client).await, "what was there goes on");
    drop(client);
    within(&mut world.server).await.expect("ends with its connections");
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
}
