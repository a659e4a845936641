//! Names in requests, read under the limits of the configuration.

use crate::name::{self, Dtab, Limits, NameTree, ParseError, Path, Prefix};
use crate::runtime::{Limit, LimitCounts};

/// Reads what clients send. What exceeds a limit is counted, whichever interface it came to.
#[derive(Clone, Debug, Default)]
pub struct NameReader {
    limits: Limits,
    counts: LimitCounts,
}

// === impl NameReader ===

impl NameReader {
    /// Reads under `limits` and counts in `counts`.
    pub fn new(limits: Limits, counts: LimitCounts) -> Self {
        Self { limits, counts }
    }

    /// The limits, for what is no text.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Counts that something which is no text exceeded a limit.
    pub fn refused(&self, limit: name::Limit) {
        self.counts.refused(Limit::Name(limit));
    }

    /// Reads a path.
    ///
    /// # Errors
    /// It is none, or exceeds a limit.
    pub fn path(&self, text: &str) -> Result<Path, ParseError> {
        self.counted(Path::parse_with(text, &self.limits))
    }

    /// Reads a dtab.
    ///
    /// # Errors
    /// It is none, or exceeds a limit.
    pub fn dtab(&self, text: &str) -> Result<Dtab, ParseError> {
        self.counted(Dtab::parse_with(text, &self.limits))
    }

    /// Reads the prefix of a dentry.
    ///
    /// # Errors
    /// It is none, or exceeds a limit.
    pub fn prefix(&self, text: &str) -> Result<Prefix, ParseError> {
        self.counted(Prefix::parse_with(text, &self.limits))
    }

    /// Reads the destination of a dentry.
    ///
    /// # Errors
    /// It is none, or exceeds a limit.
    pub fn tree(&self, text: &str) -> Result<NameTree<Path>, ParseError> {
        self.counted(NameTree::parse_with(text, &self.limits))
    }

    /// Whether a dtab in another form than its text may have so many bytes.
    ///
    /// # Errors
    /// In words, with the limit's name.
    pub fn fits(&self, bytes: usize) -> Result<(), String> {
        if bytes <= self.limits.dtab_bytes {
            return Ok(());
        }
        self.counts.refused(Limit::Name(name::Limit::DtabBytes));
        let (most, limit) = (self.limits.dtab_bytes, name::Limit::DtabBytes);
        Err(format!("{bytes} bytes are more than {most} ({limit})"))
    }

    fn counted<T>(&self, read: Result<T, ParseError>) -> Result<T, ParseError> {
        if let Some(limit) = read.as_ref().err().and_then(ParseError::limit) {
            self.counts.refused(Limit::Name(limit));
        }
        read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_exceeds_a_limit_is_counted_and_what_is_merely_wrong_is_not() {
        let counts = LimitCounts::default();
        let names = NameReader::new(Limits { depth: 2, path_segments: 3, dtab_bytes: 30 }, counts.clone());
        assert!(names.path("/a/b/c").is_ok() && names.dtab("/a=>/b").is_ok() && names.fits(30).is_ok());
        assert!(names.path("no path").is_err() && names.tree("(").is_err());
        assert!(names.path("/a/b/c/d").is_err() && names.prefix("/a/*/c/*").is_err());
        assert!(names.tree("(((/a)))").is_err());
        assert!(names.dtab(&" ".repeat(31)).is_err() && names.fits(31).is_err());
        let counted = Limit::ALL.map(|limit| counts.count(limit));
        assert_eq!(counted, [0, 2, 1, 2, 0]);
    }
}
