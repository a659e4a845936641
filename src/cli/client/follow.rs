//! Several watches of one server, kept going whatever happens to it.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use super::{Client, ClientError, Target};
use crate::runtime::Backoff;

/// Values that may wait for the one who prints them; a watch that finds no room waits.
const QUEUE: usize = 64;

/// How soon, and how late, a lost server is asked again.
const RETRY_FLOOR: Duration = Duration::from_millis(500);
const RETRY_CAP: Duration = Duration::from_secs(30);

/// What the watches say, in the order in which they say it.
#[derive(Debug)]
pub(in crate::cli) enum News<K> {
    /// A value of one of them.
    Value(K, Value),
    /// The server is gone, and why; it is asked again until it answers.
    Lost(String),
    /// All watches have answered again.
    Back,
}

enum Report {
    Value(Value),
    Lost(String),
    Refused(ClientError),
}

/// Watches by key. They end when this is dropped.
pub(in crate::cli) struct Follow<K> {
    client: Client,
    sender: mpsc::Sender<(K, Report)>,
    receiver: mpsc::Receiver<(K, Report)>,
    tasks: JoinSet<()>,
    running: HashMap<K, AbortHandle>,
    lost: HashSet<K>,
    back: bool,
}

impl<K: Clone + Eq + Hash + Send + Sync + 'static> Follow<K> {
    pub(in crate::cli) fn new(client: &Client) -> Self {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let (tasks, running, lost) = (JoinSet::new(), HashMap::new(), HashSet::new());
        Self { client: client.clone(), sender, receiver, tasks, running, lost, back: false }
    }

    /// Watches one thing more, unless it is watched already.
    pub(in crate::cli) fn start(&mut self, key: K, target: Target) {
        while self.tasks.try_join_next().is_some() {}
        if !self.running.contains_key(&key) {
            let task = watch(self.client.clone(), key.clone(), target, self.sender.clone());
            self.running.insert(key, self.tasks.spawn(task));
        }
    }

    /// Ends the watches that are not wanted any more.
    pub(in crate::cli) fn keep(&mut self, wanted: impl Fn(&K) -> bool) {
        self.running.retain(|key, task| {
            let keep = wanted(key);
            if !keep {
                task.abort();
            }
            keep
        });
        self.lost.retain(wanted);
    }

    /// Waits for news.
    ///
    /// # Errors
    /// The server refuses a watch in a way that no time will mend.
    pub(in crate::cli) async fn next(&mut self) -> Result<News<K>, ClientError> {
        loop {
            if std::mem::take(&mut self.back) {
                return Ok(News::Back);
            }
            let (key, report) = self.receiver.recv().await.expect("a sender is held here");
            if !self.running.contains_key(&key) {
                continue;
            }
            match report {
                Report::Value(value) => {
                    self.back = self.lost.remove(&key) && self.lost.is_empty();
                    return Ok(News::Value(key, value));
                }
                Report::Lost(reason) => {
                    let first = self.lost.is_empty();
                    self.lost.insert(key);
                    if first {
                        return Ok(News::Lost(reason));
                    }
                }
                Report::Refused(error) => return Err(error),
            }
        }
    }
}

/// One watch, asked for again whenever it ends.
async fn watch<K: Clone>(client: Client, key: K, target: Target, sender: mpsc::Sender<(K, Report)>) {
    let mut retry = Backoff::new(RETRY_FLOOR, RETRY_CAP);
    loop {
        let reason = match client.watch(&target).await {
            Ok(mut lines) => loop {
                let report = match lines.next().await {
                    Ok(Some(line)) => match serde_json::from_slice(&line) {
                        Ok(value) => Report::Value(value),
                        // namerd ends a watch with the reason in plain text.
                        Err(_) => break String::from_utf8_lossy(&line).into_owned(),
                    },
                    Ok(None) => break "the server ended the watch".to_owned(),
                    Err(reason) => break reason,
                };
                retry.reset();
                if sender.send((key.clone(), report)).await.is_err() {
                    return;
                }
            },
            Err(error) if error.may_pass() => error.to_string(),
            Err(error) => {
                // Nobody listens any more when this fails.
                let _ = sender.send((key, Report::Refused(error))).await;
                return;
            }
        };
        if sender.send((key.clone(), Report::Lost(reason))).await.is_err() {
            return;
        }
        tokio::time::sleep(retry.next_delay()).await;
    }
}
