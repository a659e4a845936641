//! What the fuzz targets check, run over their seeds with an ordinary compiler.

use std::path::Path as Folder;

#[path = "../../fuzz/entries/config.rs"]
mod config;
#[path = "../../fuzz/entries/dtab.rs"]
mod dtab;
#[path = "../../fuzz/entries/http1.rs"]
mod http1;
#[path = "../../fuzz/entries/mux.rs"]
mod mux;
#[path = "../../fuzz/entries/path.rs"]
mod path;
#[path = "../../fuzz/entries/thrift_call.rs"]
mod thrift_call;

/// Runs an entry over all seeds of its target, and over each with its end cut off or one byte replaced, which are the
/// mistakes a parser meets first.
fn over_seeds(target: &str, entry: fn(&[u8])) {
    let folder = Folder::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(target);
    let mut seeds = 0;
    for file in std::fs::read_dir(folder).expect("the target has seeds") {
        let seed = std::fs::read(file.expect("the folder can be read").path()).expect("a seed is a file");
        seeds += 1;
        entry(&seed);
        // Spread over long seeds, everywhere in short ones.
        for at in (0..seed.len()).step_by(seed.len() / 200 + 1) {
            entry(&seed[..at]);
            for byte in *b"/(*;=\\# \xff" {
                let mut changed = seed.clone();
                changed[at] = byte;
                entry(&changed);
            }
        }
    }
    assert!(seeds >= 5, "{target} has {seeds} seeds");
}

#[test]
fn no_seed_of_the_config_target_breaks_the_reader() {
    over_seeds("config", config::run);
}

#[test]
fn no_seed_of_the_dtab_target_breaks_the_reader() {
    over_seeds("dtab", dtab::run);
}

#[test]
fn no_seed_of_the_http1_target_breaks_the_server() {
    over_seeds("http1", http1::run);
}

#[test]
fn no_seed_of_the_mux_target_breaks_the_reader() {
    over_seeds("mux", mux::run);
}

#[test]
fn no_seed_of_the_path_target_breaks_the_reader() {
    over_seeds("path", path::run);
}

#[test]
fn no_seed_of_the_thrift_call_target_breaks_the_reader() {
    over_seeds("thrift_call", thrift_call::run);
}
