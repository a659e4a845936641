//! One-shot answers about names: bind, addr, resolve, bound-names.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use smallvec::SmallVec;
use tokio::time::Instant;

use super::encoded::{Form, made};
use super::prepared::{Sources, Still};
use super::question::{Question, no_room};
use super::{Api, json, pick};
use crate::http1::Response;
use crate::interpreter::{BoundTree, Hold};
use crate::name::{Addr, Path};
use crate::store::{Client, Unanswered, Version, Watch};

/// How long a one-shot request waits for a first value.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// A value, its version, and where it came from.
struct Got<T> {
    value: Arc<T>,
    version: Version,
    source: Watch<T>,
}

/// An answer, and what it was made of; none where it must not be kept.
pub(super) type Answer = (Bytes, Option<Sources>);

/// The response to a question without an answer.
pub(super) fn unanswered(error: Unanswered) -> Response {
    match error {
        // As namerd: the connection ends. The reason is rosterd's own.
        Unanswered::Failed(reason) => Response::failure(reason),
        timed_out @ Unanswered::TimedOut { .. } => Response::refusal(503, timed_out),
    }
}

impl Api {
    /// The bound tree, with the first known state of each leaf's addresses.
    pub(super) async fn bind_once(&self, question: &Question) -> Result<Answer, Response> {
        let deadline = Instant::now() + PATIENCE;
        let binding = self.binding(question, Hold::Once)?;
        loop {
            let tree = self.await_value(binding.clone(), deadline).await?;
            let leaves = self.leaf_addresses(question.client, &tree.value, deadline).await?;
            // Waiting for addresses, the tree may have become another one; it is shown as it is now.
            if tree.source.current_version() != tree.version.get() && Instant::now() < deadline {
                continue;
            }
            let (mut addrs, mut sources, mut versions) =
                (Vec::new(), Some(Sources::new()), SmallVec::<[u64; 3]>::new());
            tree.note(&mut sources, &mut versions);
            for leaf in leaves {
                match leaf {
                    Ok(got) => {
                        addrs.push((*got.value).clone());
                        got.note(&mut sources, &mut versions);
                    }
                    Err(reason) => {
                        addrs.push(Addr::Failed(Some(reason)));
                        sources = None;
                    }
                }
            }
            let tree = tree.value;
            let encode = move |most| json::bound_tree(&tree, &addrs, most);
            return match sources {
                Some(sources) => {
                    let encoded = self.encoded.get_large(Form::Tree, &versions, encode).await;
                    encoded.map(|bytes| (bytes, Some(sources)))
                }
                None => made(encode).await.map(|text| ((text + "\n").into(), None)),
            }
            .map_err(Response::failure);
        }
    }

    /// The addresses of an id.
    pub(super) async fn addr_once(&self, client: Client, id: &Path) -> Result<Answer, Response> {
        let watch = self.interpreter.addr(client, id).map_err(no_room)?;
        let got = self.await_value(watch, Instant::now() + PATIENCE).await?;
        Ok(self.addr_answer(None, &got))
    }

    /// The addresses of one of the ids that a path is bound to.
    pub(super) async fn resolve_once(&self, question: &Question) -> Result<Answer, Response> {
        let deadline = Instant::now() + PATIENCE;
        let tree = self.await_value(self.binding(question, Hold::Once)?, deadline).await?;
        let picked = pick::id(&tree.value, &mut rand::rng());
        let got = self.await_value(self.picked_addr(question.client, picked.as_ref())?, deadline).await?;
        let (bytes, sources) = self.addr_answer(Some(&tree), &got);
        // Each request draws its own branch of a union.
        Ok((bytes, sources.filter(|_| !pick::is_drawn(&tree.value))))
    }

    /// The names that namers can list.
    pub(super) async fn names_once(&self) -> Result<Answer, Response> {
        let got = self.await_value(self.interpreter.bound_names(), Instant::now() + PATIENCE).await?;
        let (mut sources, mut versions) = (Some(Sources::new()), SmallVec::new());
        got.note(&mut sources, &mut versions);
        Ok((self.encoded.get(Form::List, &versions, || json::strings(&*got.value)), sources))
    }

    pub(super) fn binding(&self, question: &Question, hold: Hold) -> Result<Watch<BoundTree>, Response> {
        let Question { client, namespace, path, local } = question;
        self.interpreter.bind(*client, namespace, local, path, hold).map_err(no_room)
    }

    /// The addresses behind what was picked of a tree; nothing is neg.
    pub(super) fn picked_addr(&self, client: Client, picked: Option<&Path>) -> Result<Watch<Addr>, Response> {
        match picked {
            None => Ok(Watch::constant(Addr::Neg)),
            Some(id) if self.fixes.resolve_transformed => self.interpreter.addr(client, id).map_err(no_room),
            // namerd does not strip `/%/…` here, so that transformed names have no addresses.
            Some(id) => self.interpreter.addr_verbatim(client, id).map_err(no_room),
        }
    }

    fn addr_answer(&self, tree: Option<&Got<BoundTree>>, got: &Got<Addr>) -> Answer {
        let bytes = self.encoded.get(Form::Addr, &[got.version.get()], || json::addr(&got.value));
        let (mut sources, mut versions) = (Some(Sources::new()), SmallVec::new());
        if let Some(tree) = tree {
            tree.note(&mut sources, &mut versions);
        }
        got.note(&mut sources, &mut versions);
        (bytes, sources)
    }

    /// The states of all leaves; the reason where there is no room for one or its evaluation failed.
    async fn leaf_addresses(
        &self,
        client: Client,
        tree: &BoundTree,
        deadline: Instant,
    ) -> Result<Vec<Result<Got<Addr>, Arc<str>>>, Response> {
        let mut states = Vec::new();
        for leaf in json::leaves(tree) {
            states.push(match self.interpreter.leaf_addr(client, &leaf.source) {
                Err(over) => Err(over.to_string().into()),
                Ok(watch) => match self.wait(watch, deadline).await? {
                    Ok(got) => Ok(got),
                    Err(Unanswered::Failed(reason)) => Err(reason),
                    Err(timed_out) => return Err(unanswered(timed_out)),
                },
            });
        }
        Ok(states)
    }

    async fn await_value<T: Send + Sync + 'static>(
        &self,
        watch: Watch<T>,
        deadline: Instant,
    ) -> Result<Got<T>, Response> {
        self.wait(watch, deadline).await?.map_err(unanswered)
    }

    /// Waits for a value. There are places for so many who wait; those who need not wait need none.
    async fn wait<T: Send + Sync + 'static>(
        &self,
        watch: Watch<T>,
        deadline: Instant,
    ) -> Result<Result<Got<T>, Unanswered>, Response> {
        let got = |source: Watch<T>, answer: Result<(Arc<T>, Version), Unanswered>| {
            answer.map(|(value, version)| Got { value, version, source })
        };
        let source = watch.clone();
        let mut answer = Box::pin(watch.answer(deadline.saturating_duration_since(Instant::now())));
        if let Some(answer) = answer.as_mut().now_or_never() {
            return Ok(got(source, answer));
        }
        let Ok(_place) = self.waits.try_acquire() else {
            let reason = "too many requests are waiting for an answer; is a backend silent?";
            return Err(Response::refusal(503, reason).header("Retry-After", "10"));
        };
        Ok(got(source, answer.await))
    }
}

// === impl Got ===

impl<T: Send + Sync + 'static> Got<T> {
    /// Adds this to what an answer is made of.
    fn note(&self, sources: &mut Option<Sources>, versions: &mut SmallVec<[u64; 3]>) {
        versions.push(self.version.get());
        if let Some(sources) = sources {
            sources.push((Arc::new(self.source.clone()) as Arc<dyn Still>, self.version.get()));
        }
    }
}
