use std::time::Duration;

use super::*;
use crate::name::{AddrSet, Meta};
use crate::store::{Cell, Live};

struct Told;

impl Live for Told {}

fn addrs(ports: &[u16]) -> Addr {
    let addresses = ports.iter().map(|port| SocketAddr::from(([192, 0, 2, 1], *port)).into());
    Addr::Bound(AddrSet::new(addresses.collect(), Meta::default()))
}

async fn servers(ports: &[u16]) -> (Servers, Arc<Cell<Addr>>) {
    let cell = Cell::ready(addrs(ports));
    let servers = Servers::new(Watch::new(cell.clone(), Arc::new(Told)), Retry::default());
    tokio::task::yield_now().await;
    (servers, cell)
}

fn failure() -> Failure {
    Failure::new(Reason::Connect, "refused")
}

fn port(seat: &Seat) -> u16 {
    seat.server().address().port()
}

#[tokio::test(start_paused = true)]
async fn the_server_with_the_fewest_watches_is_picked_and_not_the_one_to_shun() {
    let (servers, _cell) = servers(&[1, 2, 3]).await;
    let seats: Vec<Seat> = (0..3).map(|_| servers.pick(None).expect("there are some")).collect();
    let mut ports: Vec<u16> = seats.iter().map(port).collect();
    ports.sort_unstable();
    assert_eq!(ports, [1, 2, 3]);
    let shunned = SocketAddr::from(([192, 0, 2, 1], 2));
    for _ in 0..20 {
        assert_ne!(port(&servers.pick(Some(shunned)).expect("there are others")), 2);
    }
    drop(seats);
    assert!(servers.figures().0.iter().all(|server| server.watches == 0));
}

#[tokio::test(start_paused = true)]
async fn a_failing_server_is_avoided_for_a_time_that_grows_and_all_of_them_until_the_first() {
    let (servers, _cell) = servers(&[1, 2]).await;
    let first = servers.pick(None).expect("there are some");
    let bad = port(&first);
    let mut longest = Duration::ZERO;
    for _ in 0..8 {
        let began = Instant::now();
        first.server().failed(&failure());
        first.server().failed(&failure()); // what many notice at once counts once
        let avoided = first.server().avoided_until().expect("avoided") - began;
        assert!((Duration::from_secs(1)..=Duration::from_secs(10)).contains(&avoided), "{avoided:?}");
        longest = longest.max(avoided);
        assert_ne!(port(&servers.pick(None).expect("the other one")), bad);
        tokio::time::advance(avoided).await;
    }
    assert!(longest > Duration::from_secs(2), "{longest:?}");
    let other = servers.pick(Some(first.server().address())).expect("the other one");
    first.server().failed(&failure());
    other.server().failed(&failure());
    let unserved = servers.pick(None).err().expect("all are avoided");
    let until = [&first, &other].map(|seat| seat.server().avoided_until()).into_iter().min().expect("two");
    assert_eq!((unserved.retry_at, unserved.failure), (until, failure()));
    other.server().answered();
    assert_ne!(port(&servers.pick(None).expect("it answers")), bad);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_goes_is_picked_last_and_avoided_if_it_says_so_again() {
    let (servers, _cell) = servers(&[1, 2]).await;
    let going = servers.pick(None).expect("there are some");
    going.server().drains();
    let stays: Vec<Seat> = (0..5).map(|_| servers.pick(None).expect("the other one")).collect();
    assert!(stays.iter().all(|seat| port(seat) != port(&going)), "however many watches the other one has");
    stays[0].server().failed(&failure());
    assert_eq!(port(&servers.pick(None).expect("better than nobody")), port(&going));
    going.server().drains();
    assert!(servers.pick(None).is_err());
}

#[tokio::test(start_paused = true)]
async fn servers_are_those_of_the_name_and_the_last_ones_while_there_are_none() {
    let (servers, cell) = servers(&[1]).await;
    let seat = servers.pick(None).expect("there is one");
    assert!(!seat.should_go());
    let mut news = servers.news();
    cell.publish(Addr::Neg);
    news.changed().await.expect("it lives");
    assert_eq!(port(&servers.pick(None).expect("the last one")), 1);
    assert_eq!(servers.figures().1.as_deref(), Some("there is no such name"));
    assert!(!seat.should_go());
    cell.publish(addrs(&[2]));
    news.changed().await.expect("it lives");
    assert!(seat.should_go(), "its server has left");
    assert_eq!(port(&servers.pick(None).expect("the new one")), 2);
    assert_eq!(servers.figures().1, None);
}

#[tokio::test(start_paused = true)]
async fn without_addresses_the_reason_is_told() {
    let cell = Cell::new();
    let servers = Servers::new(Watch::new(cell.clone(), Arc::new(Told)), Retry::default());
    tokio::task::yield_now().await;
    let why = |servers: &Servers| servers.pick(None).err().expect("nobody").failure.to_string();
    assert_eq!(why(&servers), "the addresses are not known yet");
    let mut news = servers.news();
    cell.fail("DNS look-up of namerd: no answer");
    news.changed().await.expect("it lives");
    assert_eq!(why(&servers), "DNS look-up of namerd: no answer");
}

#[tokio::test(start_paused = true)]
async fn of_many_servers_sixteen_are_used() {
    let ports: Vec<u16> = (1..=300).collect();
    let (servers, _cell) = servers(&ports).await;
    let seats: Vec<Seat> = (0..1_000).map(|_| servers.pick(None).expect("there are some")).collect();
    let mut used: Vec<u16> = seats.iter().map(port).collect();
    used.sort_unstable();
    used.dedup();
    assert_eq!(used.len(), MOST_IN_USE);
    seats[0].server().failed(&failure());
    let instead: Vec<Seat> = (0..200).map(|_| servers.pick(None).expect("there are some")).collect();
    assert!(instead.iter().all(|seat| port(seat) != port(&seats[0])));
    assert!(instead.iter().any(|seat| !used.contains(&port(seat))), "the next one takes its place");
}
