//! Changes in any order and at any speed. The poll is off here: notices alone have to do.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;

const NAMES: [&str; 9] = ["/a", "/b", "/a/x", "/a/y", "/b/x", "/l", "/l/x", "/d", "/a/d"];

fn without_poll(root: &FilePath) -> Router {
    let never = Duration::from_secs(100_000);
    Router::with(root, Settings { notices: true, poll: never, blind_poll: never })
}

/// One change such as people and programs make; it may fail, as theirs do.
fn change(disco: &Disco, rng: &mut StdRng, count: u32) -> String {
    let text = format!("10.{}.{}.1 80\n", count / 256, count % 256);
    let directories = [disco.at("a"), disco.at("b"), disco.beside("v1"), disco.beside("v2"), disco.root()];
    let files = ["x", "y", "d", "a", "b"];
    let directory = &directories[rng.random_range(0..directories.len())];
    let file = directory.join(files[rng.random_range(0..files.len())]);
    let (what, outcome) = match rng.random_range(0..12) {
        0..=2 => ("write", fs::write(&file, text)),
        3..=4 => ("replace", {
            let new = directory.join(".new");
            fs::write(&new, text).and_then(|()| fs::rename(new, &file))
        }),
        5 => ("remove", fs::remove_file(&file)),
        6 => ("make directory", fs::create_dir(directory)),
        7 => ("remove directory", fs::remove_dir_all(directory)),
        8 => ("move away and back", {
            let away = disco.beside("away");
            fs::rename(directory, &away).and_then(|()| fs::rename(away, directory))
        }),
        9 => ("exchange", {
            let away = disco.beside("away");
            let (one, two) = (&directories[0], &directories[1]);
            fs::rename(one, &away).and_then(|()| fs::rename(two, one)).and_then(|()| fs::rename(away, two))
        }),
        10 => ("swap link", {
            let target = ["../v1", "../v2", "a", "b"][rng.random_range(0..4)];
            let _ = fs::remove_file(disco.at(".link"));
            symlink(target, disco.at(".link")).and_then(|()| fs::rename(disco.at(".link"), disco.at("l")))
        }),
        _ => ("swap file link", {
            let target = ["../v1/x", "l/y", "a/y", "nowhere"][rng.random_range(0..4)];
            let _ = fs::remove_file(disco.at(".link"));
            symlink(target, disco.at(".link")).and_then(|()| fs::rename(disco.at(".link"), disco.at("d")))
        }),
    };
    format!("{what} {} {}", file.display(), if outcome.is_ok() { "" } else { "(failed)" })
}

/// What is on disk, found out the plain way.
fn on_disk(disco: &Disco, name: &str) -> String {
    let file = disco.at(&name[1..]);
    match fs::read_to_string(file) {
        Ok(text) => format!("[{}]", text.trim().replace(' ', ":")),
        Err(_) => "neg".to_owned(),
    }
}

async fn storm(seed: u64) {
    let disco = Disco::new();
    for directory in ["v1", "v2"] {
        fs::create_dir(disco.beside(directory)).expect("made");
    }
    let router = without_poll(&disco.root());
    let watches: Vec<_> = NAMES.iter().map(|name| (*name, router.addresses(name))).collect();
    let mut rng = StdRng::seed_from_u64(seed);
    let mut log = Vec::new();
    for burst in 0..40 {
        for _ in 0..rng.random_range(1..8) {
            log.push(change(&disco, &mut rng, u32::try_from(log.len()).expect("few")));
            if rng.random_bool(0.5) {
                tokio::time::sleep(Duration::from_micros(rng.random_range(0..30_000))).await;
            }
        }
        if !disco.root().is_dir() {
            fs::create_dir(disco.root()).expect("made");
        }
        let began = Instant::now();
        for (name, watch) in &watches {
            loop {
                let (known, there) = (watch.current().value().map(|addr| show(addr)), on_disk(&disco, name));
                if known.as_deref() == Some(&there) {
                    break;
                }
                let last = &log[log.len().saturating_sub(20)..];
                let late = began.elapsed() > Duration::from_secs(5);
                assert!(!late, "seed {seed}, burst {burst}: {name} is {there}, known as {known:?} after {last:#?}");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_happens_to_files_directories_and_links_is_noticed() {
    for seed in 0..3 {
        storm(seed).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_file_written_over_and_over_only_complete_states_are_told() {
    let disco = Disco::new();
    let states: Vec<String> = (1..=3).map(|last| (0..200).map(|n| format!("10.0.{n}.{last} 80\n")).collect()).collect();
    disco.write("web", &states[0]);
    let router = without_poll(&disco.root());
    let len = |addr: &Addr| match addr {
        Addr::Bound(set) => set.len().to_string(),
        other => show(other),
    };
    let mut web = Told::by(router.addresses("/web"), len);
    web.hears("200").await;
    let writer = tokio::task::spawn_blocking(move || {
        for round in 0..300 {
            disco.write("web", &states[round % 3]);
            if round % 7 == 0 {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        disco
    });
    web.until(Some("never"), Duration::from_secs(2)).await;
    let disco = writer.await.expect("writer");
    fs::write(disco.at("web"), "10.1.1.1 80\n").expect("written");
    web.hears("1").await;
    assert_eq!(web.log, ["200", "1"]);
}
