//! A server of the thrift interface, played: it keeps what it is told, parks polls, and behaves as badly as it is told.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use rosterd::interpreter::{AddrSource, Bound, BoundId, BoundTree};
use rosterd::mux::{Frame, Init, Message, PROBE, Status, Tag, take_frame, write_reply};
use rosterd::name::{AddrSet, Address, Meta, NameTree, Path};
use rosterd::thrift::{self, Ask, Call, NameRef, Stamp, result};
use rosterd::wire::Output;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;

/// What all replicas know.
#[derive(Clone, Default)]
pub struct Registry(Arc<Known>);

#[derive(Default)]
struct Known {
    values: Mutex<BTreeMap<String, (u64, Value)>>,
    version: watch::Sender<u64>,
}

#[derive(Clone, Debug)]
enum Value {
    Tree(BoundTree),
    Addr(Option<AddrSet>),
    Dtab(String),
}

/// One replica. Cloning shares it.
#[derive(Clone)]
pub struct Namerd {
    registry: Registry,
    /// Added to versions: no other replica has these stamps.
    base: u64,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    manners: Mutex<Manners>,
    /// How often it was told to drain.
    drains: watch::Sender<u32>,
    seen: Mutex<Vec<String>>,
    parked: AtomicUsize,
    sessions: AtomicUsize,
}

/// How a replica behaves.
#[derive(Clone, Debug, Default)]
pub struct Manners {
    /// What calls are answered with.
    pub calls: Calls,
    /// Whether pings are left unanswered.
    pub no_pings: bool,
    /// What the question whether it negotiates is answered with.
    pub handshake: Handshake,
    /// Whether a new session is told at once that the server goes.
    pub drains_at_once: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub enum Calls {
    /// What is known, once there is news.
    #[default]
    Served,
    /// Nothing, for ever.
    Parked,
    /// Everything at once, news or not.
    Hurried,
    /// An Rdispatch that says NACK.
    Nack,
    /// An Rdispatch that says ERROR.
    Error,
    /// An Rerr.
    Rerr,
    /// A TApplicationException.
    Exception,
    /// The declared failure.
    Declared(&'static str),
    /// These bytes in place of the thrift message.
    Bytes(&'static [u8]),
    /// The reply to another method.
    Confused,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub enum Handshake {
    #[default]
    Polite,
    /// Silence.
    Silent,
    /// These bytes.
    Bytes(&'static [u8]),
    /// Any answer but the question itself: it does not negotiate.
    Old,
}

struct Session<S> {
    namerd: Namerd,
    stream: S,
    out: Output,
    parked: HashMap<Tag, Call>,
    draining: bool,
}

// === impl Registry ===

impl Registry {
    /// `tree` is in the notation of dtabs, its leaves are bound ids.
    pub fn bind(&self, path: &str, tree: &str) {
        let tree: NameTree<Path> = NameTree::parse(tree).expect("a tree");
        let bound = |id: &Path| Bound {
            id: BoundId::Path(id.clone()),
            residual: Path::empty(),
            source: AddrSource::None,
            weight: None,
        };
        self.put(format!("bind {path}"), Value::Tree(tree.map(bound)));
    }

    pub fn addr(&self, id: &str, addrs: &[&str]) {
        self.put(format!("addr {id}"), Value::Addr(Some(set(addrs))));
    }

    pub fn no_addr(&self, id: &str) {
        self.put(format!("addr {id}"), Value::Addr(None));
    }

    pub fn dtab(&self, ns: &str, text: &str) {
        self.put(format!("dtab {ns}"), Value::Dtab(text.to_owned()));
    }

    fn put(&self, key: String, value: Value) {
        let mut values = self.0.values.lock();
        self.0.version.send_modify(|version| {
            *version += 1;
            values.insert(key, (*version, value));
        });
    }
}

/// Addresses as a set.
pub fn set(addrs: &[&str]) -> AddrSet {
    let address = |text: &&str| text.parse::<std::net::SocketAddr>().expect("an address").into();
    AddrSet::new(addrs.iter().map(address).collect::<Vec<Address>>(), Meta::default())
}

// === impl Namerd ===

impl Namerd {
    pub fn new(registry: &Registry) -> Self {
        Self { registry: registry.clone(), base: rand::random::<u64>() << 20, state: Arc::default() }
    }

    pub fn behave(&self, change: impl FnOnce(&mut Manners)) {
        change(&mut self.state.manners.lock());
    }

    /// Tells all sessions that the server goes.
    pub fn drain(&self) {
        self.state.drains.send_modify(|drains| *drains += 1);
    }

    /// What was asked so far, in order.
    pub fn seen(&self) -> Vec<String> {
        self.state.seen.lock().clone()
    }

    /// Polls that wait now.
    pub fn parked(&self) -> usize {
        self.state.parked.load(Ordering::SeqCst)
    }

    /// Sessions that are open now.
    pub fn sessions(&self) -> usize {
        self.state.sessions.load(Ordering::SeqCst)
    }

    fn manners(&self) -> Manners {
        self.state.manners.lock().clone()
    }

    fn see(&self, what: String) {
        self.state.seen.lock().push(what);
    }

    /// Serves one connection until it ends.
    pub async fn serve(self, stream: impl AsyncRead + AsyncWrite + Unpin) {
        self.state.sessions.fetch_add(1, Ordering::SeqCst);
        self.see("session".to_owned());
        let (out, parked) = (Output::default(), HashMap::new());
        Session { namerd: self, stream, out, parked, draining: false }.run().await;
    }
}

// === impl Session ===

impl<S> Drop for Session<S> {
    fn drop(&mut self) {
        self.namerd.state.parked.fetch_sub(self.parked.len(), Ordering::SeqCst);
        self.namerd.state.sessions.fetch_sub(1, Ordering::SeqCst);
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Session<S> {
    /// None: the connection has ended.
    async fn run(&mut self) -> Option<()> {
        let mut input = BytesMut::new();
        let mut news = self.namerd.registry.0.version.subscribe();
        let mut drains = self.namerd.state.drains.subscribe();
        loop {
            while let Some(frame) = take_frame(&mut input, 1 << 20).ok()? {
                self.accept(Message::read(Frame::read(frame).ok()?).ok()?).await?;
            }
            self.flush().await?;
            tokio::select! {
                read = self.stream.read_buf(&mut input) => if read.ok()? == 0 { return None },
                changed = news.changed() => {
                    changed.ok()?;
                    self.answer_parked(false);
                }
                changed = drains.changed() => {
                    changed.ok()?;
                    self.begin_drain();
                }
            }
            if self.draining && self.parked.is_empty() {
                self.flush().await?;
                return self.stream.shutdown().await.ok();
            }
        }
    }

    async fn flush(&mut self) -> Option<()> {
        while !self.out.is_sent() {
            self.out.write_some(&mut self.stream).await.ok()?;
        }
        Some(())
    }

    fn begin_drain(&mut self) {
        Message::Tdrain(Tag::CONTROL).write(&mut self.out);
    }

    async fn accept(&mut self, message: Message) -> Option<()> {
        let manners = self.namerd.manners();
        match message {
            Message::Rerr { tag, reason } if reason == PROBE => match manners.handshake {
                Handshake::Polite => Message::Rerr { tag, reason }.write(&mut self.out),
                Handshake::Silent => {}
                Handshake::Bytes(bytes) => self.out.push(bytes),
                Handshake::Old => Message::Rerr { tag, reason: Bytes::from_static(b"what?") }.write(&mut self.out),
            },
            Message::Tinit { tag, .. } => {
                Message::Rinit { tag, init: Init::plain() }.write(&mut self.out);
                if manners.drains_at_once {
                    self.begin_drain();
                }
            }
            Message::Tping(tag) if !manners.no_pings => Message::Rping(tag).write(&mut self.out),
            Message::Rdrain(_) => {
                // As rosterd: all polls of a session in one turn.
                self.draining = true;
                self.answer_parked(true);
            }
            Message::Tdiscarded { which, .. } if self.parked.remove(&which).is_some() => {
                self.namerd.state.parked.fetch_sub(1, Ordering::SeqCst);
                self.namerd.see("discard".to_owned());
                Message::Rdiscarded(which).write(&mut self.out);
            }
            Message::Tdispatch { tag, payload } => self.dispatch(tag, &payload, manners.calls),
            _ => {}
        }
        Some(())
    }

    fn dispatch(&mut self, tag: Tag, payload: &[u8], manner: Calls) {
        let call = thrift::read_call(payload).expect("clients send calls");
        let (key, stamp, _) = question(&call);
        let first = if stamp.is_empty() { "" } else { " again" };
        self.namerd.see(format!("{key}{first}"));
        let method = call.ask.method().name();
        let status = |status, payload: &'static [u8]| {
            let payload = Bytes::from_static(payload);
            Message::Rdispatch { tag, status, payload }
        };
        let mut said = BytesMut::new();
        match manner {
            Calls::Served | Calls::Parked | Calls::Hurried => {
                let parked = self.parked.insert(tag, call);
                assert!(parked.is_none(), "tag {tag} is in use");
                self.namerd.state.parked.fetch_add(1, Ordering::SeqCst);
                return self.answer_parked(self.draining);
            }
            Calls::Nack => return status(Status::Nack, b"").write(&mut self.out),
            Calls::Error => return status(Status::Error, b"cannot read").write(&mut self.out),
            Calls::Rerr => {
                return Message::Rerr { tag, reason: Bytes::from_static(b"no") }.write(&mut self.out);
            }
            Calls::Exception => {
                thrift::exception(&mut said, method.as_bytes(), 0, thrift::kind::INTERNAL_ERROR, "Internal error");
            }
            Calls::Declared(reason) => {
                let nobody = NameRef::default();
                let name = call.ask.name().unwrap_or(&nobody);
                thrift::reply_head(&mut said, method.as_bytes(), 0);
                said.extend_from_slice(&match &call.ask {
                    Ask::Bind { .. } => result::bind_failure(reason, name),
                    Ask::Addr { .. } => result::addr_failure(reason, name),
                    Ask::Delegate(_) => result::delegation_failure(reason),
                    Ask::Dtab { .. } => result::dtab_failure(reason),
                });
            }
            Calls::Bytes(bytes) => said.extend_from_slice(bytes),
            Calls::Confused => {
                thrift::reply_head(&mut said, b"dtab", 0);
                said.extend_from_slice(&result::dtab(1, "/a=>/b"));
            }
        }
        Message::Rdispatch { tag, status: Status::Ok, payload: said.freeze() }.write(&mut self.out);
    }

    /// Answers the polls for which there is news, or all for which there is a value.
    fn answer_parked(&mut self, all: bool) {
        let manners = self.namerd.manners();
        if manners.calls == Calls::Parked {
            return;
        }
        let all = all || manners.calls == Calls::Hurried;
        let values = self.namerd.registry.0.values.lock();
        let base = self.namerd.base;
        let mut answered = Vec::new();
        for (tag, call) in &self.parked {
            let (key, stamp, ns) = question(call);
            let Some((version, value)) = values.get(&key) else { continue };
            let version = base + version;
            if !all && stamp[..] == version.to_be_bytes() {
                continue;
            }
            let body = match value {
                Value::Tree(tree) => result::bound(version, tree, &ns),
                Value::Addr(set) => result::addr(version, set.as_ref(), true),
                Value::Dtab(text) => result::dtab(version, text),
            };
            let mut head = BytesMut::new();
            thrift::reply_head(&mut head, call.ask.method().name().as_bytes(), call.seqid);
            write_reply(&mut self.out, *tag, usize::MAX, &head, body);
            answered.push(*tag);
        }
        drop(values);
        for tag in answered {
            self.parked.remove(&tag);
            self.namerd.state.parked.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// The key of what is asked, the stamp, and the namespace.
fn question(call: &Call) -> (String, Stamp, String) {
    let named = |what: &str, name: &NameRef| {
        let path = Path::from_elems(name.elems()).expect("clients send paths");
        (format!("{what} {path}"), name.stamp.clone(), name.ns.clone())
    };
    match &call.ask {
        Ask::Bind { name, .. } => named("bind", name),
        Ask::Addr { name } => named("addr", name),
        Ask::Dtab { stamp, ns } => (format!("dtab {ns}"), stamp.clone(), ns.clone()),
        Ask::Delegate(ask) => (format!("delegate {}", ask.ns), ask.stamp.clone(), ask.ns.clone()),
    }
}
