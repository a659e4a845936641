//! A source that fails: its last good values stay, and everybody who asks is told so.

use std::time::Instant;

use crate::support::{PATIENCE, Rosterd, folder, get};

#[test]
fn a_file_that_turns_to_nonsense_keeps_its_addresses_and_is_told_as_stale() {
    let folder = folder();
    let disco = folder.path().join("disco");
    std::fs::create_dir(&disco).expect("the folder is writable");
    let write = |text: &str| std::fs::write(disco.join("web"), text).expect("the folder is writable");
    write("10.0.0.1 8080\n");
    let rosterd = Rosterd::start_in(
        folder,
        "storage: {kind: io.l5d.inMemory, namespaces: {default: /svc => /#/io.l5d.fs}}\n\
         namers: [{kind: io.l5d.fs, rootDir: disco}]\n\
         interfaces: [{kind: io.l5d.httpController, port: 0}]\n",
    );
    let resolve = || get(rosterd.http(), "/api/1/resolve/default?path=/svc/web").text().to_owned();
    let becomes = |path: &str, wanted: &str| {
        let deadline = Instant::now() + PATIENCE;
        while !get(rosterd.admin(), path).text().contains(wanted) {
            assert!(Instant::now() < deadline, "{path} never says {wanted:?}: {:?}", get(rosterd.admin(), path).text());
        }
    };
    let good = resolve();
    assert!(good.contains("10.0.0.1"), "{good}");
    becomes("/ready", "ready\n");

    write("nonsense\n");
    becomes("/ready", "degraded: /#/io.l5d.fs: stale since 20");
    becomes("/metrics", "rosterd_stale_values{source=\"/#/io.l5d.fs\"} 1\n");
    becomes(
        "/namer_state/io.l5d.fs.json",
        "error: malformed address: nonsense; the addresses known before stay, stale since 20",
    );
    assert_eq!(get(rosterd.admin(), "/ready").head.status(), 200);
    assert_eq!(resolve(), good);

    write("10.0.0.2 8080\n");
    becomes("/metrics", "rosterd_stale_values{source=\"/#/io.l5d.fs\"} 0\n");
    becomes("/ready", "ready\n");
    assert!(resolve().contains("10.0.0.2"));
}
