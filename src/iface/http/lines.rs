//! Watches: the current value, then each change, one line each.
//!
//! A line is made when the one before has been written, from the newest value, so a slow reader skips what came in
//! between. Nothing is sent while there is no value, and a failure is no line and no end: Linkerd 1 gives a name up for
//! good after either.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream;

use super::encoded::Form;
use super::media::Media;
use super::metrics::OpenStream;
use super::question::Question;
use super::{Api, json, pick};
use crate::http1::{Lines, Response};
use crate::interpreter::{BoundTree, Hold};
use crate::name::{Addr, Path};
use crate::storage::VersionedDtab;
use crate::store::{Client, Key, Mailbox, State, Subscription, Watch};

/// The key of what is watched for itself; leaves of a tree have the ones after it.
const MAIN: Key = Key(0);

/// A watched value, and whether it has changed since it was last looked at.
struct Watched<T> {
    watch: Watch<T>,
    mailbox: Mailbox,
    marked: Vec<Key>,
    fresh: bool,
    open: OpenStream,
    _subscription: Subscription,
}

// === impl Api ===

impl Api {
    /// The names of all namespaces.
    pub(super) fn list_lines(&self) -> Lines {
        let encoded = self.encoded.clone();
        self.value_lines("dtabs", self.storage.namespaces(), move |names, version| {
            Some(encoded.get(Form::List, &[version], || json::strings(&**names)))
        })
    }

    /// A stored dtab, each version once. Deletion is silent; nothing is sent while there is none.
    pub(super) fn dtab_lines(&self, client: Client, namespace: &str, media: Media) -> Result<Lines, Response> {
        let watch = self.storage.dtab(client, namespace).map_err(super::question::no_room)?;
        let stored = Watched::new(watch, self.metrics.stream("dtab"));
        let state = DtabLines { api: self.clone(), media, stored, sent: None };
        Ok(Box::pin(stream::unfold(state, async |mut state| Some((state.next().await, state)))))
    }

    /// The addresses of an id.
    pub(super) fn addr_lines(&self, client: Client, id: &Path) -> Result<Lines, Response> {
        let watch = self.interpreter.addr(client, id).map_err(super::question::no_room)?;
        let encoded = self.encoded.clone();
        Ok(self.value_lines("addr", watch, move |state, version| {
            Some(encoded.get(Form::Addr, &[version], || json::addr(state)))
        }))
    }

    /// The names that namers can list.
    pub(super) fn names_lines(&self) -> Lines {
        let encoded = self.encoded.clone();
        self.value_lines("bound-names", self.interpreter.bound_names(), move |names, version| {
            Some(encoded.get(Form::List, &[version], || json::strings(&**names)))
        })
    }

    /// The bound tree, when ids, residuals or weights change.
    pub(super) fn bind_lines(&self, question: &Question) -> Result<Lines, Response> {
        let watch = self.binding(question, Hold::Watch)?;
        let tree = Watched::new(watch, self.metrics.stream("bind"));
        let state = BindLines { api: self.clone(), client: question.client, tree, sent: None, wanted: None };
        Ok(Box::pin(stream::unfold(state, async |mut state| Some((state.next().await, state)))))
    }

    /// The addresses of one of the names in a bound tree; it is picked anew when the tree changes.
    pub(super) fn resolve_lines(&self, question: &Question) -> Result<Lines, Response> {
        let watch = self.binding(question, Hold::Watch)?;
        let tree = Watched::new(watch, self.metrics.stream("resolve"));
        let state =
            ResolveLines { api: self.clone(), client: question.client, tree, seen: None, addr: None, sent: None };
        Ok(Box::pin(stream::unfold(state, async |mut state| Some((state.next().await, state)))))
    }

    /// Lines of a value of its own; `line` makes the line of a value that differs from the one before, if it wants one.
    fn value_lines<T: PartialEq + Send + Sync + 'static>(
        &self,
        endpoint: &'static str,
        watch: Watch<T>,
        line: impl FnMut(&Arc<T>, u64) -> Option<Bytes> + Send + 'static,
    ) -> Lines {
        let state = (Watched::new(watch, self.metrics.stream(endpoint)), None::<Arc<T>>, line);
        Box::pin(stream::unfold(state, async |(mut watched, mut sent, mut line)| {
            loop {
                if let Some((value, version)) = watched.news()
                    && sent.as_ref() != Some(&value)
                    && let Some(bytes) = line(&value, version)
                {
                    sent = Some(value);
                    watched.open.line();
                    return Some((bytes, (watched, sent, line)));
                }
                watched.changed().await;
            }
        }))
    }
}

// === impl Watched ===

impl<T: Send + Sync + 'static> Watched<T> {
    fn new(watch: Watch<T>, open: OpenStream) -> Self {
        let mailbox = Mailbox::new();
        let (_, subscription) = watch.subscribe(&mailbox, MAIN);
        Self { watch, mailbox, marked: Vec::new(), fresh: true, open, _subscription: subscription }
    }

    /// The value, if it may have changed since this was last asked.
    fn news(&mut self) -> Option<(Arc<T>, u64)> {
        if !std::mem::take(&mut self.fresh) {
            return None;
        }
        let snapshot = self.watch.cell().snapshot();
        match snapshot.state {
            State::Ready(value) => Some((value, snapshot.version.get())),
            State::Failed(reason) => {
                self.open.failed(&reason);
                None
            }
            State::Pending => None,
        }
    }

    /// Waits for a change of this, or of something else that marks the mailbox.
    async fn changed(&mut self) {
        self.mailbox.marked().await;
        self.mailbox.take_marked(&mut self.marked);
        self.fresh |= self.marked.contains(&MAIN);
    }
}

struct DtabLines {
    api: Api,
    media: Media,
    stored: Watched<Option<VersionedDtab>>,
    sent: Option<VersionedDtab>,
}

impl DtabLines {
    async fn next(&mut self) -> Bytes {
        loop {
            if let Some((stored, version)) = self.stored.news()
                && let Some(stored) = Option::as_ref(&*stored)
                && self.sent.as_ref() != Some(stored) // deleted, and made again just as it was
                && let Ok(bytes) = self.api.dtab_text(self.media, stored, version).await
            {
                self.sent = Some(stored.clone());
                self.stored.open.line();
                return bytes;
            }
            self.stored.changed().await;
        }
    }
}

/// A tree that is to be sent once the addresses of all its leaves are known.
struct Wanted {
    tree: Arc<BoundTree>,
    version: u64,
    leaves: Vec<WantedLeaf>,
    /// So many leaves from the first on are known to have addresses.
    known: usize,
}

struct WantedLeaf {
    watch: Watch<Addr>,
    _subscription: Subscription,
}

struct BindLines {
    api: Api,
    client: Client,
    tree: Watched<BoundTree>,
    sent: Option<Arc<BoundTree>>,
    wanted: Option<Wanted>,
}

impl BindLines {
    async fn next(&mut self) -> Bytes {
        loop {
            if let Some((tree, version)) = self.tree.news() {
                self.want(tree, version);
            }
            if let Some((versions, addrs)) = self.wanted.as_mut().and_then(Wanted::states)
                && let Some(Wanted { tree, .. }) = self.wanted.take()
            // the addresses alone make no line
            {
                let shown = tree.clone();
                let make = move |most| json::bound_tree(&shown, &addrs, most);
                match self.api.encoded.get_large(Form::Tree, &versions, make).await {
                    Ok(bytes) => {
                        self.sent = Some(tree);
                        self.tree.open.line();
                        return bytes;
                    }
                    Err(too_large) => self.tree.open.failed(&too_large.to_string()),
                }
            }
            self.tree.changed().await;
        }
    }

    fn want(&mut self, tree: Arc<BoundTree>, version: u64) {
        if self.sent.as_ref() == Some(&tree) {
            self.wanted = None;
            return;
        }
        let leaves = json::leaves(&tree).into_iter().zip(MAIN.0 + 1..);
        let leaves = leaves.map(|(leaf, key)| {
            let watch = match self.api.interpreter.leaf_addr(self.client, &leaf.source) {
                Ok(watch) => watch,
                Err(over) => Watch::constant(Addr::Failed(Some(over.to_string().into()))),
            };
            let (_, subscription) = watch.subscribe(&self.tree.mailbox, Key(key));
            WantedLeaf { watch, _subscription: subscription }
        });
        let leaves = leaves.collect();
        self.wanted = Some(Wanted { tree, version, leaves, known: 0 });
    }
}

impl Wanted {
    /// The versions of everything, and the addresses of all leaves once they are known. Each leaf is waited for once,
    /// however many there are.
    fn states(&mut self) -> Option<(Vec<u64>, Vec<Addr>)> {
        let is_known = |leaf: &WantedLeaf| !matches!(leaf.watch.cell().snapshot().state, State::Pending);
        self.known += self.leaves[self.known..].iter().take_while(|leaf| is_known(leaf)).count();
        if self.known < self.leaves.len() {
            return None;
        }
        let (mut versions, mut addrs) = (vec![self.version], Vec::with_capacity(self.leaves.len()));
        for (place, leaf) in self.leaves.iter().enumerate() {
            let snapshot = leaf.watch.cell().snapshot();
            versions.push(snapshot.version.get());
            addrs.push(match snapshot.state {
                State::Ready(state) => (*state).clone(),
                State::Failed(reason) => Addr::Failed(Some(reason)),
                State::Pending => {
                    self.known = place; // a failure that is being tried anew
                    return None;
                }
            });
        }
        Some((versions, addrs))
    }
}

struct ResolveLines {
    api: Api,
    client: Client,
    tree: Watched<BoundTree>,
    /// The version of the tree from which the name was picked.
    seen: Option<u64>,
    addr: Option<(Option<Path>, Watch<Addr>, Subscription)>,
    sent: Option<Arc<Addr>>,
}

impl ResolveLines {
    async fn next(&mut self) -> Bytes {
        loop {
            if let Some((tree, version)) = self.tree.news()
                && self.seen != Some(version)
            {
                self.seen = Some(version);
                self.pick(&tree);
            }
            if let Some((_, watch, _)) = &self.addr {
                let snapshot = watch.cell().snapshot();
                if let State::Ready(state) = snapshot.state
                    && self.sent.as_ref() != Some(&state)
                {
                    let of = [snapshot.version.get()];
                    let bytes = self.api.encoded.get(Form::Addr, &of, || json::addr(&state));
                    self.sent = Some(state);
                    self.tree.open.line();
                    return bytes;
                }
            }
            self.tree.changed().await;
        }
    }

    fn pick(&mut self, tree: &BoundTree) {
        let picked = pick::id(tree, &mut rand::rng());
        if matches!(&self.addr, Some((before, ..)) if *before == picked) {
            return;
        }
        match self.api.picked_addr(self.client, picked.as_ref()) {
            Ok(watch) => {
                let (_, subscription) = watch.subscribe(&self.tree.mailbox, Key(MAIN.0 + 1));
                self.addr = Some((picked, watch, subscription));
            }
            // No room for another address set: the last value stays, and the next tree is another try.
            Err(refused) => self.tree.open.failed(&format!("{refused:?}")),
        }
    }
}
