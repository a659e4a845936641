//! JSON text to a tree: strict JSON, so that what is accepted here is accepted everywhere. (YAML's flow style is close,
//! but has no surrogate pairs in escapes and limits the length of keys.)

use std::collections::HashMap;
use std::iter::Peekable;
use std::str::Chars;

use super::report::Report;
use super::source::{FileId, Span};
use super::tree::{Entry, MAX_DEPTH, MAX_NODES, Node, Scalar, Value};
use super::yaml::duplicate;

/// Reads the first value of `text`; what follows it is ignored, as namerd does.
pub(super) fn parse(text: &str, file: FileId, report: &Report) -> Option<Node> {
    let mut reader =
        Reader { chars: text.chars().peekable(), file, line: 1, column: 1, nodes_left: MAX_NODES, depth: 0, report };
    reader.value()
}

struct Reader<'a> {
    chars: Peekable<Chars<'a>>,
    file: FileId,
    line: u32,
    column: u32,
    nodes_left: usize,
    depth: usize,
    report: &'a Report,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<char> {
        let char = self.chars.next()?;
        let breaks = char == '\n' || (char == '\r' && self.chars.peek() != Some(&'\n'));
        (self.line, self.column) = if breaks { (self.line + 1, 1) } else { (self.line, self.column + 1) };
        Some(char)
    }

    fn skip_blanks(&mut self) {
        while matches!(self.chars.peek(), Some(' ' | '\t' | '\n' | '\r')) {
            self.next();
        }
    }

    fn here(&self) -> Span {
        Span { file: self.file, line: self.line, column: self.column, end_line: self.line, end_column: self.column + 1 }
    }

    fn since(&self, start: Span) -> Span {
        Span { end_line: self.line, end_column: self.column, ..start }
    }

    fn refuse<T>(&self, span: Span, message: impl Into<String>) -> Option<T> {
        self.report.problem(span, message);
        None
    }

    fn found(&mut self) -> String {
        self.chars.peek().map_or_else(|| "the end of the file".to_owned(), |char| format!("'{}'", char.escape_debug()))
    }

    fn expect(&mut self, wanted: char) -> Option<()> {
        self.skip_blanks();
        if self.chars.peek() == Some(&wanted) {
            self.next();
            return Some(());
        }
        let found = self.found();
        self.refuse(self.here(), format!("expected '{wanted}', found {found}"))
    }

    fn value(&mut self) -> Option<Node> {
        self.skip_blanks();
        let start = self.here();
        let Some(left) = self.nodes_left.checked_sub(1) else {
            return self.refuse(start, format!("the file has more than {MAX_NODES} values"));
        };
        self.nodes_left = left;
        let value = match self.chars.peek() {
            Some('{') => self.nested(Self::object)?,
            Some('[') => self.nested(Self::array)?,
            Some('"') => Value::Scalar(Scalar { text: self.string()?, quoted: true }),
            Some(_) => Value::Scalar(Scalar { text: self.word(start)?, quoted: false }),
            None => return self.refuse(start, "expected a value, found the end of the file"),
        };
        Some(Node { span: self.since(start), value })
    }

    fn nested(&mut self, read: fn(&mut Self) -> Option<Value>) -> Option<Value> {
        if self.depth == MAX_DEPTH {
            return self.refuse(self.here(), format!("more than {MAX_DEPTH} levels within each other"));
        }
        self.depth += 1;
        self.next();
        let value = read(self);
        self.depth -= 1;
        value
    }

    /// Whether another element follows: reads the separator in front of it, or the closing bracket.
    fn more(&mut self, first: bool, close: char) -> Option<bool> {
        self.skip_blanks();
        match self.chars.peek() {
            Some(char) if *char == close => {
                self.next();
                Some(false)
            }
            _ if first => Some(true),
            Some(',') => {
                self.next();
                Some(true)
            }
            _ => {
                let found = self.found();
                self.refuse(self.here(), format!("expected ',' or '{close}', found {found}"))
            }
        }
    }

    fn array(&mut self) -> Option<Value> {
        let mut items = Vec::new();
        while self.more(items.is_empty(), ']')? {
            items.push(self.value()?);
        }
        Some(Value::List(items))
    }

    fn object(&mut self) -> Option<Value> {
        let (mut entries, mut places) = (Vec::new(), HashMap::<String, Span>::new());
        let mut first = true;
        while self.more(first, '}')? {
            first = false;
            self.skip_blanks();
            let start = self.here();
            if self.chars.peek() != Some(&'"') {
                let found = self.found();
                return self.refuse(start, format!("expected a key in double quotes, found {found}"));
            }
            let key = self.string()?;
            let key_span = self.since(start);
            self.expect(':')?;
            let value = self.value()?;
            match places.get(&key) {
                Some(first) => duplicate(&key, key_span, *first, self.report),
                None => {
                    places.insert(key.clone(), key_span);
                    entries.push(Entry { key, key_span, value });
                }
            }
        }
        Some(Value::Map(entries))
    }

    /// A number, `true`, `false` or `null`.
    fn word(&mut self, start: Span) -> Option<String> {
        let mut word = String::new();
        while let Some(char) =
            self.chars.peek().copied().filter(|char| !matches!(char, ' ' | '\t' | '\n' | '\r' | ',' | ']' | '}' | ':'))
        {
            word.push(char);
            self.next();
        }
        if matches!(word.as_str(), "true" | "false" | "null") || is_number(&word) {
            return Some(word);
        }
        let short: String = word.chars().take(40).collect();
        self.refuse(self.since(start), format!("'{}' is not a JSON value", short.escape_debug()))
    }

    fn string(&mut self) -> Option<String> {
        let start = self.here();
        self.next();
        let mut text = String::new();
        loop {
            let place = self.here();
            match self.next() {
                None => return self.refuse(start, "this text has no closing quote before the end of the file"),
                Some('"') => return Some(text),
                Some('\\') => text.push(self.escape(place)?),
                Some(char) if char < ' ' => {
                    return self.refuse(place, "a control character in a text must be written as an escape");
                }
                Some(char) => text.push(char),
            }
        }
    }

    fn escape(&mut self, place: Span) -> Option<char> {
        Some(match self.next() {
            Some(char @ ('"' | '\\' | '/')) => char,
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('u') => return self.unicode(place),
            _ => return self.refuse(self.since(place), "unknown escape"),
        })
    }

    fn unicode(&mut self, place: Span) -> Option<char> {
        let first = self.hex(place)?;
        let code = if (0xd800..0xdc00).contains(&first) && self.chars.peek() == Some(&'\\') {
            self.next();
            let second = if self.next() == Some('u') { self.hex(place)? } else { 0 };
            if (0xdc00..0xe000).contains(&second) {
                0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)
            } else {
                first
            }
        } else {
            first
        };
        match char::from_u32(code) {
            Some(char) => Some(char),
            None => self.refuse(self.since(place), "half of a surrogate pair"),
        }
    }

    fn hex(&mut self, place: Span) -> Option<u32> {
        let mut code = 0;
        for _ in 0..4 {
            let Some(digit) = self.next().and_then(|char| char.to_digit(16)) else {
                return self.refuse(self.since(place), "\\u takes four hexadecimal digits");
            };
            code = code * 16 + digit;
        }
        Some(code)
    }
}

fn is_number(word: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let unsigned = word.strip_prefix('-').unwrap_or(word);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['+', '-']).unwrap_or(exponent))),
        None => (unsigned, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    digits(whole)
        && (whole == "0" || !whole.starts_with('0'))
        && fraction.is_none_or(digits)
        && exponent.is_none_or(digits)
}

#[cfg(test)]
mod tests {
    use super::is_number;

    #[test]
    fn numbers_are_those_of_json() {
        for number in ["0", "-0", "10", "-1.50", "1e3", "1.0E-7", "2E+1"] {
            assert!(is_number(number), "{number}");
        }
        for word in ["", "-", "01", "+1", ".5", "1.", "1e", "0x10", "1_000", "NaN", "1.2.3", "--1"] {
            assert!(!is_number(word), "{word}");
        }
    }
}
