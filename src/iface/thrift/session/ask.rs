//! What is asked: a request is read, and its topic looked up. Knows no session, so that a large one can be read
//! elsewhere.

use bytes::Bytes;

use super::answer::{Exchange, Question, Reply, failure, internal};
use super::explain::{self, Explain};
use super::polls::PollAsk;
use crate::iface::thrift::Server;
use crate::iface::thrift::metrics::{Outcome, Refused};
use crate::iface::thrift::topics::{Binding, NoRoom, Seat};
use crate::interpreter::LocalDtab;
use crate::name::{Dtab, Limit as NameLimit};
use crate::runtime::Limit;
use crate::store::Client;
use crate::thrift::{Ask, BadCall, Call, NameRef, Refusal, read_call};

/// What a request comes to.
#[derive(Debug)]
pub(super) enum Next {
    Poll(PollAsk),
    Explain(Box<Explain>),
    /// A delegation that carries a stamp: namerd never answers one (ThriftNamerInterface.scala:568-599).
    Hold(Question),
    Reply(Question, Reply),
    Exception {
        name: Bytes,
        seqid: i32,
        kind: i32,
        text: String,
    },
    NoCall(String),
}

/// Who asks.
pub(super) struct Asker<'s> {
    pub(super) server: &'s Server,
    pub(super) client: Client,
}

/// Reads a request, and looks up what it is about.
pub(super) fn prepare(server: &Server, client: Client, exchange: Exchange, message: &[u8]) -> Next {
    let Call { seqid, ask } = match read_call(message) {
        Ok(call) => call,
        Err(BadCall::Header(text)) => return Next::NoCall(text),
        Err(BadCall::Exception { name, seqid, kind, message: text }) => {
            return Next::Exception { name, seqid, kind, text };
        }
        Err(BadCall::Failure { method, seqid, body }) => {
            let question = Question { exchange, method, seqid };
            return Next::Reply(question, Reply::Body(Outcome::Failure, body));
        }
    };
    let question = Question { exchange, method: ask.method(), seqid };
    let asker = Asker { server, client };
    let admitted = asker.admitted();
    match ask {
        Ask::Bind { dtab, name } => {
            let seat = admitted.and_then(|()| asker.bind(&dtab, &name));
            poll(question, seat, name)
        }
        Ask::Addr { name } => {
            let seat = admitted.and_then(|()| asker.addr(&name));
            poll(question, seat, name)
        }
        Ask::Dtab { stamp, ns } => {
            let seat = admitted.and_then(|()| asker.dtab(&ns));
            let mut name = NameRef::default();
            name.stamp = stamp;
            poll(question, seat, name)
        }
        Ask::Delegate(ask) => match admitted.and_then(|()| explain::prepare(&asker, question, &ask)) {
            Ok(next) => next,
            Err(refusal) => refused(question, &refusal, &NameRef::default()),
        },
    }
}

fn poll(question: Question, seat: Result<Seat, Refusal>, name: NameRef) -> Next {
    match seat {
        Ok(seat) => Next::Poll(PollAsk { question, seat, name }),
        Err(refusal) => refused(question, &refusal, &name),
    }
}

pub(super) fn refused(question: Question, refusal: &Refusal, name: &NameRef) -> Next {
    let reply = match refusal {
        Refusal::Failure(reason) => failure(question.method, reason, name),
        Refusal::Internal(text) => internal(question.method, text),
    };
    Next::Reply(question, reply)
}

// === impl Asker ===

impl Asker<'_> {
    /// May this client ask something now?
    fn admitted(&self) -> Result<(), Refusal> {
        let Self { server, client } = self;
        if server.rate.as_ref().is_none_or(|rate| rate.admits(client.0)) {
            return Ok(());
        }
        let limit = Limit::RequestsPerSecondPerClient;
        server.limits.refused(limit);
        server.metrics.refused(Refused::Rate);
        Err(Refusal::Failure(format!("too many requests of {} ({limit})", client.0)))
    }

    fn bind(&self, dtab: &str, name: &NameRef) -> Result<Seat, Refusal> {
        let local = self.local(dtab)?;
        let path = name.path(self.server.names.limits()).map_err(|refusal| self.counted(refusal))?;
        let binding = Binding { ns: name.ns.as_str().into(), local, path };
        let topics = &self.server.topics;
        topics.bind(&*self.server.interpreter, self.client, &binding).map_err(|full| self.no_room(&full))
    }

    fn addr(&self, name: &NameRef) -> Result<Seat, Refusal> {
        let id = name.path(self.server.names.limits()).map_err(|refusal| self.counted(refusal))?;
        let topics = &self.server.topics;
        topics.addr(&*self.server.interpreter, self.client, &id).map_err(|full| self.no_room(&full))
    }

    fn dtab(&self, ns: &str) -> Result<Seat, Refusal> {
        let topics = &self.server.topics;
        topics.dtab(&*self.server.interpreter, self.client, &ns.into()).map_err(|full| self.no_room(&full))
    }

    /// The request's own dtab, which equal ones share; usually there is none.
    fn local(&self, text: &str) -> Result<LocalDtab, Refusal> {
        if text.is_empty() {
            return Ok(LocalDtab::empty());
        }
        let dtab = self.read_dtab(text)?;
        self.server.interpreter.local_dtab(self.client, dtab).map_err(|over| {
            self.server.metrics.refused(Refused::Capacity);
            Refusal::Failure(over.to_string())
        })
    }

    /// Reads a dtab. As in namerd, one that is none is not a declared failure.
    pub(super) fn read_dtab(&self, text: &str) -> Result<Dtab, Refusal> {
        self.server.names.dtab(text).map_err(|error| Refusal::Internal(error.to_string()))
    }

    /// A path over its limit is counted with that.
    pub(super) fn counted(&self, refusal: Refusal) -> Refusal {
        if matches!(&refusal, Refusal::Failure(text) if text.contains("limits.pathSegments")) {
            self.server.names.refused(NameLimit::PathSegments);
        }
        refusal
    }

    fn no_room(&self, full: &NoRoom) -> Refusal {
        self.server.metrics.refused(Refused::Capacity);
        Refusal::Failure(full.to_string())
    }
}
