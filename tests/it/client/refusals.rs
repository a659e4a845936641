//! Servers that answer connections and pings, and not the questions; and others beside them that are well.

use std::time::Duration;

use rosterd::client::{Feed, Reason};
use rosterd::name::AddrSet;
use rosterd::store::{Standing, State};
use tokio::time::{Instant, sleep};

use super::loops::{A, B, CAP, MARGIN, SOON, World, first, until};
use super::namerd::{Calls, set};
use super::net::Link;
use super::{holds, is_current, value};

/// After this time a poll that is not answered is asked again.
const POLL_AGE: Duration = Duration::from_secs(168);
/// Fresh questions that nobody answers are given up within this time.
const FIRST_ANSWER: Duration = Duration::from_secs(12);
/// To go elsewhere where that is possible.
const ELSEWHERE: Duration = Duration::from_millis(600);

fn refusals() -> [Calls; 7] {
    [
        Calls::Nack,
        Calls::Error,
        Calls::Rerr,
        Calls::Exception,
        Calls::Declared("not here"),
        Calls::Bytes(b"GET / HTTP/1.1"),
        Calls::Parked,
    ]
}

/// A change for which A has lost the poll: it answers any other at once.
async fn lose_the_poll(world: &World, n: u8) -> AddrSet {
    world.a.behave(|manners| manners.calls = Calls::Parked);
    let wanted = world.change(n);
    sleep(Duration::from_millis(1)).await;
    world.a.behave(|manners| manners.calls = Calls::Served);
    wanted
}

fn error(feed: &Feed<AddrSet>) -> Standing {
    feed.cell().snapshot().standing
}

#[tokio::test(start_paused = true)]
async fn a_lost_poll_is_asked_again_where_it_was_lost_if_the_others_refuse() {
    for refusal in refusals() {
        let world = World::new();
        let client = world.client(&[A]);
        let feed = first(&client).await;
        world.b.behave(|manners| manners.calls = refusal.clone());
        client.servers(&[A, B]);
        for n in 2..6 {
            let wanted = lose_the_poll(&world, n).await;
            let took = holds(&feed, &wanted, POLL_AGE + FIRST_ANSWER + MARGIN).await;
            assert!(took > SOON, "{refusal:?}: the poll was lost");
            assert!(is_current(&feed), "{refusal:?}: {:?}", error(&feed));
            assert_eq!(client.upstream.staleness().count, 0, "{refusal:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_no_of_somebody_else_changes_nothing_where_a_server_vouches() {
    for refusal in refusals() {
        let world = World::new();
        let client = world.client(&[A]);
        let feed = first(&client).await;
        world.b.behave(|manners| manners.calls = refusal.clone());
        client.servers(&[A, B]);
        for n in 2..12 {
            let wanted = world.change(n);
            holds(&feed, &wanted, SOON).await;
            for _ in 0..600 {
                sleep(SOON).await;
                assert!(is_current(&feed), "{refusal:?}: {:?}", error(&feed));
                assert_eq!(client.upstream.staleness().count, 0, "{refusal:?}");
            }
        }
        let asked = world.b.seen().iter().filter(|seen| seen.starts_with("addr")).count();
        assert!((1..=8).contains(&asked), "{refusal:?}: it is asked now and then: {asked}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_name_is_asked_elsewhere_at_once_if_a_server_refuses_it() {
    for refusal in refusals().into_iter().filter(|refusal| *refusal != Calls::Parked) {
        let world = World::new();
        world.b.behave(|manners| manners.calls = refusal.clone());
        let client = world.client(&[A, B]);
        let feeds: Vec<_> = (0..20).map(|_| client.addr("/#/fs/web")).collect();
        for feed in &feeds {
            holds(feed, &set(&["10.0.0.1:80"]), ELSEWHERE).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_keeps_every_poll_is_told_as_stale() {
    let world = World::new();
    let client = world.client(&[A]);
    let feed = first(&client).await;
    world.a.behave(|manners| manners.calls = Calls::Parked);
    let wanted = world.change(2);
    let limit = POLL_AGE + FIRST_ANSWER;
    until("it is told as stale", limit, || client.upstream.staleness().count == 1).await;
    let page = client.upstream.page();
    let watch = &page["addr"]["/#/fs/web"];
    assert_eq!(watch["condition"], "stale", "{page}");
    assert!(watch["poll"]["error"].as_str().is_some_and(|error| error.starts_with("no answer for ")), "{page}");
    assert!(client.ends(Reason::Silent) >= 1);
    sleep(Duration::from_secs(600)).await;
    assert_eq!(value(&feed.cell().snapshot()), Some(set(&["10.0.0.1:80"])), "the last value stays");
    assert!(is_current(&feed), "and is given to all who ask: {:?}", error(&feed));
    world.a.behave(|manners| manners.calls = Calls::Served); // and what it has kept stays lost
    holds(&feed, &wanted, CAP + FIRST_ANSWER + MARGIN).await;
    assert_eq!(client.upstream.staleness().count, 0);
}

#[tokio::test(start_paused = true)]
async fn a_first_value_that_does_not_come_has_a_reason() {
    let world = World::new();
    world.a.behave(|manners| manners.calls = Calls::Parked);
    let client = world.client(&[A]);
    let feed = client.addr("/#/fs/web");
    sleep(FIRST_ANSWER + MARGIN).await;
    let Standing::Suspended { reason: Some(reason), .. } = error(&feed) else { panic!("{:?}", feed.cell()) };
    assert!(reason.starts_with(&format!("test ({A}): no answer for ")), "{reason}");
    let degraded = client.upstream.degradation().expect("degraded");
    assert!(degraded.starts_with(&format!("no answer yet: {A}: no answer for ")), "{degraded}");
    assert_eq!(world.a.parked(), 1, "the question stays");
}

#[tokio::test(start_paused = true)]
async fn who_said_no_and_then_vanished_is_waited_for() {
    let world = World::new();
    world.a.behave(|manners| manners.calls = Calls::Declared("too deep"));
    let client = world.client(&[A]);
    let feed = client.addr("/#/fs/web");
    until("the no shows", SOON, || matches!(feed.cell().snapshot().state, State::Failed(_))).await;
    world.net.link(A, Link::Refuses);
    world.net.cut(A);
    until("the question is open", CAP + MARGIN, || matches!(feed.cell().snapshot().state, State::Pending)).await;
    let Standing::Suspended { reason: Some(reason), .. } = error(&feed) else { panic!("{:?}", feed.cell()) };
    assert!(reason.contains("connection refused"), "{reason}");
}

#[tokio::test(start_paused = true)]
async fn a_dead_server_costs_new_names_nothing_once_it_is_known() {
    let world = World::new();
    let client = world.client(&[A, B]);
    world.net.link(A, Link::BlackHole);
    let first = client.addr("/#/fs/web");
    holds(&first, &set(&["10.0.0.1:80"]), Duration::from_secs(4)).await;
    // Somebody has to find out.
    let _others: Vec<_> = (0..5).map(|_| client.addr("/#/fs/web")).collect();
    sleep(Duration::from_secs(5)).await;
    let mut feeds = Vec::new();
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(120) {
        sleep(Duration::from_secs(1)).await;
        let feed = client.addr("/#/fs/web");
        holds(&feed, &set(&["10.0.0.1:80"]), SOON).await;
        feeds.push(feed);
    }
    // It is used again once it is well.
    world.net.link(A, Link::Up);
    until("it has its share", Duration::from_secs(720), || world.a.parked() > 30).await;
}

#[tokio::test(start_paused = true)]
async fn whoever_loses_its_server_is_with_another_one_at_once() {
    let world = World::new();
    let client = world.client(&[A, B]);
    let feeds: Vec<_> = (0..100).map(|_| client.addr("/#/fs/web")).collect();
    for feed in &feeds {
        holds(feed, &set(&["10.0.0.1:80"]), SOON).await;
    }
    world.net.link(A, Link::Refuses);
    world.net.cut(A);
    until("all are at the other one", ELSEWHERE, || world.b.parked() == 100).await;
    assert_eq!(client.upstream.staleness().count, 0);
}

/// As a name service has it that tells some of the addresses each time.
#[tokio::test(start_paused = true)]
async fn addresses_that_come_and_go_move_no_watch() {
    let world = World::new();
    let client = world.client(&[A, B]);
    let feeds: Vec<_> = (0..20).map(|_| client.addr("/#/fs/web")).collect();
    for feed in &feeds {
        holds(feed, &set(&["10.0.0.1:80"]), SOON).await;
    }
    let asked = || world.a.seen().len() + world.b.seen().len();
    let before = asked();
    for n in 0..10 {
        client.servers(&[[A, B][n % 2]]);
        sleep(Duration::from_secs(5)).await;
    }
    assert_eq!(asked(), before, "nobody is asked anew");
}
