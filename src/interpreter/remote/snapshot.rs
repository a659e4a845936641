//! What a relay knew before it was restarted: the last good values, in a file in `stateDir`.
//!
//! The file is gzip, whose sum tells whether it is whole, of lines of JSON: a head that says what this is, then one line
//! a value. A value is the answer of the thrift interface, whatever the relay speaks. The file is written beside the old
//! one and takes its place at once. What cannot be read is set aside and told, and never keeps a relay from starting.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::BoundTree;
use crate::client::mux::read_answer;
use crate::client::{Answer, Ask};
use crate::name::{Addr, Limits, Path};
use crate::runtime::{LastingFile, StateDir};
use crate::storage::VersionedDtab;
use crate::thrift::{Method, reply_head, result};

const FORMAT: u32 = 1;

/// Bytes of all lines; values that find no room are left out.
const MOST_BYTES: u64 = 256 << 20;

/// What nobody has asked for since it was written is forgotten when it is as old as this.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(24 * 3600);

/// The values of one relay in one file.
pub(super) struct Snapshot {
    pub(super) file: LastingFile,
    head: Head,
    limits: Limits,
    /// What was in the file when the process began, and nobody has asked for since.
    unclaimed: Mutex<HashMap<Ask, Entry>>,
    /// Why it cannot be read, while it is another process's.
    unread: Mutex<Option<io::Error>>,
}

/// A value that is known.
#[derive(Clone, Debug)]
pub(super) enum Known {
    Tree(Arc<BoundTree>),
    Addr(Arc<Addr>),
    Dtab(Arc<Option<VersionedDtab>>),
}

/// What the file is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Head {
    rosterd: String,
    format: u32,
    kind: String,
    dst: String,
}

/// One line: what was asked, and what was answered.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bind: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    addr: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ns: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dtab: Option<String>,
    /// The version of a dtab, in Base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    /// When a server last vouched for it, in seconds since 1970.
    at: u64,
    /// The answer, in Base64; none = there is no such namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    answer: Option<String>,
}

// === impl Snapshot ===

impl Snapshot {
    /// Reads what is there of the server `dst` that is asked by `kind`, and touches nothing: the file may be another
    /// process's.
    pub(super) fn open(folder: &StateDir, kind: &str, dst: &Path, limits: Limits) -> Self {
        let head = Head { rosterd: "relay".to_owned(), format: FORMAT, kind: kind.to_owned(), dst: dst.to_string() };
        let file = folder.file("relay.snapshot.gz", "the file of last good values");
        let read = file.open().and_then(|there| there.map_or_else(|| Ok(HashMap::new()), |there| read(there, &head)));
        let (unclaimed, unread) = match read {
            Ok(unclaimed) => (unclaimed, None),
            Err(error) => (HashMap::new(), Some(error)),
        };
        if !unclaimed.is_empty() {
            tracing::info!(
                values = unclaimed.len(),
                "last good values of before are there, should the servers be away"
            );
        }
        Self { file, head, limits, unclaimed: Mutex::new(unclaimed), unread: Mutex::new(unread) }
    }

    /// The file is ours: what is of no use there makes room. Blocks.
    pub(super) fn is_ours(&self) {
        self.file.is_ours();
        if let Some(error) = self.unread.lock().take() {
            self.file.set_aside(&error);
        }
    }

    /// Whether there is a last good answer of before.
    pub(super) fn has(&self, ask: &Ask) -> bool {
        self.unclaimed.lock().contains_key(ask)
    }

    /// The last good answer of before, and when it was one. It is given once.
    pub(super) fn claim(&self, ask: &Ask) -> Option<(Answer, SystemTime)> {
        let entry = self.unclaimed.lock().remove(ask)?;
        match entry.answer(ask, &self.limits) {
            Ok(answer) => Some((answer, UNIX_EPOCH + Duration::from_secs(entry.at))),
            Err(why) => {
                tracing::warn!(watch = %ask, why, "a last good value of before cannot be used");
                None
            }
        }
    }

    /// Writes what is known, and what of before nobody has asked for yet. The file must be ours.
    ///
    /// # Errors
    /// The file system does not take it; the file of before stays.
    pub(super) fn write(&self, known: &[(Ask, SystemTime, Known)]) -> io::Result<()> {
        self.is_ours();
        let now = seconds(SystemTime::now());
        let still: Vec<Entry> = {
            let mut unclaimed = self.unclaimed.lock();
            for (ask, ..) in known {
                unclaimed.remove(ask); // a server has answered it
            }
            unclaimed.retain(|_, entry| entry.at + FORGOTTEN_AFTER.as_secs() > now);
            unclaimed.values().cloned().collect()
        };
        let known = known.iter().filter_map(|(ask, at, value)| Entry::new(ask, *at, value));
        let mut left_out = 0_usize;
        self.file.replace(|file| {
            let mut out = GzEncoder::new(file, Compression::fast());
            let mut room = MOST_BYTES;
            let mut line = serde_json::to_vec(&self.head)?;
            line.push(b'\n');
            out.write_all(&line)?;
            for entry in known.chain(still) {
                line.clear();
                serde_json::to_writer(&mut line, &entry)?;
                line.push(b'\n');
                match room.checked_sub(line.len() as u64) {
                    Some(rest) => room = rest,
                    None => {
                        left_out += 1;
                        continue;
                    }
                }
                out.write_all(&line)?;
            }
            out.finish().map(|_| ())
        })?;
        if left_out > 0 {
            tracing::warn!(left_out, most_bytes = MOST_BYTES, "not all last good values are kept: they are too many");
        }
        Ok(())
    }
}

/// The entries of a file.
fn read(file: File, wanted: &Head) -> io::Result<HashMap<Ask, Entry>> {
    let bad = |text: String| io::Error::new(io::ErrorKind::InvalidData, text);
    let mut lines = BufReader::new(GzDecoder::new(BufReader::new(file)).take(MOST_BYTES + (1 << 20)));
    let mut line = String::new();
    lines.read_line(&mut line)?;
    let head: Head = serde_json::from_str(&line).map_err(|error| bad(format!("line 1: {error}")))?;
    if head != *wanted {
        return Err(bad(format!("it is of {} at {}, format {}", head.kind, head.dst, head.format)));
    }
    let mut entries = HashMap::new();
    for number in 2.. {
        line.clear();
        if lines.read_line(&mut line)? == 0 {
            break;
        }
        let entry: Entry = serde_json::from_str(&line).map_err(|error| bad(format!("line {number}: {error}")))?;
        let ask = entry.ask().ok_or_else(|| bad(format!("line {number}: nothing that is asked")))?;
        entries.insert(ask, entry);
    }
    Ok(entries)
}

// === impl Entry ===

impl Entry {
    /// None if there is nothing worth keeping.
    fn new(ask: &Ask, at: SystemTime, known: &Known) -> Option<Self> {
        let message = |method: Method, body: Bytes| {
            let mut message = BytesMut::new();
            reply_head(&mut message, method.name().as_bytes(), 0);
            message.extend_from_slice(&body);
            STANDARD.encode(message)
        };
        let none = Self { bind: None, addr: None, ns: None, dtab: None, version: None, at: seconds(at), answer: None };
        match (ask, known) {
            (Ask::Bind { ns, dtab, path }, Known::Tree(tree)) => Some(Self {
                bind: Some(path.to_string()),
                ns: Some(ns.to_string()),
                dtab: Some(dtab.to_string()),
                answer: Some(message(Method::Bind, result::bound(1, tree, ns))),
                ..none
            }),
            (Ask::Addr { id }, Known::Addr(addr)) => {
                let set = match &**addr {
                    Addr::Bound(set) => Some(set),
                    Addr::Neg => None,
                    Addr::Failed(_) => return None,
                };
                let answer = Some(message(Method::Addr, result::addr(1, set, true)));
                Some(Self { addr: Some(id.to_string()), answer, ..none })
            }
            (Ask::Dtab { ns }, Known::Dtab(dtab)) => {
                let version = dtab.as_ref().as_ref().map(|dtab| STANDARD.encode(dtab.version()));
                let text = dtab.as_ref().as_ref().map(|dtab| dtab.dtab().to_string());
                let answer = text.map(|text| message(Method::Dtab, result::dtab(1, &text)));
                Some(Self { ns: Some(ns.to_string()), version, answer, ..none })
            }
            _ => None,
        }
    }

    fn ask(&self) -> Option<Ask> {
        let path = |text: &str| Path::parse(text).ok();
        match self {
            Self { bind: Some(bind), ns: Some(ns), dtab, .. } => Some(Ask::Bind {
                ns: ns.as_str().into(),
                dtab: dtab.as_deref().unwrap_or_default().into(),
                path: path(bind)?,
            }),
            Self { addr: Some(id), .. } => Some(Ask::Addr { id: path(id)? }),
            Self { bind: None, ns: Some(ns), .. } => Some(Ask::Dtab { ns: ns.as_str().into() }),
            _ => None,
        }
    }

    fn answer(&self, ask: &Ask, limits: &Limits) -> Result<Answer, String> {
        let Some(answer) = &self.answer else {
            return if matches!(ask, Ask::Dtab { .. }) { Ok(Answer::Dtab(None)) } else { Err("no answer".to_owned()) };
        };
        let message = STANDARD.decode(answer).map_err(|error| error.to_string())?;
        let answer = read_answer(ask, &message, limits).map_err(|failure| failure.to_string())?;
        let version =
            STANDARD.decode(self.version.as_deref().unwrap_or_default()).map_err(|error| error.to_string())?;
        Ok(match answer {
            Answer::Dtab(Some((dtab, _))) => Answer::Dtab(Some((dtab, version.into()))),
            other => other,
        })
    }
}

fn seconds(at: SystemTime) -> u64 {
    at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path as FilePath;

    use super::super::{addr, dtabs, tree};
    use super::*;

    fn path(text: &str) -> Path {
        Path::parse(text).expect("a path")
    }

    fn open(folder: &FilePath) -> Snapshot {
        let dst = path("/$/inet/namerd/4100");
        let snapshot = Snapshot::open(&StateDir::open(folder), "io.l5d.namerd", &dst, Limits::DEFAULT);
        snapshot.is_ours();
        snapshot
    }

    /// One value of each kind, as answers.
    fn answers() -> Vec<(Ask, Answer)> {
        let set = crate::name::AddrSet::new(
            (1..=3).map(|n| std::net::SocketAddr::from(([10, 0, 0, n], 80)).into()).collect(),
            crate::name::Meta::default(),
        );
        let leaf = crate::client::Named { id: path("/#/fs/web"), residual: path("/a"), weight: None };
        let dtab = crate::name::Dtab::parse("/svc=>/#/fs").expect("a dtab");
        vec![
            (
                Ask::Bind { ns: "default".into(), dtab: "/a=>/b".into(), path: path("/svc/web") },
                Answer::Tree(crate::name::NameTree::Leaf(leaf)),
            ),
            (Ask::Addr { id: path("/#/fs/web") }, Answer::Addr(Addr::Bound(set))),
            (Ask::Addr { id: path("/#/fs/no") }, Answer::Addr(Addr::Neg)),
            (Ask::Dtab { ns: "default".into() }, Answer::Dtab(Some((dtab, Bytes::from_static(b"\0\x01"))))),
            (Ask::Dtab { ns: "no".into() }, Answer::Dtab(None)),
        ]
    }

    fn known(answer: Answer) -> Known {
        match answer {
            Answer::Tree(_) => Known::Tree(Arc::new(tree(answer).expect("a tree"))),
            Answer::Addr(_) => Known::Addr(Arc::new(addr(answer).expect("addresses"))),
            _ => Known::Dtab(Arc::new(dtabs::versioned(answer).expect("a dtab"))),
        }
    }

    fn write(folder: &FilePath, at: SystemTime) {
        let known: Vec<_> = answers().into_iter().map(|(ask, answer)| (ask, at, known(answer))).collect();
        open(folder).write(&known).expect("written");
    }

    #[test]
    fn what_is_written_comes_back_once_with_its_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = UNIX_EPOCH + Duration::from_secs(seconds(SystemTime::now()) - 100);
        write(folder.path(), at);
        let snapshot = open(folder.path());
        for (ask, answer) in answers() {
            assert_eq!(snapshot.claim(&ask), Some((answer, at)), "{ask}");
            assert_eq!(snapshot.claim(&ask), None);
        }
    }

    #[test]
    fn what_nobody_asked_for_is_written_again_until_it_is_a_day_old() {
        let folder = tempfile::tempdir().expect("a folder");
        for (age, kept) in [(3600, 5), (25 * 3600, 0)] {
            write(folder.path(), SystemTime::now() - Duration::from_secs(age));
            open(folder.path()).write(&[]).expect("written");
            assert_eq!(open(folder.path()).unclaimed.lock().len(), kept);
        }
    }

    #[test]
    fn a_file_that_is_not_whole_or_of_others_is_set_aside() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("relay.snapshot.gz");
        write(folder.path(), SystemTime::now());
        let whole = fs::read(&file).expect("it is there");
        let mut spoilt: Vec<Vec<u8>> = (0..whole.len()).step_by(7).map(|end| whole[..end].to_vec()).collect();
        spoilt.extend((0..whole.len()).step_by(11).map(|at| {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x10;
            bytes
        }));
        // Some bits mean nothing, and some others mean the same in two ways.
        let unpacked = |bytes: &[u8]| {
            let mut text = Vec::new();
            GzDecoder::new(bytes).read_to_end(&mut text).map(|_| text).ok()
        };
        spoilt.retain(|bytes| unpacked(bytes) != unpacked(&whole));
        assert!(spoilt.len() > 50, "{}", spoilt.len());
        for bytes in spoilt {
            fs::write(&file, &bytes).expect("written");
            let snapshot = open(folder.path());
            assert_eq!(snapshot.unclaimed.lock().len(), 0);
            assert!(!file.exists() && folder.path().join("relay.snapshot.gz.unreadable").exists());
        }
        fs::write(&file, &whole).expect("written");
        let state = StateDir::open(folder.path());
        let other = Snapshot::open(&state, "io.l5d.namerd", &path("/$/inet/other/4100"), Limits::DEFAULT);
        assert_eq!(other.unclaimed.lock().len(), 0);
        assert_eq!(fs::read(&file).expect("it may be another process's"), whole);
        other.is_ours();
        assert!(!file.exists(), "set aside");
        write(folder.path(), SystemTime::now());
        assert_eq!(open(folder.path()).unclaimed.lock().len(), 5, "and later ones are good again");
    }

    #[test]
    fn a_folder_that_cannot_be_used_keeps_nobody_from_starting() {
        let folder = tempfile::tempdir().expect("a folder");
        let taken = folder.path().join("taken");
        fs::write(&taken, "a file").expect("written");
        let snapshot = open(&taken);
        assert_eq!(snapshot.claim(&Ask::Dtab { ns: "default".into() }), None);
        assert!(snapshot.write(&[]).is_err());
    }
}
