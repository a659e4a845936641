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

/// A run that panicked has lost track of what it read, so it is repeated after this time, or as soon as somebody asks.
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
        if !dependencies.outdated() {
            return;
        }
        // A defect in one formula must not take the evaluator, or a client's connection, with it.
        let outcome =
            catch_unwind(AssertUnwindSafe(|| dependencies.run(&self.context, |run| self.formula.compute(run))));
        let Ok((reading, again_at)) = outcome else {
            // Not even an earlier success counts: it would pass for one that depends on nothing and never changes.
            *dependencies = Dependencies::default();
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
mod tests;
