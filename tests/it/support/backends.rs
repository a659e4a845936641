//! Real backends, which `tests/backends/backend` starts and which end with whoever started them here, however that ends.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use tempfile::TempDir;

use super::{folder, in_project};

/// A set of backends with ports and data of its own. A backend that cannot be had fails the test with the remedy.
pub struct Backends {
    serve: Child,
    /// None once the script is told to end everything.
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    environment: BTreeMap<String, String>,
    folder: TempDir,
}

impl Backends {
    /// An empty set.
    pub fn new() -> Self {
        let folder = folder();
        let mut serve = Command::new(in_project("tests/backends/backend"))
            .arg("serve")
            .env("BACKENDS_STATE", folder.path())
            .env("CONSUL_DC2_WAN_ADDRESS", super::line::NEAR_END)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Not among those that a time limit on the test run kills at once: it still has to end the backends.
            .process_group(0)
            .spawn()
            .expect("tests/backends/backend can be run");
        let commands = serve.stdin.take();
        let answers = BufReader::new(serve.stdout.take().expect("stdout is piped"));
        let mut backends = Self { serve, commands, answers, environment: BTreeMap::new(), folder };
        let environment = backends.command("env");
        let pair = |line: &str| line.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
        backends.environment = environment.lines().filter_map(pair).collect();
        backends
    }

    /// Gives the script one of its commands and waits until it has done it: what it said.
    pub fn command(&mut self, command: &str) -> String {
        let commands = self.commands.as_mut().expect("open until dropped");
        writeln!(commands, "{command}").expect("the script reads");
        let mut said = String::new();
        loop {
            let mut line = String::new();
            let length = self.answers.read_line(&mut line).expect("the script writes text");
            match line.trim_end() {
                "ok" => return said,
                "failed" => panic!("tests/backends/backend {command}:\n{said}"),
                _ => assert!(length > 0, "tests/backends/backend ended at {command:?}:\n{said}"),
            }
            said.push_str(&line);
        }
    }

    /// The address or token of this name in what `backend env` says.
    pub fn variable(&self, name: &str) -> &str {
        self.environment.get(name).unwrap_or_else(|| panic!("no {name} in {:?}", self.environment))
    }

    /// What a backend has written so far.
    pub fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(name).join("log")).unwrap_or_default()
    }
}

impl Drop for Backends {
    fn drop(&mut self) {
        self.commands = None;
        self.serve.wait().ok();
    }
}
