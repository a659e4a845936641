//! The versioned store: how a value is kept, watched, shared and computed.
//!
//! * [`Cell`]: a versioned value with one writer; readers get snapshots.
//! * [`Mailbox`]: how one consumer waits on many cells.
//! * [`Table`]: key to entry, single flight, life time, budgets.
//! * [`Derived`]: a cell whose writer is a pure function over other cells, kept current by [`Evaluators`].
//! * [`Reads`]: one read of a source for many who ask at once.
//! * [`Watch`]: a live handle on somebody's cell, the currency between the layers.

mod cell;
mod derived;
mod evaluator;
mod mailbox;
mod reads;
mod run;
mod staleness;
mod table;
mod version;
mod watch;

pub use cell::{Cell, Snapshot, Standing, State, Subscription};
pub use derived::{Derived, Formula};
pub use evaluator::Evaluators;
pub use mailbox::{Key, Mailbox, Marker};
pub use reads::Reads;
pub use run::{Reading, Run, Wait};
pub use staleness::Staleness;
pub use table::{Client, Observer, OverBudget, Policy, Table, Usage};
pub use version::Version;
pub use watch::{Live, Renewal, Unanswered, Watch};

/// Why something is not known, or not as fresh as it should be: one line for an operator.
pub type Reason = std::sync::Arc<str>;
