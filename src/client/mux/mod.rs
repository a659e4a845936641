//! `io.l5d.namerd`: long polls over ThriftMux. All watches of a server share one connection.

mod calls;
mod handshake;
mod session;
mod sessions;
mod turn;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use super::{
    Ages, Answer, Ask, BoundName, ClientMetrics, Connect, End, Explain, Explained, Failure, Named, News, Protocol,
    Reason, Server, Timings,
};
use crate::name::{DelegateTree, Dtab, Limits};
use crate::runtime::{Pace, heavy};
use crate::thrift::Stamp;
use crate::thrift::reply::{self, BadReply, Reply};
use crate::thrift::request;
use session::Session;
use sessions::Sessions;

/// An answer with more bytes is not read on the runtime's own threads.
const HEAVY_FROM: usize = 256 << 10;

/// So many answers may come one right after the other…
const BURST: u32 = 20;

/// …and then one in this time. Whoever changes more often is followed at this pace.
const SPACING: Duration = Duration::from_millis(50);

/// The namespace of questions for which servers do not look at it.
const ANY_NAMESPACE: &str = "default";

/// What a method that this protocol does not have is answered with.
const NOT_HERE: &str = "the thrift interface does not tell this";

/// ThriftMux, as namerd's thrift interface speaks it.
pub struct ThriftMux {
    sessions: Sessions,
    limits: Limits,
}

// === impl ThriftMux ===

impl ThriftMux {
    /// Speaks over connections that `connect` makes. `upstream` is the label of metrics; dtabs are read under `limits`.
    pub fn new(
        upstream: impl Into<Arc<str>>,
        connect: Arc<dyn Connect>,
        timings: Timings,
        limits: Limits,
        metrics: ClientMetrics,
    ) -> Self {
        Self { sessions: Sessions::new(upstream.into(), connect, timings, metrics), limits }
    }

    /// Polls until something ends that.
    async fn polls(&self, server: &Arc<Server>, ask: &Ask, news: &News) -> Result<std::convert::Infallible, End> {
        let session = self.sessions.open(server);
        session.opened().await?;
        let mut stamp = Stamp::new();
        let mut pace = Pace::new(SPACING, BURST);
        loop {
            news.asked();
            let message = tell_when_draining(&session, news, session.call(call(ask, &stamp)?)).await?;
            let (next, answer) = self.read(ask, message, server).await?;
            news.tell(answer)?;
            if session.is_draining() {
                return Err(End::Gone(Reason::Draining));
            }
            server.answered();
            stamp = next;
            pace.next().await;
        }
    }

    async fn read(&self, ask: &Ask, message: Bytes, server: &Server) -> Result<(Stamp, Answer), End> {
        let limits = self.limits;
        let read = if message.len() < HEAVY_FROM {
            read_reply(ask, &message, &limits)
        } else {
            let ask = ask.clone();
            let reading = Box::pin(heavy(move || read_reply(&ask, &message, &limits))); // seldom, and large
            let read = reading.await;
            read.ok_or_else(|| Failure::new(Reason::Panic, "internal error: an answer could not be read"))?
        };
        match value(read) {
            Ok((stamp, _)) if stamp.is_empty() => Err(End::failed(Reason::BadAnswer, "an answer without a stamp")),
            Ok(read) => Ok(read),
            Err(failure) => {
                if failure.reason == Reason::Declared {
                    server.answered(); // it knows what it says
                }
                Err(failure.into())
            }
        }
    }
}

#[async_trait]
impl Protocol for ThriftMux {
    fn name(&self) -> &'static str {
        "io.l5d.namerd"
    }

    fn ages(&self, timings: &Timings) -> Ages {
        Ages { quiet: Some(timings.poll_age), whole: timings.seat_age }
    }

    async fn follow(&self, server: &Arc<Server>, ask: &Ask, news: &News) -> End {
        match self.polls(server, ask, news).await {
            Err(end) => end,
            Ok(never) => match never {},
        }
    }

    async fn explain(&self, server: &Arc<Server>, ask: &Explain) -> Result<DelegateTree<Explained>, Failure> {
        let failed = |end: End| match end {
            End::Failed(failure) => failure,
            End::Gone(reason) => Failure::new(reason, "the server goes"),
        };
        let session = self.sessions.open(server);
        session.opened().await.map_err(failed)?;
        let message = session.call(request::delegate(&ask.dtab, &ask.tree, &ask.ns)).await.map_err(failed)?;
        let read = if message.len() < HEAVY_FROM {
            reply::delegate(&message)
        } else {
            let read = heavy(move || reply::delegate(&message)).await;
            read.ok_or_else(|| Failure::new(Reason::Panic, "internal error: an answer could not be read"))?
        };
        let (_, tree) = value(read)?;
        Ok(tree.map(|name: BoundName| Explained { name, addr: None }))
    }
}

impl fmt::Debug for ThriftMux {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThriftMux").finish_non_exhaustive()
    }
}

/// Waits for an answer, and lets the watch know as soon as the server says that it goes: who waits there for something
/// to change may wait long.
async fn tell_when_draining(
    session: &Session,
    news: &News,
    call: impl Future<Output = Result<Bytes, End>>,
) -> Result<Bytes, End> {
    tokio::pin!(call);
    tokio::select! {
        answer = &mut call => return answer,
        () = session.draining() => news.leave(),
    }
    call.await
}

fn call(ask: &Ask, stamp: &Stamp) -> Result<Bytes, End> {
    Ok(match ask {
        Ask::Bind { ns, dtab, path } => request::bind(stamp, dtab, path, ns),
        Ask::Addr { id } => request::addr(stamp, id, ANY_NAMESPACE),
        Ask::Dtab { ns } => request::dtab(stamp, ns),
        Ask::Namespaces | Ask::Names => return Err(End::failed(Reason::Declared, NOT_HERE)),
    })
}

fn read_reply(ask: &Ask, message: &[u8], limits: &Limits) -> Result<Reply<Answer>, BadReply> {
    Ok(match ask {
        Ask::Bind { .. } => reply::bind(message)?.map(|tree| {
            let named = |name: &BoundName| Named { id: name.id.clone(), residual: name.residual.clone(), weight: None };
            Ok(Answer::Tree(tree.map(named)))
        })?,
        Ask::Addr { .. } => reply::addr(message)?.map(|addr| Ok(Answer::Addr(addr)))?,
        Ask::Dtab { .. } => reply::dtab(message)?.map(|text| {
            let dtab = Dtab::parse_with(&text, limits).map_err(|error| BadReply::new(format!("no dtab: {error}")))?;
            Ok(Answer::Dtab(Some((dtab, Bytes::new()))))
        })?,
        Ask::Namespaces | Ask::Names => return Err(BadReply::new(NOT_HERE)),
    })
}

/// The answer in a message that was kept, as it came.
///
/// # Errors
/// There is none in it.
pub fn read_answer(ask: &Ask, message: &[u8], limits: &Limits) -> Result<Answer, Failure> {
    value(read_reply(ask, message, limits)).map(|(_, answer)| answer)
}

/// The value of a good answer; the failure of any other.
fn value<T>(read: Result<Reply<T>, BadReply>) -> Result<(Stamp, T), Failure> {
    match read {
        Ok(Reply::Value { stamp, value }) => Ok((stamp, value)),
        Ok(Reply::Failure(reason)) => Err(Failure::new(Reason::Declared, reason)),
        Ok(Reply::Exception(text)) => Err(Failure::new(Reason::Exception, text)),
        Err(bad) => Err(Failure::new(Reason::BadAnswer, format!("an answer without sense: {bad}"))),
    }
}
