//! Dentries and delegation tables.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

use bytes::Bytes;

use super::error::ParseError;
use super::limits::Limits;
use super::parse::Reader;
use super::path::Path;
use super::prefix::Prefix;
use super::tree::NameTree;

/// One entry of a delegation table: paths that start with `prefix` go to `dst`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Dentry {
    /// Which paths the entry applies to.
    pub prefix: Prefix,
    /// Where they go; what follows the prefix is appended to each leaf.
    pub dst: NameTree<Path>,
}

impl Dentry {
    /// The placeholder sent where no dentry applies. Its prefix is the label `/`, which no path of a client has.
    pub fn nop() -> Self {
        // One element of one byte.
        Self { prefix: Prefix::from_flat(Bytes::from_static(b"\x01/")), dst: NameTree::Neg }
    }

    /// Reads the shown form; blanks and comments around it are allowed.
    ///
    /// # Errors
    /// The text is not a dentry, or exceeds the default [`Limits`].
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        Self::parse_with(text, &Limits::DEFAULT)
    }

    /// [`Dentry::parse`] under other limits.
    ///
    /// # Errors
    /// The text is not a dentry, or exceeds `limits`.
    pub fn parse_with(text: &str, limits: &Limits) -> Result<Self, ParseError> {
        Reader::new(text, limits)?.whole(Reader::dentry)
    }

    /// Where a path that this entry matches goes: the destination, each leaf followed by the rest of the path.
    pub fn delegate(&self, path: &Path) -> NameTree<Path> {
        let rest = path.drop(self.prefix.len());
        self.dst.map(|leaf| leaf.concat(&rest))
    }
}

impl fmt::Display for Dentry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}=>{}", self.prefix, self.dst)
    }
}

impl FromStr for Dentry {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        Self::parse(text)
    }
}

/// A delegation table: entries in order, the last one has the highest priority. Duplicates are kept.
///
/// Cloning shares the entries.
#[derive(Clone)]
pub struct Dtab {
    entries: Arc<[Dentry]>,
}

impl Dtab {
    /// The table without entries, shown as nothing.
    pub fn empty() -> Self {
        Self::from(Vec::new())
    }

    /// Reads the shown form. Entries are separated by `;`, one more is allowed at the end.
    ///
    /// # Errors
    /// The text is not a dtab, or exceeds the default [`Limits`].
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        Self::parse_with(text, &Limits::DEFAULT)
    }

    /// [`Dtab::parse`] under other limits.
    ///
    /// # Errors
    /// The text is not a dtab, or exceeds `limits`.
    pub fn parse_with(text: &str, limits: &Limits) -> Result<Self, ParseError> {
        Reader::new(text, limits)?.whole(Reader::dtab)
    }

    /// Whether a text of one line holds entries behind a `#`, which makes them a comment. Most likely its line ends were
    /// lost: `curl -d @FILE` joins the lines of a file.
    pub fn comment_hides_entries(text: &str) -> bool {
        let text = text.trim_end();
        if text.contains('\n') {
            return false;
        }
        // A `#` inside of a path is a label; a comment has a blank or the end of an entry before it.
        let begins = |at: &usize| text[..*at].chars().next_back().is_none_or(|c| c == ';' || c.is_whitespace());
        let comment = text.match_indices('#').map(|(at, _)| at).find(begins);
        comment.is_some_and(|at| text[at..].contains("=>"))
    }

    /// The entries, first to last.
    pub fn entries(&self) -> &[Dentry] {
        &self.entries
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The number of nodes of all destinations, a measure of the work that the table makes. Stops counting behind `most`.
    pub fn nodes(&self, most: usize) -> usize {
        let mut count = 0;
        for entry in &*self.entries {
            if count > most {
                break;
            }
            count += entry.dst.nodes(most - count);
        }
        count
    }

    /// This table followed by another, whose entries therefore win.
    #[must_use]
    pub fn concat(&self, last: &Dtab) -> Dtab {
        if last.is_empty() {
            return self.clone();
        }
        if self.is_empty() {
            return last.clone();
        }
        Self { entries: self.entries.iter().chain(&*last.entries).cloned().collect() }
    }

    /// One rewriting step: the destinations of all matching entries, last entry first, as alternatives. Nothing
    /// matches: [`NameTree::Neg`], which cannot be told from one matching entry that says `~`.
    pub fn lookup(&self, path: &Path) -> NameTree<Path> {
        let matching = self.entries.iter().rev().filter(|entry| entry.prefix.matches(path));
        alternatives(matching.map(|entry| entry.delegate(path)))
    }

    /// The table without entries that come to `~`, the others with simplified destinations.
    #[must_use]
    pub fn simplified(&self) -> Dtab {
        let simple =
            self.entries.iter().map(|entry| Dentry { prefix: entry.prefix.clone(), dst: entry.dst.simplify() });
        Self { entries: simple.filter(|entry| entry.dst != NameTree::Neg).collect() }
    }
}

/// The answer of a lookup step from the destinations of its matches, highest priority first.
pub(super) fn alternatives(matches: impl Iterator<Item = NameTree<Path>>) -> NameTree<Path> {
    let mut trees: Vec<_> = matches.collect();
    match trees.len() {
        0 | 1 => trees.pop().unwrap_or(NameTree::Neg),
        _ => NameTree::Alt(trees),
    }
}

impl Default for Dtab {
    fn default() -> Self {
        Self::empty()
    }
}

impl From<Vec<Dentry>> for Dtab {
    fn from(entries: Vec<Dentry>) -> Self {
        Self { entries: entries.into() }
    }
}

impl FromIterator<Dentry> for Dtab {
    fn from_iter<I: IntoIterator<Item = Dentry>>(entries: I) -> Self {
        Self { entries: entries.into_iter().collect() }
    }
}

impl PartialEq for Dtab {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.entries, &other.entries) || self.entries == other.entries
    }
}

impl Eq for Dtab {}

impl Hash for Dtab {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.entries.hash(state);
    }
}

impl fmt::Display for Dtab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.entries.iter().enumerate().try_for_each(|(position, entry)| {
            if position > 0 {
                f.write_str(";")?;
            }
            write!(f, "{entry}")
        })
    }
}

impl fmt::Debug for Dtab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Dtab({self})")
    }
}

impl FromStr for Dtab {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        Self::parse(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_lost_in_a_comment_are_noticed() {
        for text in ["/svc => /a;# note/svc/x => /b;", "# all => gone", "/a => /b ; # x =>\n"] {
            assert!(Dtab::comment_hides_entries(text), "{text}");
        }
        for text in ["/svc => /#/io.l5d.fs;/x=>/y", "/a => /b # done", "/a => /b;\n# x\n/c => /d", "", "/a#b=>/c"] {
            assert!(!Dtab::comment_hides_entries(text), "{text}");
        }
    }
}
