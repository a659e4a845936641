//! Derived: a cell whose writer is a pure function over other cells.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::evaluator::{Evaluate, Evaluator};
use super::run::{Context, Dependencies};
use super::{Cell, Client, Evaluators, Reading, Run};

/// A run that panicked has lost track of what it read, so it is repeated after this time.
const RETRY_AFTER_PANIC: Duration = Duration::from_secs(30);

/// A pure function over cells.
pub trait Formula: Send + Sync + 'static {
    /// What it computes.
    type Value: PartialEq + Send + Sync + 'static;

    /// Computes the value from what `run` reads. Must not block, and must read through `run` only.
    fn compute(&self, run: &mut Run<'_>) -> Reading<Self::Value>;
}

/// A cell kept current by re-running its formula when anything that the last run read has changed.
///
/// It is not a task: its evaluator runs it after a change, and a reader that needs the present runs it at once with
/// [`Derived::refresh`]. The entry's own lock makes them one writer.
pub struct Derived<F: Formula> {
    node: Arc<Node<F>>,
}

struct Node<F: Formula> {
    formula: F,
    cell: Arc<Cell<F::Value>>,
    context: Context,
    dependencies: Mutex<Dependencies>,
    evaluator: Arc<Evaluator>,
}

// === impl Derived ===

impl<F: Formula> Derived<F> {
    /// A derived cell on behalf of `client`. Nothing runs until the first [`Derived::refresh`].
    pub fn new(evaluators: &Evaluators, client: Client, formula: F) -> Self {
        let evaluator = evaluators.pick();
        let node = Arc::new_cyclic(|node: &std::sync::Weak<Node<F>>| {
            let key = evaluator.register(node.clone());
            Node {
                formula,
                cell: Cell::new(),
                context: Context { marker: evaluator.marker(), key, client },
                dependencies: Mutex::default(),
                evaluator: evaluator.clone(),
            }
        });
        Self { node }
    }

    /// The cell that holds the results.
    pub fn cell(&self) -> &Arc<Cell<F::Value>> {
        &self.node.cell
    }

    /// The formula.
    pub fn formula(&self) -> &F {
        &self.node.formula
    }

    /// Brings the cell up to date with everything published so far.
    pub fn refresh(&self) {
        self.node.evaluate();
    }
}

impl<F: Formula> fmt::Debug for Derived<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Derived").field("key", &self.node.context.key).finish_non_exhaustive()
    }
}

// === impl Node ===

impl<F: Formula> Evaluate for Node<F> {
    fn evaluate(&self) {
        let mut dependencies = self.dependencies.lock();
        if !dependencies.outdated(Instant::now()) {
            return;
        }
        // A defect in one formula must not take the evaluator, or a client's connection, with it.
        let outcome =
            catch_unwind(AssertUnwindSafe(|| dependencies.run(&self.context, |run| self.formula.compute(run))));
        let Ok((reading, again_at)) = outcome else {
            self.evaluator.count_panic();
            self.evaluator.wake_at(Instant::now() + RETRY_AFTER_PANIC, self.context.key);
            self.cell.fail("internal error: the evaluation panicked; please report it with the log");
            return;
        };
        self.evaluator.count_run();
        match reading {
            Reading::Ready(value) => {
                self.cell.publish(value);
            }
            Reading::Pending(wait) => self.cell.suspend(wait.reason),
            Reading::Failed(reason) => self.cell.fail(reason),
        }
        if let Some(when) = again_at {
            self.evaluator.wake_at(when, self.context.key);
        }
    }
}

impl<F: Formula> Drop for Node<F> {
    fn drop(&mut self) {
        self.evaluator.unregister(self.context.key);
    }
}

#[cfg(test)]
mod tests {
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
}
