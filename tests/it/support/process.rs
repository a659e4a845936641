//! Starts the real binary, learns its ports from what it says, and ends it.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::{PATIENCE, wire};

/// An empty folder that goes away with the test.
pub fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder can be made")
}

/// A running rosterd, stopped when it goes out of scope.
pub struct Rosterd {
    child: Child,
    output: Arc<Output>,
    ports: Vec<(String, u16)>,
    folder: TempDir,
}

/// All lines of stdout and stderr so far, in the order in which they came.
#[derive(Default)]
struct Output {
    lines: Mutex<Vec<String>>,
    grown: Condvar,
}

impl Rosterd {
    /// Starts rosterd with this configuration in a folder of its own and waits until it is ready.
    ///
    /// Ports should be 0. A configuration without `admin:` gets one on port 0.
    pub fn start(config: &str) -> Self {
        Self::start_in(folder(), config)
    }

    /// As [`Rosterd::start`], in a folder whose files the configuration may name, also relative to it.
    pub fn start_in(folder: TempDir, config: &str) -> Self {
        let mut started = Self::launch_in(folder, config);
        started.wait_until_ready();
        started
    }

    /// As [`Rosterd::start_in`], without asking the admin server whether it is ready.
    pub fn launch_in(folder: TempDir, config: &str) -> Self {
        let mut started = Self::spawn(folder, config);
        started.learn_ports(config);
        started
    }

    /// The folder of its configuration.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Bytes of memory that are resident, as the kernel counts them.
    pub fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("the process runs");
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("the kernel tells");
        let kilobytes = line.split_whitespace().nth(1).and_then(|number| number.parse::<u64>().ok());
        kilobytes.expect("a number of kB") << 10
    }

    /// Its id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Processor time that it has used, to the hundredth of a second.
    pub fn cpu(&self) -> Duration {
        self.cpu_parts().into_iter().sum()
    }

    /// Processor time of the program itself, and of the kernel for it.
    pub fn cpu_parts(&self) -> [Duration; 2] {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).expect("the process runs");
        // The name of the program, in parentheses, may hold blanks.
        let (_, fields) = stat.rsplit_once(')').expect("the kernel tells");
        let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
        [fields[11], fields[12]].map(|ticks| {
            let ticks: u64 = ticks.parse().expect("a number");
            Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
        })
    }

    /// Starts rosterd with a configuration that it must refuse: its exit status and all it said.
    pub fn refused(config: &str) -> (ExitStatus, String) {
        let mut started = Self::spawn(folder(), config);
        let status = started.wait(PATIENCE).unwrap_or_else(|| panic!("rosterd runs on:\n{}", started.output()));
        (status, started.output())
    }

    fn spawn(folder: TempDir, config: &str) -> Self {
        Self::spawn_with(folder, config, &[])
    }

    /// Starts rosterd with further arguments, and waits for nothing.
    pub fn spawn_with(folder: TempDir, config: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rosterd"));
        command.args(arguments).stdin(Stdio::null());
        Self::spawn_by(command, folder, config)
    }

    /// Starts rosterd by a command that takes its configuration as the last argument.
    pub fn spawn_by(mut command: Command, folder: TempDir, config: &str) -> Self {
        let file = folder.path().join("rosterd.yaml");
        let admin = if config.lines().any(|line| line.starts_with("admin:")) { "" } else { "admin: {port: 0}\n" };
        std::fs::write(&file, format!("{admin}{config}")).expect("the folder is writable");
        let mut child = command
            .arg(&file)
            .current_dir(folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary under test exists");
        let output = Arc::new(Output::default());
        Output::collect(&output, child.stdout.take().expect("stdout is piped"));
        Output::collect(&output, child.stderr.take().expect("stderr is piped"));
        Self { child, output, ports: Vec::new(), folder }
    }

    /// Ports as namerd announces them: `serving http on /127.0.0.1:9991` is the admin server, then one line per interface.
    pub fn learn_ports(&mut self, config: &str) {
        let interfaces = interfaces_in(config);
        let announced = |lines: &[String]| lines.iter().filter_map(|line| announcement(line)).collect::<Vec<_>>();
        let deadline = Instant::now() + PATIENCE;
        let mut lines = self.output.lines.lock();
        loop {
            self.ports = announced(&lines);
            if self.ports.len() > interfaces {
                return;
            }
            let exited = self.child.try_wait().expect("the child is ours");
            if exited.is_some() || Instant::now() > deadline {
                let state = exited.map_or("says too little".to_owned(), |status| format!("ended with {status}"));
                panic!("rosterd {state} instead of announcing {} ports:\n{}", interfaces + 1, lines.join("\n"));
            }
            self.output.grown.wait_for(&mut lines, Duration::from_millis(50));
        }
    }

    /// Waits until the admin server says so.
    pub fn wait_until_ready(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let answer = wire::get(self.admin(), "/ready");
            if answer.head.status() == 200 {
                return;
            }
            assert!(Instant::now() < deadline, "rosterd is not ready: {answer:?}\n{}", self.output());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The port of the admin server.
    pub fn admin(&self) -> u16 {
        self.port("admin")
    }

    /// The port of the HTTP controller.
    pub fn http(&self) -> u16 {
        self.port("io.l5d.httpController")
    }

    /// The port of the first interface of this kind.
    pub fn port(&self, kind: &str) -> u16 {
        let found = self.ports.iter().find(|(known, _)| known == kind);
        found.unwrap_or_else(|| panic!("no {kind} among {:?}", self.ports)).1
    }

    /// The ports of all interfaces of this kind, in order.
    pub fn ports(&self, kind: &str) -> Vec<u16> {
        self.ports.iter().filter(|(known, _)| known == kind).map(|(_, port)| *port).collect()
    }

    /// Everything rosterd said so far.
    pub fn output(&self) -> String {
        self.output.lines.lock().join("\n")
    }

    /// Waits until rosterd has said this.
    pub fn wait_for_output(&self, text: &str) {
        let deadline = Instant::now() + PATIENCE;
        let mut lines = self.output.lines.lock();
        while !lines.iter().any(|line| line.contains(text)) {
            let late = self.output.grown.wait_until(&mut lines, deadline).timed_out();
            assert!(!late, "rosterd never said {text:?}:\n{}", lines.join("\n"));
        }
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("the child is not reaped yet");
    }

    /// The exit status, if rosterd ends within this time.
    pub fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = self.child.try_wait().expect("the child is ours") {
                return Some(status);
            }
            if Instant::now() > deadline {
                return None;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Rosterd {
    fn drop(&mut self) {
        if std::thread::panicking() {
            writeln!(std::io::stderr(), "-- rosterd said:\n{}", self.output()).ok();
        }
        if self.wait(Duration::ZERO).is_some() {
            return;
        }
        self.signal(Signal::TERM);
        if self.wait(Duration::from_secs(5)).is_none() {
            self.child.kill().ok();
            self.child.wait().ok();
        }
    }
}

impl Output {
    /// Ends with the stream, thus with the process.
    fn collect(output: &Arc<Self>, stream: impl Read + Send + 'static) {
        let output = output.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
                output.lines.lock().push(String::from_utf8_lossy(&line).into_owned());
                output.grown.notify_all();
            }
        });
    }
}

/// `… serving http on /127.0.0.1:9991` → (`admin`, 9991); `… serving KIND interface on /127.0.0.1:4180` → (KIND, 4180).
fn announcement(line: &str) -> Option<(String, u16)> {
    let (what, address) = line.split_once("serving ")?.1.rsplit_once(" on ")?;
    let port = address.trim_end().rsplit_once(':')?.1.parse().ok()?;
    let kind = match what {
        "http" | "https" => "admin",
        other => other.strip_suffix(" interface")?,
    };
    Some((kind.to_owned(), port))
}

fn interfaces_in(config: &str) -> usize {
    let config: serde_yaml::Value = serde_yaml::from_str(config).expect("the test's configuration is YAML");
    config.get("interfaces").and_then(serde_yaml::Value::as_sequence).map_or(0, Vec::len)
}
