//! `stateDir`: what cannot be kept there is seen before it is needed.

use std::path::Path;

use rustix::process::Signal;

use crate::support::{PATIENCE, Rosterd, folder, get, wait_until};

/// A relay, which keeps two files.
fn config(state: &Path) -> String {
    format!(
        "stateDir: {}\n\
         interpreter: {{kind: io.l5d.namerd, dst: /$/inet/127.0.0.1/9}}\n\
         interfaces: [{{kind: io.l5d.httpController, port: 0}}]\n",
        state.display()
    )
}

fn ready(rosterd: &Rosterd) -> String {
    get(rosterd.admin(), "/ready").text().to_owned()
}

#[test]
fn a_state_directory_that_cannot_be_used_is_told_everywhere_and_keeps_nobody_from_serving() {
    let folder = folder();
    let state = folder.path().join("state");
    std::fs::write(&state, "a file").expect("written");
    let mut rosterd = Rosterd::start(&config(&state));
    rosterd.wait_for_output("is not a directory; make it a directory that this user may write, or change stateDir");
    assert!(ready(&rosterd).contains("stateDir: "), "{}", ready(&rosterd));
    for file in ["watches.ledger", "relay.snapshot.gz"] {
        wait_until("both files are tried", || ready(&rosterd).contains(&format!("{file} cannot be written since")));
        let failing = format!("rosterd_state_file_failing{{file=\"{file}\"}} 1");
        assert!(get(rosterd.admin(), "/metrics").text().contains(&failing), "{failing}");
    }
    rosterd.signal(Signal::TERM);
    assert_eq!(rosterd.wait(PATIENCE).and_then(|status| status.code()), Some(0), "no client was left out");
    let output = rosterd.output();
    let lost = output.lines().filter(|line| line.contains("could not be written to the end")).count();
    assert_eq!(lost, 2, "{output}");
}

#[test]
fn a_state_directory_that_can_be_used_again_is_used_again() {
    let folder = folder();
    let state = folder.path().join("state");
    std::fs::write(&state, "a file").expect("written");
    let rosterd = Rosterd::start(&config(&state));
    wait_until("it is tried", || ready(&rosterd).contains("relay.snapshot.gz cannot be written since"));
    std::fs::remove_file(&state).expect("removed");
    wait_until("both files are there", || !ready(&rosterd).contains("stateDir"));
    assert!(state.join("watches.ledger").exists() && state.join("relay.snapshot.gz").exists());
    assert!(rosterd.output().contains("can be written again"));
}
