//! How much of a table is in use, and by whom.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::time::Instant;

use super::{Client, OverBudget, Policy};

/// Entries with observers, heavy ones counted as several. One for each table, known to its entries.
#[derive(Debug)]
pub(super) struct InUse {
    pub(super) epoch: Instant,
    table: &'static str,
    budget: usize,
    count: AtomicUsize,
    /// Who holds how many. Not kept where any number may be in use.
    shares: Mutex<HashMap<Client, usize>>,
}

/// Who observes an entry.
#[derive(Debug)]
pub(super) struct Holding {
    pub(super) observers: usize,
    /// On whose account it is, as long as there are observers: who came first.
    pub(super) client: Client,
}

// === impl InUse ===

impl InUse {
    pub(super) fn new(table: &'static str, policy: &Policy) -> Self {
        Self {
            epoch: Instant::now(),
            table,
            budget: policy.in_use,
            count: AtomicUsize::new(0),
            shares: Mutex::default(),
        }
    }

    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// An entry is going to be observed.
    pub(super) fn take(&self, client: Client, weight: usize) -> Result<(), OverBudget> {
        if self.budget == usize::MAX {
            self.count.fetch_add(weight, Ordering::Relaxed);
            return Ok(());
        }
        let mut shares = self.shares.lock();
        let (count, budget) = (self.count(), self.budget);
        let share = shares.get(&client).copied().unwrap_or(0);
        if count >= budget && !is_modest(share, &shares, count, budget) {
            return Err(OverBudget { table: self.table, len: count, budget, share, client });
        }
        self.count.fetch_add(weight, Ordering::Relaxed);
        *shares.entry(client).or_insert(0) += weight;
        Ok(())
    }

    /// Nobody observes it any more.
    pub(super) fn give_back(&self, client: Client, weight: usize) {
        self.count.fetch_sub(weight, Ordering::Relaxed);
        if self.budget != usize::MAX {
            subtract(&mut self.shares.lock(), client, weight);
        }
    }
}

/// May a client have another entry though there is no room? One that has less than another may exceed the budget a
/// little: one greedy client must not shut out the rest.
pub(super) fn is_modest(share: usize, shares: &HashMap<Client, usize>, len: usize, budget: usize) -> bool {
    let greediest = shares.values().copied().max().unwrap_or(0);
    share < greediest && len < budget.saturating_add(budget / 8)
}

pub(super) fn subtract(shares: &mut HashMap<Client, usize>, client: Client, weight: usize) {
    if let Some(share) = shares.get_mut(&client) {
        *share -= weight;
        if *share == 0 {
            shares.remove(&client);
        }
    }
}
