//! The state page: every service that somebody asks about, with its watch.

use std::time::SystemTime;

use serde_json::{Map, Value, json};

use super::backends::Backends;
use super::services::Service;
use super::watched::{ServiceKey, WatchedBackends, WatchedService};
use crate::k8s::Journal;
use crate::store::{Snapshot, Standing, State, Table};
use crate::text::calendar;

/// How many services the page shows.
const MAX_SERVICES: usize = 10_000;

/// Shows what is known now, in the order of the names.
pub(super) fn page(
    backends: &Table<ServiceKey, WatchedBackends>,
    services: &Table<ServiceKey, WatchedService>,
) -> Value {
    // Evaluations wait while a table is looked through, so nothing is made of it meanwhile.
    let (mut endpoints, mut mappings) = (Vec::new(), Vec::new());
    backends.visit(|watched| {
        endpoints.push((watched.key.shown(), watched.member.journal(), watched.backends.snapshot()));
    });
    services.visit(|watched| {
        mappings.push((watched.key.shown(), watched.member.journal(), watched.service.snapshot()));
    });
    json!({
        "endpoints": entries(endpoints, |backends: &Backends| format!("{} objects", backends.0.len()).into()),
        "portMappings": entries(mappings, |service: &Option<std::sync::Arc<Service>>| match service {
            Some(_) => "present".into(),
            None => "absent".into(),
        }),
    })
}

type Entry<T> = (String, Option<std::sync::Arc<Journal>>, Snapshot<T>);

fn entries<T>(mut all: Vec<Entry<T>>, show: impl Fn(&T) -> Value) -> Value {
    all.sort_by(|one, other| one.0.cmp(&other.0));
    let left_out = all.len().saturating_sub(MAX_SERVICES);
    let shown = all.iter().take(MAX_SERVICES).filter_map(|(name, journal, snapshot)| {
        let mut page = journal.as_ref()?.page(match &snapshot.state {
            State::Pending => "pending".into(),
            State::Failed(reason) => format!("error: {reason}").into(),
            State::Ready(value) => show(value),
        });
        if let Standing::Stale { since, .. } = &snapshot.standing {
            page["staleSince"] = calendar::java(SystemTime::now() - since.elapsed()).into();
        }
        Some((name.clone(), page))
    });
    let mut page: Map<String, Value> = shown.collect();
    if left_out > 0 {
        page.insert("leftOut".to_owned(), left_out.into());
    }
    page.into()
}
