//! Starting and stopping the process.

use std::time::Duration;

use rustix::process::Signal;
use serde_yaml::Value;

use crate::support::{Rosterd, folder, get, in_project};

const CONFIG: &str = "
storage: {kind: io.l5d.inMemory, namespaces: {default: '/svc => /#/io.l5d.fs'}}
interfaces:
- {kind: io.l5d.httpController, port: 0}
";

#[test]
fn it_serves_what_it_announces() {
    let rosterd = Rosterd::start(CONFIG);
    assert_eq!(get(rosterd.admin(), "/admin/ping").text(), "pong");
    assert_eq!(get(rosterd.http(), "/api/1/dtabs").text(), "[\"default\"]\n");
}

#[test]
fn sigterm_ends_it_with_status_0() {
    let mut rosterd = Rosterd::start(CONFIG);
    rosterd.signal(Signal::TERM);
    rosterd.wait_for_output("SIGTERM");
    assert_eq!(rosterd.wait(Duration::from_secs(10)).and_then(|status| status.code()), Some(0));
}

#[test]
fn a_bad_configuration_ends_it_with_status_1_and_the_place() {
    let (status, output) = Rosterd::refused("interfaces:\n- {kind: io.l5d.nope}\n");
    assert_eq!(status.code(), Some(1), "{output}");
    assert!(output.contains("io.l5d.nope") && output.contains("rosterd.yaml:"), "{output}");
}

#[test]
fn every_configuration_that_comes_with_it_starts() {
    let ready_made = std::fs::read_dir(in_project("config")).expect("the project has configurations");
    let is_config = |path: &std::path::PathBuf| path.extension().is_some_and(|extension| extension == "yaml");
    let ready_made: Vec<_> = ready_made.map(|entry| entry.expect("a file").path()).filter(is_config).collect();
    assert!(!ready_made.is_empty());
    for path in ready_made {
        let text = std::fs::read_to_string(&path).expect("a configuration is text");
        let folder = folder();
        std::os::unix::fs::symlink(in_project("config"), folder.path().join("config")).expect("the folder is empty");
        let rosterd = Rosterd::start_in(folder, &on_any_port(&text));
        assert_eq!(get(rosterd.admin(), "/admin/ping").text(), "pong", "{}", path.display());
    }
}

/// The same configuration, on ports that are free.
fn on_any_port(config: &str) -> String {
    let mut config: Value = serde_yaml::from_str(config).expect("a configuration is YAML");
    config["admin"]["port"] = 0.into();
    for interface in config["interfaces"].as_sequence_mut().expect("a configuration has interfaces") {
        interface["port"] = 0.into();
    }
    serde_yaml::to_string(&config).expect("what was YAML is YAML")
}
