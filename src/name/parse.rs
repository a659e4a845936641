//! The one reader for paths, prefixes, name trees, dentries and dtabs.
//!
//! Recursive descent with a cursor and no way back. The texts of its errors are what namerd's clients see, so both what
//! it expects and where it notices a mistake are part of the wire format. namerd reads UTF-16 units; the differences
//! that can be observed are kept here: U+FFFF counts as the end of the input when something is expected there, and a
//! character outside the basic plane is reported as the two halves that nobody can print.

use bytes::Bytes;

use super::dtab::{Dentry, Dtab};
use super::error::{ParseError, Unmet};
use super::flat;
use super::limits::{Limit, Limits};
use super::path::{Path, is_showable};
use super::prefix::Prefix;
use super::tree::{NameTree, Weighted};
use crate::text::java::digit;

type Read<T> = Result<T, ParseError>;

/// A cursor over one text.
pub(super) struct Reader<'a> {
    text: &'a str,
    at: usize,
    limits: &'a Limits,
    /// The elements of the path being read, in the encoding of `flat`; kept for its memory.
    elems: Vec<u8>,
    /// The element being read.
    label: Vec<u8>,
}

/// A tree with its levels of alts and unions.
struct Measured {
    tree: NameTree<Path>,
    depth: usize,
}

impl<'a> Reader<'a> {
    /// Starts reading, unless the text is too long to be looked at.
    pub(super) fn new(text: &'a str, limits: &'a Limits) -> Read<Self> {
        if text.len() > limits.dtab_bytes {
            return Err(ParseError::over(Limit::DtabBytes, limits, text, 0));
        }
        Ok(Self { text, at: 0, limits, elems: Vec::new(), label: Vec::new() })
    }

    /// Reads one thing that must be the whole text.
    pub(super) fn whole<T>(mut self, read: impl FnOnce(&mut Self) -> Read<T>) -> Read<T> {
        let value = read(&mut self)?;
        self.skip_blank();
        if self.at_end() { Ok(value) } else { Err(self.unmet(Unmet::End)) }
    }

    /// `item { ";" item }`, where an item may be missing only at the very end.
    pub(super) fn dtab(&mut self) -> Read<Dtab> {
        let mut dentries = Vec::new();
        loop {
            self.skip_blank();
            if !self.at_end() {
                dentries.push(self.dentry()?);
                self.skip_blank();
            }
            if !self.eat_if(b';') {
                return Ok(dentries.into());
            }
        }
    }

    /// `prefix "=>" tree`
    pub(super) fn dentry(&mut self) -> Read<Dentry> {
        let prefix = self.prefix()?;
        self.skip_blank();
        self.eat(b'=', Unmet::Equals)?;
        self.eat(b'>', Unmet::Arrow)?;
        Ok(Dentry { prefix, dst: self.tree()? })
    }

    /// `"/" [ elem { "/" elem } ]`, where an element may be `*`.
    pub(super) fn prefix(&mut self) -> Read<Prefix> {
        Ok(Prefix::from_flat(self.elements(true)?))
    }

    /// `"/" [ label { "/" label } ]`
    pub(super) fn path(&mut self) -> Read<Path> {
        Ok(Path::from_flat(self.elements(false)?))
    }

    /// Alternatives of unions.
    pub(super) fn tree(&mut self) -> Read<NameTree<Path>> {
        Ok(self.alt(0)?.tree)
    }

    fn elements(&mut self, wildcards: bool) -> Read<Bytes> {
        self.skip_blank();
        self.eat(b'/', Unmet::Slash)?;
        let starts = |byte: u8| is_showable(byte) || byte == b'\\' || (wildcards && byte == b'*');
        if !self.peek().is_some_and(starts) {
            return Ok(Bytes::new());
        }
        self.elems.clear();
        let mut count = 0;
        loop {
            count += 1;
            if count > self.limits.path_segments {
                return Err(self.over(Limit::PathSegments));
            }
            self.label.clear();
            if !(wildcards && self.eat_if(b'*')) {
                self.label()?;
            }
            flat::push(&mut self.elems, &self.label);
            if !self.eat_if(b'/') {
                return Ok(Bytes::copy_from_slice(&self.elems));
            }
        }
    }

    fn label(&mut self) -> Read<()> {
        loop {
            let rest = &self.text.as_bytes()[self.at..];
            let plain = rest.iter().take_while(|byte| is_showable(**byte)).count();
            self.label.extend_from_slice(&rest[..plain]);
            self.at += plain;
            if !self.eat_if(b'\\') {
                return if self.label.is_empty() { Err(self.unmet(Unmet::LabelChar)) } else { Ok(()) };
            }
            self.eat(b'x', Unmet::EscapeX)?;
            let byte = self.hex_digit()? << 4 | self.hex_digit()?;
            self.label.push(byte);
        }
    }

    fn hex_digit(&mut self) -> Read<u8> {
        let digit = match self.peek() {
            Some(digit @ b'0'..=b'9') => digit - b'0',
            Some(digit @ b'a'..=b'f') => digit - b'a' + 10,
            Some(digit @ b'A'..=b'F') => digit - b'A' + 10,
            _ => return Err(self.unmet(Unmet::HexChar)),
        };
        self.at += 1;
        Ok(digit)
    }

    fn alt(&mut self, parens: usize) -> Read<Measured> {
        let first = self.union(parens)?;
        self.skip_blank();
        if !self.eat_if(b'|') {
            return Ok(first);
        }
        let mut depth = first.depth;
        let mut trees = vec![first.tree];
        loop {
            let next = self.union(parens)?;
            depth = depth.max(next.depth);
            trees.push(next.tree);
            self.skip_blank();
            if !self.eat_if(b'|') {
                return self.measured(NameTree::Alt(trees), depth + 1);
            }
        }
    }

    fn union(&mut self, parens: usize) -> Read<Measured> {
        let (weight, first) = self.weighted(parens)?;
        self.skip_blank();
        if !self.eat_if(b'&') {
            // A branch that is alone loses its weight here, not in the printer.
            return Ok(first);
        }
        let mut depth = first.depth;
        let mut trees = vec![Weighted::new(weight, first.tree)];
        loop {
            let (weight, next) = self.weighted(parens)?;
            depth = depth.max(next.depth);
            trees.push(Weighted::new(weight, next.tree));
            self.skip_blank();
            if !self.eat_if(b'&') {
                return self.measured(NameTree::Union(trees), depth + 1);
            }
        }
    }

    fn measured(&self, tree: NameTree<Path>, depth: usize) -> Read<Measured> {
        if depth > self.limits.depth { Err(self.over(Limit::Depth)) } else { Ok(Measured { tree, depth }) }
    }

    fn weighted(&mut self, parens: usize) -> Read<(f64, Measured)> {
        self.skip_blank();
        let weight = if self.peek_char().is_some_and(is_number_char) {
            let weight = self.number()?;
            self.skip_blank();
            self.eat(b'*', Unmet::Star)?;
            weight
        } else {
            Weighted::<Path>::DEFAULT_WEIGHT
        };
        Ok((weight, self.simple(parens)?))
    }

    fn number(&mut self) -> Read<f64> {
        let start = self.at;
        let mut dots = 0;
        while let Some(c) = self.peek_char().filter(|c| is_number_char(*c)) {
            if c == '.' {
                dots += 1;
                if dots > 1 {
                    return Err(self.unmet(Unmet::NumberChar));
                }
            }
            self.at += c.len_utf8();
        }
        match &self.text[start..self.at] {
            "." => Err(self.unmet(Unmet::Weight)),
            // Digits of other scripts pass the scan above and are no number after all.
            digits => digits.parse().map_err(|_| ParseError::not_a_number(self.text, start, digits)),
        }
    }

    fn simple(&mut self, parens: usize) -> Read<Measured> {
        self.skip_blank();
        let tree = match self.peek() {
            Some(b'(') => {
                if parens == self.limits.depth {
                    return Err(self.over(Limit::Depth));
                }
                self.at += 1;
                let inner = self.alt(parens + 1)?;
                self.skip_blank();
                self.eat(b')', Unmet::Paren)?;
                return Ok(inner);
            }
            Some(b'/') => return Ok(Measured { tree: NameTree::Leaf(self.path()?), depth: 0 }),
            Some(b'!') => NameTree::Fail,
            Some(b'~') => NameTree::Neg,
            Some(b'$') => NameTree::Empty,
            _ => return Err(self.unmet(Unmet::Simple)),
        };
        self.at += 1;
        Ok(Measured { tree, depth: 0 })
    }

    fn at_end(&self) -> bool {
        self.at == self.text.len()
    }

    /// The next byte; all of the grammar's own characters are ASCII.
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn peek_char(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn eat_if(&mut self, byte: u8) -> bool {
        let here = self.peek() == Some(byte);
        self.at += usize::from(here);
        here
    }

    fn eat(&mut self, byte: u8, unmet: Unmet) -> Read<()> {
        if self.eat_if(byte) { Ok(()) } else { Err(self.unmet(unmet)) }
    }

    /// Skips blanks, and comments from a `#` that is not inside a label to the end of the line.
    fn skip_blank(&mut self) {
        while let Some(c) = self.peek_char() {
            self.at += match c {
                '#' => {
                    let rest = &self.text[self.at..];
                    rest.find('\n').map_or(rest.len(), |newline| newline + 1)
                }
                c if is_blank(c) => c.len_utf8(),
                _ => return,
            };
        }
    }

    fn unmet(&self, unmet: Unmet) -> ParseError {
        ParseError::unmet(unmet, self.text, self.at)
    }

    fn over(&self, limit: Limit) -> ParseError {
        ParseError::over(limit, self.limits, self.text, self.at)
    }
}

/// Java's idea of white space: the ASCII controls, and Unicode separators except the three that do not break a line.
fn is_blank(c: char) -> bool {
    matches!(c,
        '\t'..='\r' | '\u{1c}'..='\u{20}' | '\u{1680}' | '\u{2000}'..='\u{2006}' | '\u{2008}'..='\u{200a}'
        | '\u{2028}' | '\u{2029}' | '\u{205f}' | '\u{3000}')
}

/// A dot or a decimal digit of any script in the basic plane; only ASCII digits make a number in the end.
fn is_number_char(c: char) -> bool {
    c == '.' || digit(c).is_some()
}
