//! After an attempt: what is counted and logged of it, and what it means for the next one.

use std::time::Duration;

use rand::RngExt;

use super::{CAP, End, Worker};
use crate::k8s::Kind;
use crate::k8s::error::ApiError;

/// With more watches than this each waits longer after failures: a server that is down, or just back, gets about a
/// hundred requests a second.
const MANY: f64 = 250.0;

/// But none for longer than this: it is to be back soon after its server.
const LONGEST_DELAY: Duration = Duration::from_secs(25);

/// No server's wish to be left alone is granted for longer.
const LONGEST_REST: Duration = Duration::from_secs(60);

/// After so many failures in a row a version is given up, whatever the failures were.
pub(super) const TRIES: u32 = 3;

/// Where there is no room for a stream, the next list comes after this time, or later where many wait.
const LOOK: Duration = Duration::from_secs(5);

// === impl Worker ===

impl<K: Kind> Worker<K> {
    /// Counts and logs. Of failures of a kind in one place the first is logged, what concerns the server as a whole once
    /// for all.
    pub(super) fn note(&mut self, end: &End) {
        let word = match end {
            End::Listed => "listed",
            End::Over => "stream_over",
            End::Fruitless => "stream_fruitless",
            End::Due => "relist_due",
            End::NotListed(_) => "relist_failed",
            End::Crowded => "no_stream",
            End::TooOld => "too_old",
            End::Failed(error) => error.word(),
        };
        let server = self.task.server.clone();
        server.metrics().ended(server.name(), word);
        match end {
            End::Failed(error) => self.has_failed(error),
            // What a list brings has yet to be followed: until then a failure is one more of its streak.
            End::Listed => server.came_back(),
            End::Over | End::Due => self.succeeded(),
            End::Fruitless if self.fruitless + 1 >= TRIES => {
                let (server, path) = (server.name().to_owned(), self.path());
                self.has_failed(&ApiError::Fruitless { server, path });
            }
            End::NotListed(error) if server.is_news(error, &self.path()) => {
                tracing::warn!("{error}; what is watched goes on, and is listed anew later");
            }
            End::NotListed(_) | End::Fruitless | End::Crowded | End::TooOld => {
                tracing::debug!(path = self.path(), word, "a watch goes on");
            }
        }
    }

    fn has_failed(&mut self, error: &ApiError) {
        let server = &self.task.server;
        self.journal.failed(&error.to_string());
        self.task.sink.fail(error);
        if error.is_of_server() {
            server.report_lost(error);
        } else if server.is_news(error, &self.path()) {
            tracing::warn!("{error}; what is known stays");
        } else {
            tracing::debug!("{error}");
        }
        self.failing = true;
    }

    /// The server does what it should.
    pub(super) fn succeeded(&mut self) {
        self.backoff.reset();
        (self.failures, self.fruitless) = (0, 0);
        self.task.server.came_back();
        if std::mem::take(&mut self.failing) {
            tracing::debug!(path = self.path(), "watched again");
        }
    }

    /// What an attempt means for the next one.
    pub(super) async fn rest(&mut self, end: End) {
        match end {
            // Without a version it cannot be followed, only listed again.
            End::Listed if self.version.is_none() => self.goes_on_listing().await,
            End::Listed | End::Over | End::Due | End::NotListed(_) => {}
            End::TooOld => {
                self.version = None;
                // A version of a list that nobody has gone on from is too old at once where the server is behind: a list
                // every moment would not help it.
                if !self.told {
                    self.goes_on_listing().await;
                }
            }
            End::Fruitless => {
                if self.fruitless + 1 >= TRIES {
                    self.version = None; // what streams do not tell, lists do
                }
                self.goes_on_listing().await;
            }
            End::Crowded => {
                self.version = None;
                let delay = LOOK.mul_f64(self.share());
                let drawn = rand::rng().random_range(delay.mul_f64(0.5)..=delay);
                tokio::time::sleep(drawn).await;
            }
            End::Failed(error) => {
                self.failures += 1;
                if self.is_versions_fault(&error) {
                    self.version = None;
                }
                self.wait(error.after().unwrap_or_default()).await;
            }
        }
    }

    /// What is at fault may be the version: whatever a server says to one that it cannot know, a list mends it. But a
    /// server that has too much to do is not asked for lists.
    fn is_versions_fault(&self, error: &ApiError) -> bool {
        if matches!(error, ApiError::Limited { .. }) || error.after().is_some() {
            return false;
        }
        let is_lost = error.is_of_server() && self.failures < TRIES * 10;
        !is_lost && (self.failures >= TRIES || !matches!(error, ApiError::Status { .. }))
    }

    /// A stream was of no use. Where that goes on, what is watched is listed now and then instead.
    async fn goes_on_listing(&mut self) {
        self.fruitless += 1;
        match self.fruitless {
            1 => {}
            2..TRIES => self.wait(Duration::ZERO).await,
            _ => self.wait(CAP).await,
        }
    }

    /// Waits for the time of the backoff, and at least for as long as was asked for.
    async fn wait(&mut self, asked_for: Duration) {
        let delay = self.backoff.next_delay().mul_f64(self.share());
        let longest = rand::rng().random_range(LONGEST_DELAY.mul_f64(0.5)..=LONGEST_DELAY);
        let asked_for = asked_for.min(LONGEST_REST);
        let spread = rand::rng().random_range(Duration::ZERO..=asked_for.mul_f64(0.1));
        tokio::time::sleep(delay.min(longest).max(asked_for + spread)).await;
    }

    /// How much longer than a single watch each waits, among as many as there are.
    fn share(&self) -> f64 {
        (self.task.server.watches() as f64 / MANY).max(1.0)
    }
}
