//! Files and places in them.

/// Which of the files of one [`Report`](super::Report) a place belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileId(pub(super) u8);

/// A range of characters in a file. Lines and columns count from 1, columns in characters; the end is exclusive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// The file.
    pub file: FileId,
    /// Line of the first character.
    pub line: u32,
    /// Column of the first character.
    pub column: u32,
    /// Line of the end.
    pub end_line: u32,
    /// Column behind the last character.
    pub end_column: u32,
}

impl Span {
    /// The empty range at the start of a file.
    #[must_use]
    pub fn start_of(file: FileId) -> Self {
        Self { file, line: 1, column: 1, end_line: 1, end_column: 1 }
    }
}

/// A file as it was read.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) name: String,
    pub(super) text: String,
}

impl Source {
    /// The lines of the text, broken where YAML breaks them: at `\n`, `\r\n` and a lone `\r`.
    pub(super) fn lines(&self) -> Vec<&str> {
        let mut lines = Vec::new();
        let mut rest = self.text.as_str();
        while let Some(end) = rest.find(['\n', '\r']) {
            lines.push(&rest[..end]);
            let width = if rest[end..].starts_with("\r\n") { 2 } else { 1 };
            rest = &rest[end + width..];
        }
        lines.push(rest);
        lines
    }
}
