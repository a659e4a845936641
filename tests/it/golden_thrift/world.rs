//! Who is spoken to: a rosterd with the recorded configuration and files.

use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpStream;
use std::time::Duration;

use rustix::process::Signal as Kind;
use tempfile::TempDir;

use super::recording::{Deed, Events, Recording, Signal};
use super::replay::World;
use crate::support::{Action, Configuration, PlayedConsul, Rosterd, folder, not_built};

pub const INTERFACE: &str = "io.l5d.thriftNameInterpreter";

/// The answer to a SIGTERM takes this long at most, with the default settings.
const TO_END: Duration = Duration::from_secs(15);

pub struct Running {
    pub rosterd: Rosterd,
    /// Kinds that were left out of the configuration.
    pub dropped: BTreeSet<String>,
    config: String,
    disco: TempDir,
    /// Files and dtabs that are there when a conversation begins.
    files: BTreeMap<String, String>,
    dtabs: BTreeMap<String, String>,
    consul: PlayedConsul,
}

impl Running {
    /// With the recorded configuration and files, and with further keys behind the recorded ones.
    pub fn start(recording: &Recording, keys: &str) -> Self {
        let disco = folder();
        let consul = PlayedConsul::start();
        let recorded = recording.namerd_config.as_ref().expect("the recording has a configuration");
        let mut configuration = Configuration::of(recorded, disco.path(), consul.port(), &not_built());
        configuration.text.push_str(keys);
        for (name, text) in &recording.fs_disco {
            std::fs::write(disco.path().join(name), text).expect("the folder is writable");
        }
        Self {
            rosterd: Rosterd::start(&configuration.text),
            dropped: configuration.dropped,
            config: configuration.text,
            disco,
            files: recording.fs_disco.clone(),
            dtabs: BTreeMap::new(),
            consul,
        }
    }

    /// Makes everything as it was when the conversation began.
    pub fn prepare(&mut self, recording: &Recording, events: &Events) {
        assert_eq!(self.files, recording.fs_disco, "all recordings begin with the same files");
        for (name, text) in &self.files {
            if std::fs::read_to_string(self.disco.path().join(name)).ok().as_ref() != Some(text) {
                self.act_on_data(&Action::Write { write: name.clone(), text: text.clone(), shown: None });
            }
        }
        self.dtabs.clone_from(&recording.dtabs);
        self.store_dtabs();
        events.start(&recording.name).iter().for_each(|action| self.act_on_data(action));
    }

    fn store_dtabs(&self) {
        for (put, dtab) in &self.dtabs {
            self.act_on_data(&Action::Put { put: put.clone(), dtab: dtab.clone() });
        }
    }

    pub fn act_on_data(&self, action: &Action) {
        action.act(&self.rosterd, self.disco.path());
    }

    pub fn port(&self) -> u16 {
        self.rosterd.port(INTERFACE)
    }
}

impl World for Running {
    fn connect(&mut self, _conn: &str) -> TcpStream {
        TcpStream::connect(("127.0.0.1", self.port())).expect("the port is served")
    }

    fn act(&mut self, deed: &Deed) -> Result<(), String> {
        match deed {
            Deed::Data(action) => self.act_on_data(action),
            Deed::Consul { consul, nodes } => self.consul.set(consul, nodes),
            Deed::Connect { .. } => unreachable!("connections are opened by the conversation"),
            Deed::Refused { .. } => {
                TcpStream::connect(("127.0.0.1", self.port())).err().ok_or("a connection was accepted")?;
            }
            Deed::Signal { signal: Signal::Term } => self.rosterd.signal(Kind::TERM),
            Deed::Signal { signal: Signal::Kill } => {
                self.rosterd.signal(Kind::KILL);
                self.rosterd.wait(TO_END).ok_or("killed, and still there")?;
            }
            Deed::Restart { .. } => {
                self.rosterd = Rosterd::start(&self.config);
                // The storage is in memory.
                self.store_dtabs();
            }
            Deed::Ended { ended } => {
                let status = self.rosterd.wait(TO_END).ok_or("the process goes on")?;
                if status.code() != Some(*ended) {
                    return Err(format!("the process ended with {status}, not {ended}"));
                }
            }
        }
        Ok(())
    }
}
