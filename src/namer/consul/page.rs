//! The state page: every service that somebody asks about, with its addresses and its poll.

use std::time::SystemTime;

use serde_json::{Map, Value, json};

use super::nodes::Instances;
use super::service::{Service, ServiceKey};
use crate::name::Meta;
use crate::store::{Snapshot, Standing, State, Table};
use crate::text::calendar;

/// How many services the page shows.
const MAX_SERVICES: usize = 10_000;

/// How many addresses of a service the page shows.
const MAX_ADDRS: usize = 1_000;

/// Shows what is known now, in the order of the names.
pub(super) fn page(services: &Table<ServiceKey, Service>) -> Value {
    let mut shown = Vec::new();
    services.visit(|service| {
        if shown.len() < MAX_SERVICES {
            let value = show(&service.instances.snapshot());
            shown.push((service.key.shown(), service.poll.journal().page(value)));
        }
    });
    shown.sort_by(|(one, _), (other, _)| one.cmp(other));
    Value::Object(shown.into_iter().collect())
}

fn show(snapshot: &Snapshot<Instances>) -> Value {
    let instances = match &snapshot.state {
        State::Pending => return "pending".into(),
        State::Failed(reason) => return format!("error: {reason}").into(),
        State::Ready(instances) => instances,
    };
    let literal = instances.literal.addrs().iter().map(|address| {
        let ip = address.ip;
        let addr = if ip.is_ipv6() { format!("[{ip}]:{}", address.port) } else { format!("{ip}:{}", address.port) };
        entry(addr, &address.meta)
    });
    let named = instances.named.iter().map(|named| entry(format!("{}:{}", named.host, named.port), &named.meta));
    let count = instances.literal.len() + instances.named.len();
    let mut value = json!({
        "addrs": literal.chain(named).take(MAX_ADDRS).collect::<Value>(),
        "metadata": entries(instances.literal.meta()),
    });
    if count > MAX_ADDRS {
        value["addrsLeftOut"] = (count - MAX_ADDRS).into();
    }
    if let Standing::Stale { since, .. } = &snapshot.standing {
        value["staleSince"] = calendar::java(SystemTime::now() - since.elapsed()).into();
    }
    value
}

fn entry(addr: String, meta: &Meta) -> Value {
    json!({ "addr": addr, "metadata": entries(meta) })
}

fn entries(meta: &Meta) -> Value {
    meta.iter().map(|(key, value)| (key.to_owned(), value.clone())).collect::<Map<_, _>>().into()
}
