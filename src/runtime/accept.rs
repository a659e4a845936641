//! The accept loop: bounded connections, none left waiting.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::descriptors::Spare;
use super::{Conn, Drain, Listener, Phase, Queue, Seldom};
use crate::config::SocketOptions;

/// A silent connection is probed after this time, since a router never notices that its peer is gone.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(30);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(10);
/// Data that is not acknowledged, or not taken by a client with a full window, ends the connection after so long; and so
/// do probes without an answer, once the peer has been silent for so long: hence that of more than one of them.
const USER_TIMEOUT: Duration = Duration::from_secs(60);
const _: () = assert!(KEEPALIVE_AFTER.as_secs() + 2 * KEEPALIVE_EVERY.as_secs() < USER_TIMEOUT.as_secs());
/// Pause after an error that is likely to come again at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Counts the connections of one or more listeners against one limit.
#[derive(Debug)]
pub struct Connections {
    limit: usize,
    open: AtomicUsize,
    over_limit: AtomicU64,
    no_descriptor: AtomicU64,
    log: Seldom,
}

/// How many connections were accepted and closed at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusals {
    /// Because the limit of connections was reached.
    pub over_limit: u64,
    /// Because the process had no descriptor left.
    pub no_descriptor: u64,
}

/// One counted connection.
#[derive(Debug)]
struct Counted(Arc<Connections>);

// === impl Connections ===

impl Connections {
    /// At most `limit` connections at a time.
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            limit,
            open: AtomicUsize::new(0),
            over_limit: AtomicU64::new(0),
            no_descriptor: AtomicU64::new(0),
            log: Seldom::new(Duration::from_secs(10)),
        })
    }

    /// Connections that are open now.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Connections that may be open.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Connections refused since the start.
    pub fn refusals(&self) -> Refusals {
        Refusals {
            over_limit: self.over_limit.load(Ordering::Relaxed),
            no_descriptor: self.no_descriptor.load(Ordering::Relaxed),
        }
    }

    /// None at the limit: the caller closes the connection at once.
    fn admit_or_tell(self: &Arc<Self>, peer: SocketAddr) -> Option<Counted> {
        let admitted =
            self.open.fetch_update(Ordering::AcqRel, Ordering::Acquire, |open| (open < self.limit).then_some(open + 1));
        if admitted.is_ok() {
            return Some(Counted(self.clone()));
        }
        self.over_limit.fetch_add(1, Ordering::Relaxed);
        if let Some(left_out) = self.log.due() {
            tracing::warn!(
                %peer, left_out, limit = self.limit,
                "connection closed at once: all in use; if the clients are ours raise limits.connections, or where \
                                 that is not set the limit of descriptors (LimitNOFILE, ulimit -n)"
            );
        }
        None
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Accepts until `drain` is at the phase `until`, or another process accepts in its place; then closes the listener and
/// waits for the connections that are left. Each connection is a task, which makes the TLS handshake if the listener has
/// TLS and then runs `serve`; dropping the returned future ends them all.
pub async fn accept<S, F>(listener: Listener, connections: Arc<Connections>, drain: &Drain, until: Phase, serve: S)
where
    S: Fn(Conn, SocketAddr) -> F + Clone + Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    listener.begin();
    let mut tasks = JoinSet::new();
    let mut spare = Spare::new();
    let ending = CancellationToken::new();
    let mut stop = std::pin::pin!(drain.accepts_until(until));
    let begin = |tasks: &mut JoinSet<()>, stream: TcpStream, peer: SocketAddr| {
        // A socket for both families shows clients of IPv4 in another form, and a client must be known by one address.
        let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
        let Some(counted) = connections.admit_or_tell(peer) else { return };
        if let Err(error) = prepare(&stream, &listener.options) {
            tracing::debug!(%peer, %error, "socket options were not set");
        }
        let (serve, tls, ending) = (serve.clone(), listener.tls.clone(), ending.clone());
        let greeting = tls.is_some().then(|| drain.greet());
        tasks.spawn(async move {
            let _counted = counted;
            let Some(tls) = tls else { return serve(Conn::Plain(stream), peer).await };
            // Each in a box of its own: whoever hangs in the handshake does not take up a session's memory, and a
            // session of days not that of the handshake.
            let conn = Box::pin(tls.handshake(stream, peer, &ending)).await;
            drop(greeting);
            if let Some(conn) = conn {
                Box::pin(serve(conn, peer)).await;
            }
        });
    };
    let queue = loop {
        tokio::select! {
            biased;
            queue = &mut stop => break queue,
            Some(_) = tasks.join_next() => {} // a panic has been logged by the hook
            accepted = listener.socket.accept() => match accepted {
                Ok((stream, peer)) => begin(&mut tasks, stream, peer),
                Err(error) => refused(&listener, &connections, &mut spare, &error).await,
            }
        }
    };
    if (queue == Queue::Ours || listener.is_left()) && !listener.lives_on {
        // Whoever has connected is in the queue, and would be reset with the socket.
        while let Some((stream, peer)) = listener.next_in_queue() {
            begin(&mut tasks, stream, peer);
        }
    }
    drop(listener);
    if queue == Queue::Others {
        // This process stays for a while, so handshakes have their time.
        tokio::select! {
            () = drain.reached(until) => {}
            () = async { while tasks.join_next().await.is_some() {} } => {}
        }
    }
    ending.cancel();
    while tasks.join_next().await.is_some() {}
}

/// Deals with an accept that failed. Out of descriptors, the connection at the head of the queue is taken with the
/// spare one and closed, so that its client tries elsewhere.
async fn refused(listener: &Listener, connections: &Connections, spare: &mut Spare, error: &io::Error) {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    if !matches!(errno, Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)) {
        // The client has gone meanwhile.
        tracing::debug!(%error, what = listener.what(), "accept failed");
        return;
    }
    connections.no_descriptor.fetch_add(1, Ordering::Relaxed);
    if let Some(left_out) = connections.log.due() {
        tracing::error!(
            %error, left_out, what = listener.what(),
            "connection closed at once: no resources; raise the limit of open files (ulimit -n, LimitNOFILE)"
        );
    }
    let taken = spare.release()
        && tokio::time::timeout(ACCEPT_PAUSE, listener.socket.accept()).await.is_ok_and(|accepted| accepted.is_ok());
    spare.take_back();
    if !taken {
        tokio::time::sleep(ACCEPT_PAUSE).await;
    }
}

fn prepare(stream: &TcpStream, options: &SocketOptions) -> io::Result<()> {
    stream.set_nodelay(options.no_delay)?;
    let socket = SockRef::from(stream);
    if options.keep_alive != Some(false) {
        socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE_AFTER).with_interval(KEEPALIVE_EVERY))?;
    }
    // Who is slow is cut by the one that is configured, if anything.
    socket.set_tcp_user_timeout(Some(options.write_timeout.unwrap_or_default().max(USER_TIMEOUT)))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::super::Endpoint;
    use super::*;

    fn listener() -> Listener {
        Listener::bind(Endpoint {
            what: "echo".to_owned(),
            key: "test".to_owned(),
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            options: SocketOptions::default(),
            tls: None,
        })
        .expect("free port")
    }

    async fn echo(mut stream: Conn, _: SocketAddr) {
        let mut byte = [0];
        while matches!(stream.read(&mut byte).await, Ok(1)) {
            stream.write_all(&byte).await.expect("echo");
        }
    }

    async fn serving(listener: Listener, connections: Arc<Connections>, drain: Drain) {
        accept(listener, connections, &drain, Phase::Close, echo).await;
    }

    async fn within<F: Future>(future: F) -> F::Output {
        tokio::time::timeout(Duration::from_secs(5), future).await.expect("in time")
    }

    #[tokio::test]
    async fn at_the_limit_a_connection_is_accepted_and_closed_at_once() {
        let listener = listener();
        let address = listener.address();
        let connections = Connections::new(1);
        let server = tokio::spawn(serving(listener, connections.clone(), Drain::new()));
        let mut first = TcpStream::connect(address).await.expect("connect");
        first.write_all(b"a").await.expect("write");
        assert_eq!(within(first.read_u8()).await.expect("echo"), b'a');
        let mut second = TcpStream::connect(address).await.expect("connect");
        assert_eq!(within(second.read(&mut [0; 8])).await.unwrap_or(0), 0, "closed, not left waiting");
        assert_eq!(connections.refusals(), Refusals { over_limit: 1, no_descriptor: 0 });
        drop(first);
        within(async {
            while connections.open() > 0 {
                tokio::task::yield_now().await;
            }
        })
        .await;
        let mut third = TcpStream::connect(address).await.expect("connect");
        third.write_all(b"b").await.expect("write");
        assert_eq!(within(third.read_u8()).await.expect("echo"), b'b');
        server.abort();
    }

    /// A connection that is served, and the options of its socket.
    async fn timeouts(options: SocketOptions) -> (Duration, Duration, Duration) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("free port");
        let _client = TcpStream::connect(listener.local_addr().expect("bound")).await.expect("connect");
        let (stream, _) = listener.accept().await.expect("accept");
        prepare(&stream, &options).expect("a fresh socket takes options");
        let socket = SockRef::from(&stream);
        let after = socket.tcp_keepalive_time().expect("readable");
        let every = socket.tcp_keepalive_interval().expect("readable");
        (after, every, socket.tcp_user_timeout().expect("readable").expect("set"))
    }

    #[tokio::test]
    async fn one_lost_probe_ends_no_connection_and_neither_does_a_client_that_is_slower_than_the_kernel_likes() {
        let (after, every, limit) = timeouts(SocketOptions::default()).await;
        // The kernel looks at the limit when it is about to send a probe, and one is out.
        let probes = (0..).map(|n| after + every * n).take_while(|at| *at < limit).count();
        assert!(probes >= 3, "{probes} probes before a silent connection is ended");
        assert!(limit >= Duration::from_secs(60), "a client may take nothing for as long");
        let write_timeout = Some(Duration::from_secs(600));
        let (.., limit) = timeouts(SocketOptions { write_timeout, ..SocketOptions::default() }).await;
        assert!(limit >= Duration::from_secs(600), "{limit:?}");
    }

    #[tokio::test]
    async fn whoever_waits_in_the_queue_at_the_stop_is_served_and_not_reset() {
        let listener = listener();
        let address = listener.address();
        let mut waiting = Vec::new();
        for _ in 0..50 {
            waiting.push(TcpStream::connect(address).await.expect("the queue has room"));
        }
        // Nothing was accepted before.
        let drain = Drain::new();
        drain.enter(Phase::Close);
        let server = tokio::spawn(serving(listener, Connections::new(100), drain));
        for mut stream in waiting {
            stream.write_all(b"a").await.expect("write");
            assert_eq!(within(stream.read_u8()).await.expect("echo"), b'a');
        }
        within(server).await.expect("ends with its last connection");
        assert!(TcpStream::connect(address).await.is_err(), "closed");
    }

    #[tokio::test]
    async fn a_client_of_ipv4_has_one_address_whatever_the_socket() {
        let endpoint = Endpoint {
            what: "echo".to_owned(),
            key: "test".to_owned(),
            address: "[::]:0".parse().expect("an address"),
            options: SocketOptions::default(),
            tls: None,
        };
        let Ok(listener) = Listener::bind(endpoint) else { return }; // a machine without IPv6
        let address = listener.address();
        let (tell, told) = std::sync::mpsc::channel();
        let server = tokio::spawn(async move {
            let tell = move |_, peer: SocketAddr| {
                tell.send(peer.ip()).expect("the test waits");
                std::future::ready(())
            };
            accept(listener, Connections::new(9), &Drain::new(), Phase::Close, tell).await;
        });
        let client = TcpStream::connect(("127.0.0.1", address.port())).await.expect("both families");
        let ip = within(tokio::task::spawn_blocking(move || told.recv())).await.expect("no panic").expect("told");
        assert_eq!(ip, client.local_addr().expect("connected").ip());
        server.abort();
    }

    #[tokio::test]
    async fn after_the_stop_the_port_refuses_and_open_connections_go_on() {
        let listener = listener();
        let address = listener.address();
        let drain = Drain::new();
        let server = tokio::spawn(serving(listener, Connections::new(10), drain.clone()));
        let mut first = TcpStream::connect(address).await.expect("connect");
        first.write_all(b"a").await.expect("write");
        assert_eq!(within(first.read_u8()).await.expect("echo"), b'a');
        drain.enter(Phase::Close);
        within(async { while TcpStream::connect(address).await.is_ok() {} }).await;
        first.write_all(b"b").await.expect("write");
        assert_eq!(within(first.read_u8()).await.expect("echo"), b'b');
        assert!(!server.is_finished());
        drop(first);
        within(server).await.expect("ends with its last connection");
    }

    #[tokio::test]
    async fn a_socket_that_whoever_took_over_has_not_taken_is_emptied() {
        for (left, answered) in [(true, 1), (false, 0)] {
            let listener = listener();
            listener.left.store(left, Ordering::Release);
            let mut waiting = TcpStream::connect(listener.address()).await.expect("the queue has room");
            waiting.write_all(b"a").await.expect("write");
            let drain = Drain::new();
            drain.request(super::super::Request::hand_over("process 2"));
            let server = tokio::spawn(serving(listener, Connections::new(10), drain));
            assert_eq!(within(waiting.read(&mut [0; 8])).await.unwrap_or(0), answered, "left: {left}");
            drop(waiting);
            within(server).await.expect("ends with its last connection");
        }
    }
}
