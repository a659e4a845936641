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
    text: String,
    /// Where each line starts and ends, in bytes.
    lines: Vec<(usize, usize)>,
}

impl Source {
    /// Lines are broken where YAML breaks them: at `\n`, `\r\n` and a lone `\r`.
    pub(super) fn new(name: &str, text: &str) -> Self {
        let (mut lines, mut start) = (Vec::new(), 0);
        while let Some(length) = text[start..].find(['\n', '\r']) {
            let end = start + length;
            lines.push((start, end));
            start = end + if text[end..].starts_with("\r\n") { 2 } else { 1 };
        }
        lines.push((start, text.len()));
        Self { name: name.to_owned(), text: text.to_owned(), lines }
    }

    /// A line, counted from 1, without its end.
    pub(super) fn line(&self, number: u32) -> Option<&str> {
        let (start, end) = *self.lines.get(number.checked_sub(1)? as usize)?;
        Some(&self.text[start..end])
    }

    /// Line and column behind the last character.
    pub(super) fn end(&self) -> (u32, u32) {
        let column = self.lines.last().map_or(0, |(start, end)| self.text[*start..*end].chars().count());
        (number(self.lines.len()), number(column) + 1)
    }
}

/// A text without the byte order mark that some editors put in front.
pub(super) fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// Files are far smaller than the largest number.
pub(super) fn number(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX - 1)
}

#[cfg(test)]
mod tests {
    use super::Source;

    #[test]
    fn lines_end_at_every_kind_of_break() {
        let source = Source::new("f", "a\nb\r\nc\rd\n");
        let lines: Vec<&str> = (1..9).map_while(|number| source.line(number)).collect();
        assert_eq!(lines, ["a", "b", "c", "d", ""]);
        assert_eq!(source.end(), (5, 1));
        assert_eq!(Source::new("f", "aé").end(), (1, 3));
    }
}
