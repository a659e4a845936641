use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::*;
use crate::consul::Consistency;
use crate::consul::testing::{FakeConsul, Step};
use crate::store::{Cell, Key, Mailbox, Reason, Standing, State};

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

#[tokio::test(start_paused = true)]
async fn an_index_that_goes_back_is_read_again_without_one_before_anything_is_published() {
    let consul = FakeConsul::default();
    consul.set(PATH, "one", 900);
    let (cell, _poll) = start(&consul);
    until(&cell, "one").await;
    sleep(1).await;
    // The poll under way ends with an answer of an unknown time.
    consul.interrupt(Step::indexed(12, "in between"));
    tokio::task::yield_now().await;
    consul.set(PATH, "two", 12);
    sleep(2).await;
    assert_eq!(value(&cell), "two");
    let indexes: Vec<bool> = consul.log().iter().map(|(target, _)| target.contains("index=")).collect();
    assert_eq!(indexes[..3], [false, true, false], "{:?}", consul.log());
    assert_eq!(consul.last(), format!("{PATH}?index=12&wait=5s"));
}

#[tokio::test(start_paused = true)]
async fn a_restarted_consul_is_asked_without_index_whatever_went_wrong() {
    for wrong in [
        Step::Refuse,
        Step::Reply(500, vec![("x-consul-index", "1".to_owned())], "No cluster leader".to_owned()),
        Step::Reply(403, Vec::new(), "ACL not found".to_owned()),
        Step::Reply(429, Vec::new(), String::new()),
        Step::Reply(301, vec![("location", "/elsewhere".to_owned())], String::new()),
        Step::Reply(200, Vec::new(), "no index".to_owned()),
        Step::indexed(0, "one"),
        Step::indexed(99, "<html>"),
        Step::indexed(99, "panic"),
        Step::indexed(99, "filtered"),
        Step::Reply(404, Vec::new(), "Invalid URL path".to_owned()),
    ] {
        let consul = FakeConsul::default();
        consul.set(PATH, "one", 7);
        let (cell, _poll) = start(&consul);
        until(&cell, "one").await;
        consul.script(wrong.clone());
        sleep(1).await;
        assert_eq!(value(&cell), "one", "{wrong:?}");
        consul.set(PATH, "two", 3);
        assert!(until(&cell, "two").await < Duration::from_secs(2), "{wrong:?}");
        assert_eq!(stale(&cell), None, "{wrong:?}");
        let log = consul.log();
        assert!(log[1].0.contains("index=7") && !log[2].0.contains("index="), "{wrong:?}: {log:?}");
    }
}

/// The rest after much change is long enough for that.
#[tokio::test(start_paused = true)]
async fn a_state_that_is_lost_while_nothing_is_asked_is_seen_soon() {
    let consul = FakeConsul::default();
    consul.set(PATH, "one", 900);
    let (cell, _poll) = start(&consul);
    until(&cell, "one").await;
    for n in 901..=905 {
        consul.set(PATH, &n.to_string(), n);
        until(&cell, &n.to_string()).await;
    }
    let asked = consul.log().len();
    consul.set(PATH, "lost", 12);
    let late = until(&cell, "lost").await;
    assert!(late < Duration::from_secs(8), "{late:?}");
    assert_eq!(consul.log()[asked].0, format!("{PATH}?index=905&wait=5s"));
    // Once that is over there is nothing to be afraid of.
    sleep(20).await;
    assert_eq!(consul.last(), format!("{PATH}?index=12&wait=5m"));
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
async fn an_early_answer_under_the_same_index_is_followed_by_a_read_without_one() {
    // As recorded: a restored snapshot wakes a poll with the old value and index, and a poll that goes on from there
    // is held for its whole wait although the key is gone.
    let consul = FakeConsul::default();
    consul.set(PATH, "old", 593);
    let (cell, _poll) = start(&consul);
    until(&cell, "old").await;
    sleep(3).await;
    consul.interrupt(Step::indexed(593, "old"));
    tokio::task::yield_now().await;
    consul.set(PATH, "gone", 582);
    assert!(until(&cell, "gone").await < Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn an_empty_list_of_a_server_without_leader_is_confirmed_before_it_is_believed() {
    struct Careful(Value);
    impl Sink<String> for Careful {
        fn publish(&self, value: String) -> bool {
            self.0.publish(value)
        }
        fn fail(&self, reason: Reason) {
            self.0.fail(reason);
        }
        fn is_nothing(&self, value: &String) -> bool {
            value.is_empty()
        }
    }
    let consul = FakeConsul::default();
    consul.set(PATH, "one", 7);
    let cell = Cell::new();
    let _poll = Poll::start(&consul.agent(), query(), Careful(cell.clone()), PollCounters::default());
    until(&cell, "one").await;
    let headers = vec![("x-consul-index", "8".to_owned()), ("x-consul-knownleader", "false".to_owned())];
    consul.script(Step::Reply(200, headers, String::new()));
    consul.say(500, "No cluster leader");
    sleep(3).await;
    assert_eq!(value(&cell), "one");
    assert!(consul.log().iter().any(|(target, _)| target == &format!("{PATH}?consistent=true")), "{:?}", consul.log());
    consul.set(PATH, "", 9);
    until(&cell, "").await;
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
async fn an_offered_answer_is_seen_at_once_and_an_older_one_is_not_taken() {
    let consul = FakeConsul::default();
    consul.set(PATH, "one", 7);
    let (agent, (cell, poll)) = (consul.agent(), start(&consul));
    until(&cell, "one").await;
    let read = async |body: &str, index: u64| {
        consul.script(Step::indexed(index, body));
        agent.once(&Request::get(PATH), Duration::from_secs(1)).await.expect("scripted")
    };
    sleep(1).await;
    let before = poll.given();
    let (newer, older) = (read("three", 9).await, read("two", 8).await);
    assert_eq!(poll.offer(newer, before).await, Ok(Offered::Taken));
    assert_eq!(value(&cell), "three");
    assert_eq!(poll.offer(older, before).await, Ok(Offered::Overtaken));
    assert_eq!(value(&cell), "three");
    // What the loop was told before that is older, too.
    consul.set(PATH, "two", 8);
    sleep(1).await;
    assert_eq!(value(&cell), "three");
    consul.set(PATH, "four", 10);
    until(&cell, "four").await;
}

/// What a restored snapshot does: the poll that is held is woken with what was there before.
#[tokio::test(start_paused = true)]
async fn a_newer_answer_with_a_lower_index_is_taken_and_what_the_loop_hears_of_before_changes_nothing() {
    let consul = FakeConsul::default();
    consul.set(PATH, "one", 9);
    let (agent, (cell, poll)) = (consul.agent(), start(&consul));
    until(&cell, "one").await;
    sleep(1).await;
    let before = poll.given();
    consul.script(Step::indexed(4, "restored"));
    let read = agent.once(&Request::get(PATH), Duration::from_secs(1)).await.expect("scripted");
    assert_eq!(poll.offer(read, before).await, Ok(Offered::Taken));
    assert_eq!(value(&cell), "restored");
    let seen = cell.version();
    consul.interrupt(Step::indexed(9, "one"));
    consul.set(PATH, "restored", 4);
    sleep(1).await;
    assert_eq!(cell.version(), seen);
    consul.set(PATH, "two", 5);
    until(&cell, "two").await;
}

/// After a loss whichever server answers may be one that has not heard of what readers have already.
#[tokio::test(start_paused = true)]
async fn who_is_content_with_any_state_is_not_led_back_by_a_server_that_lags_behind() {
    let consul = FakeConsul::default();
    consul.set(PATH, "new", 9);
    let (cell, query) = (Cell::new(), Query { request: Request::get(PATH).consistency(Consistency::Stale), ..query() });
    let _poll = Poll::start(&consul.agent(), query, cell.clone(), PollCounters::default());
    until(&cell, "new").await;
    sleep(1).await;
    let seen = cell.version();
    for step in [Step::indexed(7, "old"), Step::Reply(500, Vec::new(), "No cluster leader".to_owned())] {
        consul.script(step);
    }
    consul.interrupt(Step::Refuse);
    sleep(10).await;
    assert_eq!((value(&cell), cell.version(), stale(&cell)), ("new".to_owned(), seen, None));
    let log: Vec<String> = consul.log().into_iter().map(|(target, _)| target).skip(2).collect();
    let asked = ["?stale=true", "?consistent=true", "?stale=true", "?stale=true&index=9&wait=5s"];
    assert_eq!(log[..4], asked.map(|query| format!("{PATH}{query}")));
}

/// A server that was restarted answers as the leader before it has caught up with what was written.
#[tokio::test(start_paused = true)]
async fn after_a_loss_the_majority_is_asked_unless_any_state_will_do() {
    for (mode, before, after) in [
        (Consistency::Default, "", "?consistent=true"),
        (Consistency::Stale, "?stale=true", "?stale=true"),
        (Consistency::Consistent, "?consistent=true", "?consistent=true"),
    ] {
        let consul = FakeConsul::default();
        consul.set(PATH, "one", 7);
        let (cell, query) = (Cell::new(), Query { request: Request::get(PATH).consistency(mode), ..query() });
        let _poll = Poll::start(&consul.agent(), query, cell.clone(), PollCounters::default());
        until(&cell, "one").await;
        sleep(1).await;
        consul.interrupt(Step::Refuse);
        sleep(3).await;
        let log: Vec<String> = consul.log().into_iter().map(|(target, _)| target).collect();
        let waits = |wait: &str| {
            let mark = if before.is_empty() { "?".to_owned() } else { format!("{before}&") };
            format!("{mark}index=7&wait={wait}")
        };
        // After a loss nothing is asked for a moment, in which it may be lost again.
        let queries = [before, &waits("5m"), after, &waits("5s")];
        assert_eq!(log, queries.map(|query| format!("{PATH}{query}")));
    }
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
async fn a_thousand_watches_share_few_connections_and_all_see_changes_in_bounded_time() {
    let consul = FakeConsul::default();
    let agent = consul.agent_with(20);
    let path = |n: usize| format!("/v1/catalog/service/s{n}");
    let watches: Vec<(Value, Poll<String>)> = (0..200)
        .map(|n| {
            consul.set(&path(n), "one", 7);
            let cell = Cell::new();
            let query = Query { request: Request::get(path(n)), ..query() };
            let poll = Poll::start(&agent, query, cell.clone(), PollCounters::default());
            (cell, poll)
        })
        .collect();
    for (cell, _) in &watches {
        assert!(until(cell, "one").await < Duration::from_secs(1), "first answers need no turn");
    }
    for round in ["two", "three", "four"] {
        sleep(60).await;
        (0..200).for_each(|n| consul.set(&path(n), round, 8 + round.len() as u64));
        let began = Instant::now();
        for (cell, _) in &watches {
            until(cell, round).await;
        }
        assert!(began.elapsed() < Duration::from_secs(25), "ten rounds of a second: {:?}", began.elapsed());
    }
    assert!(consul.most_open() <= 24, "{}", consul.most_open());
    let before = consul.log().len();
    sleep(60).await;
    assert!(consul.log().len() - before <= 60 * 24, "{}", consul.log().len() - before);
}

#[tokio::test(start_paused = true)]
async fn those_who_come_late_are_not_starved_by_long_polls() {
    let consul = FakeConsul::default();
    let agent = consul.agent_with(5);
    let watch = |n: usize| {
        let path = format!("/v1/catalog/service/s{n}");
        consul.set(&path, "one", 7);
        let cell = Cell::new();
        let query = Query { request: Request::get(path), ..query() };
        (cell.clone(), Poll::start(&agent, query, cell, PollCounters::default()))
    };
    let early: Vec<_> = (0..5).map(watch).collect();
    sleep(2).await;
    let (late, _poll) = watch(5);
    until(&late, "one").await;
    sleep(10).await;
    consul.set("/v1/catalog/service/s5", "two", 8);
    assert!(until(&late, "two").await < Duration::from_secs(6));
    drop(early);
}

#[tokio::test(start_paused = true)]
async fn one_success_tells_all_who_wait_that_the_agent_is_back() {
    let consul = FakeConsul::default();
    let agent = consul.agent();
    let watches: Vec<(Value, Poll<String>)> = (0..100)
        .map(|n| {
            let path = format!("/v1/catalog/service/s{n}");
            consul.set(&path, "one", 7);
            let cell = Cell::new();
            let query = Query { request: Request::get(path), ..query() };
            (cell.clone(), Poll::start(&agent, query, cell, PollCounters::default()))
        })
        .collect();
    for _ in 0..600 {
        consul.script(Step::Refuse);
    }
    let left = || watches.iter().filter(|(cell, _)| value(cell).is_empty()).count();
    while left() == watches.len() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    tokio::time::sleep(Duration::from_millis(1_000)).await;
    assert_eq!(left(), 0);
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
