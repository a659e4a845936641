//! What was read, frame by frame.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};

use super::answer::{Exchange, Form, Place};
use super::dialect::Dialect;
use super::{End, Fault, Session};
use crate::mux::{Frame, Message, Tag, take_frame};
use crate::runtime::guess;
use crate::wire::Taken;

/// So many requests, and so many bytes of them, may wait to be worked on before nothing more is read.
const MOST_WAITING: usize = 1_024;
const MOST_WAITING_BYTES: usize = 64 << 10;

/// Requests in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    requests: VecDeque<Asked>,
    bytes: usize,
}

/// A request that was read and not looked at.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) exchange: Exchange,
    /// Tells it from a later one with the same tag.
    pub(super) serial: u32,
    pub(super) message: Bytes,
    pub(super) room: Option<Arc<Taken>>,
}

// === impl Inbox ===

impl Inbox {
    pub(super) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// May more be read?
    pub(super) fn has_room(&self) -> bool {
        self.requests.len() < MOST_WAITING && self.bytes < MOST_WAITING_BYTES
    }

    fn push(&mut self, asked: Asked) {
        self.bytes += asked.message.len();
        self.requests.push_back(asked);
    }

    pub(super) fn pop(&mut self) -> Option<Asked> {
        let asked = self.requests.pop_front()?;
        self.bytes -= asked.message.len();
        if self.requests.is_empty() {
            self.requests = VecDeque::new(); // a burst is over, and every open connection would have room for it
        }
        Some(asked)
    }
}

// === impl Session ===

impl<IO: AsyncRead + AsyncWrite + Unpin + Send> Session<IO> {
    /// Takes apart what was read, as far as there is room for what comes of it.
    pub(super) fn read_frames(&mut self) -> Result<(), End> {
        let most = self.server.most_bytes;
        loop {
            self.behind = !(self.has_room() && self.inbox.has_room());
            if self.behind {
                break;
            }
            if matches!(self.dialect, Dialect::Unknown) {
                self.look_for_strangers()?;
            }
            match take_frame(&mut self.input, most) {
                Ok(None) => break,
                Ok(Some(bytes)) => {
                    if self.reassembly.bytes() == 0 {
                        self.times.no_frame_has_begun();
                    }
                    self.frame(bytes)?;
                    self.frame_is_over();
                    self.input.has_been_cut();
                }
                Err(_) if matches!(self.dialect, Dialect::Unknown) => return Err(End::Foreign(guess(&self.input))),
                Err(bad) => return Err(Fault::Frame(bad).into()),
            }
        }
        self.look_for_room();
        let begun = !self.input.is_empty() || self.reassembly.bytes() > 0;
        if begun && self.may_read() {
            self.times.frame_has_begun(matches!(self.dialect, Dialect::Unknown));
        } else {
            self.times.no_frame_has_begun(); // or it is we who do not go on
        }
        Ok(())
    }

    /// A length that is none: the first words of another protocol, which would be a large number.
    fn look_for_strangers(&self) -> Result<(), End> {
        match guess(&self.input) {
            "something else" | "thrift or ThriftMux" => Ok(()),
            other => Err(End::Foreign(other)),
        }
    }

    fn frame(&mut self, bytes: Bytes) -> Result<(), End> {
        match self.dialect {
            Dialect::Unknown => self.first_frame(bytes),
            Dialect::Probed { .. } => {
                let frame = Frame::read(bytes).map_err(Fault::Message)?;
                self.after_probe(frame)
            }
            Dialect::Mux { .. } => {
                let frame = Frame::read(bytes).map_err(Fault::Message)?;
                self.mux_frame(frame)
            }
            Dialect::Plain { .. } => self.plain_frame(bytes),
        }
    }

    pub(super) fn plain_frame(&mut self, message: Bytes) -> Result<(), End> {
        let exchange = Exchange { tag: Tag::MARKER, form: Form::Plain };
        self.serial = self.serial.wrapping_add(1);
        let room = self.receiving.share();
        self.inbox.push(Asked { exchange, serial: self.serial, message, room });
        Ok(())
    }

    pub(super) fn mux_frame(&mut self, frame: Frame) -> Result<(), End> {
        let Some(frame) = self.reassembly.take(frame).map_err(Fault::Message)? else { return Ok(()) };
        match Message::read(frame).map_err(Fault::Message)? {
            Message::Tdispatch { tag, payload } => self.asked(tag, Form::Dispatch, payload),
            Message::Treq { tag, payload } => self.asked(tag, Form::Request, payload),
            Message::Tping(tag) => {
                if !self.leaving.is_silent() {
                    Message::Rping(tag).write(&mut self.output);
                }
                Ok(())
            }
            Message::Tdiscarded { which, .. } => {
                self.discarded(which);
                Ok(())
            }
            Message::Rping(_) if self.times.ping_is_answered() => Ok(()),
            Message::Rdrain(_) if self.leaving.is_told() => {
                self.leaving.client_knows();
                Ok(())
            }
            other => {
                let reason = format!("Unexpected mux message type {}", other.kind().number());
                Message::Rerr { tag: other.tag(), reason: reason.into() }.write(&mut self.output);
                Ok(())
            }
        }
    }

    fn asked(&mut self, tag: Tag, form: Form, message: Bytes) -> Result<(), End> {
        self.serial = self.serial.wrapping_add(1);
        let serial = self.serial;
        if self.exchanges.insert(tag, Place::Inbox(serial)).is_some() {
            // Which of the two an answer is for cannot be told (ServerTracker.scala:228-253).
            for pending in self.exchanges.keys() {
                let reason = format!("Received duplicate tag {tag} from client.");
                Message::Rerr { tag: *pending, reason: reason.into() }.write(&mut self.output);
            }
            return Err(Fault::DuplicateTag(tag).into());
        }
        let room = self.receiving.share();
        self.inbox.push(Asked { exchange: Exchange { tag, form }, serial, message, room });
        Ok(())
    }

    /// The client gives up a request. Its tag is free again as soon as it hears so; a tag that is not pending must not
    /// be confirmed, since the client may have used it again.
    fn discarded(&mut self, which: Tag) {
        let Some(place) = self.exchanges.remove(&which) else {
            return self.watched.crossed(which, &self.times);
        };
        self.server.metrics.discarded();
        match place {
            Place::Inbox(_) => {}
            Place::Held => self.held.retain(|question| question.exchange.tag != which),
            Place::Row { key, serial } => self.watched.events.extend(self.rows.discard(key, serial)),
            Place::Task(serial) => {
                if let Some(abort) = self.aborts.remove(&serial) {
                    abort.abort();
                }
            }
        }
        Message::Rdiscarded(which).write(&mut self.output);
    }
}
