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

/// How many addresses it shows in all.
const MAX_ADDRS_IN_ALL: usize = 100_000;

/// Shows what is known now, in the order of the names, and how much is left out.
pub(super) fn page(services: &Table<ServiceKey, Service>) -> Value {
    // Evaluations wait while the table is looked through, so nothing is made of it meanwhile.
    let mut found = Vec::new();
    services.visit(|service| {
        found.push((service.key.clone(), service.poll.journal().clone(), service.instances.snapshot()));
    });
    found.sort_by(|(one, ..), (other, ..)| one.cmp(other));
    let left_out = found.len().saturating_sub(MAX_SERVICES);
    let mut room = MAX_ADDRS_IN_ALL;
    let shown = found.iter().take(MAX_SERVICES).map(|(key, journal, snapshot)| {
        let value = show(snapshot, &mut room);
        (key.shown(), journal.page(value))
    });
    let mut page: Map<String, Value> = shown.collect();
    if left_out > 0 {
        page.insert("servicesLeftOut".to_owned(), left_out.into());
    }
    page.into()
}

/// At most `room` addresses, which become fewer.
fn show(snapshot: &Snapshot<Instances>, room: &mut usize) -> Value {
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
    let fits = count.min(MAX_ADDRS).min(*room);
    *room -= fits;
    let mut value = json!({
        "addrs": literal.chain(named).take(fits).collect::<Value>(),
        "metadata": entries(instances.literal.meta()),
    });
    if count > fits {
        value["addrsLeftOut"] = (count - fits).into();
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

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::name::{AddrSet, Address};
    use crate::store::Cell;

    #[test]
    fn what_does_not_fit_is_counted() {
        let address = |n: u32| Address { ip: IpAddr::from(n.to_be_bytes()), port: 80, meta: Meta::default() };
        let set = |count| AddrSet::new((1..=count).map(address).collect(), Meta::default());
        let mut room = 1_500;
        let mut left_out = |count| {
            let cell = Cell::ready(Instances { literal: set(count), named: Box::default() });
            let shown = show(&cell.snapshot(), &mut room);
            (shown["addrs"].as_array().expect("a list").len(), shown["addrsLeftOut"].as_u64().unwrap_or(0))
        };
        assert_eq!(
            [left_out(1_200), left_out(300), left_out(300), left_out(1)],
            [(1_000, 200), (300, 0), (200, 100), (0, 1)]
        );
    }
}
