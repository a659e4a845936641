//! Prefixes: the left side of a dentry.

use std::fmt;
use std::str::FromStr;

use bytes::Bytes;

use super::error::ParseError;
use super::flat;
use super::limits::Limits;
use super::parse::Reader;
use super::path::{EmptyElement, Path, show_elem};

/// What a dentry applies to: like a path, but an element may be `*`, which stands for any one element.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Prefix {
    /// A wildcard is held as the empty element; labels are never empty.
    flat: Bytes,
}

/// One element of a [`Prefix`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Elem<'a> {
    /// Exactly these bytes; never empty.
    Label(&'a [u8]),
    /// Any one element, shown as `*`. A label holding the byte `*` shows as `\x2a`.
    Any,
}

impl Prefix {
    /// The prefix without elements, which every path starts with.
    pub fn empty() -> Self {
        Self::default()
    }

    /// Reads the shown form; blanks and comments around it are allowed.
    ///
    /// # Errors
    /// The text is not a prefix, or exceeds the default [`Limits`].
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        Self::parse_with(text, &Limits::DEFAULT)
    }

    /// [`Prefix::parse`] under other limits.
    ///
    /// # Errors
    /// The text is not a prefix, or exceeds `limits`.
    pub fn parse_with(text: &str, limits: &Limits) -> Result<Self, ParseError> {
        Reader::new(text, limits)?.whole(Reader::prefix)
    }

    /// Builds a prefix from raw elements. No limit applies: the caller bounds what it received.
    ///
    /// # Errors
    /// One of the labels is empty.
    pub fn from_elems<'a>(elems: impl IntoIterator<Item = Elem<'a>>) -> Result<Self, EmptyElement> {
        let mut buffer = Vec::new();
        for elem in elems {
            match elem {
                Elem::Label([]) => return Err(EmptyElement),
                Elem::Label(label) => flat::push(&mut buffer, label),
                Elem::Any => flat::push(&mut buffer, b""),
            }
        }
        Ok(Self { flat: buffer.into() })
    }

    /// Takes over an encoded buffer, where an empty element is a wildcard.
    pub(super) fn from_flat(flat: Bytes) -> Self {
        Self { flat }
    }

    /// The encoded elements.
    pub(super) fn flat(&self) -> &Bytes {
        &self.flat
    }

    /// The elements, first to last.
    pub fn elems(&self) -> impl Iterator<Item = Elem<'_>> + Clone {
        flat::Elems::new(&self.flat).map(|elem| if elem.is_empty() { Elem::Any } else { Elem::Label(elem) })
    }

    /// The number of elements. Walks the prefix.
    pub fn len(&self) -> usize {
        flat::Elems::new(&self.flat).count()
    }

    /// Whether this prefix matches every path.
    pub fn is_empty(&self) -> bool {
        self.flat.is_empty()
    }

    /// Whether `path` has at least as many elements and each of the first ones equals its label or meets a wildcard.
    pub fn matches(&self, path: &Path) -> bool {
        let mut elems = path.elems();
        flat::Elems::new(&self.flat).all(|wanted| match elems.next() {
            Some(elem) => wanted.is_empty() || wanted == elem,
            None => false,
        })
    }
}

impl From<Path> for Prefix {
    fn from(path: Path) -> Self {
        Self { flat: path.flat().clone() }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("/");
        }
        self.elems().try_for_each(|elem| {
            f.write_str("/")?;
            match elem {
                Elem::Label(label) => show_elem(label, f),
                Elem::Any => f.write_str("*"),
            }
        })
    }
}

impl fmt::Debug for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Prefix({self})")
    }
}

impl FromStr for Prefix {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        Self::parse(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(prefix: &str, path: &str) -> bool {
        Prefix::parse(prefix).unwrap().matches(&Path::parse(path).unwrap())
    }

    #[test]
    fn a_wildcard_stands_for_exactly_one_element() {
        assert!(matches("/a/*/c", "/a/b/c/d"));
        assert!(matches("/*", "/anything"));
        assert!(!matches("/*", "/"));
        assert!(!matches("/a/*", "/a"));
        assert!(!matches("/a/*/c", "/a/b/x"));
    }

    #[test]
    fn the_empty_prefix_matches_system_paths_too() {
        assert!(matches("/", "/"));
        assert!(matches("/", "/#/io.l5d.fs/web"));
        assert!(matches("/", "/$/inet"));
    }

    #[test]
    fn a_label_made_of_a_star_is_no_wildcard() {
        let star = Prefix::from_elems([Elem::Label(b"*")]).unwrap();
        assert_eq!(star.to_string(), "/\\x2a");
        assert!(!star.matches(&Path::parse("/a").unwrap()));
        assert_eq!(Prefix::from_elems([Elem::Label(b"")]), Err(EmptyElement));
    }
}
