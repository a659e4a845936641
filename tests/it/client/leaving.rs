//! Servers that come and go, on a clock of its own: no watch is lost on the way.

use std::time::Duration;

use tokio::time::sleep;

use super::holds;
use super::loops::{A, B, C, CAP, MARGIN, SOON, World, first, until};
use super::namerd::{Handshake, Namerd, set};
use super::net::Link;

#[tokio::test(start_paused = true)]
async fn when_a_server_drains_its_watches_are_elsewhere_before_they_leave_it() {
    let world = World::new();
    let client = world.client(&[A]);
    let feed = first(&client).await;
    client.servers(&[A, B]);
    world.a.drain();
    until("the poll is at the other server", Duration::from_secs(1), || world.b.parked() == 1).await;
    holds(&feed, &world.change(2), SOON).await;
    until("the session has ended", Duration::from_secs(1), || world.a.sessions() == 0).await;
    assert_eq!((client.failures(), client.upstream.staleness().count), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_drains_and_has_no_other_is_not_asked_in_a_hurry() {
    let world = World::new();
    let client = world.client(&[A]);
    let feed = first(&client).await;
    world.a.behave(|manners| manners.drains_at_once = true);
    world.a.drain();
    sleep(Duration::from_secs(60)).await;
    assert!((3..=62).contains(&world.net.dialled(A)), "{}", world.net.dialled(A));
    world.a.behave(|manners| manners.drains_at_once = false);
    holds(&feed, &world.change(2), CAP + MARGIN).await;
}

#[tokio::test(start_paused = true)]
async fn an_address_that_leaves_takes_no_watch_with_it() {
    let world = World::new();
    let client = world.client(&[A]);
    let feed = first(&client).await;
    client.servers(&[B]);
    holds(&feed, &world.change(3), SOON).await;
    assert_eq!(world.a.parked(), 1, "it may be back");
    until("the poll is at the other server", Duration::from_secs(61), || world.b.parked() == 1).await;
    until("and not here any more", SOON, || world.a.parked() == 0).await;
    holds(&feed, &world.change(2), SOON).await;
    assert_eq!(client.failures(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_address_that_leaves_is_kept_while_the_others_do_not_answer() {
    let world = World::new();
    let client = world.client(&[A]);
    let feed = first(&client).await;
    world.net.link(B, Link::Refuses);
    client.servers(&[B]);
    sleep(Duration::from_secs(600)).await;
    holds(&feed, &world.change(2), SOON).await;
    assert_eq!(client.upstream.staleness().count, 0);
    world.net.link(B, Link::Up);
    until("it goes once it can", CAP + MARGIN, || world.b.parked() == 1 && world.a.parked() == 0).await;
}

/// What ends watches of Linkerd's for good: an address that stalls in the handshake, and then leaves the name.
#[tokio::test(start_paused = true)]
async fn an_address_that_stalls_while_connecting_and_leaves_costs_no_watch() {
    let world = World::new();
    let stalling = Namerd::new(&world.registry);
    stalling.behave(|manners| manners.handshake = Handshake::Silent);
    world.net.host(C, &stalling);
    let ids: Vec<String> = (0..40).map(|n| format!("/#/fs/{n}")).collect();
    ids.iter().for_each(|id| world.registry.addr(id, &["10.0.0.9:80"]));
    let client = world.client(&[C]);
    let feeds: Vec<_> = ids.iter().map(|id| client.addr(id)).collect();
    sleep(Duration::from_secs(2)).await;
    client.servers(&[A]);
    for feed in &feeds {
        holds(feed, &set(&["10.0.0.9:80"]), CAP).await;
    }
    ids.iter().for_each(|id| world.registry.addr(id, &["10.0.0.8:80"]));
    for feed in &feeds {
        holds(feed, &set(&["10.0.0.8:80"]), SOON).await;
    }
}

#[tokio::test(start_paused = true)]
async fn when_the_name_has_no_addresses_any_more_the_last_ones_serve() {
    let world = World::new();
    let client = world.client(&[A]);
    let feed = first(&client).await;
    client.servers(&[]);
    world.net.cut(A);
    holds(&feed, &world.change(2), CAP).await;
}

#[tokio::test(start_paused = true)]
async fn an_address_that_joins_ends_the_wait_for_those_that_fail() {
    let world = World::new();
    world.net.link(A, Link::Refuses);
    let client = world.client(&[A]);
    let feed = client.addr("/#/fs/web");
    sleep(Duration::from_secs(300)).await; // the delays are long by now
    client.servers(&[A, B]);
    holds(&feed, &set(&["10.0.0.1:80"]), Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn watches_spread_over_servers_that_join() {
    let world = World::new();
    let third = Namerd::new(&world.registry);
    world.net.host(C, &third);
    let client = world.client(&[A, B]);
    let ids: Vec<String> = (0..300).map(|n| format!("/#/fs/{n}")).collect();
    ids.iter().for_each(|id| world.registry.addr(id, &["10.0.0.9:80"]));
    let _feeds: Vec<_> = ids.iter().map(|id| client.addr(id)).collect();
    until("all are parked", SOON, || world.a.parked() + world.b.parked() == 300).await;
    assert_eq!((world.a.parked(), world.b.parked()), (150, 150));
    client.servers(&[A, B, C]);
    sleep(Duration::from_secs(2)).await;
    let parked = [&world.a, &world.b, &third].map(Namerd::parked);
    assert_eq!(parked.iter().sum::<usize>(), 300);
    assert!(parked.iter().all(|parked| (70..=130).contains(parked)), "{parked:?}");
    // One dies and comes back: in time it has its share again.
    world.net.link(A, Link::Refuses);
    world.net.cut(A);
    sleep(Duration::from_secs(30)).await;
    assert_eq!(world.b.parked() + third.parked(), 300);
    world.net.link(A, Link::Up);
    sleep(Duration::from_secs(720)).await;
    let parked = [&world.a, &world.b, &third].map(Namerd::parked);
    assert!(parked.iter().all(|parked| (60..=140).contains(parked)), "{parked:?}");
    assert_eq!(client.upstream.staleness().count, 0);
}
