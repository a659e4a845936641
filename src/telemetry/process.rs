//! The process itself: memory, descriptors, processor time, age.

use std::fmt;
use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::info::Info;
use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};
use tokio::runtime::Handle;

use super::MetricsSetup;
use super::collect::{counter, gauge};

/// What program this is, and since when it runs.
#[derive(Clone, Copy, Debug)]
pub struct Process {
    /// The version of the program.
    pub version: &'static str,
    /// The revision of its source, where the build knew it.
    pub revision: &'static str,
    /// When it started.
    pub started: SystemTime,
}

/// How much the program has going on; what grows without end is a leak.
#[derive(Debug)]
struct Tasks;

/// Figures that the system keeps; none where it does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Stat {
    resident_bytes: f64,
    cpu_seconds: f64,
}

// === impl Process ===

impl Process {
    /// This process; to be made when it starts.
    pub fn new() -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION"),
            revision: option_env!("ROSTERD_REVISION").unwrap_or("unknown"),
            started: SystemTime::now(),
        }
    }

    /// Time since the start.
    pub fn uptime(&self) -> Duration {
        self.started.elapsed().unwrap_or_default()
    }

    /// Registers what is known about the process. namerd's names are those of its Java machine; of these only what
    /// dashboards show and what has a meaning here: the heap is all memory in use.
    pub fn register(self, setup: &mut MetricsSetup) {
        setup.common.register_collector(Box::new(self));
        setup.own.register("build", "The program", Info::new([("version", self.version), ("revision", self.revision)]));
        setup.own.register_collector(Box::new(Tasks));
        let jvm = setup.legacy.scope("jvm");
        jvm.gauge("start_time", move || millis(self.since_epoch()));
        jvm.gauge("uptime", move || millis(self.uptime()));
        jvm.gauge("num_cpus", || std::thread::available_parallelism().map_or(1.0, |cpus| cpus.get() as f64));
        jvm.gauge("fd_count", || open_descriptors().unwrap_or(f64::NAN));
        jvm.gauge("fd_limit", || descriptor_limit().unwrap_or(f64::NAN));
        jvm.gauge("heap/used", || stat().map_or(f64::NAN, |stat| stat.resident_bytes));
    }

    fn since_epoch(&self) -> Duration {
        self.started.duration_since(UNIX_EPOCH).unwrap_or_default()
    }
}

impl Default for Process {
    fn default() -> Self {
        Self::new()
    }
}

impl Collector for Tasks {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        // Outside of a runtime there are none.
        let alive = Handle::try_current().map_or(0, |runtime| runtime.metrics().num_alive_tasks());
        gauge(&mut encoder, "tasks", "Tasks that are alive: watches, connections, timers", alive as f64)
    }
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let to = &mut encoder;
        if let Some(stat) = stat() {
            gauge(to, "process_resident_memory_bytes", "Memory in use", stat.resident_bytes)?;
            counter(to, "process_cpu_seconds", "Processor time used", stat.cpu_seconds)?;
        }
        if let Some(open) = open_descriptors() {
            gauge(to, "process_open_fds", "Open file descriptors", open)?;
        }
        if let Some(limit) = descriptor_limit() {
            gauge(to, "process_max_fds", "File descriptors that may be open", limit)?;
        }
        let started = self.since_epoch().as_secs_f64();
        gauge(to, "process_start_time_seconds", "Start of the process, in seconds since 1970", started)
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn stat() -> Option<Stat> {
    let text = fs::read_to_string("/proc/self/stat").ok()?;
    parse_stat(&text, clock_ticks_per_second() as f64, page_size() as f64)
}

/// Reads `/proc/self/stat` (see proc_pid_stat(5)).
fn parse_stat(text: &str, ticks_per_second: f64, page: f64) -> Option<Stat> {
    // The second field is the name of the program in parentheses, which may hold anything.
    let (_, fields) = text.rsplit_once(')')?;
    let number = |field: usize| fields.split_ascii_whitespace().nth(field - 3)?.parse::<f64>().ok();
    let (user, system, pages) = (number(14)?, number(15)?, number(24)?);
    Some(Stat { resident_bytes: pages * page, cpu_seconds: (user + system) / ticks_per_second })
}

fn open_descriptors() -> Option<f64> {
    const OPEN: &str = "/proc/self/fd";
    // Linux 6.2 and later say how many there are; counting a hundred thousand takes long.
    match fs::metadata(OPEN).ok()?.len() {
        0 => Some(fs::read_dir(OPEN).ok()?.count() as f64),
        count => Some(count as f64),
    }
}

fn descriptor_limit() -> Option<f64> {
    getrlimit(Resource::Nofile).current.map(|limit| limit as f64)
}

#[cfg(test)]
mod tests {
    use super::super::{JsonQuery, Legacy};
    use super::*;

    #[test]
    fn a_program_with_a_strange_name_is_read_all_the_same() {
        let text = "7 (a) b) S 1 7 7 0 -1 4194560 1 2 3 4 150 50 0 0 20 0 3 0 12345 1000000 256 18446744073709551615 1";
        let stat = parse_stat(text, 100.0, 4096.0).expect("read");
        assert_eq!(stat, Stat { resident_bytes: 1_048_576.0, cpu_seconds: 2.0 });
        assert_eq!(parse_stat("7 (a) S 1", 100.0, 4096.0), None);
    }

    #[tokio::test]
    async fn the_process_is_shown_under_both_sets_of_names() {
        let mut setup = MetricsSetup::new(Legacy::default());
        Process::new().register(&mut setup);
        let metrics = setup.finish();
        let own = metrics.own_text();
        let resident = own.lines().find_map(|line| line.strip_prefix("process_resident_memory_bytes "));
        assert!(resident.and_then(|value| value.parse::<f64>().ok()).is_some_and(|bytes| bytes > 1e6), "{own}");
        for line in ["# TYPE process_open_fds gauge", "# TYPE process_cpu_seconds_total counter"] {
            assert!(own.contains(line), "{own}");
        }
        let version = env!("CARGO_PKG_VERSION");
        assert!(own.contains(&format!("rosterd_build_info{{version=\"{version}\",revision=\"")), "{own}");
        let jvm = metrics.legacy().json(JsonQuery { subtree: Some("jvm"), ..JsonQuery::default() }).expect("jvm");
        let jvm: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&jvm).expect("JSON");
        let names: Vec<&str> = jvm.keys().map(String::as_str).collect();
        assert_eq!(names, ["fd_count", "fd_limit", "heap/used", "num_cpus", "start_time", "uptime"]);
        assert!(jvm["fd_count"].as_f64().is_some_and(|open| (3.0..10_000.0).contains(&open)), "{jvm:?}");
    }
}
