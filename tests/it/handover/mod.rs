//! A new process takes the place of a running one, and nobody notices.

mod place;
mod restarts;
pub mod router;
mod unnoticed;

use std::sync::atomic::{AtomicUsize, Ordering};

use tempfile::TempDir;

use crate::support::{Authority, Rosterd, folder};

const THRIFT: &str = "io.l5d.thriftNameInterpreter";

/// What processes that follow each other share.
struct Home {
    folder: TempDir,
    written: AtomicUsize,
    /// What the interfaces have besides: how they speak TLS.
    tls: String,
}

impl Home {
    fn new() -> Self {
        let folder = folder();
        std::fs::create_dir(folder.path().join("disco")).expect("an empty folder");
        Self { folder, written: AtomicUsize::new(0), tls: String::new() }
    }

    /// With interfaces that speak TLS.
    fn with_tls(authority: &Authority) -> Self {
        let mut home = Self::new();
        let path = home.folder.path();
        authority.issue().write_to(path);
        let path = path.display();
        home.tls = format!(", tls: {{certPath: {path}/cert.pem, keyPath: {path}/key.pem}}");
        home
    }

    /// A configuration on free ports, or on those of the process before, with further keys.
    fn config(&self, keys: &str) -> String {
        let (home, tls) = (self.folder.path().display(), &self.tls);
        format!(
            "storage: {{kind: io.l5d.inMemory, namespaces: {{default: '/svc => /#/io.l5d.fs'}}}}
namers: [{{kind: io.l5d.fs, rootDir: {home}/disco}}]
interfaces:
- {{kind: io.l5d.httpController, port: 0{tls}}}
- {{kind: {THRIFT}, port: 0{tls}}}
stateDir: {home}/state
{keys}"
        )
    }

    /// Gives a name this address.
    fn set(&self, name: &str, port: u16) {
        // A task that is being ended may still write.
        let new = self.folder.path().join(format!("new{}", self.written.fetch_add(1, Ordering::Relaxed)));
        let file = self.folder.path().join("disco").join(name);
        std::fs::write(&new, format!("127.0.0.1 {port}\n")).expect("the folder is writable");
        std::fs::rename(&new, &file).expect("the folder is writable");
    }

    fn start(&self, keys: &str) -> Rosterd {
        Rosterd::start(&self.config(keys))
    }

    /// Starts one in the place of the one that runs.
    fn take_over(&self, keys: &str) -> Rosterd {
        let mut new = Rosterd::spawn_with(folder(), &self.config(keys), &["--take-over"]);
        new.learn_ports(&self.config(keys));
        new
    }
}

/// How often something is to be done: the number in the environment, or this one.
fn times(variable: &str, otherwise: usize) -> usize {
    std::env::var(variable).ok().and_then(|number| number.parse().ok()).unwrap_or(otherwise)
}
