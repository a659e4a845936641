//! Encoded answers, shared: ten thousand watchers of a name send the same bytes.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use smallvec::SmallVec;

use super::json::{self, TooLarge};
use super::media::Media;
use crate::runtime::heavy;

/// What an encoding is made of: the form, and the versions of the values in it. A version is never used twice in a
/// process, so equal keys are equal bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Made {
    pub(super) form: Form,
    pub(super) of: SmallVec<[u64; 3]>,
}

/// How values are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Form {
    /// An address set.
    Addr,
    /// A bound tree with the addresses of its leaves.
    Tree,
    /// A list of texts.
    List,
    /// A dtab.
    Dtab(Media),
}

/// At most so many, and so many bytes, in each of two generations.
const MOST: usize = 4096;
const MOST_BYTES: usize = 16 << 20;

/// What is larger than this is not made on the runtime's own threads.
const HEAVY_FROM: usize = 256 << 10;

/// The encodings that were of use lately. The older of two generations is dropped when the younger is full; what is
/// still asked for moves to the younger.
#[derive(Debug, Default)]
pub(super) struct Encoded {
    generations: Mutex<Generations>,
}

#[derive(Debug, Default)]
struct Generations {
    young: HashMap<Made, Bytes>,
    old: HashMap<Made, Bytes>,
    young_bytes: usize,
}

// === impl Encoded ===

impl Encoded {
    /// The encoding made of these versions; `make` is asked for it if it is not there.
    pub(super) fn get(&self, form: Form, of: &[u64], make: impl FnOnce() -> String) -> Bytes {
        let key = Made { form, of: SmallVec::from_slice(of) };
        if let Some(bytes) = self.generations.lock().get(&key) {
            return bytes;
        }
        // Not under the lock. Two who make the same do no harm.
        self.keep(key, make())
    }

    /// The same for what may be large. `make` gets the number of bytes after which it may give up.
    ///
    /// # Errors
    /// It is larger than any answer.
    pub(super) async fn get_large(
        self: &Arc<Self>,
        form: Form,
        of: &[u64],
        make: impl Fn(usize) -> Result<String, TooLarge> + Send + 'static,
    ) -> Result<Bytes, TooLarge> {
        let key = Made { form, of: SmallVec::from_slice(of) };
        if let Some(bytes) = self.generations.lock().get(&key) {
            return Ok(bytes);
        }
        if let Ok(text) = make(HEAVY_FROM) {
            return Ok(self.keep(key, text));
        }
        let this = self.clone();
        let made = heavy(move || {
            // Ten thousand watchers may be here for the same.
            let known = this.generations.lock().get(&key);
            known.map_or_else(|| Ok(this.keep(key, make(json::MOST_BYTES)?)), Ok)
        });
        made.await.unwrap_or(Err(TooLarge))
    }

    fn keep(&self, key: Made, mut text: String) -> Bytes {
        text.push('\n');
        let bytes = Bytes::from(text);
        self.generations.lock().insert(key, bytes.clone());
        bytes
    }
}

/// Makes what is not kept; see [`Encoded::get_large`].
pub(super) async fn made(
    make: impl Fn(usize) -> Result<String, TooLarge> + Send + 'static,
) -> Result<String, TooLarge> {
    match make(HEAVY_FROM) {
        Ok(text) => Ok(text),
        Err(TooLarge) => heavy(move || make(json::MOST_BYTES)).await.unwrap_or(Err(TooLarge)),
    }
}

impl Generations {
    fn get(&mut self, key: &Made) -> Option<Bytes> {
        if let Some(bytes) = self.young.get(key) {
            return Some(bytes.clone());
        }
        let (key, bytes) = self.old.remove_entry(key)?;
        self.insert(key, bytes.clone());
        Some(bytes)
    }

    fn insert(&mut self, key: Made, bytes: Bytes) {
        if self.young.len() >= MOST || self.young_bytes + bytes.len() > MOST_BYTES {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young_bytes += bytes.len();
        self.young.insert(key, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_versions_are_encoded_once() {
        let encoded = Encoded::default();
        let first = encoded.get(Form::Addr, &[1, 2], || "a".to_owned());
        let again = encoded.get(Form::Addr, &[1, 2], || panic!("there already"));
        assert_eq!(first, "a\n");
        assert_eq!(first.as_ptr(), again.as_ptr());
        assert_eq!(encoded.get(Form::Tree, &[1, 2], || "b".to_owned()), "b\n");
        assert_eq!(encoded.get(Form::Addr, &[1], || "c".to_owned()), "c\n");
    }

    #[test]
    fn what_is_asked_for_stays_and_the_rest_goes() {
        let encoded = Encoded::default();
        let kept = encoded.get(Form::Addr, &[0], || "kept".to_owned());
        for version in 1..20_000 {
            encoded.get(Form::Addr, &[version], || "x".to_owned());
            if version % 1000 == 0 {
                assert_eq!(encoded.get(Form::Addr, &[0], || panic!("gone")).as_ptr(), kept.as_ptr());
            }
        }
        let generations = encoded.generations.lock();
        assert!(generations.young.len() + generations.old.len() <= 2 * MOST);
    }

    #[test]
    fn large_encodings_do_not_pile_up() {
        let encoded = Encoded::default();
        for version in 0..100 {
            encoded.get(Form::Addr, &[version], || "x".repeat(8 << 20));
        }
        let generations = encoded.generations.lock();
        assert!(generations.young.len() + generations.old.len() <= 4);
    }
}
