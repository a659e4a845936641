//! Stories of files that come, change and go. All of them use real directories, so their time is real too.

mod names;
mod places;
mod service;
mod storms;
mod writing;

use std::fs;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path as FilePath;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use super::*;
use crate::consul::Agents;
use crate::namer::hosts::{Answer, Resolve, Unresolved};
use crate::store::{Client, Derived, Evaluators, Formula, Key, Mailbox, Observer, Watch};
use crate::telemetry::Legacy;

/// A directory of its own, removed at the end.
struct Disco(PathBuf);

impl Disco {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("rosterd-fs-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let base = std::env::temp_dir().join(name);
        fs::create_dir_all(base.join("disco")).expect("a directory");
        Self(base)
    }

    /// What stands beside the root directory.
    fn beside(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn root(&self) -> PathBuf {
        self.beside("disco")
    }

    fn at(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    /// Writes in place, as `echo > file` does.
    fn write(&self, name: &str, text: &str) {
        fs::write(self.at(name), text).expect("written");
    }

    /// Writes beside and renames into place.
    fn replace(&self, name: &str, text: &str) {
        fs::write(self.at(".new"), text).expect("written");
        fs::rename(self.at(".new"), self.at(name)).expect("renamed");
    }
}

impl Drop for Disco {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[derive(Debug)]
struct FakeDns;

#[async_trait::async_trait]
impl Resolve for FakeDns {
    async fn resolve(&self, host: &str) -> Result<Answer, Unresolved> {
        match host {
            "web.example" => Ok(Answer { addrs: vec![ip(7), ip(8)], ttl: Duration::from_secs(60) }),
            "silent.example" => std::future::pending().await,
            _ => Err(Unresolved::NoSuchHost),
        }
    }
}

fn ip(last: u8) -> IpAddr {
    Ipv4Addr::new(192, 0, 2, last).into()
}

#[derive(Clone)]
struct Lookup(Arc<FsNamer>, Path);

impl Formula for Lookup {
    type Value = NameTree<Found>;

    fn compute(&self, run: &mut Run<'_>) -> Reading<NameTree<Found>> {
        self.0.lookup(run, &self.1)
    }
}

struct Addresses(Arc<FsNamer>, Path);

impl Formula for Addresses {
    type Value = Addr;

    fn compute(&self, run: &mut Run<'_>) -> Reading<Addr> {
        self.0.addresses(run, &self.1)
    }
}

struct Names(Arc<FsNamer>);

impl Formula for Names {
    type Value = BTreeSet<Path>;

    fn compute(&self, run: &mut Run<'_>) -> Reading<BTreeSet<Path>> {
        self.0.names(run)
    }
}

/// A namer with somebody who evaluates.
struct Router {
    namer: Arc<FsNamer>,
    evaluators: Evaluators,
}

impl Router {
    fn new(root: &FilePath) -> Self {
        Self::with(root, Settings::default())
    }

    /// One that the kernel tells nothing.
    fn polling(root: &FilePath) -> Self {
        let quick = Duration::from_millis(100);
        Self::with(root, Settings { notices: false, poll: quick, blind_poll: quick })
    }

    fn with(root: &FilePath, settings: Settings) -> Self {
        let parts = NamerParts {
            prefix: path("/#/io.l5d.fs"),
            fall_through_after: Duration::from_secs(2),
            hosts: Hosts::with_resolver(Arc::new(FakeDns)),
            agents: Agents::new(),
            scope: Legacy::default().scope("namer"),
        };
        let namer = Arc::new(FsNamer::with_settings(root.to_owned(), &parts, settings));
        Self { namer, evaluators: Evaluators::start(1) }
    }

    fn watch<F: Formula>(&self, formula: F) -> Watch<F::Value> {
        Derived::new(&self.evaluators, Client::INTERNAL, formula).into()
    }

    fn lookup(&self, name: &str) -> Watch<NameTree<Found>> {
        self.watch(Lookup(self.namer.clone(), path(name)))
    }

    fn addresses(&self, id: &str) -> Watch<Addr> {
        self.watch(Addresses(self.namer.clone(), path(id)))
    }

    fn names(&self) -> Watch<BTreeSet<Path>> {
        self.watch(Names(self.namer.clone()))
    }

    async fn finds(&self, name: &str) -> NameTree<Found> {
        let (tree, _) = self.lookup(name).answer(Duration::from_secs(5)).await.expect("an answer");
        (*tree).clone()
    }

    async fn says(&self, id: &str) -> String {
        let (addr, _) = self.addresses(id).answer(Duration::from_secs(5)).await.expect("an answer");
        show(&addr)
    }
}

/// Everything a watcher is told, as text, in order.
struct Told<T> {
    watch: Watch<T>,
    mailbox: Mailbox,
    _subscription: crate::store::Subscription,
    log: Vec<String>,
    show: fn(&T) -> String,
}

impl<T: Send + Sync + 'static> Told<T> {
    fn by(watch: Watch<T>, show: fn(&T) -> String) -> Self {
        let mailbox = Mailbox::new();
        let (snapshot, subscription) = watch.subscribe(&mailbox, Key(0));
        let log = snapshot.value().map(|value| show(value)).into_iter().collect();
        Self { watch, mailbox, _subscription: subscription, log, show }
    }

    /// Listens until `wanted` comes, or for the whole of `limit`. Returns whether it came.
    async fn until(&mut self, wanted: Option<&str>, limit: Duration) -> bool {
        let deadline = tokio::time::Instant::now() + limit;
        let mut keys = Vec::new();
        while wanted.is_none_or(|wanted| self.log.last().is_none_or(|last| last != wanted)) {
            if tokio::time::timeout_at(deadline, self.mailbox.marked()).await.is_err() {
                return false;
            }
            self.mailbox.take_marked(&mut keys);
            if let Some(value) = self.watch.current().value() {
                let shown = (self.show)(value);
                if self.log.last() != Some(&shown) {
                    self.log.push(shown);
                }
            }
        }
        true
    }

    /// Waits for a value; says how long it took.
    async fn hears(&mut self, wanted: &str) -> Duration {
        let began = Instant::now();
        let heard = self.until(Some(wanted), Duration::from_secs(10)).await;
        assert!(heard, "waited for {wanted:?}, heard {:?}", self.log);
        began.elapsed()
    }

    async fn hears_nothing_for(&mut self, time: Duration) {
        let before = self.log.len();
        self.until(None, time).await;
        assert_eq!(self.log.len(), before, "{:?}", self.log);
    }
}

fn path(text: &str) -> Path {
    Path::parse(text).expect("a path")
}

fn show(addr: &Addr) -> String {
    match addr {
        Addr::Neg => "neg".to_owned(),
        Addr::Failed(reason) => format!("failed: {}", reason.as_deref().unwrap_or_default()),
        Addr::Bound(set) => {
            let shown = set.addrs().iter().map(|address| {
                let weight = address.meta.get("endpoint_addr_weight").map(|weight| format!("*{weight}"));
                format!("{}:{}{}", address.ip, address.port, weight.unwrap_or_default())
            });
            format!("[{}]", shown.collect::<Vec<_>>().join(" "))
        }
    }
}

fn show_tree(tree: &NameTree<Found>) -> String {
    match tree {
        NameTree::Neg => "neg".to_owned(),
        NameTree::Leaf(Found::Bound { id, residual }) => format!("{id} and {residual}"),
        other => format!("{other:?}"),
    }
}

fn leaf(id: &str, residual: &str) -> NameTree<Found> {
    NameTree::Leaf(Found::Bound { id: path(id), residual: path(residual) })
}

/// Long enough for anything that is going to be told.
const QUIET: Duration = Duration::from_millis(400);
