//! Answers, in the words of each dialect.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite};

use super::{End, Fault, Session};
use crate::iface::thrift::metrics::Outcome;
use crate::mux::{Message, Status, Tag, write_reply};
use crate::store::Key;
use crate::thrift::{self, EMPTY_STRUCT, Method, NameRef, kind, reply_head};

/// How finagle calls an answer that is an exception (ThriftMux.scala:483-495).
pub(super) const EXCEPTION: &str = "org.apache.thrift.TApplicationException";

/// Where an answer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exchange {
    pub(super) tag: Tag,
    pub(super) form: Form,
}

/// How the request came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// `Tdispatch`
    Dispatch,
    /// `Treq`
    Request,
    /// A thrift message in a frame.
    Plain,
}

/// Where a request is that has not been answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In the inbox, under this serial number.
    Inbox(u32),
    /// In a row, as a parked poll with this serial number; or taken out of it, and about to be answered.
    Row { key: Key, serial: u32 },
    /// In the task with this serial number.
    Task(u32),
    /// Nowhere: it is never going to be answered.
    Held,
}

/// What to say.
#[derive(Debug)]
pub(super) enum Reply {
    /// What follows the head of a reply.
    Body(Outcome, Bytes),
    /// A TApplicationException of kind 6 with this text.
    Internal(String),
}

/// A request as its answer needs it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question {
    pub(super) exchange: Exchange,
    pub(super) method: Method,
    pub(super) seqid: i32,
}

// === impl Session ===

impl<IO: AsyncRead + AsyncWrite + Unpin + Send> Session<IO> {
    /// Answers a call of a method that there is.
    pub(super) fn answer(&mut self, question: Question, reply: Reply, took: Duration) {
        let Question { exchange, method, seqid } = question;
        let name = method.name().as_bytes();
        match reply {
            Reply::Body(outcome, body) => {
                self.scratch.clear();
                reply_head(&mut self.scratch, name, seqid);
                self.send(exchange, body);
                self.server.metrics.answered(method, outcome);
                self.server.stats.finished(None, took);
            }
            Reply::Internal(text) => {
                self.exception(exchange, name, seqid, kind::INTERNAL_ERROR, &text);
                self.server.metrics.answered(method, Outcome::Exception);
                self.server.stats.finished(Some(EXCEPTION), took);
            }
        }
    }

    /// Answers with an exception.
    pub(super) fn exception(&mut self, exchange: Exchange, name: &[u8], seqid: i32, kind: i32, text: &str) {
        self.scratch.clear();
        thrift::exception(&mut self.scratch, name, seqid, kind, text);
        self.send(exchange, Bytes::new());
    }

    /// Answers a request of which not even the head is a call.
    pub(super) fn no_call(&mut self, exchange: Exchange, came: u32, text: String) -> Result<(), End> {
        self.exchanges.remove(&exchange.tag);
        self.traffic.requests += 1;
        self.server.stats.finished(Some(EXCEPTION), self.times.since(came));
        let (tag, status) = (exchange.tag, Status::Error);
        match exchange.form {
            Form::Dispatch => Message::Rdispatch { tag, status, payload: text.into() }.write(&mut self.output),
            Form::Request => Message::Rreq { tag, status, payload: text.into() }.write(&mut self.output),
            Form::Plain => return Err(Fault::Thrift(text).into()), // it has no words for that
        }
        Ok(())
    }

    /// Sends what is in the scratch buffer, and then `body`.
    pub(super) fn send(&mut self, Exchange { tag, form }: Exchange, body: Bytes) {
        self.exchanges.remove(&tag);
        self.traffic.requests += 1;
        let (head, out) = (&self.scratch[..], &mut self.output);
        match form {
            Form::Dispatch => write_reply(out, tag, self.dialect.window(), head, body),
            Form::Request => {
                // Does not come in pieces, however small the client's window is.
                let payload = [head, &body].concat().into();
                Message::Rreq { tag, status: Status::Ok, payload }.write(out);
            }
            Form::Plain => {
                let upgraded = self.dialect.is_upgraded();
                let mut start = BytesMut::with_capacity(8);
                start.put_u32(u32::try_from(usize::from(upgraded) + head.len() + body.len()).unwrap_or(u32::MAX));
                if upgraded {
                    start.put_u8(EMPTY_STRUCT); // a header that says nothing
                }
                out.push(&start);
                out.push(head);
                out.share(body);
            }
        }
    }
}

/// The failure that a method declares.
pub(super) fn failure(method: Method, reason: &str, name: &NameRef) -> Reply {
    Reply::Body(Outcome::Failure, thrift::failure(method, reason, name))
}

/// The exception for what went wrong without a failure to declare it.
pub(super) fn internal(method: Method, text: &str) -> Reply {
    Reply::Internal(thrift::internal(method, text))
}
