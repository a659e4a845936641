//! The token that says who asks.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::header::HeaderValue;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::backend::secret;
use crate::config::Secret;
use crate::runtime::heavy;

/// A token file is read again after this time: kubelet replaces it when four fifths of its life, an hour at most, are
/// over.
const READ_AGAIN: Duration = Duration::from_secs(60);

/// The largest token that is read.
const MAX_LEN: u64 = 1 << 20;

/// Who asks.
pub(super) enum Token {
    /// Nobody in particular.
    None,
    /// Always this one.
    Fixed(HeaderValue),
    /// What the file holds.
    File { path: PathBuf, read: Mutex<Option<(HeaderValue, Instant)>> },
}

// === impl Token ===

impl Token {
    pub(super) fn fixed(token: &Secret) -> Result<Self, String> {
        Ok(Self::Fixed(bearer(token.expose())?))
    }

    pub(super) fn file(path: PathBuf) -> Self {
        Self::File { path, read: Mutex::default() }
    }

    /// The value of `Authorization`. `anew` reads the file whatever its age: the server did not take what it held.
    pub(super) async fn current(&self, anew: bool) -> Result<Option<HeaderValue>, String> {
        let (path, known) = match self {
            Self::None => return Ok(None),
            Self::Fixed(value) => return Ok(Some(value.clone())),
            Self::File { path, read } => (path, read.lock().clone()),
        };
        match &known {
            Some((value, at)) if !anew && at.elapsed() < READ_AGAIN => return Ok(Some(value.clone())),
            _ => {}
        }
        let file = path.clone();
        let found = heavy(move || read_file(&file)).await.unwrap_or_else(|| Err("internal error".to_owned()));
        match (found, known) {
            (Ok(value), _) => {
                if let Self::File { read, .. } = self {
                    *read.lock() = Some((value.clone(), Instant::now()));
                }
                Ok(Some(value))
            }
            // While a file is replaced there may be none.
            (Err(_), Some((value, _))) => Ok(Some(value)),
            (Err(reason), None) => Err(reason),
        }
    }

    /// Can another one be had by reading anew?
    pub(super) fn is_file(&self) -> bool {
        matches!(self, Self::File { .. })
    }
}

fn read_file(path: &Path) -> Result<HeaderValue, String> {
    let told = |what: String| format!("token file {}: {what}", path.display());
    let length = std::fs::metadata(path).map_err(|error| told(error.to_string()))?.len();
    if length > MAX_LEN {
        return Err(told(format!("it has more than {MAX_LEN} bytes; is it the right one?")));
    }
    let text = std::fs::read_to_string(path).map_err(|error| told(error.to_string()))?;
    match text.trim() {
        "" => Err(told("it is empty".to_owned())),
        token => bearer(token).map_err(told),
    }
}

fn bearer(token: &str) -> Result<HeaderValue, String> {
    secret("token", &Secret::new(format!("Bearer {token}")))
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Fixed(_) => f.write_str("Fixed"),
            Self::File { path, .. } => f.debug_tuple("File").field(path).finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_file_is_read_again_after_a_while_and_at_once_where_the_server_did_not_take_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("token");
        let token = Token::file(path.clone());
        assert!(token.current(false).await.expect_err("no file").contains("token file"));
        std::fs::write(&path, "one\n").expect("written");
        let shown =
            async |anew| token.current(anew).await.expect("read").expect("some").to_str().expect("text").to_owned();
        assert_eq!(shown(false).await, "Bearer one");
        std::fs::write(&path, "two").expect("written");
        assert_eq!(shown(false).await, "Bearer one");
        assert_eq!(shown(true).await, "Bearer two");
        std::fs::write(&path, "three").expect("written");
        tokio::time::advance(READ_AGAIN).await;
        assert_eq!(shown(false).await, "Bearer three");
        std::fs::remove_file(&path).expect("removed");
        assert_eq!(shown(true).await, "Bearer three", "while it is replaced there may be none");
        assert!(!format!("{token:?}").contains("three"));
    }
}
