//! Stories about formulas over cells.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::store::{Key, Mailbox, Observer, Policy, Table, Unanswered, Wait, Watch};

/// The sum of two cells; pending while the first one is, failed when the second one is negative.
struct Sum {
    a: Arc<Cell<i64>>,
    b: Arc<Cell<i64>>,
    runs: Arc<AtomicUsize>,
}

impl Formula for Sum {
    type Value = i64;

    fn compute(&self, run: &mut Run<'_>) -> Reading<i64> {
        self.runs.fetch_add(1, Ordering::SeqCst);
        run.read(&self.a, ()).reading(Duration::ZERO).and_then(|a| {
            run.read(&self.b, ()).reading(Duration::ZERO).and_then(|b| match *b {
                13 => panic!("unlucky"),
                b if b < 0 => Reading::Failed("negative".into()),
                b => Reading::Ready(*a + b),
            })
        })
    }
}

type Sums = Table<(), Derived<Sum>>;

fn sums(a: &Arc<Cell<i64>>, b: &Arc<Cell<i64>>, runs: &Arc<AtomicUsize>) -> (Sums, Watch<i64>) {
    let evaluators = Evaluators::start(1);
    let (a, b, runs) = (a.clone(), b.clone(), runs.clone());
    let table = Table::new("sums", Policy::default(), move |(), client| {
        Derived::new(&evaluators, client, Sum { a: a.clone(), b: b.clone(), runs: runs.clone() })
    });
    let observer: Observer<_> = table.observe(Client::INTERNAL, &()).expect("room");
    (table, observer.into())
}

fn value(watch: &Watch<i64>) -> Option<i64> {
    watch.current().value().map(|value| **value)
}

#[tokio::test]
async fn a_read_right_after_a_write_sees_it() {
    let (a, b, runs) = (Cell::ready(1), Cell::ready(2), Arc::default());
    let (_table, sum) = sums(&a, &b, &runs);
    assert_eq!(value(&sum), Some(3));
    a.publish(10);
    assert_eq!(value(&sum), Some(12));
    assert_eq!(value(&sum), Some(12));
    assert_eq!(runs.load(Ordering::SeqCst), 2, "nothing changed, nothing runs");
}

#[tokio::test]
async fn a_watcher_is_told_without_asking() {
    let (a, b, runs) = (Cell::ready(1), Cell::ready(2), Arc::default());
    let (_table, sum) = sums(&a, &b, &runs);
    let mailbox = Mailbox::new();
    let (_, _subscription) = sum.subscribe(&mailbox, Key(5));
    b.publish(5);
    tokio::time::timeout(Duration::from_secs(5), mailbox.marked()).await.expect("told");
    assert_eq!(value(&sum), Some(6));
}

#[tokio::test]
async fn an_equal_result_wakes_nobody() {
    let (a, b, runs) = (Cell::ready(1), Cell::ready(2), Arc::default());
    let (_table, sum) = sums(&a, &b, &runs);
    let before = sum.current_version();
    a.publish(2);
    b.publish(1);
    assert_eq!(sum.current_version(), before);
}

#[tokio::test]
async fn a_failure_after_a_good_value_shows_to_one_shot_readers_only() {
    let (a, b, runs) = (Cell::ready(1), Cell::ready(2), Arc::default());
    let (_table, sum) = sums(&a, &b, &runs);
    assert_eq!(value(&sum), Some(3));
    b.publish(-1);
    assert_eq!(value(&sum), Some(3), "watchers keep the last good value");
    assert_eq!(sum.answer(Duration::from_secs(1)).await, Err(Unanswered::Failed("negative".into())));
    b.publish(4);
    assert_eq!(sum.answer(Duration::from_secs(1)).await.map(|(value, _)| *value), Ok(5));
}

#[tokio::test(start_paused = true)]
async fn a_one_shot_reader_waits_for_the_first_value_and_no_longer_than_its_limit() {
    let (a, b, runs) = (Cell::new(), Cell::ready(2), Arc::default());
    let (_table, sum) = sums(&a, &b, &runs);
    a.fail("connection refused");
    let refused = sum.answer(Duration::from_secs(30)).await.expect_err("nothing yet");
    assert_eq!(refused.to_string(), "no answer within 30 s: connection refused");
    let writer = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(3)).await;
        a.publish(40);
    });
    assert_eq!(sum.answer(Duration::from_secs(30)).await.map(|(value, _)| *value), Ok(42));
    writer.await.expect("writer");
}

#[tokio::test(start_paused = true)]
async fn a_panicking_formula_fails_its_own_cell_and_nothing_else() {
    let (a, b, runs) = (Cell::ready(1), Cell::ready(13), Arc::default());
    let (_table, sum) = sums(&a, &b, &runs);
    let failed = sum.answer(Duration::from_secs(1)).await.expect_err("panicked");
    assert!(failed.to_string().contains("panicked"), "{failed}");
    b.publish(1);
    assert_eq!(sum.answer(Duration::from_secs(1)).await.map(|(value, _)| *value), Ok(2));
}

#[tokio::test(start_paused = true)]
async fn a_formula_that_worked_before_it_panicked_is_not_stuck_with_its_last_value() {
    let (a, b, runs) = (Cell::ready(1), Cell::ready(2), Arc::default());
    let (_table, sum) = sums(&a, &b, &runs);
    assert_eq!(value(&sum), Some(3));
    let mailbox = Mailbox::new();
    let (_, _subscription) = sum.subscribe(&mailbox, Key(5));
    b.publish(13);
    assert_eq!(value(&sum), Some(3), "watchers keep the last good value");
    b.publish(1);
    // Nobody asks: the watcher is told all the same.
    tokio::time::timeout(RETRY_AFTER_PANIC * 2, mailbox.marked()).await.expect("told");
    assert_eq!(value(&sum), Some(2));
}

/// Becomes ready by the clock alone.
struct Ripe(tokio::time::Instant);

impl Formula for Ripe {
    type Value = &'static str;

    fn compute(&self, run: &mut Run<'_>) -> Reading<&'static str> {
        if run.now() >= self.0 {
            return Reading::Ready("ripe");
        }
        run.again_at(self.0);
        Reading::Pending(Wait::default())
    }
}

#[tokio::test(start_paused = true)]
async fn a_formula_is_run_again_when_it_asked_to_be() {
    let evaluators = Evaluators::start(2);
    let when = Instant::now() + Duration::from_secs(2);
    let table: Table<(), Derived<Ripe>> =
        Table::new("ripe", Policy::default(), move |(), client| Derived::new(&evaluators, client, Ripe(when)));
    let ripe: Watch<_> = table.observe(Client::INTERNAL, &()).expect("room").into();
    assert_eq!(ripe.answer(Duration::from_secs(10)).await.map(|(value, _)| *value), Ok("ripe"));
    assert_eq!(Instant::now(), when);
}

#[tokio::test(start_paused = true)]
async fn a_source_dropped_by_the_formula_is_released_and_a_kept_one_never_is() {
    struct Either(Arc<Cell<bool>>, Table<u8, Arc<Cell<i64>>>);
    impl Formula for Either {
        type Value = i64;
        fn compute(&self, run: &mut Run<'_>) -> Reading<i64> {
            run.read(&self.0, ()).reading(Duration::ZERO).and_then(|first| {
                let _ = run.observe(&self.1, &0, |cell| cell);
                match run.observe(&self.1, &if *first { 1 } else { 2 }, |cell| cell) {
                    Ok(snapshot) => snapshot.reading(Duration::ZERO).map(|value| *value),
                    Err(reason) => Reading::Failed(reason),
                }
            })
        }
    }
    let sources: Table<u8, Arc<Cell<i64>>> =
        Table::new("sources", Policy::default(), |key, _| Cell::ready(i64::from(*key)));
    let first = Cell::ready(true);
    let evaluators = Evaluators::start(1);
    let (choice, table) = (first.clone(), sources.clone());
    let either = Derived::new(&evaluators, Client::INTERNAL, Either(choice, table));
    either.refresh();
    let subscribers = |key: u8| sources.observe(Client::INTERNAL, &key).expect("room").subscribers();
    assert_eq!((subscribers(0), subscribers(1), subscribers(2)), (1, 1, 0));
    first.publish(false);
    either.refresh();
    assert_eq!((subscribers(0), subscribers(1), subscribers(2)), (1, 0, 1));
}

#[tokio::test]
async fn a_formula_over_thousands_of_cells_follows_each_and_lets_go_of_what_it_no_longer_reads() {
    struct Total(Vec<Arc<Cell<i64>>>, Arc<Cell<usize>>);
    impl Formula for Total {
        type Value = i64;
        fn compute(&self, run: &mut Run<'_>) -> Reading<i64> {
            let mut total = 0;
            let first = run.read(&self.1, ()).value().map_or(0, |first| **first);
            for cell in self.0[first..].iter().chain(&self.0[first..]) {
                total += run.read(cell, ()).value().map_or(0, |value| **value);
            }
            Reading::Ready(total)
        }
    }
    let cells: Vec<_> = (0..2000).map(|_| Cell::ready(1)).collect();
    let first = Cell::ready(0);
    let evaluators = Evaluators::start(1);
    let total = Derived::new(&evaluators, Client::INTERNAL, Total(cells.clone(), first.clone()));
    let now = || {
        total.refresh();
        total.cell().snapshot().value().map(|total| **total)
    };
    assert_eq!(now(), Some(4000));
    for at in [0, 17, 1999] {
        cells[at].publish(11);
    }
    assert_eq!(now(), Some(4060));
    assert!(cells.iter().all(|cell| cell.subscribers() == 1), "each is subscribed once");
    first.publish(1500);
    assert_eq!(now(), Some(1020));
    assert!(cells[..1500].iter().all(|cell| cell.subscribers() == 0));
    assert!(cells[1500..].iter().all(|cell| cell.subscribers() == 1));
}
