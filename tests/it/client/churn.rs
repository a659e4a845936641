//! Names that change all the time, as files for real servers, and how far behind somebody is.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rosterd::name::AddrSet;
use tempfile::TempDir;

use super::namerd::set;
use crate::support::{Rosterd, folder};

/// How many names there are: 0, 1, 2, …
pub const NAMES: usize = 20;

/// All names have the same addresses at a time; they change for as long as this lives.
pub struct Names {
    disco: TempDir,
    history: Arc<Mutex<History>>,
    over: Arc<AtomicBool>,
    writer: Option<JoinHandle<()>>,
}

/// What the addresses were, and since when; the newest last.
type History = VecDeque<(Instant, AddrSet)>;

impl Names {
    pub fn changing_every(period: Duration) -> Self {
        let (disco, over) = (folder(), Arc::new(AtomicBool::new(false)));
        let history: Arc<Mutex<History>> = Arc::default();
        let (to, kept, ended) = (disco.path().to_owned(), history.clone(), over.clone());
        write(&to, 0, &kept);
        let writer = std::thread::spawn(move || {
            for generation in 1.. {
                std::thread::sleep(period);
                if ended.load(Ordering::SeqCst) {
                    return;
                }
                write(&to, generation, &kept);
            }
        });
        Self { disco, history, over, writer: Some(writer) }
    }

    /// A server of these names with these interfaces.
    pub fn server(&self, interfaces: &str) -> Rosterd {
        Rosterd::start(&format!(
            "storage: {{kind: io.l5d.inMemory, namespaces: {{default: /svc => /#/io.l5d.fs}}}}\n\
             namers: [{{kind: io.l5d.fs, rootDir: {}}}]\n\
             interfaces: [{interfaces}]\n\
             drain: {{spreadMs: 100}}\n",
            self.disco.path().display()
        ))
    }

    /// Whether what somebody has is of after `moment`.
    pub fn is_since(&self, moment: Instant, has: Option<&AddrSet>) -> bool {
        let history = self.history.lock();
        history.iter().rev().take_while(|(at, _)| *at > moment).any(|(_, value)| Some(value) == has)
    }

    /// How long ago what somebody has was replaced.
    pub fn behind(&self, has: Option<&AddrSet>) -> Duration {
        let history = self.history.lock();
        let place = history.iter().rposition(|(_, value)| Some(value) == has);
        history.get(place.map_or(0, |place| place + 1)).map_or(Duration::ZERO, |(at, _)| at.elapsed())
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        self.writer.take().expect("it was begun").join().expect("no panic");
    }
}

fn write(disco: &Path, generation: u32, history: &Mutex<History>) {
    const KEPT: usize = 1_000;
    let [_, a, b, c] = generation.to_be_bytes();
    let address = format!("10.{a}.{b}.{c}");
    {
        // Before anybody can have seen it.
        let mut history = history.lock();
        history.push_back((Instant::now(), set(&[&format!("{address}:80")])));
        if history.len() > KEPT {
            history.pop_front();
        }
    }
    for name in 0..NAMES {
        // Seen at once, and never in part.
        let (file, made) = (disco.join(name.to_string()), disco.join(format!(".{name}")));
        std::fs::write(&made, format!("{address} 80\n")).expect("written");
        std::fs::rename(made, file).expect("renamed");
    }
}
