//! Sessions over memory, with a clock that stands still.

mod anything;
mod basics;
mod drain;
mod limits;
mod plain;
mod polls;
mod protocol;
mod refusals;
mod times;
mod watched;

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use crate::config::{OwnLimits, SocketOptions};
use crate::iface::Core;
use crate::iface::testing::{self, Fixture};
use crate::iface::thrift::{Server, ThriftConfig, session};
use crate::mux::{Frame, Init, Message, PROBE, Reassembly, Status, Tag, take_frame};
use crate::wire::Output;

const KIND: &str = "io.l5d.thriftNameInterpreter";
const MOST: usize = 16 << 20;
const TWO: Tag = Tag::new(2);
const THREE: Tag = Tag::new(3);

/// An interface without a port: the fixture namer at `/#/t`, `default` = `/svc=>/#/t`.
struct World {
    fixture: Arc<Fixture>,
    core: Core,
    server: Arc<Server>,
}

/// The client's end of a session.
struct Peer {
    io: DuplexStream,
    input: BytesMut,
    reassembly: Reassembly,
    answers_pings: bool,
    _session: AbortOnDropHandle<()>,
}

impl World {
    fn new() -> Self {
        Self::with(&OwnLimits::default(), ThriftConfig::default(), |_| ())
    }

    fn with(limits: &OwnLimits, config: ThriftConfig, change: impl FnOnce(&mut Core)) -> Self {
        let (fixture, mut core) = testing::core(&[("default", "/svc=>/#/t")], limits);
        change(&mut core);
        let server = Arc::new(Server::new(&core, KIND, &config, &SocketOptions::default()));
        Self { fixture, core, server }
    }

    /// A client that has said nothing yet.
    fn connect(&self) -> Peer {
        self.connect_from("192.0.2.1")
    }

    fn connect_from(&self, ip: &str) -> Peer {
        let (near, far) = duplex(64 << 10);
        let peer = std::net::SocketAddr::new(ip.parse().expect("an address"), 1);
        let session = AbortOnDropHandle::new(tokio::spawn(session::serve(far, peer, self.server.clone())));
        Peer {
            io: near,
            input: BytesMut::new(),
            reassembly: Reassembly::new(MOST),
            answers_pings: true,
            _session: session,
        }
    }

    /// A router, after the handshake.
    async fn router(&self) -> Peer {
        let mut peer = self.connect();
        peer.negotiate().await;
        peer
    }

    /// What namerd's metrics say.
    fn counter(&self, name: &str) -> u64 {
        self.core.legacy.scope("interface").scope(KIND).scope("thrift").counter(name).get()
    }

    async fn put(&self, ns: &str, dtab: &str) {
        self.core.storage.put(ns, crate::name::Dtab::parse(dtab).expect("dtab")).await.expect("stored");
    }
}

impl Peer {
    async fn say(&mut self, message: &Message) {
        let mut out = Output::default();
        message.write(&mut out);
        self.io.write_all(&out.take()).await.expect("open");
    }

    async fn dispatch(&mut self, tag: Tag, payload: impl Into<Bytes>) {
        self.say(&Message::Tdispatch { tag, payload: payload.into() }).await;
    }

    async fn negotiate(&mut self) {
        let probe = Message::Rerr { tag: Tag::CONTROL, reason: PROBE.into() };
        self.say(&probe).await;
        assert_eq!(self.hears().await, probe);
        self.say(&Message::Tinit { tag: Tag::CONTROL, init: Init::plain() }).await;
        assert_eq!(self.hears().await, Message::Rinit { tag: Tag::CONTROL, init: Init::plain() });
    }

    /// The next frame; None when the server has closed.
    async fn frame(&mut self) -> Option<Bytes> {
        loop {
            if let Some(frame) = take_frame(&mut self.input, MOST).expect("frames") {
                return Some(frame);
            }
            if self.io.read_buf(&mut self.input).await.expect("memory does not fail") == 0 {
                assert!(self.input.is_empty(), "half a frame");
                return None;
            }
        }
    }

    /// The next message.
    async fn hears(&mut self) -> Message {
        let heard = timeout(Duration::from_secs(3_600), self.hears_or_ends()).await.expect("in an hour");
        heard.expect("the session has ended")
    }

    async fn hears_or_ends(&mut self) -> Option<Message> {
        loop {
            let frame = Frame::read(self.frame().await?).expect("a header");
            if let Some(whole) = self.reassembly.take(frame).expect("fragments") {
                let message = Message::read(whole).expect("a message");
                if message != Message::Tping(Tag::CONTROL) || !self.answers_pings {
                    return Some(message);
                }
                self.say(&Message::Rping(Tag::CONTROL)).await;
            }
        }
    }

    /// Nothing comes for so long.
    async fn hears_nothing_for(&mut self, time: Duration) {
        if let Ok(heard) = timeout(time, self.hears_or_ends()).await {
            panic!("heard {heard:?}");
        }
    }

    /// The server has closed.
    async fn is_closed(&mut self) {
        let heard = timeout(Duration::from_secs(3_600), self.hears_or_ends()).await.expect("in an hour");
        assert_eq!(heard, None);
    }

    /// The answer to a dispatch.
    async fn answer(&mut self, to: Tag) -> Answer {
        match self.hears().await {
            Message::Rdispatch { tag, status: Status::Ok, payload } if tag == to => Answer(payload),
            other => panic!("heard {other:?}"),
        }
    }
}

/// A reply of thrift.
#[derive(Clone, PartialEq)]
struct Answer(Bytes);

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl Answer {
    fn has(&self, text: impl AsRef<[u8]>) -> bool {
        let text = text.as_ref();
        self.0.windows(text.len()).any(|window| window == text)
    }

    /// Is it the failure that the method declares?
    fn is_failure(&self) -> bool {
        self.0[3] == 2 && self.after_head()[..3] == [12, 0, 1]
    }

    fn is_exception(&self) -> bool {
        self.0[3] == 3
    }

    fn after_head(&self) -> &[u8] {
        let name = usize::from(self.0[7]);
        &self.0[12 + name..]
    }

    /// The stamp of a value.
    fn stamp(&self) -> [u8; 8] {
        let result = self.after_head();
        assert_eq!(result[..10], [12, 0, 0, 11, 0, 1, 0, 0, 0, 8], "{self:?} is no value");
        result[10..18].try_into().expect("eight bytes")
    }
}

fn framed(message: &[u8]) -> Vec<u8> {
    [&u32::try_from(message.len()).expect("short").to_be_bytes()[..], message].concat()
}

fn text(field: i16, text: &[u8]) -> Vec<u8> {
    let length = u32::try_from(text.len()).expect("short").to_be_bytes();
    [&[11], &field.to_be_bytes()[..], &length[..], text].concat()
}

fn path(field: i16, path: &str) -> Vec<u8> {
    let elems: Vec<&str> = path.split('/').skip(1).collect();
    let elems = if elems == [""] { Vec::new() } else { elems };
    let count = u32::try_from(elems.len()).expect("short").to_be_bytes();
    let mut bytes = [&[15], &field.to_be_bytes()[..], &[11], &count[..]].concat();
    for elem in elems {
        bytes.extend(u32::try_from(elem.len()).expect("short").to_be_bytes());
        bytes.extend(elem.as_bytes());
    }
    bytes
}

fn structure(field: i16, fields: &[Vec<u8>]) -> Vec<u8> {
    [&[12], &field.to_be_bytes()[..], &fields.concat()[..], &[0]].concat()
}

fn call(name: &str, args: &[Vec<u8>]) -> Vec<u8> {
    let length = u32::try_from(name.len()).expect("short").to_be_bytes();
    [&[0x80, 1, 0, 1], &length[..], name.as_bytes(), &[0; 4], &structure(1, args)[..], &[0]].concat()
}

fn name_ref(field: i16, stamp: &[u8], name: &str, ns: &str) -> Vec<u8> {
    structure(field, &[text(1, stamp), path(2, name), text(3, ns.as_bytes())])
}

fn bind(stamp: &[u8], name: &str) -> Vec<u8> {
    bind_in("default", "", stamp, name)
}

fn bind_in(ns: &str, dtab: &str, stamp: &[u8], name: &str) -> Vec<u8> {
    call("bind", &[text(1, dtab.as_bytes()), name_ref(2, stamp, name, ns), path(3, "/")])
}

fn addr(stamp: &[u8], id: &str) -> Vec<u8> {
    call("addr", &[name_ref(1, stamp, id, "default"), path(2, "/")])
}

fn dtab(stamp: &[u8], ns: &str) -> Vec<u8> {
    call("dtab", &[text(1, stamp), text(2, ns.as_bytes()), path(3, "/")])
}

/// A delegation of one name, as Linkerd asks for it.
fn delegate(stamp: &[u8], name: &str) -> Vec<u8> {
    let root = [path(1, name), text(2, b"/\\x2f=>~"), structure(3, &[path(7, name)])];
    let nodes = vec![13, 0, 2, 8, 12, 0, 0, 0, 0];
    let delegation = [text(1, stamp), structure(2, &[structure(1, &root), nodes]), text(3, b"default")];
    call("delegate", &[text(1, b""), structure(2, &delegation), path(3, "/")])
}
