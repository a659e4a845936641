//! A session: one connection, one task.
//!
//! A turn takes what was read apart ([`input`]), works on requests ([`work`]), answers what has changed ([`polls`]) and
//! goes on with the way out ([`leave`]); then the task waits for the next thing to happen, while what is to be written
//! leaves. Pings and discards are answered as they are read; requests wait in an inbox and are worked on for a moment at
//! a time, so that a ping never waits for work.

mod answer;
mod ask;
mod dialect;
mod end;
mod explain;
mod input;
mod large;
pub(super) mod leave;
mod polls;
mod rows;
#[cfg(test)]
mod tests;
mod times;
mod watched;
mod work;

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::BytesMut;
use futures_util::StreamExt;
use futures_util::future::AbortHandle;
use futures_util::stream::FuturesUnordered;
use hashbrown::HashMap;
use tokio::io::{AsyncRead, AsyncWrite};

use self::answer::{Place, Question};
use self::dialect::Dialect;
use self::end::{End, Fault};
use self::input::Inbox;
use self::large::Receiving;
use self::leave::Leaving;
use self::polls::Owed;
use self::rows::Rows;
use self::times::Times;
use self::watched::Watched;
use self::work::{Finished, SLICE, Task};
use super::Server;
use super::metrics::Share;
use crate::mux::{Reassembly, Tag};
use crate::store::{Client, Key, Mailbox};
use crate::telemetry::{LevelShare, Traffic};
use crate::wire::{Input, Output, Taken};

pub(super) use self::dialect::DIALECTS;
pub(super) use self::end::FAULTS;
pub(super) use self::times::OVERDUE;

/// With so much on its way to a client that does not read, nothing more is read from it. Requests are answered up to half
/// of that, so that pings and discards are seen to while much is said.
const HIGH_WATER: usize = 128 << 10;
const MOST_AT_ONCE: usize = HIGH_WATER / 2;
/// How much is read at a time: from a connection as such, and from one that has room for something large. What has begun
/// and needs room it does not have takes no more than one reading.
const READ: usize = 4 << 10;
const LARGE_READ: usize = 16 << 10;
/// A client that has closed its side may still want its answers, for so long.
const HALF_CLOSED: Duration = Duration::from_secs(1);

/// One connection.
struct Session<IO> {
    io: IO,
    peer: SocketAddr,
    client: Client,
    server: Arc<Server>,
    input: Input,
    /// There are whole frames in what was read for which there was no room.
    behind: bool,
    output: Output,
    /// The client has closed its side.
    ended: bool,
    dialect: Dialect,
    reassembly: Reassembly,
    receiving: Receiving,
    inbox: Inbox,
    /// Where each unanswered request is.
    exchanges: HashMap<Tag, Place>,
    rows: Rows,
    mailbox: Mailbox,
    /// Keys taken from the mailbox and not dealt with yet, in reverse.
    marked: Vec<Key>,
    /// Rows with polls that have become old.
    aged: Vec<Key>,
    /// Answers for which there was no room yet.
    owed: VecDeque<Owed>,
    tasks: FuturesUnordered<Task>,
    aborts: HashMap<u32, AbortHandle>,
    serial: u32,
    /// The task that reads a large request.
    large: Option<u32>,
    /// Delegations that are never answered.
    held: Vec<Question>,
    times: Times,
    watched: Watched,
    leaving: Leaving,
    traffic: Traffic,
    pending: LevelShare,
    parked: Share,
    scratch: BytesMut,
}

/// What happens next.
enum Event {
    Moved {
        read: Option<io::Result<usize>>,
        sent: usize,
    },
    Broken(io::Error),
    Marked,
    Room(Option<Taken>),
    Finished(Finished),
    Due,
    Phase,
    /// Nothing, but there is work left.
    Nothing,
}

/// Serves one connection until it ends.
pub(super) async fn serve<IO>(io: IO, peer: SocketAddr, server: Arc<Server>)
where
    IO: AsyncRead + AsyncWrite + Unpin + Send,
{
    let _connected = server.stats.connected();
    let mut session = Session::new(io, peer, server);
    let end = session.run().await;
    // In a box: every open connection would have room for it.
    Box::pin(session.finish(end)).await;
}

// === impl Session ===

impl<IO: AsyncRead + AsyncWrite + Unpin + Send> Session<IO> {
    fn new(io: IO, peer: SocketAddr, server: Arc<Server>) -> Self {
        Self {
            io,
            peer,
            client: Client(peer.ip()),
            input: Input::default(),
            behind: false,
            output: Output::default(),
            ended: false,
            dialect: Dialect::Unknown,
            reassembly: Reassembly::new(server.most_bytes),
            receiving: Receiving::Small,
            inbox: Inbox::default(),
            exchanges: HashMap::new(),
            rows: Rows::new(),
            mailbox: Mailbox::new(),
            marked: Vec::new(),
            aged: Vec::new(),
            owed: VecDeque::new(),
            tasks: FuturesUnordered::new(),
            aborts: HashMap::new(),
            serial: 0,
            large: None,
            held: Vec::new(),
            times: Times::new(),
            watched: Watched::default(),
            leaving: Leaving::new(&server.drain),
            traffic: Traffic::default(),
            pending: server.stats.handling_some(),
            parked: server.metrics.parked(),
            scratch: BytesMut::new(),
            server,
        }
    }

    async fn run(&mut self) -> End {
        let mut busy_since = self.times.look();
        loop {
            if let Err(end) = self.turn() {
                return end;
            }
            // A client that sends and sends is always ready, and others have work too. Nothing more is read then, since
            // buffers are for those whose turn it is.
            let is_over = self.times.look() - busy_since >= SLICE;
            let (event, has_waited) = waited(pin!(self.wait(is_over))).await;
            let now = self.times.look();
            if let Err(end) = self.deal_with(event) {
                return end;
            }
            if has_waited {
                busy_since = now;
            } else if is_over || self.has_work() {
                self.output.shrink();
                tokio::task::yield_now().await;
                busy_since = self.times.look();
            }
        }
    }

    /// Does what can be done without waiting.
    fn turn(&mut self) -> Result<(), End> {
        self.read_frames()?;
        self.pay();
        self.work()?;
        self.deliver();
        self.leave()?;
        if self.ended && self.exchanges_are_over() {
            return Err(End::Gone(None));
        }
        self.pending.set(self.exchanges.len());
        self.parked.set(self.rows.waiting());
        self.tell_ledger();
        if self.inbox.is_empty() && !self.behind {
            self.input.shrink(); // requests that wait are parts of it
        }
        Ok(())
    }

    /// With the client's side closed, what is parked is given up; what is being worked on is not.
    fn exchanges_are_over(&self) -> bool {
        let is_read = self.inbox.is_empty() && !self.behind;
        is_read && self.owed.is_empty() && self.tasks.is_empty() && self.output.is_sent()
    }

    /// Is the client keeping up?
    fn has_room(&self) -> bool {
        self.output.len() < HIGH_WATER
    }

    /// May requests be answered?
    fn may_answer(&self) -> bool {
        self.output.len() < MOST_AT_ONCE
    }

    /// May more be read, as far as it is up to us?
    fn may_read(&self) -> bool {
        self.has_room() && self.inbox.has_room() && !self.receiving.is_waiting()
    }

    fn has_work(&self) -> bool {
        let is_settled = self.owed.is_empty() && self.aged.is_empty() && self.marked.is_empty();
        let may_read = self.behind && self.inbox.has_room() && self.has_room();
        may_read || self.may_answer() && (self.may_work() || !is_settled)
    }

    /// Waits for the next thing to happen; if the session's time is over, only writes. Cancel safe.
    async fn wait(&mut self, is_over: bool) -> Event {
        let has_work = self.has_work() || is_over;
        let may_read = self.may_read() && !self.behind && !self.ended && !is_over;
        let may_answer = self.may_answer() && self.marked.is_empty();
        let due = self.due();
        self.times.set(due);
        let most = match () {
            () if !may_read => 0,
            () if self.receiving.is_large() => LARGE_READ,
            () => READ,
        };
        if !has_work {
            self.rest();
        }
        let Self { io, input, output, receiving, mailbox, tasks, times, leaving, .. } = self;
        tokio::select! {
            biased;
            // Before the client, which may keep us busy.
            () = leaving.next_phase() => Event::Phase,
            () = times.elapsed() => Event::Due,
            event = std::future::poll_fn(|cx| transfer(cx, io, input, output, most)) => event,
            Some(finished) = tasks.next(), if !tasks.is_empty() => Event::Finished(finished),
            room = receiving.room(), if receiving.is_waiting() => Event::Room(room),
            () = mailbox.marked(), if may_answer => Event::Marked,
            () = std::future::ready(()), if has_work => Event::Nothing,
        }
    }

    /// Gives back memory that only work needs: there are thousands of sessions, and almost all of them wait.
    fn rest(&mut self) {
        self.output.shrink();
        if self.owed.is_empty() {
            self.owed = VecDeque::new();
        }
        if self.marked.is_empty() {
            self.marked = Vec::new();
        }
    }

    fn deal_with(&mut self, event: Event) -> Result<(), End> {
        match event {
            Event::Moved { read, sent } => {
                if sent > 0 || self.output.is_sent() {
                    self.times.wrote(self.output.is_sent());
                }
                let received = match read {
                    None => 0,
                    Some(Ok(0)) => {
                        self.ended = true;
                        self.times.set_half_closed(HALF_CLOSED);
                        0
                    }
                    Some(Ok(count)) => {
                        self.times.heard();
                        count
                    }
                    Some(Err(error)) => return Err(End::Gone(Some(error))),
                };
                self.moved(Traffic { requests: 0, received: received as u64, sent: sent as u64 });
            }
            Event::Broken(error) => return Err(End::Gone(Some(error))),
            Event::Marked | Event::Nothing => {}
            Event::Room(room) => self.has_received_room(room)?,
            Event::Finished(finished) => self.finished(finished)?,
            Event::Due => self.timed()?,
            Event::Phase => self.phase(),
        }
        Ok(())
    }

    fn moved(&mut self, more: Traffic) {
        self.traffic.received += more.received;
        self.traffic.sent += more.sent;
        self.server.stats.moved(more);
    }
}

/// What a future comes to, and whether it had to be waited for.
async fn waited<F: Future>(mut future: Pin<&mut F>) -> (F::Output, bool) {
    let mut has_waited = false;
    let output = std::future::poll_fn(|cx| {
        let polled = future.as_mut().poll(cx);
        has_waited |= polled.is_pending();
        polled
    });
    (output.await, has_waited)
}

/// Writes what waits and reads what is there, but no more than `most` bytes, as far as both go without waiting.
fn transfer<IO: AsyncRead + AsyncWrite + Unpin>(
    cx: &mut Context<'_>,
    io: &mut IO,
    input: &mut Input,
    output: &mut Output,
    most: usize,
) -> Poll<Event> {
    let mut sent = 0;
    let had = !output.is_sent();
    while !output.is_sent() {
        match pin!(output.write_some(io)).poll(cx) {
            Poll::Ready(Ok(count)) => sent += count,
            Poll::Ready(Err(error)) => return Poll::Ready(Event::Broken(error)),
            Poll::Pending => break,
        }
    }
    if most > 0
        && let Poll::Ready(read) = input.poll_read(cx, io, most)
    {
        return Poll::Ready(Event::Moved { read: Some(read), sent });
    }
    if sent > 0 || (had && output.is_sent()) {
        return Poll::Ready(Event::Moved { read: None, sent });
    }
    Poll::Pending
}
