//! The one writer of all cells of the namer: notices changes, has the disk looked at, publishes.

use std::collections::{BTreeSet, HashMap};
use std::convert::Infallible;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::Settings;
use super::desk::Desk;
use super::inotify::{self, Change, Notice, Notices, Watches, is_watch_limit};
use super::interest::Interest;
use super::look::{Answer, Ask, Finding, Round, look};
use super::settle::{Doubt, LIMIT, QUIET, Writing};
use super::tracked::{Next, Tracked};
use super::walk::Place;

/// How many names are looked at in one go.
const ROUND: usize = 64;

/// How soon one name is looked at again, whatever happens to it.
const SPACING: Duration = Duration::from_millis(20);

/// The list of a large directory is made again only after this many times the time it took.
const LIST_REST: u32 = 10;

/// The poll rests for this many times the time it took.
const POLL_REST: u32 = 20;

/// A look that takes longer is reported.
const SLOW: Duration = Duration::from_secs(10);

/// Stands for everything, wherever ids stand: the root directory itself was replaced.
const EVERYTHING: u64 = u64::MAX;

/// See the module.
pub(super) struct Keeper {
    root: PathBuf,
    desk: Arc<Desk>,
    settings: Settings,
    inotify: Option<(Notices, Watches)>,
    interest: Interest,
    root_places: Vec<Place>,
    tracked: HashMap<u64, Tracked>,
    /// When to look at which name.
    due: BTreeSet<(Instant, u64)>,
    /// Names that the current poll has not reached.
    poll: Vec<u64>,
    poll_began: Instant,
    next_poll: Instant,
    /// Problems that have been reported and go on.
    reported: Reported,
}

#[derive(Default)]
struct Reported {
    root: bool,
    watching: bool,
}

impl Keeper {
    pub(super) fn new(root: PathBuf, desk: Arc<Desk>, settings: Settings) -> Self {
        Self {
            root,
            desk,
            settings,
            inotify: None,
            interest: Interest::default(),
            root_places: Vec::new(),
            tracked: HashMap::new(),
            due: BTreeSet::new(),
            poll: Vec::new(),
            poll_began: Instant::now(),
            next_poll: Instant::now(),
            reported: Reported::default(),
        }
    }

    pub(super) async fn run(mut self) -> Infallible {
        loop {
            self.wait().await;
            self.take_news();
            self.take_notices();
            self.begin_poll_if_due();
            let asks = self.pick();
            if !asks.is_empty() {
                self.look(asks).await;
            }
        }
    }

    async fn wait(&mut self) {
        if !self.poll.is_empty() {
            return tokio::task::yield_now().await;
        }
        let due = self.due.first().map(|(when, _)| *when);
        let poll = (!self.tracked.is_empty()).then_some(self.next_poll);
        let timer = async {
            match due.into_iter().chain(poll).min() {
                Some(when) => tokio::time::sleep_until(when).await,
                None => std::future::pending().await,
            }
        };
        let notices = async {
            match &mut self.inotify {
                Some((notices, _)) => notices.wait().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.desk.news.notified() => {}
            () = notices => {}
            () = timer => {}
        }
    }

    fn take_news(&mut self) {
        let (arrived, left) = self.desk.take();
        let mut unused = Vec::new();
        for id in left {
            if let Some(tracked) = self.tracked.remove(&id) {
                unused.extend(self.interest.replace(id, &tracked.places, &[]));
                if let Some(when) = tracked.due {
                    self.due.remove(&(when, id));
                }
                if let Some(directory) = tracked.directory() {
                    self.desk.log_departure(&directory);
                }
            }
        }
        self.unwatch(unused);
        if arrived.is_empty() {
            return;
        }
        if self.tracked.is_empty() {
            if self.inotify.is_none() {
                self.open_inotify();
            }
            self.schedule_poll(Duration::ZERO);
        }
        for (id, key, answers) in arrived {
            let tracked = Tracked::new(key, answers);
            if let Some(directory) = tracked.directory() {
                self.desk.log_arrival(directory);
            }
            self.tracked.insert(id, tracked);
            self.set_due(id, Instant::now());
        }
    }

    fn take_notices(&mut self) {
        let Some((notices, _)) = &mut self.inotify else { return };
        let notices = match notices.take() {
            Ok(notices) => notices,
            Err(error) => return self.lose_inotify(&error),
        };
        for notice in notices {
            match notice {
                Notice::Entry { wd, name, change } => {
                    if let Some(directory) = self.interest.shown(wd) {
                        self.desk.log_event(directory, change.word(), &name);
                    }
                    self.mark_all(self.interest.of(wd, &name), change);
                    if matches!(change, Change::Made { .. } | Change::MovedIn | Change::Gone) {
                        self.mark_all(self.interest.of_list(wd), Change::Gone);
                    }
                }
                Notice::Moved(wd) | Notice::Ended(wd) => self.mark_all(self.interest.of_all(wd), Change::Attributes),
                Notice::Lost => self.begin_poll(),
            }
        }
    }

    fn mark_all(&mut self, ids: Vec<u64>, change: Change) {
        let everything = ids.contains(&EVERYTHING);
        let ids = if everything { self.tracked.keys().copied().collect() } else { ids };
        for id in ids {
            self.mark(id, change);
        }
    }

    fn mark(&mut self, id: u64, change: Change) {
        let Some(tracked) = self.tracked.get_mut(&id) else { return };
        let now = Instant::now();
        let pending = tracked.notice(now);
        let when = match change {
            Change::Written | Change::MovedIn => {
                pending.done = Some(SystemTime::now());
                now
            }
            Change::Writing | Change::Made { directory: false } => {
                if matches!(pending.doubt, Some((Doubt::Empty, _))) {
                    pending.first = now; // now it is filled
                }
                pending.done = None;
                (now + QUIET).min(pending.first + LIMIT)
            }
            Change::Made { directory: true } | Change::Gone | Change::Attributes => now,
        };
        let when = when.max(tracked.not_before);
        self.set_due(id, when);
    }

    fn set_due(&mut self, id: u64, when: Instant) {
        if let Some(tracked) = self.tracked.get_mut(&id) {
            if let Some(before) = tracked.due.replace(when) {
                self.due.remove(&(before, id));
            }
            self.due.insert((when, id));
        }
    }

    fn begin_poll_if_due(&mut self) {
        if self.poll.is_empty() && !self.tracked.is_empty() && self.next_poll <= Instant::now() {
            if self.inotify.is_none() {
                self.open_inotify();
            }
            self.begin_poll();
        }
    }

    fn begin_poll(&mut self) {
        self.poll = self.tracked.keys().copied().collect();
        self.poll_began = Instant::now();
    }

    fn schedule_poll(&mut self, took: Duration) {
        let blind = self.inotify.is_none() || self.tracked.values().any(|tracked| tracked.unwatched);
        self.reported.watching &= blind;
        let interval = if blind { self.settings.blind_poll } else { self.settings.poll };
        let interval = interval.mul_f64(rand::random_range(0.8..1.2));
        self.next_poll = Instant::now() + interval.max(took * POLL_REST);
    }

    /// What to look at next: what is due, otherwise some of what the poll has left.
    fn pick(&mut self) -> Vec<Ask> {
        let now = Instant::now();
        let mut ids = Vec::new();
        while let Some((when, id)) = self.due.first().copied()
            && when <= now
            && ids.len() < ROUND
        {
            self.due.pop_first();
            if let Some(tracked) = self.tracked.get_mut(&id) {
                tracked.due = None;
            }
            ids.push(id);
        }
        if ids.is_empty() && !self.poll.is_empty() {
            ids = self.poll.split_off(self.poll.len().saturating_sub(ROUND));
            if self.poll.is_empty() {
                self.schedule_poll(self.poll_began.elapsed());
            }
            // What is due anyway is looked at then.
            ids.retain(|id| self.tracked.get(id).is_some_and(|tracked| tracked.due.is_none()));
        }
        let ask = |id| {
            let tracked = self.tracked.get(&id)?;
            let writing = tracked.pending.as_ref().map_or_else(Writing::default, |pending| pending.writing(now));
            Some(Ask { id, key: tracked.key.clone(), seen: tracked.seen, writing })
        };
        ids.into_iter().filter_map(ask).collect()
    }

    async fn look(&mut self, asks: Vec<Ask>) {
        let ids: Vec<u64> = asks.iter().map(|ask| ask.id).collect();
        let (root, began) = (self.root.clone(), Instant::now());
        let watches = self.inotify.as_ref().map(|(_, watches)| watches.clone());
        let mut task = tokio::task::spawn_blocking(move || look(&root, watches, asks));
        let round = loop {
            match tokio::time::timeout(SLOW, &mut task).await {
                Ok(round) => break round,
                Err(_) => self.no_answer(&ids, began),
            }
        };
        match round {
            Ok(round) => self.apply(round, began.elapsed()),
            Err(error) => {
                tracing::error!(root = %self.root.display(), %error, "looking at files failed; trying again");
                for id in ids {
                    self.set_due(id, Instant::now() + self.settings.poll);
                }
            }
        }
    }

    fn no_answer(&mut self, ids: &[u64], since: Instant) {
        let seconds = since.elapsed().as_secs();
        let reason = format!("the file system of {} has not answered for {seconds} s", self.root.display());
        tracing::warn!("{reason}; last known addresses stay");
        for id in ids {
            if let Some(tracked) = self.tracked.get_mut(id) {
                tracked.fail(&reason);
            }
        }
    }

    fn apply(&mut self, round: Round, took: Duration) {
        let Round { root, root_failure, answers, refused } = round;
        let mut unused = self.interest.replace(EVERYTHING, &self.root_places, &root.places);
        self.root_places = root.places;
        self.report_root(root_failure.as_deref());
        for Answer { id, trail, finding } in answers {
            let Some(tracked) = self.tracked.get_mut(&id) else { continue };
            let now = Instant::now();
            let listed = matches!(finding, Finding::Names(_));
            tracked.not_before = now + if listed { (took * LIST_REST).max(SPACING) } else { SPACING };
            if root_failure.is_none() {
                if trail.unwatched && !tracked.unwatched {
                    self.next_poll = self.next_poll.min(now + self.settings.blind_poll);
                }
                tracked.unwatched = trail.unwatched;
                unused.extend(self.interest.replace(id, &tracked.places, &trail.places));
                tracked.places = trail.places;
                if let (Some(home), Some(directory)) = (trail.home, tracked.directory()) {
                    self.interest.show(home, directory);
                }
            }
            let next = tracked.apply(finding, now, root_failure.is_none());
            let directory = tracked.directory();
            match next {
                Next::Published => {
                    if let Some(directory) = directory {
                        self.desk.log_update(&directory);
                    }
                }
                Next::Again(when) => self.set_due(id, when),
                Next::Nothing => {}
            }
        }
        self.unwatch(unused);
        if let Some((directory, error)) = refused {
            self.report_refused(&directory.display().to_string(), &error);
        }
    }

    /// Ends watches on directories that are still unused.
    fn unwatch(&mut self, unused: Vec<i32>) {
        if let Some((_, watches)) = &mut self.inotify {
            unused.into_iter().filter(|wd| !self.interest.knows(*wd)).for_each(|wd| watches.remove(wd));
        }
    }

    fn open_inotify(&mut self) {
        if !self.settings.notices {
            return;
        }
        match inotify::open() {
            Ok(opened) => self.inotify = Some(opened),
            Err(error) if !self.reported.watching => {
                self.reported.watching = true;
                let root = self.root.display();
                tracing::warn!(%root, %error, "cannot watch files, polling them; is fs.inotify.max_user_instances too low?");
            }
            Err(_) => {}
        }
    }

    fn lose_inotify(&mut self, error: &io::Error) {
        tracing::warn!(root = %self.root.display(), %error, "watching files failed; polling until it works again");
        self.inotify = None;
        self.interest.clear();
        self.root_places.clear();
        self.tracked.values_mut().for_each(|tracked| tracked.places.clear());
        self.begin_poll();
    }

    fn report_refused(&mut self, directory: &str, error: &io::Error) {
        if std::mem::replace(&mut self.reported.watching, true) {
            tracing::debug!(directory, %error, "cannot watch");
        } else if is_watch_limit(error) {
            tracing::warn!(
                directory,
                "no more watches; polling files twice a second. Raise fs.inotify.max_user_watches"
            );
        } else {
            tracing::warn!(directory, %error, "cannot watch, polling files twice a second");
        }
    }

    fn report_root(&mut self, failure: Option<&str>) {
        let reported = std::mem::replace(&mut self.reported.root, failure.is_some());
        match failure {
            Some(reason) if !reported => tracing::warn!("{reason}; last known addresses stay"),
            None if reported => tracing::info!(root = %self.root.display(), "root directory is back"),
            _ => {}
        }
    }
}
