//! Streams: what comes after the state.

use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use rand::RngExt;
use tokio::time::{Instant, timeout, timeout_at};

use super::aftermath::TRIES;
use super::{End, PATIENCE, Worker, passed_over};
use crate::k8s::error::{ApiError, shortened};
use crate::k8s::event::{Event, Head, Status};
use crate::k8s::resource::Ask;
use crate::k8s::split::{LARGEST_OBJECT, Splitter};
use crate::k8s::{ApiServer, Kind, Object};

/// For how long the server is asked to keep a stream: less than the five minutes after which middle boxes lose patience.
const LIFE: std::ops::RangeInclusive<u64> = 240..=290;

/// How much longer than that a stream may last.
const GRACE: Duration = Duration::from_secs(15);

/// A server that sends bookmarks does so about once a minute.
const SILENCE: Duration = Duration::from_secs(150);

/// A stream that brought nothing and did not last for so long was of no use.
const USE: Duration = Duration::from_secs(5);

/// A stream tells what there is at once; after this time without anything, what was read beside it counts.
const FIRST: Duration = Duration::from_secs(1);

/// What follows from one element of a stream.
enum Next {
    More,
    End(End),
}

/// What was read beside a stream, for as long as that has told nothing itself.
type Beside<T> = Option<Object<T>>;

impl<K: Kind> Worker<K> {
    /// Follows what happens after a version.
    pub(super) async fn watch(&mut self, version: &str) -> End {
        let server = self.task.server.clone();
        let Some(_place) = server.stream_place() else { return End::Crowded };
        let life = rand::rng().random_range(LIFE);
        let (asked_target, stream) = self.open(&server, Some(version), life).await;
        self.journal.asked(&asked_target);
        match stream {
            Ok(stream) => self.follow(stream, Duration::from_secs(life) + GRACE, None).await,
            Err(ApiError::Gone { .. }) => End::TooOld,
            Err(error) => End::Failed(error),
        }
    }

    /// Reads one object and follows it, without a list. The stream comes first: from when it is open nothing is missed, so
    /// that what is read then is no older than what the stream begins with.
    pub(super) async fn read_and_watch(&mut self, name: &str) -> End {
        let server = self.task.server.clone();
        let Some(_place) = server.stream_place() else {
            return match self.read(&server, name).await {
                Ok(found) => {
                    self.learn(found);
                    End::Crowded
                }
                Err(error) => End::Failed(error),
            };
        };
        let life = rand::rng().random_range(LIFE);
        let (target, stream) = self.open(&server, None, life).await;
        self.journal.asked(&target);
        let stream = match stream {
            Ok(stream) => stream,
            Err(error) => return End::Failed(error),
        };
        let beside = match self.read(&server, name).await {
            Ok(None) => {
                self.learn(None);
                None
            }
            Ok(found) => found,
            Err(error) => return End::Failed(error),
        };
        self.is_begun(None); // of a version from before, nothing more is to be told
        self.follow(stream, Duration::from_secs(life) + GRACE, beside).await
    }

    /// The object as it is now; none if there is none.
    async fn read(&self, server: &ApiServer, name: &str) -> Result<Beside<K::Value>, ApiError> {
        let resource = self.way().resource;
        let asked = server.asked(resource, &self.task.namespace, "get");
        let _place = server.list_place().await;
        let target = resource.object(&self.task.namespace, name);
        let response = match server.get(asked, &target, PATIENCE).await {
            Ok(response) => response,
            // A proxy with another prefix says 404 of everything, and so may a server that is not up yet.
            Err(ApiError::Missing { object: Some(object), .. }) if *object == *name => return Ok(None),
            Err(error) => return Err(error),
        };
        let body = server.body(asked, response, PATIENCE).await?;
        self.task.kind.read(resource, &body).map(Some).map_err(|reason| self.unreadable(reason.to_string()))
    }

    /// This is all there is.
    fn learn(&self, found: Beside<K::Value>) {
        let objects: Vec<_> = found.into_iter().collect();
        let count = objects.len();
        let changed = self.task.sink.replace(objects, &std::collections::HashSet::new());
        self.journal.listed(count, changed);
    }

    async fn open(
        &self,
        server: &ApiServer,
        from: Option<&str>,
        seconds: u64,
    ) -> (String, Result<BoxStream<'static, Result<Bytes, ApiError>>, ApiError>) {
        let way = self.way();
        let target = way.resource.target(&self.task.namespace, &way.select, Ask::Watch { from, seconds });
        let asked = server.asked(way.resource, &self.task.namespace, "watch");
        let stream = server.get(asked, &target, PATIENCE).await.map(|response| response.body);
        (target, stream)
    }

    async fn follow(
        &mut self,
        stream: BoxStream<'static, Result<Bytes, ApiError>>,
        life: Duration,
        beside: Beside<K::Value>,
    ) -> End {
        let began = Instant::now();
        let end = self.take_all(stream, life, beside).await;
        if began.elapsed() >= USE {
            // However it ended: it is no part of an earlier streak of failures.
            self.succeeded();
        }
        end
    }

    /// Takes what a stream tells until it ends, or has been silent or open for too long.
    async fn take_all(
        &mut self,
        mut stream: BoxStream<'static, Result<Bytes, ApiError>>,
        life: Duration,
        beside: Beside<K::Value>,
    ) -> End {
        // It answered, whatever comes of it.
        self.task.server.came_back();
        let began = Instant::now();
        let mut splitter = Splitter::default();
        let mut told = false;
        // Where streams have been of no use, an open one alone says nothing.
        let mut confirmed = self.fruitless < TRIES;
        if confirmed {
            self.is_watched(beside.is_none());
        }
        if let Some(object) = beside {
            match timeout(FIRST, stream.next()).await {
                Ok(Some(Ok(piece))) => splitter.feed(&piece),
                Ok(Some(Err(error))) => return End::Failed(error),
                Ok(None) | Err(_) => {
                    self.learn(Some(object));
                    told = true;
                }
            }
        }
        loop {
            loop {
                match splitter.next() {
                    Ok(None) => break,
                    Err(_) => {
                        let reason = format!("an object has more than {LARGEST_OBJECT} bytes");
                        return End::Failed(self.unreadable(reason));
                    }
                    Ok(Some(element)) => match self.take(&element) {
                        Next::More => told = true,
                        Next::End(end) => return end,
                    },
                }
            }
            if told {
                self.told = true;
                self.succeeded();
            }
            if !confirmed && (told || began.elapsed() >= USE) {
                confirmed = true;
                self.is_watched(true);
            }
            let quiet = if self.bookmarks { SILENCE } else { life };
            let mut until = (began + life).min(Instant::now() + quiet).min(self.due);
            if !confirmed {
                until = until.min(began + USE);
            }
            match timeout_at(until, stream.next()).await {
                Ok(Some(Ok(piece))) => splitter.feed(&piece),
                Ok(Some(Err(error))) => return End::Failed(error),
                // What is not whole is told again by the next one.
                Ok(None) if told || began.elapsed() >= USE => return End::Over,
                Ok(None) => return End::Fruitless,
                Err(_) if Instant::now() >= self.due => return End::Due,
                Err(_) if !confirmed => {}
                Err(_) => {
                    tracing::debug!(path = self.path(), "a stream is silent: the next one goes on from where it was");
                    return End::Over;
                }
            }
        }
    }

    /// A stream tells what happens, and with that what is known from before is current.
    fn is_watched(&self, knows: bool) {
        self.journal.opened();
        if knows {
            self.task.sink.confirm();
        }
    }

    /// Takes one element of a stream.
    fn take(&mut self, element: &[u8]) -> Next {
        let event: Event<'_> = match serde_json::from_slice(element) {
            Ok(event) => event,
            Err(error) => return Next::End(End::Failed(self.unreadable(error.to_string()))),
        };
        let (resource, object) = (self.way().resource, event.object.get().as_bytes());
        match &*event.kind {
            "ADDED" | "MODIFIED" => match self.task.kind.read(resource, object) {
                Ok(object) => {
                    self.version = object.version.clone().or(self.version.take());
                    let name = object.name.clone();
                    let changed = self.task.sink.apply(object);
                    self.journal.event(&event.kind, &name, changed);
                }
                Err(reason) => {
                    self.version = Head::of(object).resource_version.or(self.version.take());
                    passed_over(resource, object, &reason.to_string());
                }
            },
            // Whatever else it says of the object: it is gone.
            "DELETED" => {
                let head = Head::of(object);
                let Some(name) = head.name else {
                    return Next::End(End::Failed(self.unreadable("a DELETED without a name".to_owned())));
                };
                self.version = head.resource_version.or(self.version.take());
                let changed = self.task.sink.remove(&name);
                self.journal.event("DELETED", &name, changed);
            }
            "BOOKMARK" => {
                self.bookmarks = true;
                self.version = Head::of(object).resource_version.or(self.version.take());
                self.journal.event("BOOKMARK", "", false);
            }
            "ERROR" => {
                let status: Status = serde_json::from_slice(object).unwrap_or_default();
                let code = status.code.unwrap_or(0);
                if code == 410 {
                    return Next::End(End::TooOld);
                }
                let (server, path) = (self.task.server.name().to_owned(), self.path());
                let said = shortened(&status.message.unwrap_or_default());
                return Next::End(End::Failed(ApiError::Event { server, path, code, said }));
            }
            kind => tracing::debug!(kind, "an event of an unknown type"),
        }
        Next::More
    }
}
