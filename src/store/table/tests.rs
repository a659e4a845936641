//! Stories about entries: who starts them, how long they live, who is refused.

use std::sync::atomic::AtomicBool;

use super::*;

type Starts = Arc<AtomicUsize>;

/// A table of numbers whose writers are counted when they start and stop.
fn table(policy: Policy) -> (Table<u32, Writer>, Starts, Starts) {
    let (started, stopped) = (Starts::default(), Starts::default());
    let (on_start, on_stop) = (started.clone(), stopped.clone());
    let table = Table::new("numbers", policy, move |_, _| {
        on_start.fetch_add(1, Ordering::SeqCst);
        Writer(on_stop.clone())
    });
    (table, started, stopped)
}

#[derive(Debug)]
struct Writer(Starts);

impl Drop for Writer {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn client(n: u8) -> Client {
    Client(IpAddr::V4(Ipv4Addr::new(192, 0, 2, n)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_concurrent_first_lookups_start_one_writer() {
    let (table, started, _) = table(Policy::default());
    let lookups: Vec<_> = (0..1000)
        .map(|_| {
            let table = table.clone();
            tokio::spawn(async move { table.observe(client(1), &7).expect("room") })
        })
        .collect();
    for lookup in lookups {
        lookup.await.expect("look-up");
    }
    assert_eq!(started.load(Ordering::SeqCst), 1);
    assert_eq!(table.usage().len, 1);
}

#[tokio::test(start_paused = true)]
async fn an_entry_without_observers_goes_after_its_idle_time_and_not_before() {
    let (table, started, stopped) = table(Policy { idle: Duration::from_secs(600), ..Policy::default() });
    drop(table.observe(client(1), &7).expect("room"));
    tokio::time::sleep(Duration::from_secs(590)).await;
    assert_eq!(stopped.load(Ordering::SeqCst), 0);
    drop(table.observe(client(1), &7).expect("still there"));
    tokio::time::sleep(Duration::from_secs(590)).await;
    assert_eq!((started.load(Ordering::SeqCst), stopped.load(Ordering::SeqCst)), (1, 0));
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(stopped.load(Ordering::SeqCst), 1);
    assert_eq!(table.usage().len, 0);
}

#[tokio::test(start_paused = true)]
async fn an_observed_entry_stays_for_ever() {
    let (table, _, stopped) = table(Policy::default());
    let first = table.observe(client(1), &7).expect("room");
    let second = first.clone();
    drop(first);
    tokio::time::sleep(Duration::from_secs(100_000)).await;
    assert_eq!(stopped.load(Ordering::SeqCst), 0);
    drop(second);
}

#[tokio::test(start_paused = true)]
async fn a_one_shot_look_up_idles_briefly() {
    let (table, _, stopped) = table(Policy::default());
    drop(table.observe_for(client(1), &7, Duration::from_secs(10)).expect("room"));
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(stopped.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn over_budget_idle_entries_go_first_and_fresh_ones_are_protected() {
    let policy = Policy { budget: 64, ..Policy::default() };
    let (table, _, stopped) = table(policy);
    for key in 0..64 {
        drop(table.observe(client(1), &key).expect("room"));
    }
    table.observe(client(1), &1000).expect_err("all were asked for just now");
    tokio::time::sleep(Duration::from_secs(61)).await;
    table.observe(client(1), &1000).expect("idle entries make room");
    assert!(stopped.load(Ordering::SeqCst) > 0);
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_had_anew_stays_while_there_is_room_and_goes_last() {
    static LOST: AtomicBool = AtomicBool::new(true);
    let policy = Policy { budget: 64, ..Policy::default() };
    let keep = |key: &u32| *key < 32 && LOST.load(Ordering::SeqCst);
    let table = Table::keeping("numbers", policy, |_| 1, keep, |key: &u32, _| *key);
    for key in 0..48 {
        drop(table.observe(client(1), &key).expect("room"));
    }
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert_eq!(table.usage().len, 32);
    for key in 100..132 {
        drop(table.observe(client(1), &key).expect("room"));
    }
    tokio::time::sleep(Duration::from_secs(61)).await;
    let mut held: Vec<_> = (200..216).map(|key| table.observe(client(1), &key).expect("others go first")).collect();
    assert!((0..32).all(|key| table.get(&key).is_some()));
    tokio::time::sleep(Duration::from_secs(61)).await;
    held.extend((300..340).map(|key| table.observe(client(1), &key).expect("and then these")));
    assert!(table.usage().len <= 64 && (0..32).any(|key| table.get(&key).is_none()), "{:?}", table.usage());
    LOST.store(false, Ordering::SeqCst);
    drop(held);
    tokio::time::sleep(Duration::from_secs(610)).await;
    assert_eq!(table.usage().len, 0, "once they can be had anew they go as others do");
}

#[tokio::test]
async fn the_greediest_client_is_refused_and_a_modest_one_is_not() {
    let (table, ..) = table(Policy { budget: 64, ..Policy::default() });
    let mut held = Vec::new();
    for key in 0..64 {
        held.push(table.observe(client(1), &key).expect("room"));
    }
    let refused = table.observe(client(1), &100).expect_err("full");
    assert_eq!((refused.share, refused.len, refused.budget), (64, 64, 64));
    assert!(refused.to_string().contains("192.0.2.1"), "{refused}");
    held.push(table.observe(client(2), &200).expect("a modest client gets in"));
    for key in 300..400 {
        if let Ok(observer) = table.observe(client(3), &key) {
            held.push(observer);
        }
    }
    assert!(table.usage().len <= 64 + 64 / 8, "bounded whoever asks: {:?}", table.usage());
    assert!(table.usage().refused > 0);
}

#[tokio::test(start_paused = true)]
async fn entries_in_use_have_a_budget_of_their_own_and_are_on_the_account_of_who_came_first() {
    let (table, ..) = table(Policy { in_use: 8, ..Policy::default() });
    for key in 0..100 {
        drop(table.observe(client(1), &key).expect("what is left behind does not count"));
    }
    let mut held: Vec<_> = (0..7).map(|key| table.observe(client(1), &key).expect("room")).collect();
    held.push(table.observe(client(2), &200).expect("room"));
    assert_eq!((table.usage().in_use, table.usage().len), (8, 101));
    let refused = table.observe(client(1), &7).expect_err("an idle entry is not in use yet");
    assert_eq!((refused.share, refused.len, refused.budget), (7, 8, 8));
    table.observe(client(1), &300).expect_err("nor is a new one");
    held.push(table.observe(client(1), &200).expect("what is in use already"));
    held.push(table.observe(client(2), &7).expect("a modest client"));
    assert_eq!((table.usage().in_use, table.usage().refused), (9, 2));
    held.drain(..7);
    assert_eq!(table.usage().in_use, 2);
    held.push(table.observe(client(1), &300).expect("room again"));
    drop(held);
    assert_eq!(table.usage().in_use, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn entries_that_come_and_go_at_once_are_counted_right() {
    let (table, ..) = table(Policy { in_use: 1_000, ..Policy::default() });
    let tasks: Vec<_> = (0..8)
        .map(|n| {
            let table = table.clone();
            tokio::spawn(async move {
                for round in 0..10_000_u32 {
                    let first = table.observe(client(n), &(round % 3)).expect("room");
                    let second = first.clone();
                    drop((first, second));
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("no panic");
    }
    assert_eq!(table.usage().in_use, 0);
    table.inner.in_use.take(client(1), 1_000).expect("all of it is free");
    table.inner.in_use.take(client(1), 1).expect_err("and no more");
}

#[tokio::test(start_paused = true)]
async fn heavy_entries_count_as_several_and_give_all_of_it_back() {
    let policy = Policy { budget: 64, protect: Duration::ZERO, ..Policy::default() };
    let table = Table::weighed("texts", policy, |key: &String| key.len() / 16, |_, _| ());
    let long = "x".repeat(16 * 40);
    let held = table.observe(client(1), &long).expect("room");
    let second = table.observe(client(1), &"y".repeat(16 * 40)).expect("the last one may go over");
    assert_eq!(table.usage().len, 80);
    table.observe(client(1), &"z".to_owned()).expect_err("full");
    drop((held, second));
    tokio::time::sleep(BARREN).await;
    drop(table.observe(client(1), &"z".to_owned()).expect("what is not in use goes"));
    assert!(table.usage().len <= 41, "{:?}", table.usage());
}

#[tokio::test(start_paused = true)]
async fn who_is_refused_again_and_again_does_not_cost_a_walk_through_everything() {
    let (table, ..) = table(Policy { budget: 1000, ..Policy::default() });
    let held: Vec<_> = (0..1000).map(|key| table.observe(client(1), &key).expect("room")).collect();
    table.observe(client(1), &2000).expect_err("full");
    drop(held);
    tokio::time::sleep(Duration::from_millis(100)).await;
    table.observe(client(1), &2000).expect_err("it was looked through a moment ago");
    tokio::time::sleep(Duration::from_secs(61)).await;
    table.observe(client(1), &2000).expect("room");
}
