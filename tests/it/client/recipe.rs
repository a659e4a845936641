//! What stops watches of a Linkerd 1.7.5 for good, without a line in its log, done to this client.
//!
//! A name has two addresses. One is a name server that is well the whole time; the other one stalls or refuses, and
//! leaves the name after some seconds. Over TLS that stopped all loops of a Linkerd, two tries of two; without it one of
//! three hundred, by chance.

#![allow(clippy::print_stdout, reason = "how many watches are alive is for whoever reads the output of the tests")]

use std::time::Duration;

use rosterd::client::{Reason, Retry, Timings};

use super::addresses;
use super::proxy::{End, Mode};
use super::world::{Over, Servers, Speaks, World, both, first, while_names_change};
use crate::support::PATIENCE;

const WATCHES: usize = 40;

/// No watch is further behind at any time: the other server is well.
const BEHIND: Duration = Duration::from_secs(3);

/// How often it is tried, at a time.
fn tries(over: Over) -> u32 {
    if over == Over::Plain { 4 } else { 2 }
}

/// As it was done to Linkerd: `retry` of a second, names that change 75 times a second or more, and the other address in
/// the name for nine seconds over TLS, seven without.
async fn try_it(servers: &Servers, over: Over, number: u32) {
    let retry = Retry { base: Duration::from_secs(1), max: Duration::from_secs(1) };
    let timings = Timings { retry, ..Timings::default() };
    let mut world = World::with(servers, (Speaks::Thrift, over), timings, (WATCHES, first), number.into()).await;
    let good = first(&world.proxies);
    match over {
        Over::Plain => world.proxies[1].refuse(),
        Over::Tls | Over::TlsToProxy => world.proxies[1].mode(Mode::StallNew),
    }
    world.settle("before", PATIENCE).await;
    world.stale.clear();
    world.servers.publish(both(&world.proxies));
    world.pass(Duration::from_secs(if over == Over::Plain { 7 } else { 9 })).await;
    let tried = match over {
        Over::Plain => world.ends(Reason::Connect) as usize,
        Over::Tls | Over::TlsToProxy => world.proxies[1].accepted(),
    };
    assert!(tried > 0, "nobody has tried the other address: {}", world.upstream.page());
    world.servers.publish(good);
    let took = world.settle("after it has left", BEHIND).await;
    world.is_vouched_for("after it has left").await;
    let worst = world.stale.iter().max().copied().unwrap_or_default();
    println!(
        "{over:?}, try {number}: {WATCHES} of {WATCHES} alive, fresh after {} ms; the other address was tried {tried} \
         times, and nobody was more than {} ms behind",
        took.as_millis(),
        worst.as_millis()
    );
    assert!(worst < BEHIND, "{worst:?} behind");
}

fn as_it_was_done(over: Over) {
    while_names_change(async |servers| {
        let tries = (0..tries(over)).map(|number| try_it(servers, over, number));
        futures_util::future::join_all(tries).await;
    });
}

/// Harder: for a moment the name has nothing but the bad address, and all watches lose the good server's connection.
fn while_nobody_else_is_there(over: Over) {
    while_names_change(async |servers| {
        let timings = super::world::timings(Speaks::Thrift, over);
        let mut world = World::with(servers, (Speaks::Thrift, over), timings, (WATCHES, both), 7).await;
        world.settle("before", PATIENCE).await;
        for round in 0..if over == Over::Plain { 10 } else { 2 } {
            let [good, bad] = &world.proxies;
            match over {
                Over::Plain => bad.refuse(),
                Over::Tls | Over::TlsToProxy => bad.mode(Mode::StallNew),
            }
            bad.end(End::Rst);
            world.servers.publish(addresses(&[&bad.address.to_string()]));
            good.end(End::Rst); // so that all of them go to the bad one
            world.pass(Duration::from_millis(if over == Over::Plain { 350 } else { 900 })).await;
            world.servers.publish(first(&world.proxies));
            let took = world.settle(&format!("round {round}"), world.limit).await;
            println!("{over:?}, round {round}: {WATCHES} of {WATCHES} alive after {} ms", took.as_millis());
            world.heal().await;
            world.settle("healed", PATIENCE).await;
        }
    });
}

#[test]
fn an_address_that_stalls_in_the_tls_handshake_and_leaves_stops_no_watch() {
    as_it_was_done(Over::Tls);
}

#[test]
fn an_address_that_refuses_and_leaves_stops_no_watch() {
    as_it_was_done(Over::Plain);
}

#[test]
fn an_address_that_stalls_in_the_tls_handshake_while_nobody_else_is_there_stops_no_watch() {
    while_nobody_else_is_there(Over::Tls);
}

#[test]
fn an_address_that_refuses_while_nobody_else_is_there_stops_no_watch() {
    while_nobody_else_is_there(Over::Plain);
}
