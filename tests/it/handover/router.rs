//! A router as the recordings show it (`tests/data/golden/linkerd-client`, `thrift-tdrain` and
//! `thrift-pingsilence-then-answer`): it has one session for each address, sends a poll to the address that has fewest,
//! stays on a session until its polls are answered there, whatever the session is told, and pings.
//!
//! What a real one would log, and wait after, is noted as a failure.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rustls::ClientConfig;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, WriteHalf, split};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, interval, sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;

use crate::support::mux::{PROBE, RPING, TINIT, TPING, addr, reply, stamp, tag, tdispatch};
use crate::support::thrift::{REPLY, Value};

/// `failureThreshold` of a Linkerd where the configuration says nothing.
const PING_EVERY: Duration = Duration::from_millis(5_000);
const PING_DEADLINE: Duration = Duration::from_millis(4_000);
const TDRAIN: &[u8] = &[0x40, 0, 0, 1];
const RDRAIN: &[u8] = &[0xc0, 0, 0, 1];
/// Of its `retry`.
const RETRY: Duration = Duration::from_secs(1);
const HANDSHAKE: Duration = Duration::from_secs(10);

pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// What all routers of a story have seen.
#[derive(Default)]
pub struct Seen {
    pub failures: Mutex<Vec<String>>,
    /// The last answer by router and key.
    pub answers: Mutex<BTreeMap<(usize, String), String>>,
    pub answered: AtomicUsize,
    pub sessions: AtomicUsize,
}

/// What a router needs to know.
#[derive(Clone)]
pub struct World {
    /// Ports: what the name service says.
    pub addresses: watch::Receiver<Vec<u16>>,
    pub tls: Option<Arc<ClientConfig>>,
    pub seen: Arc<Seen>,
}

enum Event {
    Frame(u64, Vec<u8>),
    Ended(u64, String),
    Retry(usize),
}

struct Session {
    port: u16,
    out: WriteHalf<Box<dyn Stream>>,
    /// Tdrain has come: no poll goes here if there is another address.
    is_draining: bool,
    /// A ping was not answered: the next poll opens a new session.
    is_closed: bool,
    /// Polls by tag: which key.
    pending: HashMap<u32, usize>,
    next_tag: u32,
    pinged: Option<Instant>,
    next_ping: Instant,
    _reader: AbortOnDropHandle<()>,
}

struct Router {
    number: usize,
    world: World,
    /// Ids with their last stamps.
    keys: Vec<(String, Vec<u8>)>,
    sessions: HashMap<u64, Session>,
    next_session: u64,
    events: mpsc::UnboundedSender<Event>,
}

impl World {
    /// Waits until each of these routers has this port for each of these names.
    pub async fn is_fresh(&self, routers: usize, names: &[String], port: u16) {
        let wanted = format!("{:?}", Value::I32(port.into()));
        let fresh = async {
            loop {
                let answers = self.seen.answers.lock().clone();
                if answers.len() == routers * names.len() && answers.values().all(|answer| answer.contains(&wanted)) {
                    return;
                }
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(Duration::from_secs(20), fresh).await.expect("every watch is fresh");
    }
}

/// Follows the addresses of these ids of `io.l5d.fs` until that is dropped.
pub fn follow(number: usize, ids: &[String], world: &World) -> AbortOnDropHandle<()> {
    let (events, coming) = mpsc::unbounded_channel();
    let keys = ids.iter().map(|id| (id.clone(), Vec::new())).collect();
    let router = Router { number, world: world.clone(), keys, sessions: HashMap::new(), next_session: 0, events };
    AbortOnDropHandle::new(tokio::spawn(router.run(coming)))
}

impl Router {
    async fn run(mut self, mut coming: mpsc::UnboundedReceiver<Event>) {
        for key in 0..self.keys.len() {
            self.poll(key).await;
        }
        let mut ticks = interval(Duration::from_millis(50));
        loop {
            tokio::select! {
                event = coming.recv() => match event.expect("the router has a sender itself") {
                    Event::Frame(id, frame) => self.hears(id, frame).await,
                    Event::Ended(id, why) => self.ended(id, &why),
                    Event::Retry(key) => self.poll(key).await,
                },
                _ = ticks.tick() => self.tick().await,
            }
        }
    }

    fn fails(&self, key: usize, why: &str) {
        let failure = format!("router {}, {}: {why}", self.number, self.keys[key].0);
        self.world.seen.failures.lock().push(failure);
        let events = self.events.clone();
        tokio::spawn(async move {
            sleep(RETRY).await;
            events.send(Event::Retry(key)).ok();
        });
    }

    /// The address that has the fewest polls, and does not drain; the session there, if there is one.
    fn choose(&self) -> Result<(u16, Option<u64>), &'static str> {
        let addresses = self.world.addresses.borrow();
        let places = addresses.iter().map(|port| {
            let session = self.sessions.iter().find(|(_, session)| session.port == *port && !session.is_closed);
            let load = session.map_or((false, 0), |(_, session)| (session.is_draining, session.pending.len()));
            (load, (*port, session.map(|(id, _)| *id)))
        });
        match places.min_by_key(|(load, _)| *load) {
            None => Err("there is no address"),
            Some(((true, _), _)) => Err("the only session there is drains: nacked"),
            Some((_, place)) => Ok(place),
        }
    }

    async fn poll(&mut self, key: usize) {
        let (port, open) = match self.choose() {
            Ok(place) => place,
            Err(why) => return self.fails(key, why),
        };
        let id = match open {
            Some(id) => id,
            None => match timeout(HANDSHAKE, self.open(port)).await {
                Ok(Ok(id)) => id,
                Ok(Err(why)) => return self.fails(key, &why),
                Err(_) => return self.fails(key, "the handshake hangs"),
            },
        };
        let (name, stamp) = &self.keys[key];
        let call = addr(stamp, &["#", "io.l5d.fs", name], "default").write();
        let session = self.sessions.get_mut(&id).expect("it is open");
        session.next_tag += 1;
        let tag = session.next_tag;
        session.pending.insert(tag, key);
        // If that fails the reader tells.
        write(&mut session.out, &tdispatch(tag, &call)).await.ok();
    }

    async fn open(&mut self, port: u16) -> Result<u64, String> {
        let stream = session(port, self.world.tls.as_ref()).await?;
        let (mut from, out) = split(stream);
        self.next_session += 1;
        let (id, events) = (self.next_session, self.events.clone());
        let reader = AbortOnDropHandle::new(tokio::spawn(async move {
            loop {
                let event = match read(&mut from).await {
                    Ok(frame) => Event::Frame(id, frame),
                    Err(error) => Event::Ended(id, error.to_string()),
                };
                let ends = matches!(event, Event::Ended(..));
                if events.send(event).is_err() || ends {
                    return;
                }
            }
        }));
        let session = Session {
            port,
            out,
            is_draining: false,
            is_closed: false,
            pending: HashMap::new(),
            next_tag: 1,
            pinged: None,
            next_ping: Instant::now(),
            _reader: reader,
        };
        self.sessions.insert(id, session);
        self.world.seen.sessions.fetch_add(1, Ordering::Relaxed);
        Ok(id)
    }

    async fn hears(&mut self, id: u64, frame: Vec<u8>) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        match &frame[..] {
            TDRAIN => {
                session.is_draining = true;
                write(&mut session.out, RDRAIN).await.ok();
            }
            RPING => session.pinged = None,
            TPING => {
                write(&mut session.out, RPING).await.ok();
            }
            [0xfe, ..] => {
                let Some(key) = session.pending.remove(&tag(&frame)) else { return };
                let is_over = session.pending.is_empty() && (session.is_draining || session.is_closed);
                if is_over {
                    self.sessions.remove(&id); // the router closes it
                }
                if frame[4] != 0 {
                    return self.fails(key, "nacked");
                }
                let reply = reply(&frame);
                if reply.kind != REPLY || reply.body.field(0).is_none() {
                    return self.fails(key, &format!("{}", reply.to_json()));
                }
                self.keys[key].1 = stamp(&reply);
                let value = reply.body.field(0).map(|value| format!("{value:?}")).unwrap_or_default();
                self.world.seen.answers.lock().insert((self.number, self.keys[key].0.clone()), value);
                self.world.seen.answered.fetch_add(1, Ordering::Relaxed);
                self.poll(key).await;
            }
            other => panic!("no router knows {other:?}"),
        }
    }

    fn ended(&mut self, id: u64, why: &str) {
        let Some(session) = self.sessions.remove(&id) else { return };
        for key in session.pending.into_values() {
            self.fails(key, &format!("its session on port {} has ended: {why}", session.port));
        }
    }

    async fn tick(&mut self) {
        let now = Instant::now();
        let addresses = self.world.addresses.borrow().clone();
        // One whose address has left the name goes with its last poll, too.
        self.sessions.retain(|_, session| {
            session.is_closed |= !addresses.contains(&session.port);
            !(session.is_closed && session.pending.is_empty())
        });
        for session in self.sessions.values_mut().filter(|session| !session.is_closed) {
            match session.pinged {
                Some(at) if now - at >= PING_DEADLINE => session.is_closed = true,
                None if now >= session.next_ping => {
                    (session.pinged, session.next_ping) = (Some(now), now + PING_EVERY);
                    write(&mut session.out, TPING).await.ok();
                }
                _ => {}
            }
        }
    }
}

/// Connects to a port of this machine.
pub async fn connect(port: u16, tls: Option<&Arc<ClientConfig>>) -> Result<Box<dyn Stream>, String> {
    let socket = TcpStream::connect(("127.0.0.1", port)).await.map_err(|error| format!("connect: {error}"))?;
    socket.set_nodelay(true).map_err(|error| error.to_string())?;
    let Some(tls) = tls else { return Ok(Box::new(socket)) };
    let name = "localhost".try_into().expect("a name");
    let connected = TlsConnector::from(tls.clone()).connect(name, socket).await;
    Ok(Box::new(connected.map_err(|error| format!("TLS: {error}"))?))
}

/// Opens a session.
pub async fn session(port: u16, tls: Option<&Arc<ClientConfig>>) -> Result<Box<dyn Stream>, String> {
    let mut stream = connect(port, tls).await?;
    for (said, answer) in [(PROBE, 0x7f), (TINIT, 0xbc)] {
        write(&mut stream, said).await.map_err(|error| format!("handshake: {error}"))?;
        let heard = read(&mut stream).await.map_err(|error| format!("handshake: {error}"))?;
        if heard[0] != answer {
            return Err(format!("handshake: {heard:?}"));
        }
    }
    Ok(stream)
}

/// Asks once for an id of `io.l5d.fs`, and again with the stamp of the answer, as a router does.
pub async fn ask_twice(port: u16, tls: Option<&Arc<ClientConfig>>, name: &str) -> Result<(), String> {
    let mut stream = session(port, tls).await?;
    let mut known = Vec::new();
    for poll in ["first", "second"] {
        let call = tdispatch(2, &addr(&known, &["#", "io.l5d.fs", name], "default").write());
        write(&mut stream, &call).await.map_err(|error| format!("{poll} poll: {error}"))?;
        let frame = loop {
            let frame = read(&mut stream).await.map_err(|error| format!("{poll} poll: {error}"))?;
            match &frame[..] {
                TDRAIN => write(&mut stream, RDRAIN).await.map_err(|error| error.to_string())?,
                TPING => write(&mut stream, RPING).await.map_err(|error| error.to_string())?,
                [0xfe, ..] => break frame,
                other => return Err(format!("{poll} poll: {other:?}")),
            }
        };
        let reply = (frame[4] == 0).then(|| reply(&frame)).ok_or_else(|| format!("{poll} poll: nacked"))?;
        if reply.kind != REPLY || reply.body.field(0).is_none() {
            return Err(format!("{poll} poll: {}", reply.to_json()));
        }
        known = stamp(&reply);
    }
    Ok(())
}

async fn write(out: &mut (impl AsyncWrite + Unpin), frame: &[u8]) -> std::io::Result<()> {
    let length = u32::try_from(frame.len()).expect("frames are short");
    out.write_all(&[&length.to_be_bytes()[..], frame].concat()).await?;
    out.flush().await
}

async fn read(from: &mut (impl AsyncRead + Unpin)) -> std::io::Result<Vec<u8>> {
    let length = from.read_u32().await?;
    let mut frame = vec![0; length as usize];
    from.read_exact(&mut frame).await?;
    Ok(frame)
}
