//! Stories about values, failures and those who watch.

use super::*;

fn taken(mailbox: &Mailbox) -> Vec<Key> {
    let mut keys = Vec::new();
    mailbox.take_marked(&mut keys);
    keys
}

#[tokio::test]
async fn an_equal_value_keeps_the_version_and_wakes_nobody() {
    let cell = Cell::new();
    let mailbox = Mailbox::new();
    assert!(cell.publish("a"));
    let (before, _subscription) = cell.subscribe(&mailbox, Key(1));
    assert!(!cell.publish("a"));
    assert_eq!(cell.snapshot().version, before.version);
    assert!(taken(&mailbox).is_empty());
    assert!(cell.publish("b"));
    assert!(cell.snapshot().version > before.version);
    assert_eq!(taken(&mailbox), [Key(1)]);
}

#[tokio::test]
async fn failure_never_erases_a_value() {
    let cell = Cell::new();
    cell.publish("good");
    let mailbox = Mailbox::new();
    let (before, _subscription) = cell.subscribe(&mailbox, Key(1));
    cell.fail("backend gone");
    cell.fail("backend still gone");
    let after = cell.snapshot();
    assert_eq!(after.value().map(|value| **value), Some("good"));
    assert_eq!(after.version, before.version);
    assert!(matches!(&after.standing, Standing::Stale { reason, .. } if &**reason == "backend still gone"));
    assert!(taken(&mailbox).is_empty(), "staleness wakes nobody");
    cell.publish("good");
    assert_eq!(cell.snapshot().standing, Standing::Current);
}

#[tokio::test(start_paused = true)]
async fn stale_since_tells_when_the_streak_of_failures_began() {
    let cell = Cell::new();
    cell.publish(1);
    cell.fail("one");
    let began = Instant::now();
    tokio::time::advance(std::time::Duration::from_secs(5)).await;
    cell.fail("two");
    assert!(matches!(cell.snapshot().standing, Standing::Stale { since, .. } if since == began));
}

#[tokio::test]
async fn a_cell_without_a_value_fails_and_recovers() {
    let cell = Cell::new();
    let mailbox = Mailbox::new();
    let (_, _subscription) = cell.subscribe(&mailbox, Key(1));
    cell.fail("refused");
    assert!(matches!(cell.snapshot().state, State::Failed(reason) if &*reason == "refused"));
    assert_eq!(taken(&mailbox), [Key(1)]);
    cell.suspend(None);
    assert!(matches!(cell.snapshot().state, State::Pending));
    cell.publish(3);
    assert_eq!(cell.snapshot().value().map(|value| **value), Some(3));
}

#[tokio::test]
async fn a_one_shot_reader_hears_of_a_lost_source_and_a_watcher_does_not() {
    let cell = Cell::new();
    cell.publish(1);
    let (watcher, one_shot) = (Mailbox::new(), Mailbox::new());
    let (_, _far) = cell.subscribe(&watcher, Key(1));
    let (_, _close) = cell.subscribe_closely(&one_shot, Key(1));
    cell.suspend(Some("no answer yet".into()));
    assert!(taken(&watcher).is_empty());
    assert_eq!(taken(&one_shot), [Key(1)]);
}

#[tokio::test]
async fn a_cell_made_anew_repeats_no_version() {
    let first = Cell::ready(1);
    let seen = first.version();
    drop(first);
    assert!(Cell::ready(1).version() > seen);
}

#[tokio::test]
async fn a_dropped_subscription_is_forgotten() {
    let cell = Cell::new();
    let mailbox = Mailbox::new();
    let (_, subscription) = cell.subscribe(&mailbox, Key(1));
    drop(subscription);
    cell.publish(1);
    assert!(taken(&mailbox).is_empty());
    assert_eq!(cell.subscribers(), 0);
}

/// The writer publishes while the reader subscribes: whatever the order, the reader has the last value either in
/// its snapshot or behind a mark.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_value_is_missed_between_subscribe_and_publish() {
    for round in 0..2000 {
        let cell = Cell::new();
        cell.publish(0);
        let writer = {
            let cell = cell.clone();
            std::thread::spawn(move || cell.publish(round + 1))
        };
        let mailbox = Mailbox::new();
        let (snapshot, _subscription) = cell.subscribe(&mailbox, Key(0));
        writer.join().expect("writer");
        let seen = snapshot.value().map(|value| **value);
        assert!(seen == Some(round + 1) || taken(&mailbox) == [Key(0)], "round {round}: saw {seen:?}, no mark");
    }
}

#[tokio::test]
async fn a_slow_reader_sees_only_the_newest() {
    let cell = Cell::new();
    let mailbox = Mailbox::new();
    let (_, _subscription) = cell.subscribe(&mailbox, Key(9));
    for value in 0..10_000 {
        cell.publish(value);
    }
    assert_eq!(taken(&mailbox), [Key(9)]);
    assert_eq!(cell.snapshot().value().map(|value| **value), Some(9_999));
}
