//! What stories of namers share: formulas that ask one, and watchers that write down what they are told.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::hosts::Hosts;
use super::{Found, Namer, NamerParts};
use crate::client::ClientMetrics;
use crate::config::IpFamilies;
use crate::consul::Agents;
use crate::k8s::ApiServers;
use crate::name::{Addr, Limits, NameTree, Path};
use crate::store::{Evaluators, Formula, Key, Mailbox, Reading, Run, Watch};
use crate::telemetry::Legacy;

/// What a name stands for.
#[derive(Clone)]
pub(super) struct Lookup<N>(pub(super) Arc<N>, pub(super) Path);

impl<N: Namer> Formula for Lookup<N> {
    type Value = NameTree<Found>;

    fn compute(&self, run: &mut Run<'_>) -> Reading<NameTree<Found>> {
        self.0.lookup(run, &self.1)
    }
}

/// The addresses of an id.
pub(super) struct Addresses<N>(pub(super) Arc<N>, pub(super) Path);

impl<N: Namer> Formula for Addresses<N> {
    type Value = Addr;

    fn compute(&self, run: &mut Run<'_>) -> Reading<Addr> {
        self.0.addresses(run, &self.1)
    }
}

/// Everything a watcher is told, as text, in order.
pub(super) struct Told<T> {
    pub(super) watch: Watch<T>,
    mailbox: Mailbox,
    _subscription: crate::store::Subscription,
    pub(super) log: Vec<String>,
    show: fn(&T) -> String,
}

impl<T: Send + Sync + 'static> Told<T> {
    pub(super) fn by(watch: Watch<T>, show: fn(&T) -> String) -> Self {
        let mailbox = Mailbox::new();
        let (snapshot, subscription) = watch.subscribe(&mailbox, Key(0));
        let log = snapshot.value().map(|value| show(value)).into_iter().collect();
        Self { watch, mailbox, _subscription: subscription, log, show }
    }

    /// Listens until `wanted` comes, or for the whole of `limit`. Returns whether it came.
    pub(super) async fn until(&mut self, wanted: Option<&str>, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
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
    pub(super) async fn hears(&mut self, wanted: &str) -> Duration {
        let began = Instant::now();
        let heard = self.until(Some(wanted), Duration::from_secs(10)).await;
        assert!(heard, "waited for {wanted:?}, heard {:?}", self.log);
        began.elapsed()
    }

    pub(super) async fn hears_nothing_for(&mut self, time: Duration) {
        let before = self.log.len();
        self.until(None, time).await;
        assert_eq!(self.log.len(), before, "{:?}", self.log);
    }
}

pub(super) fn path(text: &str) -> Path {
    Path::parse(text).expect("a path")
}

pub(super) fn show(addr: &Addr) -> String {
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

pub(super) fn show_tree(tree: &NameTree<Found>) -> String {
    match tree {
        NameTree::Neg => "neg".to_owned(),
        NameTree::Leaf(Found::Bound { id, residual }) => format!("{id} and {residual}"),
        other => format!("{other:?}"),
    }
}

pub(super) fn leaf(id: &str, residual: &str) -> NameTree<Found> {
    NameTree::Leaf(Found::Bound { id: path(id), residual: path(residual) })
}

/// What a namer is built from.
pub(super) fn parts(prefix: &str, hosts: Hosts) -> NamerParts {
    let scope = Legacy::default().scope("namer");
    NamerParts {
        prefix: path(prefix),
        fall_through_after: Duration::from_secs(2),
        hosts,
        agents: Agents::new(),
        servers: ApiServers::new(),
        ip_families: IpFamilies::default(),
        evaluators: Evaluators::start(1),
        names: Limits::DEFAULT,
        client: ClientMetrics::default(),
        scope,
    }
}
