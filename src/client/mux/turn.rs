//! What the task of a session does once hands are shaken.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use slab::Slab;
use tokio::io::AsyncReadExt;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::calls::{Calls, NewCall, Phase};
use super::handshake::{Wire, closed};
use crate::client::{End, Failure, Reason, Server, Timings};
use crate::mux::{Message, Status, Tag};

/// The first tag of a call: those below are for marks and pings.
const FIRST_TAG: u32 = 2;

/// So many calls that nobody waits for may be unanswered. Their tags are in use until they are, and tags are few.
const MOST_DISCARDED: usize = 1 << 20;

/// Tells a server that nobody waits for an answer any more.
const DISCARD: &[u8] = b"not watched any more";

/// A ping whose answer is behind other bytes that arrive still may take so long in all.
const LONGEST_PING: Duration = Duration::from_secs(60);

/// One session at work.
pub(super) struct Conversation {
    wire: Wire,
    timings: Timings,
    server: Arc<Server>,
    /// Calls that were sent; tags are places here.
    sent: Slab<Sent>,
    places: HashMap<u64, usize>,
    next_ping: Instant,
    /// When the ping was sent that is not answered.
    pinged: Option<Instant>,
    /// When bytes came last.
    heard: Instant,
    /// Whether any call was answered.
    served: bool,
    /// Since when nobody waits for anything.
    idle: Option<Instant>,
    draining: bool,
}

/// A tag in use.
struct Sent {
    id: u64,
    /// None once nobody waits: the tag stays in use until the server has answered.
    reply: Option<oneshot::Sender<Result<Bytes, End>>>,
}

impl Conversation {
    pub(super) fn new(wire: Wire, timings: Timings, server: Arc<Server>) -> Self {
        let now = Instant::now();
        Self {
            wire,
            timings,
            server,
            sent: Slab::new(),
            places: HashMap::new(),
            next_ping: now,
            pinged: None,
            heard: now,
            served: false,
            idle: Some(now),
            draining: false,
        }
    }

    /// Serves calls until something ends the session. Calls that are open then are still held: whoever calls tells
    /// their callers first.
    pub(super) async fn go_on(&mut self, calls: &Calls) -> Result<Infallible, End> {
        self.tick()?;
        self.take(calls)?; // what came during the handshake
        loop {
            while let Some(message) = self.wire.next_message()? {
                self.accept(message, calls)?;
            }
            if self.draining && self.places.is_empty() && self.wire.output.is_sent() {
                return Err(End::Gone(Reason::Draining));
            }
            self.wire.reserve();
            let (due, wire) = (self.due(), &mut self.wire);
            tokio::select! {
                read = wire.reader.read_buf(&mut wire.input) => self.have_read(read)?,
                () = calls.changed() => self.take(calls)?,
                written = wire.output.write_some(&mut wire.writer), if !wire.output.is_sent() => {
                    if let Err(error) = written {
                        return Err(self.left(closed(Some(&error))));
                    }
                }
                () = tokio::time::sleep_until(due) => {
                    // Perhaps it is this process that has slept, and the answer is there.
                    let read = self.wire.reader.read_buf(&mut self.wire.input).now_or_never();
                    read.map_or(Ok(()), |read| self.have_read(read))?;
                    self.tick()?;
                }
            }
        }
    }

    fn have_read(&mut self, read: io::Result<usize>) -> Result<(), End> {
        match read {
            Ok(0) => Err(self.left(closed(None))),
            Ok(_) => {
                self.heard = Instant::now();
                Ok(())
            }
            Err(error) => Err(self.left(closed(Some(&error)))),
        }
    }

    /// The server closed: that is in order when it said so before, or has served and nobody waits.
    fn left(&self, failure: Failure) -> End {
        match self.draining {
            true => End::Gone(Reason::Draining),
            false if self.served && self.places.is_empty() => End::Gone(Reason::Idle),
            false => End::Failed(failure),
        }
    }

    /// Sends new calls, and discards those that nobody waits for.
    fn take(&mut self, calls: &Calls) -> Result<(), End> {
        let (new, dropped) = calls.take();
        for NewCall { id, message, reply } in new {
            // The head of a dispatch without contexts, destination and dtab has six bytes.
            if message.len() + 6 > self.wire.window {
                let window = self.wire.window;
                let text = format!("the server takes no more than {window} bytes in one piece");
                reply.send(Err(End::failed(Reason::Protocol, text))).ok();
                continue;
            }
            let place = self.sent.insert(Sent { id, reply: Some(reply) });
            self.places.insert(id, place);
            Message::Tdispatch { tag: tag_of(place), payload: message }.write(&mut self.wire.output);
        }
        for id in dropped {
            // One that was answered meanwhile is not there any more.
            if let Some(place) = self.places.remove(&id)
                && let Some(sent) = self.sent.get_mut(place)
            {
                sent.reply = None;
                let reason = Bytes::from_static(DISCARD);
                Message::Tdiscarded { tag: Tag::MARKER, which: tag_of(place), reason }.write(&mut self.wire.output);
            }
        }
        self.note_idle();
        if self.sent.len() - self.places.len() > MOST_DISCARDED {
            let text = format!("the server leaves {MOST_DISCARDED} calls unanswered that nobody waits for");
            return Err(End::failed(Reason::Protocol, text));
        }
        Ok(())
    }

    fn accept(&mut self, message: Message, calls: &Calls) -> Result<(), End> {
        match message {
            Message::Rdispatch { tag, status, payload } | Message::Rreq { tag, status, payload } => {
                let answer = match status {
                    Status::Ok => Ok(payload),
                    Status::Error => Err(End::failed(Reason::Refused, text(&payload))),
                    Status::Nack if self.draining => Err(End::Gone(Reason::Draining)),
                    Status::Nack => Err(End::failed(Reason::Nack, "the server does not serve this now")),
                };
                self.answer(tag, answer);
            }
            Message::Rerr { tag, reason } => {
                self.answer(tag, Err(End::failed(Reason::Refused, text(&reason))));
            }
            Message::Rdiscarded(tag) => {
                let text = "the server gave up what it was asked";
                self.answer(tag, Err(End::failed(Reason::Refused, text)));
            }
            Message::Tping(tag) => Message::Rping(tag).write(&mut self.wire.output),
            Message::Rping(_) => self.pinged = None,
            Message::Tdrain(tag) => {
                Message::Rdrain(tag).write(&mut self.wire.output);
                if !std::mem::replace(&mut self.draining, true) {
                    self.server.drains();
                    calls.advance(Phase::Draining);
                }
            }
            // Nobody of those we talk to sends leases; what they mean is only a hint.
            Message::Tlease { .. } | Message::Rdrain(_) => {}
            Message::Treq { .. }
            | Message::Tdispatch { .. }
            | Message::Tdiscarded { .. }
            | Message::Tinit { .. }
            | Message::Rinit { .. } => {
                return Err(End::failed(Reason::Protocol, format!("a server that sends a {:?}", message.kind())));
            }
        }
        Ok(())
    }

    /// The answer to a call; frees its tag.
    fn answer(&mut self, tag: Tag, answer: Result<Bytes, End>) {
        let Some(place) = tag.get().checked_sub(FIRST_TAG).map(|place| place as usize) else { return };
        let Some(sent) = self.sent.try_remove(place) else { return };
        self.served = true;
        if let Some(reply) = sent.reply {
            self.places.remove(&sent.id);
            reply.send(answer).ok(); // whoever does not wait any more is about to say so
        }
        self.note_idle();
    }

    fn note_idle(&mut self) {
        match self.places.is_empty() {
            true => self.idle = self.idle.or_else(|| Some(Instant::now())),
            false => self.idle = None,
        }
    }

    /// When something is due.
    fn due(&self) -> Instant {
        let ping = self.pinged.map_or(self.next_ping, |pinged| self.dead_at(pinged));
        self.idle.map_or(ping, |idle| ping.min(idle + self.timings.linger))
    }

    /// When a server that has not answered the ping of `pinged` counts as dead. The answer comes behind all that it has
    /// to say, and on a slow line that may be much: while bytes arrive it is there.
    fn dead_at(&self, pinged: Instant) -> Instant {
        let deadline = self.timings.ping_deadline;
        (pinged.max(self.heard) + deadline).min(pinged + deadline.max(LONGEST_PING))
    }

    fn tick(&mut self) -> Result<(), End> {
        let now = Instant::now();
        let Timings { ping_period, linger, .. } = self.timings;
        if let Some(pinged) = self.pinged.filter(|pinged| self.dead_at(*pinged) <= now) {
            let text = format!("a ping was not answered for {} ms", (now - pinged).as_millis());
            return Err(End::failed(Reason::PingTimeout, text));
        }
        if self.idle.is_some_and(|idle| idle + linger <= now) {
            return Err(End::Gone(Reason::Idle));
        }
        if self.pinged.is_none() && self.next_ping <= now {
            Message::Tping(Tag::CONTROL).write(&mut self.wire.output);
            self.pinged = Some(now);
            self.next_ping = now + ping_period;
        }
        Ok(())
    }
}

fn tag_of(place: usize) -> Tag {
    Tag::new(u32::try_from(place).unwrap_or(u32::MAX).saturating_add(FIRST_TAG))
}

fn text(bytes: &[u8]) -> String {
    const MOST: usize = 500;
    String::from_utf8_lossy(&bytes[..bytes.len().min(MOST)]).into_owned()
}
