//! Clients come in numbers, stay silent, and disappear without a word.

use crate::support::{Chunk, PATIENCE, Rosterd, Wire, folder, metric, wait_until};

const WATCHES: usize = 1_000;

#[test]
fn a_thousand_watchers_that_disappear_leave_no_connection_and_no_memory_behind() {
    let folder = folder();
    std::fs::create_dir(folder.path().join("disco")).expect("the folder is writable");
    std::fs::write(folder.path().join("disco/web"), "10.0.0.1 8080\n").expect("the folder is writable");
    let rosterd = Rosterd::start_in(
        folder,
        "storage: {kind: io.l5d.inMemory, namespaces: {default: /svc => /#/io.l5d.fs}}\n\
         namers: [{kind: io.l5d.fs, rootDir: disco}]\n\
         interfaces: [{kind: io.l5d.httpController, port: 0}]\n",
    );
    let round = || {
        let mut watches: Vec<_> = (0..WATCHES)
            .map(|_| {
                let mut wire = Wire::open(rosterd.http());
                wire.send(b"GET /api/1/resolve/default?path=/svc/web&watch=true HTTP/1.1\r\n\r\n");
                wire
            })
            .collect();
        for watch in &mut watches {
            assert_eq!(watch.head().status(), 200);
            assert!(matches!(watch.chunk(PATIENCE), Chunk::Data(_)));
        }
        assert!(metric(&rosterd, "rosterd_connections_open{server=\"interfaces\"}") >= WATCHES as u64);
        drop(watches);
        wait_until("connections are released", || {
            metric(&rosterd, "rosterd_connections_open{server=\"interfaces\"}") == 0
        });
    };
    round();
    let after_one = rosterd.resident();
    for _ in 0..4 {
        round();
    }
    let after_five = rosterd.resident();
    assert!(
        after_five < after_one + (after_one / 4),
        "memory grows from round to round: {after_one} bytes after one, {after_five} after five"
    );
}
