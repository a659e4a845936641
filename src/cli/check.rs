//! `rosterd check` and `-validate`: the loader of the server, without opening a port.

use std::path::Path;

use serde_json::json;

use super::failure::Failure;
use super::files;
use super::load::{Unloaded, load};
use super::output::Output;
use crate::app::{Config, Parts};
use crate::consul::Agents;
use crate::k8s::ApiServers;
use crate::runtime::{Probe, StateDir, heavy};
use crate::telemetry::Legacy;

/// What is asked for besides the check itself.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct How {
    /// Print JSON.
    pub(super) json: bool,
    /// Ask the backends, too.
    pub(super) connect: bool,
}

/// What came of a probe.
struct Probed {
    whose: String,
    what: String,
    outcome: Result<String, String>,
}

/// Checks. What has no effect is told, but is no failure.
pub(super) fn run(config: &Path, with: Option<&Path>, how: How, output: &mut Output<'_>) -> Result<(), Failure> {
    let loaded = load(config, with);
    let probed = match &loaded {
        Ok((loaded, _)) if how.connect => super::ask(async { connect(loaded).await.map_err(Failure::other) })?,
        _ => Vec::new(),
    };
    if how.json {
        output.line(match &loaded {
            Ok((_, warnings)) => {
                let warnings: Vec<String> = warnings.iter().map(ToString::to_string).collect();
                let mut told = json!({ "valid": true, "warnings": warnings });
                if how.connect {
                    told["probes"] = probed.iter().map(Probed::to_json).collect();
                }
                told
            }
            Err(Unloaded::Wrong(problems)) => {
                // Without the quoted lines, which are indented.
                let problems = problems.to_string();
                let problems: Vec<&str> = problems.lines().filter(|line| !line.starts_with("  ")).collect();
                json!({ "valid": false, "problems": problems })
            }
            Err(Unloaded::Unreadable(failure)) => json!({ "valid": false, "problems": [failure.to_string()] }),
        })?;
    }
    let (_, warnings) = loaded?;
    for warning in warnings {
        output.say(format_args!("warning: {warning}"));
    }
    let failed = probed.iter().filter(|probed| probed.outcome.is_err()).count();
    if !how.json {
        output.say(format_args!("{} is a valid configuration", files::name(config)));
        for Probed { whose, what, outcome } in &probed {
            match outcome {
                Ok(found) => output.say(format_args!("ok: {whose}: {what}: {found}")),
                Err(wrong) => output.say(format_args!("failed: {whose}: {what}: {wrong}")),
            }
        }
        if how.connect && probed.is_empty() {
            output.say("it names no backend that can be asked");
        }
    }
    if failed == 0 { Ok(()) } else { Err(Failure::other(format_args!("{failed} of {} probes failed", probed.len()))) }
}

/// Asks every backend, all at once, and tries what else is relied on.
async fn connect(config: &Config) -> Result<Vec<Probed>, String> {
    let (agents, servers) = (Agents::new(), ApiServers::new());
    let mut probes: Vec<(String, Probe)> = Vec::new();
    if let Some(block) = &config.storage {
        let whose = format!("storage {}", block.kind);
        let of_storage = block.config.probes(&agents).map_err(|problem| format!("{whose}: {problem}"))?;
        probes.extend(of_storage.into_iter().map(|probe| (whose.clone(), probe)));
    }
    for block in &config.namers {
        let whose = format!("namer {}", block.prefix);
        let of_namer = block.config.probes(&agents, &servers).map_err(|problem| format!("{whose}: {problem}"))?;
        probes.extend(of_namer.into_iter().map(|probe| (whose.clone(), probe)));
    }
    // It takes a whole relay to find its servers: they may be a name of one of its namers.
    let relay = match &config.interpreter {
        Some(_) => Some(Parts::build(config, &Legacy::default(), None)?),
        None => None,
    };
    if let Some((kind, relay)) = relay.as_ref().and_then(|parts| parts.relay.as_ref()) {
        let whose = format!("interpreter {kind}");
        probes.extend(relay.probes().into_iter().map(|probe| (whose.clone(), probe)));
    }
    if let Some(path) = config.own.state_dir.clone() {
        let what = path.display().to_string();
        let tried = heavy(move || StateDir::check(&path));
        let outcome = async { tried.await.unwrap_or_else(|| Err("the trial has failed; this is a defect".to_owned())) };
        probes.push(("stateDir".to_owned(), Probe::new(what, outcome)));
    }
    let asked = probes
        .into_iter()
        .map(|(whose, Probe { what, outcome })| async move { Probed { whose, what, outcome: outcome.await } });
    Ok(futures_util::future::join_all(asked).await)
}

// === impl Probed ===

impl Probed {
    fn to_json(&self) -> serde_json::Value {
        let Self { whose, what, outcome } = self;
        let (ok, text) = match outcome {
            Ok(text) => (true, text),
            Err(text) => (false, text),
        };
        json!({ "of": whose, "what": what, "ok": ok, "text": text })
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use crate::cli::testing::{Ran, Scratch, run_alone};

    const GOOD: &str = "storage: {kind: io.l5d.inMemory}\ninterfaces: [{kind: io.l5d.httpController}]\n";

    fn run(line: &[&str]) -> Ran {
        run_alone(line.iter().map(OsString::from).collect())
    }

    #[test]
    fn a_good_file_is_a_success_and_a_warning_changes_nothing() {
        let good = Scratch::new(&format!("{GOOD}admin: {{workerThreads: 3}}\n"));
        let own = Scratch::new("fixes: {destinationIpv6: true}\n");
        for line in [
            vec!["rosterd", "check", good.name(), "--with", own.name()],
            vec!["rosterd", "-validate", good.name(), "--with", own.name()],
        ] {
            let ran = run(&line);
            assert_eq!((ran.status, ran.data.as_str()), (0, ""));
            let namerd = format!("warning: {}:3:24: workerThreads has no effect\n", good.name());
            let why = "has no effect yet: what it belongs to is not built";
            let own = format!("warning: {}:1:26: destinationIpv6 {why}\n", own.name());
            assert_eq!(ran.talk, format!("{namerd}{own}{} is a valid configuration\n", good.name()));
        }
    }

    #[test]
    fn with_connect_the_state_directory_is_tried() {
        let file = Scratch::new("a file");
        for (path, status, words) in [
            (file.name(), 1, "is not a directory; make it a directory that this user may write, or change stateDir"),
            (std::env::temp_dir().to_str().unwrap(), 0, "can be written"),
        ] {
            let config = Scratch::new(&format!("{GOOD}stateDir: {path}\n"));
            let ran = run(&["rosterd", "check", "--connect", config.name()]);
            let outcome = if status == 0 { "ok" } else { "failed" };
            assert!(ran.talk.contains(&format!("{outcome}: stateDir: {path}: ")), "{}", ran.talk);
            assert!(ran.status == status && ran.talk.contains(words), "{}", ran.talk);
            assert_eq!(run(&["rosterd", "check", config.name()]).status, 0, "without it the file alone is looked at");
        }
    }

    #[test]
    fn the_configurations_of_the_project_are_valid() {
        let mut checked = 0;
        for entry in std::fs::read_dir("config").unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "yaml") {
                let name = path.to_str().unwrap();
                let ran = run(&["rosterd", "check", name]);
                assert_eq!((ran.status, ran.talk), (0, format!("{name} is a valid configuration\n")));
                checked += 1;
            }
        }
        assert!(checked >= 2, "config/ has quickstart.yaml and full.yaml");
    }

    #[test]
    fn a_bad_file_is_a_failure_with_every_mistake_in_its_line() {
        let bad = Scratch::new(&format!("{GOOD}admin: {{port: 70000}}\nrouters: []\n"));
        let ran = run(&["rosterd", "check", bad.name()]);
        assert_eq!((ran.status, ran.data.as_str()), (1, ""));
        let first = format!("{}:3:15: 70000 outside valid range for ports\n  3 | admin: {{port: 70000}}\n", bad.name());
        assert!(
            ran.talk.starts_with(&first) && ran.talk.contains(":4:1: Unrecognized field \"routers\""),
            "{}",
            ran.talk
        );
        let ran = run(&["rosterd", "check", bad.name(), "--json"]);
        let problems: serde_json::Value = serde_json::from_str(&ran.data).unwrap();
        assert_eq!(problems["problems"].as_array().unwrap().len(), 2, "{}", ran.data);
        assert_eq!((ran.status, &problems["valid"]), (1, &serde_json::Value::Bool(false)));
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let ran = run(&["rosterd", "check", "/does/not/exist"]);
        assert_eq!(ran.status, 1);
        assert!(ran.talk.starts_with("rosterd: cannot read /does/not/exist: No such file"), "{}", ran.talk);
        assert_eq!(run(&["rosterd", "check", "/"]).talk, "rosterd: config is not a file: /\n");
        assert!(run(&["rosterd", "check", "-", "--with", "-"]).talk.contains("one of the two files only"));
    }

    #[test]
    fn without_a_configuration_the_usage_is_shown_as_namerd_does() {
        let ran = run(&["rosterd"]);
        let usage =
            "usage: rosterd path/to/config\nno configuration is named; `rosterd --help` lists commands and options\n\n";
        assert_eq!((ran.status, ran.data.as_str(), ran.talk.as_str()), (1, "", usage));
        let ran = run(&["rosterd", "--wiht", "own.yaml", "a.yaml"]);
        assert!(ran.status == 1 && ran.talk.contains("'--wiht'") && ran.talk.contains("'--with'"), "{}", ran.talk);
        assert_eq!(run(&["rosterd", "a.yaml", "b.yaml"]).status, 1);
        assert_eq!(run(&["rosterd", "--unknown", "a.yaml"]).status, 1);
        let ran = run(&["rosterd", "-com.twitter.x=1", "-validate", "/does/not/exist"]);
        assert!(ran.talk.starts_with("warning: flags of namerd without effect here: -com.twitter.x\n"), "{}", ran.talk);
    }

    #[test]
    fn the_command_line_of_a_command_is_wrong_with_status_2() {
        for line in [&["rosterd", "check"][..], &["rosterd", "bind", "a"], &["rosterd", "bind", "a", "b"]] {
            assert_eq!(run(line).status, 2, "{line:?}");
        }
        let ran = run(&["rosterd", "version"]);
        assert_eq!((ran.status, ran.data), (0, format!("rosterd {}\n", env!("CARGO_PKG_VERSION"))));
        assert_eq!(run(&["rosterd", "--help"]).status, 0);
        assert_eq!(run(&["rosterd", "-help"]).status, 1);
    }
}
