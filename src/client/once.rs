//! Questions that are asked once.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::grudges::Grudges;
use super::protocol::{Explain, Explained};
use super::servers::{Seat, Server, Unserved};
use super::{Failure, NO_NAMESPACE, Reason, Upstream};
use crate::name::{DelegateTree, NameTree, Path};
use crate::store::Unanswered;

impl Upstream {
    /// Explains a name. Tries until it succeeds, the server says that it cannot be done, or the time is up.
    ///
    /// # Errors
    /// [`Unanswered`], with the reason.
    pub async fn explain(&self, ask: &Explain, limit: Duration) -> Result<DelegateTree<Explained>, Unanswered> {
        let protocol = &self.shared.protocol;
        self.once(ask, limit, |server| async move { protocol.explain(&server, ask).await }).await
    }

    /// Whether a server answers, as `rosterd check --connect` wants to know: a few words, or what is wrong.
    ///
    /// # Errors
    /// What is wrong, with the remedy.
    pub async fn probe(&self, limit: Duration) -> Result<String, String> {
        let tree = NameTree::Leaf(Path::from_elems(["svc"]).unwrap_or_default());
        let ask = Explain { ns: NO_NAMESPACE.into(), dtab: "".into(), tree };
        let port = match self.shared.protocol.name() {
            "io.l5d.namerd" => "the thrift interface (4100 by default)",
            _ => "the HTTP controller (4180 by default)",
        };
        match self.explain(&ask, limit).await {
            Ok(_) => Ok(format!("answers; addresses: {}", self.shared.servers.figures().0.len())),
            Err(wrong) => Err(format!("{wrong}; is this the address of {port} of a name server?")),
        }
    }

    /// Asks one server after the other until one answers, or says that there is no answer. While others could be asked
    /// nobody gets more than half of the time that is left.
    ///
    /// # Errors
    /// [`Unanswered`], with the reason.
    pub(super) async fn once<T, F>(
        &self,
        what: &(dyn fmt::Display + Sync),
        limit: Duration,
        from: impl Fn(Arc<Server>) -> F,
    ) -> Result<T, Unanswered>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let shared = &self.shared;
        let (deadline, mut grudges) = (Instant::now() + limit, Grudges::new(shared.timings.retry));
        let mut before: Option<(Failure, SocketAddr)> = None;
        let timed_out = |reason| Unanswered::TimedOut { waited: limit, reason: Some(reason) };
        let told = |(failure, address): (Failure, SocketAddr)| timed_out(shared.told(&failure, Some(address)));
        loop {
            let seat = self.pick(&grudges, deadline).await.map_err(|failure| timed_out(failure.text))?;
            let address = seat.server().address();
            grudges.bear(address);
            let (began, others) = (Instant::now(), shared.servers.has_untried(&grudges));
            let until = if others { began + deadline.saturating_duration_since(began) / 2 } else { deadline };
            let asked = tokio::time::timeout_at(until, from(seat.server().clone())).await;
            let failure = match (asked, before.take()) {
                (Ok(Ok(answer)), _) => return Ok(answer),
                (Ok(Err(failure)), _) if failure.reason == Reason::Declared => {
                    return Err(Unanswered::Failed(failure.text));
                }
                (Ok(Err(failure)), _) => failure,
                // The rest of the time was too short for this one.
                (Err(_), Some(before)) if !others => return Err(told(before)),
                (Err(_), _) => {
                    let text = format!("no answer within {} ms", began.elapsed().as_millis());
                    Failure::new(Reason::Silent, text)
                }
            };
            shared.note(what, &failure, Some(address));
            if others {
                before = Some((failure, address));
                continue;
            }
            if failure.reason == Reason::Status {
                return Err(Unanswered::Failed(failure.text));
            }
            let again = Instant::now() + shared.timings.spread;
            if again >= deadline {
                return Err(told((failure, address)));
            }
            before = Some((failure, address));
            tokio::time::sleep_until(again).await;
        }
    }

    pub(super) fn grudges(&self) -> Grudges {
        Grudges::new(self.shared.timings.retry)
    }

    /// A place at a server, as soon as one may be asked.
    ///
    /// # Errors
    /// Why there was none until `deadline`.
    pub(super) async fn pick(&self, grudges: &Grudges, deadline: Instant) -> Result<Seat, Failure> {
        let servers = &self.shared.servers;
        let mut news = servers.news();
        loop {
            news.mark_unchanged();
            let Unserved { retry_at, failure, server } = match servers.pick(None, grudges) {
                Ok(seat) => return Ok(seat),
                Err(unserved) => unserved,
            };
            if retry_at.is_some_and(|at| at >= deadline) || Instant::now() >= deadline {
                return Err(Failure::new(failure.reason, self.shared.told(&failure, server)));
            }
            let until = retry_at.unwrap_or(deadline);
            tokio::select! {
                () = tokio::time::sleep_until(until) => {}
                _ = news.changed() => {}
            }
        }
    }
}
