//! Many ThriftMux clients in one thread: plain sockets, frames made beforehand, one epoll.

use std::io::{ErrorKind, Read, Write};
use std::mem::MaybeUninit;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rosterd::name::Path;
use rustix::event::{Timespec, epoll};
use rustix::fd::OwnedFd;
use socket2::SockRef;

use crate::LIMIT;

/// `tinit check`, by which finagle finds out whether its peer negotiates; it comes back as it went.
const PROBE: &[u8] = b"\0\0\0\x0f\x7f\0\0\x01tinit check";
/// Version 1, frames of any size, no opportunistic TLS.
const TINIT: &[u8] =
    b"\0\0\0\x2a\x44\0\0\x01\0\x01\0\0\0\x0amux-framer\0\0\0\x04\x7f\xff\xff\xff\0\0\0\x03tls\0\0\0\x03off";
const RINIT: &[u8] =
    b"\0\0\0\x2a\xbc\0\0\x01\0\x01\0\0\0\x0amux-framer\0\0\0\x04\x7f\xff\xff\xff\0\0\0\x03tls\0\0\0\x03off";
const PING: &[u8] = b"\0\0\0\x04\x41\0\0\x01";
const PONG: &[u8] = b"\0\0\0\x04\xbf\0\0\x01";

/// The smallest tag of a dispatch.
const FIRST_TAG: usize = 2;
/// Where the stamp is in an answer: length, type and tag, status, no contexts, head of the reply, two fields.
const ANSWER_STAMP: usize = 4 + 4 + 3 + 16 + 10;

/// A poll: the frame that asks for it, with a place for tag and stamp.
pub struct Request {
    frame: Vec<u8>,
    stamp_at: usize,
}

/// What a server is asked by one client.
pub type Plan = Vec<Arc<Request>>;

/// When a client polls again after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// As routers do. What that costs is part of the time until the last watch is told; and the clients, which are on the
    /// same machine here, take time from the server.
    AtOnce,
    /// When all are told: what is measured is how fast the server tells.
    AfterAll,
}

/// Clients with a connection each.
pub struct Clients {
    epoll: OwnedFd,
    clients: Vec<Client>,
    /// Polls that were answered and are not asked again yet, by client and number.
    answered: Vec<(usize, usize)>,
    buffer: Vec<u8>,
}

struct Client {
    stream: TcpStream,
    polls: Vec<(Arc<Request>, [u8; 8])>,
    /// The beginning of a frame whose end has not come.
    partial: Vec<u8>,
    /// What the socket did not take yet.
    unsent: Vec<u8>,
    waits_to_write: bool,
}

/// When the watches were told, as times since the change.
pub struct Deliveries(Vec<Duration>);

// === impl Request ===

impl Request {
    /// What a path is bound to.
    pub fn bind(ns: &str, path: &str) -> Arc<Self> {
        let mut arguments = Vec::new();
        string(&mut arguments, 1, b"");
        arguments.extend_from_slice(&[12, 0, 2]);
        let stamp_at = name_ref(&mut arguments, ns, path);
        client_id(&mut arguments, 3);
        Self::new("bind", &arguments, stamp_at)
    }

    /// The addresses of a bound id.
    pub fn addr(id: &str) -> Arc<Self> {
        let mut arguments = vec![12, 0, 1];
        let stamp_at = name_ref(&mut arguments, "default", id);
        client_id(&mut arguments, 2);
        Self::new("addr", &arguments, stamp_at)
    }

    /// With the contexts that every request of a Linkerd has.
    fn new(method: &str, arguments: &[u8], stamp_at: usize) -> Arc<Self> {
        let mut frame = vec![0, 0, 0, 0, 2, 0, 0, 0, 0, 2];
        for (key, value) in
            [("com.twitter.finagle.tracing.TraceContext", &[7; 32][..]), ("com.twitter.finagle.Retries", &[0; 4])]
        {
            for part in [key.as_bytes(), value] {
                frame.extend_from_slice(&u16::try_from(part.len()).expect("short").to_be_bytes());
                frame.extend_from_slice(part);
            }
        }
        // Neither destination nor dtab.
        frame.extend_from_slice(&[0; 4]);
        frame.extend_from_slice(&[0x80, 1, 0, 1]);
        bytes(&mut frame, method.as_bytes());
        frame.extend_from_slice(&[0, 0, 0, 0, 12, 0, 1]);
        let stamp_at = frame.len() + stamp_at;
        frame.extend_from_slice(arguments);
        frame.extend_from_slice(&[0, 0]);
        let length = u32::try_from(frame.len() - 4).expect("short");
        frame[..4].copy_from_slice(&length.to_be_bytes());
        Arc::new(Self { frame, stamp_at })
    }

    fn write(&self, poll: usize, stamp: [u8; 8], out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.frame);
        let tag = u32::try_from(poll + FIRST_TAG).expect("few polls").to_be_bytes();
        out[start + 5..start + 8].copy_from_slice(&tag[1..]);
        out[start + self.stamp_at..start + self.stamp_at + 8].copy_from_slice(&stamp);
    }
}

fn bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&u32::try_from(bytes.len()).expect("short").to_be_bytes());
    out.extend_from_slice(bytes);
}

fn string(out: &mut Vec<u8>, id: u8, text: &[u8]) {
    out.extend_from_slice(&[11, 0, id]);
    bytes(out, text);
}

/// Returns where the stamp is.
fn name_ref(out: &mut Vec<u8>, ns: &str, path: &str) -> usize {
    string(out, 1, &[0; 8]);
    let stamp_at = out.len() - 8;
    let path = Path::parse(path).expect("a path");
    out.extend_from_slice(&[15, 0, 2, 11]);
    out.extend_from_slice(&u32::try_from(path.len()).expect("short").to_be_bytes());
    path.elems().for_each(|elem| bytes(out, elem));
    string(out, 3, ns.as_bytes());
    out.push(0);
    stamp_at
}

fn client_id(out: &mut Vec<u8>, id: u8) {
    out.extend_from_slice(&[15, 0, id, 11, 0, 0, 0, 0]);
}

// === impl Clients ===

impl Clients {
    /// Connects one client for each plan, all at once, each as finagle does.
    pub fn connect(port: u16, plans: Vec<Plan>) -> Self {
        let mut clients: Vec<Client> = plans.into_iter().map(|plan| Client::connect(port, plan)).collect();
        for (sent, awaited) in [(PROBE, PROBE), (TINIT, RINIT)] {
            clients.iter_mut().for_each(|client| client.stream.write_all(sent).expect("the server reads"));
            for client in &mut clients {
                let mut answer = vec![0; awaited.len()];
                client.stream.read_exact(&mut answer).expect("the server negotiates");
                assert_eq!(answer, awaited);
            }
        }
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).expect("a descriptor");
        for (place, client) in clients.iter().enumerate() {
            client.stream.set_nonblocking(true).expect("a socket takes options");
            let data = epoll::EventData::new_u64(place as u64);
            epoll::add(&epoll, &client.stream, data, epoll::EventFlags::IN).expect("a fresh socket");
        }
        Self { epoll, clients, answered: Vec::new(), buffer: vec![0; 256 << 10] }
    }

    /// How many watches there are.
    pub fn watches(&self) -> usize {
        self.clients.iter().map(|client| client.polls.len()).sum()
    }

    /// Sends all polls at once, and takes the answers; `began` is when their times begin.
    pub fn ask(&mut self, began: Instant) -> Deliveries {
        for place in 0..self.clients.len() {
            let client = &mut self.clients[place];
            let mut out = std::mem::take(&mut client.unsent);
            for (number, (request, stamp)) in client.polls.iter().enumerate() {
                request.write(number, *stamp, &mut out);
            }
            client.unsent = out;
            self.flush(place);
        }
        let deliveries = self.deliveries(self.watches(), b"", began, Again::AtOnce);
        self.poll_again();
        deliveries
    }

    /// Takes so many answers, which show `marker`. What is not polled again at once is left to [`Clients::poll_again`].
    pub fn deliveries(&mut self, count: usize, marker: &[u8], began: Instant, again: Again) -> Deliveries {
        let mut times = Vec::with_capacity(count);
        while times.len() < count {
            let left = LIMIT.checked_sub(began.elapsed());
            let left = left.unwrap_or_else(|| panic!("{} of {count} answers within {LIMIT:?}", times.len()));
            for place in self.ready(left) {
                let seen = self.read(place, marker);
                let now = began.elapsed();
                times.extend(std::iter::repeat_n(now, seen));
                if again == Again::AtOnce {
                    self.poll_again();
                }
                self.flush(place);
            }
        }
        assert_eq!(times.len(), count, "more answers than watches");
        Deliveries(times)
    }

    /// Asks for everything that was answered.
    pub fn poll_again(&mut self) {
        let mut answered = std::mem::take(&mut self.answered);
        for polls in answered.chunk_by(|one, other| one.0 == other.0) {
            let client = &mut self.clients[polls[0].0];
            for (_, number) in polls {
                let (request, stamp) = &client.polls[*number];
                request.write(*number, *stamp, &mut client.unsent);
            }
            self.flush(polls[0].0);
        }
        answered.clear();
        self.answered = answered;
    }

    /// Ends all connections without a word.
    pub fn cut(self) {
        for client in &self.clients {
            // No waiting for the peer, so that the next thousands find free ports.
            SockRef::from(&client.stream).set_linger(Some(Duration::ZERO)).expect("a socket takes options");
        }
    }

    fn ready(&mut self, limit: Duration) -> Vec<usize> {
        let limit = Timespec::try_from(limit).expect("a short time");
        let mut events = [MaybeUninit::uninit(); 1_024];
        let (ready, _) = epoll::wait(&self.epoll, &mut events, Some(&limit)).expect("a good descriptor");
        ready.iter().map(|event| event.data.u64() as usize).collect()
    }

    /// Reads what there is. Counts new values.
    fn read(&mut self, place: usize, marker: &[u8]) -> usize {
        let Self { clients, answered, buffer, .. } = self;
        let client = &mut clients[place];
        let start = client.partial.len();
        buffer[..start].copy_from_slice(&client.partial);
        let read = match client.stream.read(&mut buffer[start..]) {
            Ok(0) => panic!("the server closed a connection"),
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return 0,
            Err(error) => panic!("{error}"),
        };
        let mut rest = &buffer[..start + read];
        let mut seen = 0;
        while let Some((frame, behind)) = whole_frame(rest) {
            rest = behind;
            let (number, stamp) = answer(frame);
            let (_, last) = &mut client.polls[number];
            answered.push((place, number));
            // The value that the client has already comes again when a poll has become old.
            if *last != stamp {
                *last = stamp;
                assert!(contains(frame, marker), "an answer that nobody waits for: {frame:02x?}");
                seen += 1;
            }
        }
        client.partial = rest.to_vec();
        seen
    }

    fn flush(&mut self, place: usize) {
        let client = &mut self.clients[place];
        if client.unsent.is_empty() {
            return;
        }
        match client.stream.write(&client.unsent) {
            Ok(written) => drop(client.unsent.drain(..written)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => panic!("{error}"),
        }
        let waits = !client.unsent.is_empty();
        if waits != client.waits_to_write {
            client.waits_to_write = waits;
            let flags = if waits { epoll::EventFlags::IN | epoll::EventFlags::OUT } else { epoll::EventFlags::IN };
            let data = epoll::EventData::new_u64(place as u64);
            epoll::modify(&self.epoll, &client.stream, data, flags).expect("it was added");
        }
    }
}

/// The number of the poll that is answered, and the stamp.
fn answer(frame: &[u8]) -> (usize, [u8; 8]) {
    let good = frame.len() > ANSWER_STAMP + 8 && frame[4] == 0xfe && frame[8..11] == [0, 0, 0];
    // A reply that is a value: field 0 of the result, and in it the stamp as field 1.
    let good = good && frame[14] == 2 && frame[27..34] == [12, 0, 0, 11, 0, 1, 0];
    assert!(good, "no good answer: {frame:02x?}");
    let tag = usize::from(frame[5]) << 16 | usize::from(frame[6]) << 8 | usize::from(frame[7]);
    let stamp = frame[ANSWER_STAMP..ANSWER_STAMP + 8].try_into().expect("eight bytes");
    (tag - FIRST_TAG, stamp)
}

fn whole_frame(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = u32::from_be_bytes(*bytes.first_chunk()?);
    bytes.split_at_checked(4 + length as usize)
}

fn contains(frame: &[u8], marker: &[u8]) -> bool {
    marker.is_empty() || frame[ANSWER_STAMP..].windows(marker.len()).any(|part| part == marker)
}

// === impl Client ===

impl Client {
    fn connect(port: u16, plan: Plan) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("the port is served");
        stream.set_nodelay(true).expect("a fresh socket takes options");
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a fresh socket takes options");
        let polls = plan.into_iter().map(|request| (request, [0; 8])).collect();
        Self { stream, polls, partial: Vec::new(), unsent: Vec::new(), waits_to_write: false }
    }
}

// === impl Deliveries ===

impl Deliveries {
    /// When the last watch was told.
    pub fn last(&self) -> Duration {
        self.0.iter().max().copied().unwrap_or_default()
    }
}

/// Pings on a connection of its own, one after the other, and remembers the slowest.
pub struct Pings {
    stop: Arc<std::sync::atomic::AtomicBool>,
    thread: std::thread::JoinHandle<(usize, Duration)>,
}

// === impl Pings ===

impl Pings {
    pub fn start(port: u16) -> Self {
        let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut client = Client::connect(port, Vec::new());
            let (mut count, mut slowest) = (0, Duration::ZERO);
            while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
                let began = Instant::now();
                client.stream.write_all(PING).expect("the server reads");
                let mut answer = [0; 8];
                client.stream.read_exact(&mut answer).expect("the server answers pings");
                assert_eq!(answer, PONG);
                slowest = slowest.max(began.elapsed());
                count += 1;
                std::thread::sleep(Duration::from_millis(2));
            }
            (count, slowest)
        });
        Self { stop, thread }
    }

    /// How many there were, and the slowest of them.
    pub fn stop(self) -> (usize, Duration) {
        self.stop.store(true, std::sync::atomic::Ordering::Relaxed);
        self.thread.join().expect("pings are answered")
    }
}
