//! Every fault alone, and many in a row, between a client and real servers; both protocols, with and without TLS.
//!
//! Afterwards every watch holds the server's current value within the longest delay or the time of detection, and two
//! seconds. What was stale for how long meanwhile is printed (`--nocapture`). `ROSTERD_TEST_SEED` repeats one sequence,
//! `ROSTERD_TEST_SEQUENCES` makes more of them.

#![allow(clippy::print_stdout, reason = "the table of staleness is for whoever reads the output of the tests")]

use std::time::Duration;

use rand::RngExt;
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::seeds;
use super::world::{FAULTS, Fault, Over, Speaks, World, while_names_change};
use crate::support::PATIENCE;

fn shown(stale: &mut [Duration]) -> String {
    stale.sort_unstable();
    let at = |part: f64| stale[((stale.len() - 1) as f64 * part) as usize].as_millis();
    format!("{:>7} {:>7} {:>7}", at(0.5), at(0.99), at(1.0))
}

/// `at_once`: how many faults are tried at a time, each with a client and proxies of its own.
fn every_fault_alone(speaks: Speaks, over: Over, at_once: usize) {
    while_names_change(async |servers| {
        println!(
            "{speaks:?} {over:?}: ms stale, of all watches at all times (p50, p99, most), and until all were fresh"
        );
        for faults in FAULTS.chunks(at_once) {
            let stories = faults.iter().map(|fault| async move {
                let mut rng = StdRng::seed_from_u64(7);
                // Only who is within the TLS can say goodbye.
                let over = if *fault == Fault::Drain && over == Over::Tls { Over::TlsToProxy } else { over };
                let mut world = World::new(servers, speaks, over, 7).await;
                world.settle(&format!("{speaks:?} before {fault:?}"), PATIENCE).await;
                world.stale.clear();
                world.begin(*fault, &mut rng).await;
                world.pass(Duration::from_secs(1)).await;
                world.heal().await;
                let took = world.settle(&format!("{speaks:?} {fault:?}"), world.limit).await;
                world.is_vouched_for(&format!("{speaks:?} {fault:?}")).await;
                let (mut stale, name) = (std::mem::take(&mut world.stale), format!("{fault:?}"));
                format!("{name:<22} {} {:>7}", shown(&mut stale), took.as_millis())
            });
            let rows = futures_util::future::join_all(stories).await;
            rows.iter().for_each(|row| println!("  {row}"));
        }
    });
}

/// Of the sequences over TLS, those with even seeds have the faults within it, and the others have them without.
fn many_faults_in_a_row(speaks: Speaks, over: Over) {
    let more = std::env::var("ROSTERD_TEST_SEQUENCES").ok().and_then(|count| count.parse().ok());
    let seeds = seeds(more.unwrap_or(3));
    println!("{speaks:?} {over:?}: seeds {seeds:?}");
    while_names_change(async |servers| {
        for seeds in seeds.chunks(3) {
            let stories = seeds.iter().map(|seed| async move {
                let mut rng = StdRng::seed_from_u64(*seed);
                let over = if over == Over::Tls && seed % 2 == 0 { Over::TlsToProxy } else { over };
                let goodbyes = over != Over::Tls;
                let faults: Vec<Fault> =
                    FAULTS.into_iter().filter(|fault| goodbyes || *fault != Fault::Drain).collect();
                let mut world = World::new(servers, speaks, over, *seed).await;
                for _ in 0..4 {
                    let fault = faults[rng.random_range(0..faults.len())];
                    world.begin(fault, &mut rng).await;
                    world.pass(Duration::from_millis(rng.random_range(0..900))).await;
                    if rng.random_bool(0.7) {
                        world.heal().await;
                        world.pass(Duration::from_millis(rng.random_range(0..500))).await;
                    }
                }
                world.heal().await;
                world.settle(&format!("seed {seed}"), world.limit).await;
                world.is_vouched_for(&format!("seed {seed}")).await;
            });
            futures_util::future::join_all(stories).await;
        }
    });
}

#[test]
fn every_fault_alone_over_thrift() {
    every_fault_alone(Speaks::Thrift, Over::Plain, FAULTS.len());
}

#[test]
fn every_fault_alone_over_thrift_with_tls() {
    every_fault_alone(Speaks::Thrift, Over::Tls, FAULTS.len());
}

#[test]
fn every_fault_alone_over_http() {
    every_fault_alone(Speaks::Http, Over::Plain, FAULTS.len());
}

#[test]
fn every_fault_alone_over_http_with_tls() {
    every_fault_alone(Speaks::Http, Over::Tls, 4);
}

#[test]
fn many_faults_in_a_row_over_thrift() {
    many_faults_in_a_row(Speaks::Thrift, Over::Plain);
}

#[test]
fn many_faults_in_a_row_over_http_with_tls() {
    many_faults_in_a_row(Speaks::Http, Over::Tls);
}

#[test]
fn many_faults_in_a_row_over_thrift_with_tls() {
    many_faults_in_a_row(Speaks::Thrift, Over::Tls);
}

#[test]
fn many_faults_in_a_row_over_http() {
    many_faults_in_a_row(Speaks::Http, Over::Plain);
}
