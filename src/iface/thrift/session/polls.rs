//! Polls: answered at once when the client's stamp is not that of the present value, parked otherwise.

use bytes::Bytes;
use rand::RngExt;
use tokio::io::{AsyncRead, AsyncWrite};

use super::Session;
use super::answer::{Place, Question, Reply, failure, internal};
use super::rows::{CALLED, Waiter, Waiting};
use super::times::ticks;
use crate::iface::thrift::metrics::{Outcome, Refused};
use crate::iface::thrift::topics::{Known, Seat};
use crate::store::{Key, Reason};
use crate::thrift::{Method, NameRef};

/// A poll that was read and understood.
#[derive(Debug)]
pub(super) struct PollAsk {
    pub(super) question: Question,
    pub(super) seat: Seat,
    /// What the client has seen, and what a failure echoes.
    pub(super) name: NameRef,
}

/// Polls that were taken out of a row, and are answered as the client reads.
#[derive(Debug)]
pub(super) struct Owed {
    key: Key,
    method: Method,
    verdict: Verdict,
    waiters: <Waiting as IntoIterator>::IntoIter,
}

/// What they are told.
#[derive(Debug)]
enum Verdict {
    Value(Outcome, Bytes),
    Failure(Reason),
}

// === impl Session ===

impl<IO: AsyncRead + AsyncWrite + Unpin + Send> Session<IO> {
    /// Answers a poll or parks it.
    pub(super) fn poll(&mut self, PollAsk { question, seat, name }: PollAsk, came: u32) {
        seat.refresh();
        let key = match self.rows.find(&seat) {
            Some(key) => key,
            None => {
                let most = self.server.settings.watches;
                if self.rows.len() >= most {
                    let swept = self.rows.drop_idle(self.watched.look(&self.times));
                    self.watched.swept(swept, most);
                }
                if self.rows.len() >= most {
                    return self.too_many(question, &name, came);
                }
                self.rows.add(seat, &self.mailbox)
            }
        };
        self.serve(key); // those who wait there already have seen an older version, perhaps
        self.watches(key, &name.stamp);
        let Some(row) = self.rows.get(key) else { return };
        let at_once = self.leaving.answers_at_once();
        let (version, stamp) = (row.seat.version(), name.stamp.clone());
        let mut may_fail = true;
        if !at_once && stamp[..] == version.to_be_bytes() {
            row.sees(version);
            may_fail = false; // nothing but a value has that version
        } else {
            let newest = row.seat.newest();
            row.sees(newest.version);
            match newest.known {
                Known::Value(body) if at_once || stamp[..] != newest.version.to_be_bytes() => {
                    row.failed = false;
                    self.rows.answered(key, question.exchange.tag);
                    self.answer(question, Reply::Body(Outcome::Value, body), self.times.since(came));
                    return self.rests(key);
                }
                Known::Value(_) => may_fail = false,
                Known::Failed(reason) if question.method != Method::Dtab => {
                    row.failed = true;
                    self.rows.answered(key, question.exchange.tag);
                    self.answer(question, failure(question.method, &reason, &name), self.times.since(came));
                    return self.rests(key);
                }
                // A router never asks again for a dtab after a failure (ThriftNamerClient.scala:367-370).
                Known::Failed(_) | Known::Nothing(_) => {}
            }
        }
        // Of the same name too: nothing else bounds how many there are of them.
        if self.rows.waiting() >= self.server.settings.watches {
            self.too_many(question, &name, came);
            return self.rests(key);
        }
        let due = self.times.now().saturating_add(self.patience());
        self.claims(key);
        let name = may_fail.then(|| Box::new(name));
        let exchange = question.exchange;
        self.serial = self.serial.wrapping_add(1);
        let serial = self.serial;
        self.exchanges.insert(exchange.tag, Place::Row { key, serial });
        self.rows.park(key, Waiter { exchange, serial, seqid: question.seqid, due, came, name });
        if self.leaving.is_last() {
            self.give_up(key);
        }
    }

    fn too_many(&mut self, question: Question, name: &NameRef, came: u32) {
        self.server.metrics.refused(Refused::Watches);
        self.watched.refuses(&self.times);
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

    /// Nobody waits in this row any more; it stays, since its client is about to ask again.
    fn rests(&mut self, key: Key) {
        self.rows.rests(key, self.times.now(), self.keep());
    }

    /// Answers what has changed, as long as the client keeps up.
    pub(super) fn deliver(&mut self) {
        self.pay();
        while self.may_answer() {
            if let Some(key) = self.aged.pop() {
                self.has_aged(key);
                continue;
            }
            if self.marked.is_empty() {
                self.mailbox.take_marked(&mut self.marked);
                self.marked.reverse();
            }
            let Some(key) = self.marked.pop() else { return };
            if key == CALLED {
                self.answers_call();
                continue;
            }
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
        if !row.has_waiting() || (row.seat.version() == row.seen && !at_once) {
            return;
        }
        let (method, newest) = (row.seat.method(), row.seat.newest());
        row.seen = newest.version;
        match newest.known {
            Known::Value(body) => self.settle(key, method, Verdict::Value(Outcome::Value, body)),
            Known::Failed(reason) if method != Method::Dtab => self.settle(key, method, Verdict::Failure(reason)),
            Known::Failed(_) | Known::Nothing(_) => {}
        }
    }

    /// Answers those who have waited for as long as a poll may wait: with what they have already, so that a router
    /// whose server lost track of it is not stuck for longer than that.
    fn has_aged(&mut self, key: Key) {
        let now = self.times.now();
        if self.rows.get(key).is_some_and(|row| row.is_due(now)) {
            let limit = self.server.settings.max_poll_age.as_secs_f64();
            self.close_row(key, Outcome::MaxAge, &format!("no answer within {limit} s"));
        }
    }

    /// Answers those who wait in a row with whatever there is: this is the end.
    fn give_up(&mut self, key: Key) {
        self.close_row(key, Outcome::Value, "the server is shutting down, and has no answer yet");
    }

    fn close_row(&mut self, key: Key, outcome: Outcome, without: &str) {
        let Some(row) = self.rows.get(key) else { return };
        let (method, newest) = (row.seat.method(), row.seat.newest());
        row.seen = newest.version;
        let verdict = match newest.known {
            Known::Value(body) => Verdict::Value(outcome, body),
            Known::Failed(reason) => Verdict::Failure(reason),
            Known::Nothing(None) => Verdict::Failure(without.into()),
            Known::Nothing(Some(reason)) => Verdict::Failure(format!("{without}: {reason}").into()),
        };
        self.settle(key, method, verdict);
    }

    /// From now on everybody who waits in this row is owed an answer; those who come later are not meant.
    fn settle(&mut self, key: Key, method: Method, verdict: Verdict) {
        if let Some(row) = self.rows.get(key) {
            row.failed = matches!(verdict, Verdict::Failure(_));
        }
        let waiters = self.rows.take_waiting(key).into_iter();
        self.rests(key);
        self.owed.push_back(Owed { key, method, verdict, waiters });
        self.pay();
    }

    /// Answers those to whom an answer is owed, as long as the client keeps up.
    pub(super) fn pay(&mut self) {
        while self.may_answer() {
            let Some(owed) = self.owed.front_mut() else { return };
            let Some(waiter) = owed.waiters.next() else {
                self.owed.pop_front();
                continue;
            };
            let Waiter { exchange, serial, came, .. } = waiter;
            if self.exchanges.get(&exchange.tag) != Some(&Place::Row { key: owed.key, serial }) {
                continue; // given up
            }
            let (question, reply) = (waiter.question(owed.method), owed.reply(waiter.name));
            self.rows.answered(owed.key, exchange.tag);
            self.answer(question, reply, self.times.since(came));
        }
    }
}

// === impl Owed ===

impl Owed {
    fn reply(&self, name: Option<Box<NameRef>>) -> Reply {
        match &self.verdict {
            Verdict::Value(outcome, body) => Reply::Body(*outcome, body.clone()),
            // Not the failure that it declares: see above.
            Verdict::Failure(reason) if self.method == Method::Dtab => internal(self.method, reason),
            Verdict::Failure(reason) => failure(self.method, reason, &name.unwrap_or_default()),
        }
    }
}
