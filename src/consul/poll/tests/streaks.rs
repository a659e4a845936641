//! What goes on for long, and what is told of it.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::*;

/// What is logged, until it is dropped.
#[derive(Clone, Default)]
struct Logged(Arc<Mutex<Vec<u8>>>);

impl Logged {
    fn start() -> (Self, tracing::subscriber::DefaultGuard) {
        let logged = Self::default();
        let writer = logged.clone();
        let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).finish();
        (logged, tracing::subscriber::set_default(subscriber))
    }

    /// The warnings that have this text in them.
    fn warnings(&self, text: &str) -> usize {
        let all = String::from_utf8_lossy(&self.0.lock()).into_owned();
        all.lines().filter(|line| line.contains("WARN") && line.contains(text)).count()
    }
}

impl io::Write for Logged {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn every_kind_of_failure_is_logged_once_in_a_streak_whatever_came_before_it() {
    let (logged, _guard) = Logged::start();
    let consul = FakeConsul::default();
    let denied = "Permission denied: lacks permission 'service:read'";
    for _ in 0..2 {
        consul.script(Step::Refuse);
        (0..5).for_each(|_| consul.say(403, denied));
        (0..3).for_each(|_| consul.script(Step::Reply(200, Vec::new(), String::new())));
        (0..3).for_each(|_| consul.say(403, denied));
    }
    consul.set(PATH, "one", 7);
    let (cell, _poll) = start(&consul);
    until(&cell, "one").await;
    assert!(logged.warnings("no connection to Consul") >= 1, "that of the agent now and then");
    assert_eq!(logged.warnings("needs service:read and node:read"), 1);
    assert_eq!(logged.warnings("without X-Consul-Index"), 1);
    sleep(1).await;
    consul.interrupt(Step::Reply(403, Vec::new(), denied.to_owned()));
    sleep(10).await;
    assert_eq!(logged.warnings("needs service:read and node:read"), 2, "a streak of its own");
}

#[tokio::test(start_paused = true)]
async fn a_text_that_cannot_be_read_is_logged_when_it_comes_and_not_again() {
    let (logged, _guard) = Logged::start();
    let consul = FakeConsul::default();
    consul.set(PATH, "bad", 7);
    let (cell, _poll) = start(&consul);
    sleep(3_600).await;
    assert_eq!(logged.warnings("line 1 is wrong"), 1);
    consul.set(PATH, "good", 8);
    until(&cell, "good").await;
    consul.set(PATH, "bad", 9);
    sleep(3_600).await;
    assert_eq!(logged.warnings("line 1 is wrong"), 2);
}

/// Panics once.
struct Brittle {
    cell: Value,
    broke: AtomicBool,
}

impl Sink<String> for Brittle {
    fn publish(&self, value: String) -> bool {
        assert!(value != "two" || self.broke.swap(true, Ordering::SeqCst), "a defect");
        self.cell.publish(value)
    }

    fn fail(&self, reason: Reason) {
        self.cell.fail(reason);
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_whoever_takes_the_answers_is_one_more_failure_of_the_watch() {
    let consul = FakeConsul::default();
    consul.set(PATH, "one", 7);
    let cell = Cell::new();
    let sink = Brittle { cell: cell.clone(), broke: AtomicBool::new(false) };
    let counters = PollCounters::default();
    let _poll = Poll::start(&consul.agent(), query(), sink, counters.clone());
    until(&cell, "one").await;
    consul.set(PATH, "two", 8);
    assert!(until(&cell, "two").await < Duration::from_secs(5));
    assert_eq!((counters.errors.get(), stale(&cell)), (1, None));
    consul.set(PATH, "three", 9);
    until(&cell, "three").await;
}

/// While watches take turns nearly every answer is one that is known.
#[tokio::test(start_paused = true)]
async fn an_answer_like_the_last_one_is_not_read_again() {
    let consul = FakeConsul::default();
    (0..60).for_each(|_| consul.script(Step::indexed(7, "one")));
    consul.set(PATH, "two", 7);
    let reads = Arc::new(AtomicUsize::new(0));
    let counted = reads.clone();
    let decode = move |answer: &Answer, body: &[u8]| {
        counted.fetch_add(1, Ordering::SeqCst);
        text(answer, body)
    };
    let cell = Cell::new();
    let query = Query::new(Request::get(PATH), Rhythm::Blocking(WAIT), decode);
    let _poll = Poll::start(&consul.agent(), query, cell.clone(), PollCounters::default());
    sleep(50).await;
    assert_eq!((value(&cell).as_str(), reads.load(Ordering::SeqCst)), ("one", 1));
    // The index alone says little: that of a list of keys stays the same when the list does not.
    until(&cell, "two").await;
    consul.interrupt(Step::Refuse);
    sleep(1).await;
    consul.set(PATH, "two", 7);
    sleep(10).await;
    assert_eq!(stale(&cell), None, "after a failure it is good again");
}
