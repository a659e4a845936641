//! Delegations: answered once, by tasks beside the session.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};

use super::Session;
use super::answer::{Place, Question, Reply, failure};
use super::ask::{Asker, Next};
use crate::iface::thrift::metrics::{Outcome, Refused};
use crate::interpreter::DelegateRequest;
use crate::runtime::Phase;
use crate::thrift::{DelegateAsk, Method, NameRef, Refusal, result};

/// How long a delegation may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How many of one connection are worked on at a time.
const MOST: usize = 64;
/// How many of one connection may be held that are never answered.
const MOST_HELD: usize = 1_000;

const SHUTTING_DOWN: &str = "the server is shutting down";

/// A delegation that was read and understood.
#[derive(Debug)]
pub(super) struct Explain {
    question: Question,
    ns: String,
    request: DelegateRequest,
}

/// What the arguments of a delegation come to.
pub(super) fn prepare(asker: &Asker<'_>, question: Question, ask: &DelegateAsk) -> Result<Next, Refusal> {
    if !ask.stamp.is_empty() {
        return Ok(Next::Hold(question));
    }
    let local = asker.read_dtab(&ask.dtab)?;
    let tree = ask.tree(asker.server.names.limits()).map_err(|refusal| asker.counted(refusal))?;
    let request = DelegateRequest {
        client: asker.client,
        namespace: Some(ask.ns.clone()),
        local,
        tree,
        with_addresses: false,
        with_namers: true,
    };
    Ok(Next::Explain(Box::new(Explain { question, ns: ask.ns.clone(), request })))
}

// === impl Session ===

impl<IO: AsyncRead + AsyncWrite + Unpin + Send> Session<IO> {
    /// Has a name explained.
    pub(super) fn explain(&mut self, Explain { question, ns, request }: Explain, came: u32) {
        if self.tasks.len() >= MOST {
            self.server.metrics.refused(Refused::Delegations);
            let reason = format!("this connection has {MOST} delegations under way already");
            return self.refuse(question, &reason, came);
        }
        let (interpreter, drain) = (self.server.interpreter.clone(), self.server.drain.clone());
        let limit = PATIENCE.min(self.server.settings.max_poll_age);
        self.spawn(question.exchange, came, async move {
            let reply = tokio::select! {
                biased;
                answer = interpreter.delegate(request, limit) => match answer {
                    Ok(delegation) => Reply::Body(Outcome::Value, result::delegation(&delegation, &ns)),
                    Err(unanswered) => failure(Method::Delegate, &unanswered.to_string(), &NameRef::default()),
                },
                () = drain.reached(Phase::Close) => failure(Method::Delegate, SHUTTING_DOWN, &NameRef::default()),
            };
            Some(Next::Reply(question, reply))
        });
    }

    /// Leaves a delegation with a stamp unanswered: routers older than 1.3.7 would ask again at once, for ever.
    pub(super) fn hold(&mut self, question: Question, came: u32) {
        if self.leaving.answers_at_once() {
            return self.refuse(question, SHUTTING_DOWN, came);
        }
        if self.held.len() >= MOST_HELD {
            self.server.metrics.refused(Refused::Delegations);
            return self.refuse(question, "too many delegations with a stamp, which are never answered", came);
        }
        self.exchanges.insert(question.exchange.tag, Place::Held);
        self.held.push(question);
    }

    /// Answers what was never to be answered: a router that is to go must not wait for it.
    pub(super) fn give_up_held(&mut self) {
        for question in std::mem::take(&mut self.held) {
            self.refuse(question, SHUTTING_DOWN, self.times.millis());
        }
    }

    fn refuse(&mut self, question: Question, reason: &str, came: u32) {
        let reply = failure(Method::Delegate, reason, &NameRef::default());
        self.answer(question, reply, self.times.since(came));
    }
}
