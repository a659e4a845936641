//! Large dtabs: how long the index takes to build, and what a first binding costs in a table of 200,000 entries against
//! one of 2 entries. Both make the same number of lookups, so the ratio is that of the tables.
//!
//! `cargo bench --bench dtab`

#![expect(clippy::print_stdout, reason = "a bench tells what it measured")]

use std::fmt::Write;
use std::time::{Duration, Instant};

use rosterd::config::IpFamilies;
use rosterd::interpreter::{Hold, Interpreter, Local, LocalDtab, Namers, Settings};
use rosterd::name::{Dtab, IndexedDtab, Path};
use rosterd::namer::hosts::Hosts;
use rosterd::storage::Storage;
use rosterd::storage::memory::MemoryStorage;
use rosterd::store::{Client, Evaluators};

const ENTRIES: usize = 200_000;
const BINDS: usize = 20_000;
const ROUNDS: usize = 7;

/// Every name has an entry of its own, and nine more match each path.
fn large() -> String {
    let mut text = String::with_capacity(ENTRIES * 40);
    for _ in 0..9 {
        text.push_str("/svc => /host;");
    }
    text.push_str("/host => /$/inet/127.0.0.1/8080;");
    for name in 0..ENTRIES - 10 {
        let _ = write!(text, "/svc/name-{name} => /host/name-{name};");
    }
    text
}

const SMALL: &str = "/svc => /host; /host => /$/inet/127.0.0.1/8080";

/// Time of a first binding, for paths that were never asked for before.
async fn bind(dtab: &Dtab, round: usize) -> Duration {
    let storage = MemoryStorage::new([("default".to_owned(), dtab.clone())]);
    let namers = Namers::new(Vec::new(), Hosts::new(IpFamilies::default())).expect("no namers");
    let storage: std::sync::Arc<dyn Storage> = std::sync::Arc::new(storage);
    let local = Local::new(storage, namers, Evaluators::start(1), Settings::default());
    let stride = (ENTRIES - 10) / BINDS;
    let paths: Vec<_> =
        (0..BINDS).map(|n| Path::parse(&format!("/svc/name-{}/r{round}", n * stride)).expect("a path")).collect();
    let none = LocalDtab::empty();
    let began = Instant::now();
    for path in &paths {
        let watch = local.bind(Client::INTERNAL, "default", &none, path, Hold::Watch).expect("room");
        assert!(watch.current().value().is_some());
    }
    began.elapsed() / u32::try_from(BINDS).expect("small")
}

fn best(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[0]
}

fn main() {
    let text = large();
    let began = Instant::now();
    let dtab = Dtab::parse(&text).expect("a dtab");
    let parsed = began.elapsed();
    let began = Instant::now();
    let index = IndexedDtab::new(dtab.clone());
    let indexed = began.elapsed();
    assert_eq!(index.dtab().len(), ENTRIES);
    println!("{ENTRIES} entries ({} bytes): parsed in {parsed:.0?}, indexed in {indexed:.0?}", text.len());

    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("runtime");
    let small = Dtab::parse(SMALL).expect("a dtab");
    let (mut few, mut many) = (Vec::new(), Vec::new());
    // Interleaved, best of several: the machine's noise meets both alike.
    for round in 0..ROUNDS {
        few.push(runtime.block_on(bind(&small, round)));
        many.push(runtime.block_on(bind(&dtab, round)));
    }
    let (few, many) = (best(few), best(many));
    let ratio = many.as_secs_f64() / few.as_secs_f64();
    println!("first binding: {few:.2?} in 2 entries, {many:.2?} in {ENTRIES}: {ratio:.2} times");
    assert!(indexed < Duration::from_secs(1), "the index takes {indexed:?}");
    assert!(ratio < 2.0, "a binding in the large table takes {ratio:.2} times as long");
}
