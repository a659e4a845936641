//! Indexes that go back, states that are lost, and servers that lag behind.

use super::*;

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
