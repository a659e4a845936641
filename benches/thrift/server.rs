//! The rosterd that is measured, with what the kernel and its own metrics say about it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::support::{PATIENCE, Rosterd, Wire, folder, get};

/// A running server. Its namespaces are `touched` and `other`.
pub struct Server {
    rosterd: Rosterd,
    control: Wire,
    disco: PathBuf,
    /// Dtabs sent whose answers were not taken.
    sent: usize,
}

// === impl Server ===

impl Server {
    pub fn start() -> Self {
        let folder = folder();
        let disco = folder.path().join("disco");
        fs::create_dir(&disco).expect("the folder is writable");
        let rosterd = Rosterd::start_in(
            folder,
            "storage: {kind: io.l5d.inMemory, namespaces: {touched: '', other: ''}}\n\
             namers: [{kind: io.l5d.fs, rootDir: disco}]\n\
             interfaces:\n\
             - {kind: io.l5d.httpController, port: 0}\n\
             - kind: io.l5d.thriftNameInterpreter\n\
             \x20 port: 0\n\
             \x20 cache: {bindingCacheActive: 200000, addrCacheActive: 200000}\n",
        );
        let control = Wire::open(rosterd.http());
        Self { rosterd, control, disco, sent: 0 }
    }

    /// The port that routers poll.
    pub fn port(&self) -> u16 {
        self.rosterd.port("io.l5d.thriftNameInterpreter")
    }

    /// Sends a new dtab for a namespace; returns when that was. [`Server::stored`] takes the answer.
    pub fn put(&mut self, namespace: &str, dtab: &str) -> Instant {
        let head = "HTTP/1.1\r\nHost: x\r\nContent-Type: application/dtab";
        let length = dtab.len();
        let request = format!("PUT /api/1/dtabs/{namespace} {head}\r\nContent-Length: {length}\r\n\r\n{dtab}");
        let began = Instant::now();
        self.control.send(request.as_bytes());
        self.sent += 1;
        began
    }

    /// The dtabs that were sent have been stored.
    pub fn stored(&mut self) {
        for _ in 0..std::mem::take(&mut self.sent) {
            let answer = self.control.answer(false);
            assert_eq!(answer.head.status(), 204, "{answer:?}");
        }
    }

    /// Replaces the file of a name; returns when that was.
    pub fn write(&self, name: &str, content: &str) -> Instant {
        let new = self.disco.with_file_name(format!("{name}.new"));
        fs::write(&new, content).expect("the folder is writable");
        let began = Instant::now();
        fs::rename(new, self.disco.join(name)).expect("the folder is writable");
        began
    }

    /// Waits until so many polls are parked, and says how long that took.
    pub fn wait_until_parked(&self, polls: usize) -> Duration {
        let began = Instant::now();
        loop {
            let parked = self.metric("rosterd_thrift_parked_polls");
            if parked as usize == polls {
                return began.elapsed();
            }
            assert!(began.elapsed() < PATIENCE, "{parked} polls are parked, not {polls}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// The sum over all labels.
    pub fn metric(&self, name: &str) -> f64 {
        let text = String::from_utf8(get(self.rosterd.admin(), "/metrics").body).expect("text");
        let values = text.lines().filter_map(|line| {
            let behind = line.strip_prefix(name).filter(|behind| behind.starts_with(['{', ' ']))?;
            behind.rsplit(' ').next()?.parse::<f64>().ok()
        });
        values.sum()
    }

    /// How many names the file namer watches.
    pub fn watched_names(&self) -> usize {
        let page = get(self.rosterd.admin(), "/namer_state/io.l5d.fs.json").body;
        let page: serde_json::Value = serde_json::from_slice(&page).expect("JSON");
        page["state"]["value"].as_object().map_or(0, serde_json::Map::len)
    }

    /// Processor time that its threads have used.
    pub fn cpu(&self) -> Duration {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.rosterd.pid())).expect("the process runs");
        // A thread may end meanwhile.
        tasks.flatten().filter_map(|task| computed(&task.path().join("schedstat"))).sum()
    }

    /// Bytes of memory that are resident.
    pub fn resident(&self) -> u64 {
        self.rosterd.resident()
    }
}

/// Processor time that the calling thread has used.
pub fn own_cpu() -> Duration {
    computed("/proc/thread-self/schedstat".as_ref()).expect("the kernel keeps such figures")
}

/// The first figure of such a file: nanoseconds on a processor.
fn computed(file: &Path) -> Option<Duration> {
    fs::read_to_string(file).ok()?.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}
