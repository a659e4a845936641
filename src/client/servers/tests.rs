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

/// For a watch that has failed nowhere.
fn pick(servers: &Servers, own: Option<SocketAddr>) -> Result<Seat, Unserved> {
    servers.pick(own, &Grudges::new(Retry::default()))
}

/// For a watch that has failed at these, in this order.
fn grudges(ports: &[u16]) -> Grudges {
    let mut grudges = Grudges::new(Retry::default());
    ports.iter().for_each(|port| grudges.bear(SocketAddr::from(([192, 0, 2, 1], *port))));
    grudges
}

fn port(seat: &Seat) -> u16 {
    seat.server().address().port()
}

#[tokio::test(start_paused = true)]
async fn the_server_with_the_fewest_watches_is_picked_and_not_the_one_to_shun() {
    let (servers, _cell) = servers(&[1, 2, 3]).await;
    let seats: Vec<Seat> = (0..3).map(|_| pick(&servers, None).expect("there are some")).collect();
    let mut ports: Vec<u16> = seats.iter().map(port).collect();
    ports.sort_unstable();
    assert_eq!(ports, [1, 2, 3]);
    let shunned = SocketAddr::from(([192, 0, 2, 1], 2));
    for _ in 0..20 {
        assert_ne!(port(&pick(&servers, Some(shunned)).expect("there are others")), 2);
    }
    drop(seats);
    assert!(servers.figures().0.iter().all(|server| server.watches == 0));
}

#[tokio::test(start_paused = true)]
async fn a_failing_server_is_avoided_for_a_time_that_grows_and_all_of_them_until_the_first() {
    let (servers, _cell) = servers(&[1, 2]).await;
    let first = pick(&servers, None).expect("there are some");
    let bad = port(&first);
    let mut longest = Duration::ZERO;
    for _ in 0..8 {
        let began = Instant::now();
        first.server().failed(&failure());
        first.server().failed(&failure()); // what many notice at once counts once
        let avoided = first.server().avoided().expect("avoided").until - began;
        assert!((Duration::from_secs(1)..=Duration::from_secs(10)).contains(&avoided), "{avoided:?}");
        longest = longest.max(avoided);
        assert_ne!(port(&pick(&servers, None).expect("the other one")), bad);
        tokio::time::advance(avoided).await;
    }
    assert!(longest > Duration::from_secs(2), "{longest:?}");
    let other = pick(&servers, Some(first.server().address())).expect("the other one");
    first.server().failed(&failure());
    other.server().failed(&failure());
    let unserved = pick(&servers, None).err().expect("all are avoided");
    let until = [&first, &other].map(|seat| seat.server().avoided().expect("avoided").until).into_iter().min();
    assert_eq!((unserved.retry_at, unserved.failure), (until, failure()), "both failed at once");
    other.server().answered();
    assert_ne!(port(&pick(&servers, None).expect("it answers")), bad);
}

#[tokio::test(start_paused = true)]
async fn where_all_are_avoided_the_first_to_have_failed_is_tried_sooner_and_at_a_pace_that_slows_down() {
    const MINUTE: Duration = Duration::from_secs(60);
    let (servers, _cell) = servers(&[1, 2, 3]).await;
    let all = servers.shared.set.lock().servers.clone();
    // A quarter of a first delay is 250 to 500 ms: that of the first one is over before that of the second.
    for (server, later) in all.iter().zip([260, 1, 0]) {
        server.failed(&failure());
        tokio::time::advance(Duration::from_millis(later)).await;
    }
    let (began, mut asked) = (Instant::now(), Vec::new());
    while began.elapsed() < 10 * MINUTE {
        match pick(&servers, None) {
            Ok(seat) => {
                asked.push((began.elapsed(), port(&seat)));
                seat.server().failed(&failure());
            }
            Err(unserved) => tokio::time::sleep_until(unserved.retry_at.expect("addresses are known")).await,
        }
        tokio::time::advance(Duration::from_millis(1)).await;
    }
    let (first, at) = (all[0].address().port(), asked[0].0);
    assert_eq!(asked[0].1, first);
    assert!(at <= Duration::from_millis(300), "a quarter of its first delay after its failure: {at:?}");
    let late = asked.iter().filter(|(at, _)| *at > MINUTE).count();
    assert!((9 * 3 * 6..9 * 3 * 60).contains(&late), "each once in 1 to 10 s: {late} in nine minutes");
    for server in &all {
        let times: Vec<Duration> =
            asked.iter().filter(|(_, port)| *port == server.address().port()).map(|(at, _)| *at).collect();
        let least = times.windows(2).map(|pair| pair[1] - pair[0]).min().expect("more than one");
        assert!(least >= Duration::from_millis(250), "{least:?}");
    }
    // Once one of them is well again the others have all of their time.
    all[0].answered();
    all[1].failed(&failure());
    let until = all[1].avoided().expect("avoided").until;
    while Instant::now() < until {
        assert_eq!(port(&pick(&servers, None).expect("one is well")), first);
        tokio::time::advance(Duration::from_millis(50)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_goes_is_picked_last_and_avoided_if_it_says_so_again() {
    let (servers, _cell) = servers(&[1, 2]).await;
    let going = pick(&servers, None).expect("there are some");
    going.server().drains();
    let stays: Vec<Seat> = (0..5).map(|_| pick(&servers, None).expect("the other one")).collect();
    assert!(stays.iter().all(|seat| port(seat) != port(&going)), "however many watches the other one has");
    stays[0].server().failed(&failure());
    assert_eq!(port(&pick(&servers, None).expect("better than nobody")), port(&going));
    going.server().drains();
    assert!(pick(&servers, None).is_err());
}

#[tokio::test(start_paused = true)]
async fn servers_are_those_of_the_name_and_the_last_ones_while_there_are_none() {
    let (servers, cell) = servers(&[1]).await;
    let seat = pick(&servers, None).expect("there is one");
    assert!(!seat.should_go(true));
    let mut news = servers.news();
    cell.publish(Addr::Neg);
    news.changed().await.expect("it lives");
    assert_eq!(port(&pick(&servers, None).expect("the last one")), 1);
    assert_eq!(servers.figures().1.as_deref(), Some("there is no such name"));
    assert!(!seat.should_go(true));
    cell.publish(addrs(&[2]));
    news.changed().await.expect("it lives");
    assert!(seat.should_go(false), "its server has left");
    assert!(!seat.should_go(true), "and may be back");
    assert_eq!(port(&pick(&servers, None).expect("the new one")), 2);
    assert_eq!(servers.figures().1, None);
}

#[tokio::test(start_paused = true)]
async fn without_addresses_the_reason_is_told() {
    let cell = Cell::new();
    let servers = Servers::new(Watch::new(cell.clone(), Arc::new(Told)), Retry::default());
    tokio::task::yield_now().await;
    let why = |servers: &Servers| pick(servers, None).err().expect("nobody").failure.to_string();
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
    let seats: Vec<Seat> = (0..1_000).map(|_| pick(&servers, None).expect("there are some")).collect();
    let mut used: Vec<u16> = seats.iter().map(port).collect();
    used.sort_unstable();
    used.dedup();
    assert_eq!(used.len(), MOST_IN_USE);
    seats[0].server().failed(&failure());
    let instead: Vec<Seat> = (0..200).map(|_| pick(&servers, None).expect("there are some")).collect();
    assert!(instead.iter().all(|seat| port(seat) != port(&seats[0])));
    assert!(instead.iter().any(|seat| !used.contains(&port(seat))), "the next one takes its place");
}

#[tokio::test(start_paused = true)]
async fn whether_a_server_is_well_again_is_found_out_by_one_watch_that_loses_nothing_by_it() {
    let (servers, _cell) = servers(&[1, 2]).await;
    let bad = pick(&servers, None).expect("there are some").server().clone();
    let well = pick(&servers, Some(bad.address())).expect("the other one");
    let _busy: Vec<Seat> = (0..10).filter_map(|_| servers.pick(Some(bad.address()), &grudges(&[])).ok()).collect();
    bad.failed(&failure());
    tokio::time::advance(Duration::from_secs(20)).await;
    assert_eq!(port(&pick(&servers, None).expect("a new watch")), port(&well));
    let probe = pick(&servers, Some(well.server().address())).expect("one that has a server");
    assert_eq!(port(&probe), bad.address().port());
    let second = pick(&servers, Some(well.server().address())).expect("the next one");
    assert_eq!(port(&second), port(&well), "its own server, asked anew");
    drop(probe);
    assert_eq!(port(&pick(&servers, Some(well.server().address())).expect("another one")), bad.address().port());
    bad.answered();
    assert_eq!(port(&pick(&servers, None).expect("a new watch")), bad.address().port());
}

#[tokio::test(start_paused = true)]
async fn who_has_failed_a_watch_is_asked_by_it_after_all_others_and_in_turn() {
    let (servers, _cell) = servers(&[1, 2, 3]).await;
    let own = SocketAddr::from(([192, 0, 2, 1], 1));
    let asked = |failed: &[u16]| port(&servers.pick(Some(own), &grudges(failed)).expect("there are some"));
    assert_ne!(asked(&[]), 1);
    assert_eq!(asked(&[2]), 3);
    assert_eq!(asked(&[2, 3]), 1, "its own server has not failed");
    assert_eq!(asked(&[2, 3, 1]), 2);
    assert_eq!(asked(&[3, 1, 2]), 3);
    assert!(servers.has_untried(&grudges(&[3, 1])) && !servers.has_untried(&grudges(&[3, 1, 2])));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_comes_and_goes_keeps_its_watches_and_its_faults() {
    let (servers, cell) = servers(&[1, 2]).await;
    let seats: Vec<Seat> = (0..10).map(|_| pick(&servers, None).expect("there are some")).collect();
    let mut news = servers.news();
    let publish = async |news: &mut watch::Receiver<u64>, ports: &[u16]| {
        cell.publish(addrs(ports));
        news.changed().await.expect("it lives");
    };
    let second = seats.iter().find(|seat| port(seat) == 2).expect("half of them").server().clone();
    second.failed(&failure());
    for _ in 0..20 {
        publish(&mut news, &[1]).await;
        assert!(seats.iter().all(|seat| !seat.should_go(true)));
        tokio::time::advance(LEFT / 2).await;
        publish(&mut news, &[1, 2]).await;
    }
    let now = pick(&servers, Some(SocketAddr::from(([192, 0, 2, 1], 1)))).expect("the other one");
    assert!(Arc::ptr_eq(now.server(), &second), "what is known of it is not forgotten");
    assert!(second.failure().is_some());
    publish(&mut news, &[1]).await;
    news.mark_unchanged();
    let began = Instant::now();
    news.changed().await.expect("whoever is with it is told");
    assert_eq!(began.elapsed(), LEFT);
    assert!(seats.iter().all(|seat| seat.should_go(true) == (port(seat) == 2)));
}
