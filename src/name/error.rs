//! Why a text was refused: the exact words namerd's clients know, with the cursor in the text.

use super::limits::{Limit, Limits};

/// A text that is no path, prefix, name tree, dentry or dtab.
///
/// Shows as `<expected> expected but <found> found at '<text[c]text>'`. Texts over 64 KiB are shown only around the
/// cursor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ParseError {
    message: Box<str>,
    position: usize,
    limit: Option<Limit>,
}

/// What was due at the cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unmet {
    Slash,
    LabelChar,
    EscapeX,
    HexChar,
    Simple,
    NumberChar,
    Weight,
    Star,
    Paren,
    Equals,
    Arrow,
    End,
}

impl Unmet {
    fn expected(self) -> &'static str {
        match self {
            Self::Slash => "'/'",
            Self::LabelChar => "label char",
            Self::EscapeX => "'x'",
            Self::HexChar => "hex char",
            Self::Simple => "simple",
            Self::NumberChar => "number char",
            Self::Weight => "weight",
            Self::Star => "'*'",
            Self::Paren => "')'",
            Self::Equals => "'='",
            Self::Arrow => "'>'",
            Self::End => "end of input",
        }
    }
}

/// Up to here the text is echoed whole, as namerd does.
const WHOLE: usize = 64 << 10;
/// Otherwise about this many bytes on either side of the cursor.
const WINDOW: usize = 200;

impl ParseError {
    pub(super) fn unmet(unmet: Unmet, text: &str, at: usize) -> Self {
        let found = match text[at..].chars().next() {
            // A lone dot is reported where the reader stands when it notices, which is one further.
            _ if unmet == Unmet::Weight => "'.'".to_owned(),
            // U+FFFF is namerd's mark for the end.
            None | Some('\u{ffff}') => "end of input".to_owned(),
            // Half of a pair, which cannot be encoded.
            Some(c) if c > '\u{ffff}' => "'?'".to_owned(),
            Some(c) => format!("'{c}'"),
        };
        let message = format!("{} expected but {found} found at '{}'", unmet.expected(), cursor(text, at));
        Self::new(message, text, at, None)
    }

    /// Digits that make no number; Java's words.
    pub(super) fn not_a_number(text: &str, at: usize, digits: &str) -> Self {
        let shown = if digits.len() > WHOLE { window(digits, 0).1 } else { digits };
        Self::new(format!("For input string: \"{shown}\""), text, at, None)
    }

    /// More than a limit allows. Names the limit, since raising it is the remedy.
    pub(super) fn over(limit: Limit, limits: &Limits, text: &str, at: usize) -> Self {
        let what = match limit {
            Limit::Depth => format!("name tree nests deeper than {} levels", limits.depth),
            Limit::PathSegments => format!("path has more than {} elements", limits.path_segments),
            Limit::DtabBytes => {
                let message = format!("text of {} bytes is longer than {} ({limit})", text.len(), limits.dtab_bytes);
                return Self::new(message, text, at, Some(limit));
            }
        };
        let (before, after) = window(text, at);
        let message = format!("{what} ({limit}) at '{}'", marked(before, after));
        Self::new(message, text, at, Some(limit))
    }

    fn new(message: String, text: &str, at: usize, limit: Option<Limit>) -> Self {
        Self { message: message.into(), position: text[..at].chars().count(), limit }
    }

    /// Where the reader stood, in characters from the start of the text.
    pub fn position(&self) -> usize {
        self.position
    }

    /// The limit that was exceeded, if the text was refused for its size.
    pub fn limit(&self) -> Option<Limit> {
        self.limit
    }
}

/// The text with the character at the cursor in brackets.
fn cursor(text: &str, at: usize) -> String {
    let (before, after) = if text.len() <= WHOLE { text.split_at(at) } else { window(text, at) };
    marked(before, after)
}

fn marked(before: &str, after: &str) -> String {
    let mut rest = after.chars();
    match rest.next() {
        None => format!("{before}[]"),
        Some(c) if c > '\u{ffff}' => format!("{before}[?]?{}", rest.as_str()),
        Some(c) => format!("{before}[{c}]{}", rest.as_str()),
    }
}

/// What stands closely before and after the cursor.
fn window(text: &str, at: usize) -> (&str, &str) {
    let start = text.floor_char_boundary(at.saturating_sub(WINDOW));
    let end = text.ceil_char_boundary(at.saturating_add(WINDOW).min(text.len()));
    (&text[start..at], &text[at..end])
}

#[cfg(test)]
mod tests {
    use crate::name::{Dtab, NameTree, Path};

    fn refused(text: &str) -> String {
        Path::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn the_mark_for_the_end_is_reported_as_the_end_wherever_it_stands() {
        assert_eq!(refused("/a\u{ffff}b"), "end of input expected but end of input found at '/a[\u{ffff}]b'");
        assert_eq!(refused("\u{ffff}"), "'/' expected but end of input found at '[\u{ffff}]'");
    }

    #[test]
    fn a_character_of_two_units_is_reported_by_its_first_half() {
        assert_eq!(refused("/a/\u{1f600}b"), "label char expected but '?' found at '/a/[?]?b'");
        assert_eq!(refused("/\u{1f600}#\u{1f600} x"), "end of input expected but '?' found at '/[?]?#\u{1f600} x'");
    }

    #[test]
    fn blanks_that_do_not_break_a_line_are_no_blanks() {
        for blank in ["\u{a0}", "\u{2007}", "\u{202f}", "\u{85}"] {
            assert_eq!(refused(&format!("{blank}/a")), format!("'/' expected but '{blank}' found at '[{blank}]/a'"));
        }
        for blank in ["\u{b}", "\u{1f}", "\u{1680}", "\u{2028}", "\u{3000}"] {
            assert!(Path::parse(&format!("{blank}/a{blank}")).is_ok(), "{blank:?}");
        }
    }

    #[test]
    fn digits_of_other_scripts_are_taken_for_a_number_and_are_none() {
        let error = NameTree::parse("/a & 1\u{663} * /b").unwrap_err();
        assert_eq!(error.to_string(), "For input string: \"1\u{663}\"");
        assert_eq!(error.position(), 5);
        // A Roman numeral is no digit.
        let error = NameTree::parse("\u{2163} * /b").unwrap_err();
        assert_eq!(error.to_string(), "simple expected but '\u{2163}' found at '[\u{2163}] * /b'");
    }

    #[test]
    fn the_position_counts_characters() {
        assert_eq!(Dtab::parse("# \u{e9}\u{1f600}\n/a => %").unwrap_err().position(), 11);
        assert_eq!(Dtab::parse("/a =>").unwrap_err().position(), 5);
    }

    #[test]
    fn a_short_text_is_echoed_whole_and_a_long_one_around_the_cursor() {
        let entry = "/a => /b;";
        let short = format!("{};;", entry.repeat(7_000));
        assert_eq!(
            Dtab::parse(&short).unwrap_err().to_string(),
            format!("'/' expected but ';' found at '{}[;];'", entry.repeat(7_000)),
        );
        let long = format!("{}%{}", entry.repeat(8_000), "\u{e9}".repeat(8_000));
        let message = Dtab::parse(&long).unwrap_err().to_string();
        assert!(
            message.starts_with("'/' expected but '%' found at '") && message.contains("/a => /b;[%]\u{e9}"),
            "{message}"
        );
        assert!(message.len() < 1_000, "{} bytes", message.len());
    }
}
