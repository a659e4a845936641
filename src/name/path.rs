//! Paths: lists of non-empty byte strings.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use bytes::Bytes;

use super::error::ParseError;
use super::flat;
use super::limits::Limits;
use super::parse::Reader;

/// A name such as `/svc/web`: a list of non-empty byte strings, compared byte by byte, case and all.
///
/// Cloning and cutting share one buffer; only [`Path::concat`] and the constructors allocate.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Path {
    flat: Bytes,
}

/// A path element without bytes. The text is the one namerd's clients know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("requirement failed")]
pub struct EmptyElement;

impl Path {
    /// The path without elements, shown as `/`.
    pub fn empty() -> Self {
        Self::default()
    }

    /// Reads the shown form; blanks and comments around it are allowed.
    ///
    /// # Errors
    /// The text is not a path, or exceeds the default [`Limits`].
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        Self::parse_with(text, &Limits::DEFAULT)
    }

    /// [`Path::parse`] under other limits.
    ///
    /// # Errors
    /// The text is not a path, or exceeds `limits`.
    pub fn parse_with(text: &str, limits: &Limits) -> Result<Self, ParseError> {
        Reader::new(text, limits)?.whole(Reader::path)
    }

    /// Builds a path from raw elements. No limit applies: the caller bounds what it received.
    ///
    /// # Errors
    /// One of the elements is empty.
    pub fn from_elems<E: AsRef<[u8]>>(elems: impl IntoIterator<Item = E>) -> Result<Self, EmptyElement> {
        // Few paths are longer, and none keeps what it does not need.
        let mut buffer = Vec::with_capacity(64);
        for elem in elems {
            let elem = elem.as_ref();
            if elem.is_empty() {
                return Err(EmptyElement);
            }
            flat::push(&mut buffer, elem);
        }
        Ok(Self { flat: buffer.into_boxed_slice().into() })
    }

    /// Takes over an encoded buffer that holds no empty element.
    pub(super) fn from_flat(flat: Bytes) -> Self {
        Self { flat }
    }

    /// The encoded elements.
    pub(super) fn flat(&self) -> &Bytes {
        &self.flat
    }

    /// The elements as bytes, first to last.
    pub fn elems(&self) -> impl Iterator<Item = &[u8]> + Clone {
        flat::Elems::new(&self.flat)
    }

    /// The elements as text. Bytes that are not UTF-8 become U+FFFD, as for namers that look at elements as strings.
    pub fn utf8_elems(&self) -> impl Iterator<Item = Cow<'_, str>> + Clone {
        self.elems().map(String::from_utf8_lossy)
    }

    /// The number of elements. Walks the path.
    pub fn len(&self) -> usize {
        self.elems().count()
    }

    /// Bytes that it takes in memory.
    pub fn bytes(&self) -> usize {
        self.flat.len()
    }

    /// Whether this is the path without elements.
    pub fn is_empty(&self) -> bool {
        self.flat.is_empty()
    }

    /// The first element.
    pub fn first(&self) -> Option<&[u8]> {
        self.elems().next()
    }

    /// The element at position `n`, counted from 0.
    pub fn nth(&self, n: usize) -> Option<&[u8]> {
        self.elems().nth(n)
    }

    /// Whether the elements of `prefix` come first. Whole elements count: `/ab` does not start with `/a`.
    pub fn starts_with(&self, prefix: &Path) -> bool {
        self.flat.starts_with(&prefix.flat)
    }

    /// What follows `prefix`, or nothing when the path does not start with it.
    pub fn strip_prefix(&self, prefix: &Path) -> Option<Path> {
        self.starts_with(prefix).then(|| Self { flat: self.flat.slice(prefix.flat.len()..) })
    }

    /// The first `n` elements, or all when there are fewer.
    #[must_use]
    pub fn take(&self, n: usize) -> Path {
        Self { flat: flat::split(&self.flat, n).0 }
    }

    /// All but the first `n` elements, or none when there are fewer.
    #[must_use]
    pub fn drop(&self, n: usize) -> Path {
        Self { flat: flat::split(&self.flat, n).1 }
    }

    /// This path followed by `suffix`.
    #[must_use]
    pub fn concat(&self, suffix: &Path) -> Path {
        if suffix.is_empty() {
            return self.clone();
        }
        if self.is_empty() {
            return suffix.clone();
        }
        Self { flat: [&self.flat[..], &suffix.flat[..]].concat().into() }
    }
}

/// Whether a byte stands for itself in shown form; an element with any other byte is escaped as a whole.
pub(super) fn is_showable(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'_' | b':' | b'.' | b'#' | b'$' | b'%' | b'-')
}

/// Writes one element: verbatim when every byte is showable, otherwise every byte as `\xNN`.
pub(super) fn show_elem(elem: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match std::str::from_utf8(elem) {
        Ok(text) if elem.iter().copied().all(is_showable) => f.write_str(text),
        _ => elem.iter().try_for_each(|byte| write!(f, "\\x{byte:02x}")),
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("/");
        }
        self.elems().try_for_each(|elem| {
            f.write_str("/")?;
            show_elem(elem, f)
        })
    }
}

impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Path({self})")
    }
}

impl FromStr for Path {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        Self::parse(text)
    }
}

impl Ord for Path {
    fn cmp(&self, other: &Self) -> Ordering {
        self.elems().cmp(other.elems())
    }
}

impl PartialOrd for Path {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> Path {
        Path::parse(text).unwrap()
    }

    #[test]
    fn only_whole_elements_make_a_prefix() {
        assert!(path("/a/b").starts_with(&path("/a")));
        assert!(path("/a/b").starts_with(&Path::empty()));
        assert!(!path("/ab").starts_with(&path("/a")));
        assert!(!path("/a").starts_with(&path("/a/b")));
        assert_eq!(path("/a/b/c").strip_prefix(&path("/a")), Some(path("/b/c")));
        assert_eq!(path("/ab").strip_prefix(&path("/a")), None);
    }

    #[test]
    fn cutting_past_the_end_gives_all_or_nothing() {
        assert_eq!(path("/a/b").take(1), path("/a"));
        assert_eq!(path("/a/b").drop(1), path("/b"));
        assert_eq!(path("/a/b").take(9), path("/a/b"));
        assert_eq!(path("/a/b").drop(9), Path::empty());
        assert_eq!(path("/a/b").drop(0), path("/a/b"));
    }

    #[test]
    fn paths_sort_by_element_and_not_by_length() {
        let mut paths = vec![path("/b"), path("/aa"), path("/a/z"), path("/a")];
        paths.sort();
        assert_eq!(paths, [path("/a"), path("/a/z"), path("/aa"), path("/b")]);
    }

    #[test]
    fn an_empty_element_is_refused_in_the_words_clients_know() {
        let error = Path::from_elems(["a", ""]).unwrap_err();
        assert_eq!(error.to_string(), "requirement failed");
    }

    #[test]
    fn bytes_that_are_not_text_are_replaced_only_in_the_text_view() {
        let path = Path::from_elems([&b"\xff"[..], b"ok"]).unwrap();
        assert_eq!(path.utf8_elems().collect::<Vec<_>>(), ["\u{fffd}", "ok"]);
        assert_eq!(path.to_string(), "/\\xff/ok");
    }
}
