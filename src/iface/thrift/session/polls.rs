//! Polls: answered at once when the client's stamp is not that of the present value, parked otherwise.

use bytes::Bytes;
use rand::RngExt;
use tokio::io::{AsyncRead, AsyncWrite};

use super::Session;
use super::answer::{Place, Question, Reply, failure, internal};
use super::rows::Waiter;
use super::times::ticks;
use crate::iface::thrift::metrics::{Outcome, Refused};
use crate::iface::thrift::topics::{Known, Seat};
use crate::store::Key;
use crate::thrift::{Method, NameRef, Stamp};

/// A poll that was read and understood.
#[derive(Debug)]
pub(super) struct PollAsk {
    pub(super) question: Question,
    pub(super) seat: Seat,
    pub(super) stamp: Stamp,
    /// What a failure echoes.
    pub(super) name: Box<NameRef>,
}

// === impl Session ===

impl<IO: AsyncRead + AsyncWrite + Unpin + Send> Session<IO> {
    /// Answers a poll or parks it.
    pub(super) fn poll(&mut self, PollAsk { question, seat, stamp, name }: PollAsk, came: u32) {
        seat.refresh();
        let key = match self.rows.find(&seat) {
            Some(key) => key,
            None => {
                let most = self.server.settings.watches;
                if self.rows.len() >= most {
                    self.rows.drop_idle();
                }
                if self.rows.len() >= most {
                    return self.too_many(question, &name, came);
                }
                self.rows.add(seat, &self.mailbox)
            }
        };
        self.serve(key); // those who wait there already have seen an older version, perhaps
        let Some(row) = self.rows.get(key) else { return };
        let at_once = self.leaving.answers_at_once();
        let mut may_fail = true;
        if !at_once && stamp[..] == row.seat.version().to_be_bytes() {
            may_fail = false; // nothing but a value has that version
        } else {
            let newest = row.seat.newest();
            row.seen = newest.version;
            match newest.known {
                Known::Value(body) if at_once || stamp[..] != newest.version.to_be_bytes() => {
                    self.answer(question, Reply::Body(Outcome::Value, body), self.times.since(came));
                    return self.rows.rests(key, self.times.now(), self.keep());
                }
                Known::Value(_) => may_fail = false,
                Known::Failed(reason) if question.method != Method::Dtab => {
                    self.answer(question, failure(question.method, &reason, &name), self.times.since(came));
                    return self.rows.rests(key, self.times.now(), self.keep());
                }
                // A router never asks again for a dtab after a failure (ThriftNamerClient.scala:367-370).
                Known::Failed(_) | Known::Nothing(_) => {}
            }
        }
        // Of the same name too: nothing else bounds how many there are of them.
        if self.rows.waiting() >= self.server.settings.watches {
            return self.too_many(question, &name, came);
        }
        let due = self.times.now().saturating_add(self.patience());
        let name = may_fail.then_some(name);
        let exchange = question.exchange;
        self.exchanges.insert(exchange.tag, Place::Row(key.0));
        self.rows.park(key, Waiter { exchange, seqid: question.seqid, due, came, name });
        if self.leaving.is_last() {
            self.give_up(key);
        }
    }

    fn too_many(&mut self, question: Question, name: &NameRef, came: u32) {
        self.server.metrics.refused(Refused::Watches);
        let most = self.server.settings.watches;
        let reason = format!("this connection has {most} watches already (limits.watchesPerConnection)");
        self.answer(question, failure(question.method, &reason, name), self.times.since(came));
    }

    /// How long a row stays in which nobody waits: its client may take that long to ask again.
    fn keep(&self) -> u32 {
        2 * ticks(self.server.settings.max_poll_age)
    }

    /// How old a poll may become: spread, so that those that began together are not answered together.
    fn patience(&self) -> u32 {
        let age = self.server.settings.max_poll_age;
        ticks(age.mul_f64(rand::rng().random_range(0.8..1.2))).max(1)
    }

    /// Answers what has changed, as long as the client keeps up.
    pub(super) fn deliver(&mut self) {
        while self.has_room() {
            if self.marked.is_empty() {
                self.mailbox.take_marked(&mut self.marked);
                self.marked.reverse();
            }
            let Some(key) = self.marked.pop() else { return };
            match self.leaving.is_last() {
                false => self.serve(key),
                true => self.give_up(key),
            }
        }
    }

    /// Answers those who wait in a row, if there is something new. On the way out, anything will do.
    pub(super) fn serve(&mut self, key: Key) {
        let at_once = self.leaving.answers_at_once();
        let Some(row) = self.rows.get(key) else { return };
        if row.waiting.is_empty() || (row.seat.version() == row.seen && !at_once) {
            return;
        }
        let (method, newest) = (row.seat.method(), row.seat.newest());
        row.seen = newest.version;
        match newest.known {
            Known::Value(body) => self.answer_all(key, method, Outcome::Value, &body),
            Known::Failed(reason) if method != Method::Dtab => self.fail_all(key, method, &reason),
            Known::Failed(_) | Known::Nothing(_) => {}
        }
    }

    /// Answers those who have waited for as long as a poll may wait: with what they have already, so that a router
    /// whose server lost track of it is not stuck for longer than that.
    pub(super) fn aged(&mut self, key: Key) {
        let limit = self.server.settings.max_poll_age.as_secs_f64();
        self.close_row(key, Outcome::MaxAge, &format!("no answer within {limit} s"));
    }

    /// Answers those who wait in a row with whatever there is: this is the end.
    fn give_up(&mut self, key: Key) {
        self.close_row(key, Outcome::Value, "the server is shutting down, and has no answer yet");
    }

    fn close_row(&mut self, key: Key, outcome: Outcome, without: &str) {
        let Some(row) = self.rows.get(key) else { return };
        let (method, newest) = (row.seat.method(), row.seat.newest());
        row.seen = newest.version;
        match newest.known {
            Known::Value(body) => self.answer_all(key, method, outcome, &body),
            Known::Failed(reason) => self.fail_all(key, method, &reason),
            Known::Nothing(None) => self.fail_all(key, method, without),
            Known::Nothing(Some(reason)) => self.fail_all(key, method, &format!("{without}: {reason}")),
        }
    }

    fn answer_all(&mut self, key: Key, method: Method, outcome: Outcome, body: &Bytes) {
        for waiter in self.rows.take_waiting(key) {
            let took = self.times.since(waiter.came);
            self.answer(waiter.question(method), Reply::Body(outcome, body.clone()), took);
        }
        self.rows.rests(key, self.times.now(), self.keep());
    }

    fn fail_all(&mut self, key: Key, method: Method, reason: &str) {
        for waiter in self.rows.take_waiting(key) {
            let took = self.times.since(waiter.came);
            let reply = match method {
                // Not the failure that it declares: see above.
                Method::Dtab => internal(method, reason),
                _ => failure(method, reason, &waiter.name.clone().unwrap_or_default()),
            };
            self.answer(waiter.question(method), reply, took);
        }
        self.rows.rests(key, self.times.now(), self.keep());
    }
}
