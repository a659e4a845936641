//! What large dtabs cost: reading, showing and indexing 200,000 entries, and one lookup in them against one in a dtab of
//! two entries. `cargo bench --bench name`
#![allow(clippy::print_stdout, reason = "the figures are what this program is for")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use rosterd::name::{Dtab, IndexedDtab, Layers, Path};

const ENTRIES: usize = 200_000;
const LOOKUPS: u32 = 200_000;

fn main() {
    let entry = |i: usize| format!("/svc/team-{}/web-{i}=>9*/#/k8s/web-{i} & /canary", i % 500);
    let text = (0..ENTRIES).map(entry).collect::<Vec<_>>().join(";\n");
    println!("{ENTRIES} entries, {} MB of text", text.len() / 1_000_000);

    let dtab = timed("read", || Dtab::parse(&text).expect("a dtab"));
    timed("show", || dtab.to_string());
    let many = timed("index", || IndexedDtab::new(dtab));
    let two = IndexedDtab::new(format!("{};{}", entry(7), entry(8)).parse().expect("a dtab"));

    let path: Path = "/svc/team-7/web-7/x".parse().expect("a path");
    println!("lookup in 2 entries: {:?}", per_lookup(&two, &path));
    println!("lookup in {ENTRIES} entries: {:?}", per_lookup(&many, &path));
}

fn timed<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let done = work();
    println!("{what}: {:?}", start.elapsed());
    done
}

fn per_lookup(namespace: &IndexedDtab, path: &Path) -> Duration {
    let local = IndexedDtab::empty();
    let layers = Layers { namespace, local: &local };
    let start = Instant::now();
    for _ in 0..LOOKUPS {
        black_box(layers.lookup(black_box(path)));
    }
    start.elapsed() / LOOKUPS
}
