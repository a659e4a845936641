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
use crate::namer::hosts::{Answer, Resolve, Unresolved};
use crate::namer::testing::{Addresses, Lookup, Told, leaf, parts, path, show, show_tree};
use crate::store::{Client, Derived, Evaluators, Formula, Observer, Watch};

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
        let parts = parts("/#/io.l5d.fs", Hosts::with_resolver(Arc::new(FakeDns)));
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

/// Long enough for anything that is going to be told.
const QUIET: Duration = Duration::from_millis(400);
