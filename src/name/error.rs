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
