//! Where a watch puts what it learns.

use std::sync::Arc;

use crate::store::{Cell, Reason};

/// What a watch writes to; it is the only writer.
pub trait Sink<T>: Send + Sync + 'static {
    /// A good answer. Says whether readers see something new.
    fn publish(&self, value: T) -> bool;

    /// There is no good answer, and this is why; what is known stays.
    fn fail(&self, reason: Reason);

    /// The agent says that there is no such thing as what is asked about. What is known stays all the same.
    fn absent(&self, reason: Reason) {
        self.fail(reason);
    }

    /// Does `value` say that there is nothing? Where readers do not know that yet it is taken only from an answer that is
    /// sure, and not from one without an index: routes would be lost, if only for a moment.
    fn is_nothing(&self, value: &T) -> bool {
        let _ = value;
        false
    }
}

impl<T: PartialEq + Send + Sync + 'static> Sink<T> for Arc<Cell<T>> {
    fn publish(&self, value: T) -> bool {
        Cell::publish(self, value)
    }

    fn fail(&self, reason: Reason) {
        Cell::fail(self, reason);
    }
}
