use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::*;
use crate::consul::Consistency;
use crate::consul::testing::{FakeConsul, Step};
use crate::store::{Cell, Key, Mailbox, Reason, Standing, State};

mod crowd;
mod history;
mod streaks;

const PATH: &str = "/v1/catalog/service/web";

type Value = Arc<Cell<String>>;

fn query() -> Query<impl Fn(&Answer, &[u8]) -> Result<String, Undecoded> + Send + Sync + 'static> {
    Query::new(Request::get(PATH), Rhythm::Blocking(WAIT), text)
}

fn text(answer: &Answer, body: &[u8]) -> Result<String, Undecoded> {
    assert!(body != b"panic", "a defect");
    match std::str::from_utf8(body) {
        _ if !answer.found => Ok("missing".to_owned()),
        Ok("bad") => Err(Undecoded::Content("line 1 is wrong".to_owned())),
        Ok("filtered") => Err(Undecoded::Filtered),
        Ok(text) if text.starts_with('<') => Err(Undecoded::Unreadable("no JSON".to_owned())),
        Ok(text) => Ok(text.to_owned()),
        Err(error) => Err(Undecoded::Unreadable(error.to_string())),
    }
}

fn start(consul: &FakeConsul) -> (Value, Poll<String>) {
    let cell = Cell::new();
    let poll = Poll::start(&consul.agent(), query(), cell.clone(), PollCounters::default());
    (cell, poll)
}

/// Waits until readers see `wanted`; says how long that took.
async fn until(cell: &Value, wanted: &str) -> Duration {
    let (began, mailbox) = (Instant::now(), Mailbox::new());
    let (mut snapshot, _subscription) = cell.subscribe_closely(&mailbox, Key(0));
    let mut marked = Vec::new();
    let seen = async {
        while snapshot.value().is_none_or(|value| **value != wanted) {
            mailbox.marked().await;
            mailbox.take_marked(&mut marked);
            snapshot = cell.snapshot();
        }
    };
    tokio::time::timeout(Duration::from_secs(3_600), seen).await.unwrap_or_else(|_| panic!("{wanted} never came"));
    began.elapsed()
}

fn value(cell: &Value) -> String {
    cell.snapshot().value().map(|value| value.to_string()).unwrap_or_default()
}

fn stale(cell: &Value) -> Option<Reason> {
    match cell.snapshot().standing {
        Standing::Stale { reason, .. } => Some(reason),
        Standing::Current | Standing::Suspended { .. } => None,
    }
}

async fn sleep(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn the_first_request_has_no_index_and_the_next_one_waits_from_the_answers() {
    let consul = FakeConsul::default();
    consul.set(PATH, "one", 7);
    let (cell, _poll) = start(&consul);
    until(&cell, "one").await;
    sleep(1).await;
    let targets: Vec<String> = consul.log().into_iter().map(|(target, _)| target).collect();
    assert_eq!(targets, [PATH.to_owned(), format!("{PATH}?index=7&wait=5m")]);
    consul.set(PATH, "two", 9);
    assert!(until(&cell, "two").await < Duration::from_millis(200));
    sleep(1).await;
    assert_eq!(consul.last(), format!("{PATH}?index=9&wait=5m"));
}

#[tokio::test(start_paused = true)]
async fn an_idle_watch_asks_once_in_five_minutes_and_tells_nobody() {
    let consul = FakeConsul::default();
    consul.set(PATH, "one", 7);
    let (cell, _poll) = start(&consul);
    until(&cell, "one").await;
    let version = cell.version();
    sleep(3_590).await;
    assert_eq!((consul.log().len(), cell.version()), (1 + 12, version));
}

#[tokio::test(start_paused = true)]
async fn constant_change_is_followed_once_a_second() {
    let consul = FakeConsul::default();
    consul.set(PATH, "0", 1);
    let (cell, _poll) = start(&consul);
    until(&cell, "0").await;
    sleep(5).await;
    let before = consul.log().len();
    let mut slowest = Duration::ZERO;
    for n in 1..=200 {
        consul.set(PATH, &n.to_string(), n + 1);
        if n % 20 == 0 {
            slowest = slowest.max(until(&cell, &n.to_string()).await);
        } else {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    assert!(slowest < Duration::from_millis(1_200), "{slowest:?}");
    let (asked, seconds) = (consul.log().len() - before, 30);
    assert!(asked <= seconds + 2, "{asked} requests");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_wait_is_asked_once_a_second() {
    let consul = FakeConsul::default();
    for _ in 0..1_000 {
        consul.script(Step::indexed(7, "one"));
    }
    let (cell, _poll) = start(&consul);
    until(&cell, "one").await;
    sleep(60).await;
    assert!(consul.log().len() <= 63, "{} requests", consul.log().len());
}

/// As a machine that sleeps, or a process that is stopped: connections stay open and silent.
#[tokio::test(start_paused = true)]
async fn an_agent_that_is_paused_for_ten_minutes_takes_nothing_away_and_is_followed_when_it_goes_on() {
    let consul = FakeConsul::default();
    consul.set(PATH, "one", 7);
    let (cell, poll) = start(&consul);
    until(&cell, "one").await;
    sleep(10).await;
    let version = cell.version();
    consul.interrupt(Step::Hold);
    (0..1_000).for_each(|_| consul.script(Step::Hold));
    tokio::task::yield_now().await;
    let asked = consul.log().len();
    sleep(600).await;
    assert_eq!((value(&cell), cell.version()), ("one".to_owned(), version));
    let reason = stale(&cell).expect("the poll has a deadline");
    assert!(reason.contains("has not answered"), "{reason}");
    assert!(poll.journal().age() >= Duration::from_secs(600));
    let during = consul.log().len() - asked;
    assert!((5..=30).contains(&during), "neither given up nor asked in a loop: {during}");
    consul.forget_script();
    consul.set(PATH, "two", 9);
    let late = until(&cell, "two").await;
    assert!(late < PATIENCE + Duration::from_secs(5), "one more deadline and delay: {late:?}");
    assert!(stale(&cell).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_poll_that_is_never_answered_ends_after_its_deadline() {
    let consul = FakeConsul::default();
    consul.set(PATH, "one", 7);
    let (cell, _poll) = start(&consul);
    until(&cell, "one").await;
    consul.script(Step::Hold);
    sleep(300).await;
    consul.set(PATH, "two", 8);
    let late = until(&cell, "two").await;
    assert!(late < Duration::from_secs(30), "wait, a sixteenth of it, 5 s and a backoff: {late:?}");
}

#[tokio::test(start_paused = true)]
async fn an_outage_keeps_the_last_value_and_says_since_when_and_why() {
    let consul = FakeConsul::default();
    consul.set(PATH, "one", 7);
    let (cell, poll) = start(&consul);
    until(&cell, "one").await;
    for _ in 0..10 {
        consul.script(Step::Refuse);
    }
    sleep(10).await;
    let reason = stale(&cell).expect("it is stale");
    assert!(reason.contains("no connection to Consul at consul.test:8500 (Connection refused)"), "{reason}");
    assert!(poll.journal().age() >= Duration::from_secs(9));
    assert_eq!(value(&cell), "one");
    sleep(120).await;
    assert_eq!(stale(&cell), None);
}

#[tokio::test(start_paused = true)]
async fn what_never_had_a_value_says_why_and_gets_one_when_it_can() {
    let consul = FakeConsul::default();
    consul.say(403, "Permission denied: lacks permission 'service:read'");
    let (cell, _poll) = start(&consul);
    tokio::time::sleep(Duration::from_millis(10)).await;
    match cell.snapshot().state {
        State::Failed(reason) => assert!(reason.contains("needs service:read and node:read"), "{reason}"),
        state => panic!("{state:?}"),
    }
    consul.set(PATH, "one", 7);
    assert!(until(&cell, "one").await < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn failures_are_repeated_with_growing_delays_and_one_success_ends_that() {
    let consul = FakeConsul::default();
    for _ in 0..40 {
        consul.script(Step::Reply(500, Vec::new(), "rpc error".to_owned()));
    }
    consul.set(PATH, "one", 7);
    let (cell, _poll) = start(&consul);
    until(&cell, "one").await;
    let log = consul.log();
    let gaps: Vec<Duration> = log.windows(2).map(|pair| pair[1].1 - pair[0].1).collect();
    assert!(gaps.iter().all(|gap| *gap <= Duration::from_secs(5)), "{gaps:?}");
    assert!(gaps[30..].iter().sum::<Duration>() > Duration::from_secs(10), "{gaps:?}");
    consul.say(500, "rpc error");
    sleep(1).await;
    consul.set(PATH, "two", 8);
    assert!(until(&cell, "two").await < Duration::from_secs(2), "the streak began anew");
}

#[tokio::test(start_paused = true)]
async fn bad_content_keeps_the_last_good_value_and_is_waited_on_by_its_index() {
    let consul = FakeConsul::default();
    consul.set(PATH, "one", 7);
    let (cell, _poll) = start(&consul);
    until(&cell, "one").await;
    consul.set(PATH, "bad", 8);
    sleep(60).await;
    assert_eq!((value(&cell), stale(&cell).as_deref()), ("one".to_owned(), Some("line 1 is wrong")));
    assert_eq!(consul.last(), format!("{PATH}?index=8&wait=5m"), "asking again would not make it better");
    consul.set(PATH, "two", 9);
    until(&cell, "two").await;
    assert_eq!(stale(&cell), None);
}

#[tokio::test(start_paused = true)]
async fn a_missing_key_is_an_answer_with_an_index() {
    let consul = FakeConsul::default();
    consul.script(Step::Reply(404, vec![("x-consul-index", "5".to_owned())], String::new()));
    let (cell, _poll) = start(&consul);
    until(&cell, "missing").await;
    sleep(1).await;
    assert_eq!(consul.log()[1].0, format!("{PATH}?index=5&wait=5m"));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_watch_asks_no_more() {
    let consul = FakeConsul::default();
    consul.set(PATH, "one", 7);
    let counters = PollCounters::default();
    let cell = Cell::new();
    let poll = Poll::start(&consul.agent(), query(), cell.clone(), counters.clone());
    until(&cell, "one").await;
    sleep(1).await;
    drop(poll);
    consul.set(PATH, "two", 8);
    sleep(60).await;
    assert_eq!((consul.log().len(), value(&cell)), (2, "one".to_owned()));
    let counts = [&counters.opens, &counters.closes, &counters.errors, &counters.updates].map(Counter::get);
    assert_eq!(counts, [1, 1, 0, 1], "cancellation is no error");
}

#[tokio::test(start_paused = true)]
async fn what_has_no_index_is_read_again_after_a_time_and_when_the_agent_is_back() {
    let consul = FakeConsul::default();
    consul.say(200, "one");
    consul.script(Step::Refuse);
    consul.say(200, "two");
    consul.say(200, "three");
    let cell = Cell::new();
    let query = Query { rhythm: Rhythm::Every(Duration::from_secs(60)), ..query() };
    let agent = consul.agent();
    let _poll = Poll::start(&agent, query, cell.clone(), PollCounters::default());
    until(&cell, "one").await;
    let late = until(&cell, "two").await;
    assert!((Duration::from_secs(54)..Duration::from_secs(62)).contains(&late), "{late:?}");
    agent.turns().came_back();
    assert!(until(&cell, "three").await <= Duration::from_secs(2));
}
