//! Requests: from the inbox to an answer, a parked poll, or a task.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{AbortHandle, Abortable};
use tokio::io::{AsyncRead, AsyncWrite};

use super::answer::{EXCEPTION, Exchange, Form, Place};
use super::ask::{Next, prepare};
use super::dialect::Dialect;
use super::input::Asked;
use super::{End, Fault, Session};
use crate::runtime::heavy;
use crate::thrift::{self, EMPTY_STRUCT, UPGRADE, kind};

/// Requests are worked on for so long before the session looks at its connection again, and a session is busy for so long
/// before it lets others run: when hundreds of routers come at once, a ping waits for a slice of each.
pub(super) const SLICE: Duration = Duration::from_micros(200);
/// A request larger than this is not read on the runtime's own threads.
pub(super) const HEAVY_FROM: usize = 64 << 10;

/// Something that takes its time.
pub(super) type Task = Pin<Box<dyn Future<Output = Finished> + Send>>;

/// A task that is over.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) exchange: Exchange,
    pub(super) serial: u32,
    pub(super) came: u32,
    /// None after a panic, or if it was given up.
    pub(super) next: Option<Next>,
}

// === impl Session ===

impl<IO: AsyncRead + AsyncWrite + Unpin + Send> Session<IO> {
    /// May a request be taken from the inbox? Replies of plain thrift go out in the order of its requests
    /// (VanillaThriftSession.scala:95-116), so there is one at a time; and one large request at a time.
    pub(super) fn may_work(&self) -> bool {
        let busy = self.dialect.is_plain() && !self.exchanges.is_empty();
        !self.inbox.is_empty() && !busy && self.large.is_none()
    }

    /// Works on requests for a moment.
    pub(super) fn work(&mut self) -> Result<(), End> {
        if !self.may_work() {
            return Ok(());
        }
        let began = self.times.look();
        while self.may_answer() && self.may_work() {
            let Some(asked) = self.inbox.pop() else { break };
            self.begin(asked)?;
            if self.times.look() - began >= SLICE {
                break;
            }
        }
        Ok(())
    }

    fn begin(&mut self, Asked { exchange, serial, message, room }: Asked) -> Result<(), End> {
        if exchange.form == Form::Plain {
            self.exchanges.insert(exchange.tag, Place::Inbox(serial));
        } else if self.exchanges.get(&exchange.tag) != Some(&Place::Inbox(serial)) {
            self.was_given_up(exchange, &message);
            return Ok(());
        }
        let came = self.times.millis();
        let message = self.without_header(message)?;
        if message.len() < HEAVY_FROM {
            let next = prepare(&self.server, self.client, exchange, &message);
            self.times.look(); // a name may have been evaluated, which takes a while
            return self.go_on(exchange, came, next);
        }
        let (server, client) = (self.server.clone(), self.client);
        self.large = Some(self.spawn(exchange, came, async move {
            // What was read of it is small, so its room is given back. It may be read to the end after it was given up.
            let read = move || (prepare(&server, client, exchange, &message), room).0;
            heavy(read).await
        }));
        Ok(())
    }

    /// What follows the header of a request, if there are headers.
    fn without_header(&self, message: Bytes) -> Result<Bytes, End> {
        if !self.dialect.is_upgraded() {
            return Ok(message);
        }
        let call = thrift::after_request_header(&message).map(|call| message.slice_ref(call));
        call.ok_or_else(|| Fault::Thrift("the header of a request is unreadable".to_owned()).into())
    }

    /// Runs something beside the session; its serial number.
    pub(super) fn spawn(
        &mut self,
        exchange: Exchange,
        came: u32,
        work: impl Future<Output = Option<Next>> + Send + 'static,
    ) -> u32 {
        self.serial = self.serial.wrapping_add(1);
        let serial = self.serial;
        let (abort, registration) = AbortHandle::new_pair();
        self.aborts.insert(serial, abort);
        self.exchanges.insert(exchange.tag, Place::Task(serial));
        let work = Abortable::new(work, registration);
        self.tasks.push(Box::pin(work.map(move |next| {
            let next = next.ok().flatten();
            Finished { exchange, serial, came, next }
        })));
        serial
    }

    /// Goes on with what a task was for, unless it was given up meanwhile.
    pub(super) fn finished(&mut self, Finished { exchange, serial, came, next }: Finished) -> Result<(), End> {
        self.aborts.remove(&serial);
        if self.large == Some(serial) {
            self.large = None;
        }
        if self.exchanges.get(&exchange.tag) != Some(&Place::Task(serial)) {
            return Ok(());
        }
        match next {
            Some(next) => self.go_on(exchange, came, next),
            None => self.no_call(exchange, came, "internal error; please report it with the log".to_owned()),
        }
    }

    fn go_on(&mut self, exchange: Exchange, came: u32, next: Next) -> Result<(), End> {
        match next {
            Next::Poll(ask) => self.poll(ask, came),
            Next::Explain(explain) => self.explain(*explain, came),
            Next::Hold(question) => self.hold(question, came),
            Next::Reply(question, reply) => {
                self.watched.refuses(&self.times); // if it was a poll, its router waits before it asks again
                self.answer(question, reply, self.times.since(came));
            }
            Next::Exception { name, seqid, kind, text } => {
                if matches!(self.dialect, Dialect::Plain { begun: false, .. }) && name == UPGRADE {
                    self.upgrade(exchange);
                    return Ok(());
                }
                if kind == kind::UNKNOWN_METHOD {
                    self.server.metrics.unknown_method();
                }
                self.exception(exchange, &name, seqid, kind, &text);
                self.server.stats.finished(Some(EXCEPTION), self.times.since(came));
            }
            Next::NoCall(text) => {
                if let Dialect::Plain { begun: false, .. } = self.dialect {
                    return Err(End::Foreign("something else"));
                }
                self.no_call(exchange, came, text)?;
            }
        }
        if let Dialect::Plain { begun, .. } = &mut self.dialect {
            *begun = true;
        }
        Ok(())
    }

    /// Says yes to finagle's headers. This reply has none itself.
    fn upgrade(&mut self, exchange: Exchange) {
        self.scratch.clear();
        thrift::reply_head(&mut self.scratch, UPGRADE.as_bytes(), 0);
        self.send(exchange, Bytes::from_static(&[EMPTY_STRUCT]));
        if let Dialect::Plain { begun, upgraded, .. } = &mut self.dialect {
            (*begun, *upgraded) = (true, true);
        }
    }
}
