//! What an agent answers.

use std::hash::{BuildHasher, RandomState};
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::LazyLock;
use std::time::Duration;

use bytes::Bytes;
use flate2::read::GzDecoder;
use http::{HeaderMap, StatusCode};

use super::ConsulError;
use super::error::Asked;
use crate::runtime::heavy;

/// How much is read of one answer, unpacked: a service of some 300,000 instances.
pub const LARGEST: usize = 256 << 20;

/// A larger body is not read on the runtime's own threads; packed, lists of instances are some twenty times smaller.
const HEAVY_FROM: usize = 128 << 10;

/// An answer that a server gives from a state older than this is not sure.
const FRESH: Duration = Duration::from_secs(5);

/// What the answers of this process are told apart by.
static SEALS: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// Two answers with the same seal to the same request are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seal(u64);

/// Status, headers and body as they came.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// An answer with a good status.
#[derive(Clone, Debug)]
pub struct Answer {
    agent: String,
    path: String,
    /// False for a 404 that says that there is no such key: it has an index to wait on, and no body.
    pub found: bool,
    /// `X-Consul-Index`.
    pub index: Option<u64>,
    /// Whether some of it was left out because the token may not read it (`X-Consul-Results-Filtered-By-ACLs`). Agents
    /// do not tell those who show no token.
    pub filtered: bool,
    /// Whether it comes from a server that knew a leader, and had heard of it lately. One that did not may lack what it
    /// has not heard of; and the streaming backend of agents cannot be told from such a one.
    pub sure: bool,
    /// Whether those who show no token may do nothing unless a policy says so (`X-Consul-Default-ACL-Policy`).
    pub denies_by_default: bool,
    packed: bool,
    body: Bytes,
}

/// Why a body gave no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Undecoded {
    /// It is not what this route answers with; the request is repeated without an index.
    Unreadable(String),
    /// It is, and what somebody stored there is wrong: the last good value stays until that changes.
    Content(String),
    /// Everything was taken out of it, since the token may not read it.
    Filtered,
}

// === impl Reply ===

impl Reply {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Tells answers from refusals. An index is never taken from a refusal, although some carry one.
    pub(super) fn judged(self, asked: Asked<'_>) -> Result<Answer, ConsulError> {
        let found = match self.status {
            StatusCode::OK => true,
            // A missing key; every other 404 has a text.
            StatusCode::NOT_FOUND if self.body.is_empty() && self.header("x-consul-index").is_some() => false,
            status => {
                let text = String::from_utf8_lossy(&self.body);
                return Err(ConsulError::of_status(asked, status, self.header("location"), &text));
            }
        };
        // The streaming backend of agents says that it knows no leader although all is well, and does not say that it
        // left something out.
        let leader = self.header("x-consul-knownleader") != Some("false")
            && self.header("x-consul-query-backend") != Some("streaming");
        let last_contact = self.header("x-consul-lastcontact").and_then(|millis| millis.parse().ok()).unwrap_or(0);
        Ok(Answer {
            agent: asked.agent.to_owned(),
            path: asked.path.to_owned(),
            found,
            index: self.header("x-consul-index").and_then(|index| index.parse().ok()),
            filtered: self.header("x-consul-results-filtered-by-acls") == Some("true"),
            denies_by_default: self.header("x-consul-default-acl-policy") == Some("deny"),
            sure: leader && Duration::from_millis(last_contact) <= FRESH,
            packed: self.header("content-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("gzip")),
            body: self.body,
        })
    }
}

// === impl Answer ===

impl Answer {
    /// Bytes of the body as it came.
    pub fn len(&self) -> usize {
        self.body.len()
    }

    /// Whether there is no body.
    pub fn is_empty(&self) -> bool {
        self.body.is_empty()
    }

    pub(super) fn seal(&self) -> Seal {
        Seal(SEALS.hash_one((self.index, self.found, self.filtered, &self.body)))
    }

    pub(super) fn without_index(&self) -> ConsulError {
        ConsulError::NoIndex { agent: self.agent.clone(), path: self.path.clone() }
    }

    /// Unpacks the body and reads it with `decode`, off the runtime if that may take long. A panic is an error.
    ///
    /// # Errors
    /// [`ConsulError`] for a body that is not what was expected; inside, what is wrong with what somebody stored.
    pub async fn read<T: Send + 'static>(
        self,
        decode: impl FnOnce(&Self, &[u8]) -> Result<T, Undecoded> + Send + 'static,
    ) -> Result<Result<T, String>, ConsulError> {
        let (agent, path) = (self.agent.clone(), self.path.clone());
        let is_heavy = self.body.len() >= if self.packed { HEAVY_FROM / 16 } else { HEAVY_FROM };
        let work = move || {
            let unpacked = if self.packed { unpack(&self.body, LARGEST)? } else { self.body.clone() };
            decode(&self, &unpacked).map_err(Unread::Undecoded)
        };
        let read = if is_heavy { heavy(work).await } else { catch_unwind(AssertUnwindSafe(work)).ok() };
        match read {
            None => Err(ConsulError::Panicked { path }),
            Some(Ok(value)) => Ok(Ok(value)),
            Some(Err(Unread::Undecoded(Undecoded::Content(reason)))) => Ok(Err(reason)),
            Some(Err(Unread::Undecoded(Undecoded::Unreadable(cause)) | Unread::NoGzip(cause))) => {
                Err(ConsulError::Unreadable { agent, path, cause })
            }
            Some(Err(Unread::Undecoded(Undecoded::Filtered))) => {
                Err(ConsulError::Filtered { agent, rule: super::rules::needed(&path, false), path })
            }
            Some(Err(Unread::TooLong)) => Err(ConsulError::TooLong { agent, path, limit: LARGEST }),
        }
    }
}

#[derive(Debug)]
enum Unread {
    Undecoded(Undecoded),
    NoGzip(String),
    TooLong,
}

/// A few bytes may unpack to very many.
fn unpack(body: &[u8], most: usize) -> Result<Bytes, Unread> {
    let mut unpacked = Vec::new();
    let limit = most as u64 + 1;
    GzDecoder::new(body).take(limit).read_to_end(&mut unpacked).map_err(|error| Unread::NoGzip(error.to_string()))?;
    if unpacked.len() > most { Err(Unread::TooLong) } else { Ok(unpacked.into()) }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    #[test]
    fn a_few_bytes_that_unpack_to_very_many_are_given_up_at_the_limit() {
        let mut packer = GzEncoder::new(Vec::new(), Compression::best());
        packer.write_all(&[0; 1 << 20]).expect("packed");
        let packed = packer.finish().expect("packed");
        assert!(packed.len() < 2_000, "{}", packed.len());
        assert_eq!(unpack(&packed, 1 << 20).expect("it fits").len(), 1 << 20);
        assert!(matches!(unpack(&packed, (1 << 20) - 1), Err(Unread::TooLong)));
    }
}
