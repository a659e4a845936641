//! Taking a mapping apart key by key.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::report::{MAX_LISTED, Report};
use super::source::Span;
use super::tree::{Entry, Node, Value};
use super::value::{FromNode, Millis, text};

/// One mapping of the file while its keys are read. Every key asked for is a known one; those that nobody asked for
/// become problems when the reading ends.
///
/// A key with nothing as its value (`null`, or no value) counts as absent, as in namerd.
#[derive(Debug)]
pub struct Fields<'a> {
    report: &'a Report,
    what: String,
    span: Span,
    entries: &'a [Entry],
    known: Vec<&'static str>,
    ignore_unknown: bool,
}

impl<'a> Fields<'a> {
    /// Reads a mapping with `read`, then reports the keys that are not known. `what` names it in messages, for example
    /// `the io.l5d.fs namer`. Nothing at all is an empty mapping.
    pub fn read<T>(
        node: &'a Node,
        what: impl Into<String>,
        report: &'a Report,
        read: impl FnOnce(&mut Fields<'a>) -> Option<T>,
    ) -> Option<T> {
        let what = what.into();
        let entries: &[Entry] = match &node.value {
            Value::Map(entries) => entries,
            _ if node.is_null() => &[],
            _ => {
                report.problem(node.span, format!("{what} must be a mapping, found {}", node.describe()));
                return None;
            }
        };
        let known = Vec::new();
        let mut fields = Self { report, what, span: node.span, entries, known, ignore_unknown: false };
        let value = read(&mut fields);
        fields.finish();
        value
    }

    /// The value of a key that need not be there. A wrong value is reported and counts as absent.
    pub fn opt<T: FromNode>(&mut self, key: &'static str) -> Option<T> {
        T::from_node(self.node(key)?, self.report)
    }

    /// The value of a key, or a default.
    pub fn or<T: FromNode>(&mut self, key: &'static str, default: T) -> T {
        self.opt(key).unwrap_or(default)
    }

    /// The value of a key that must be there. None only if a problem was reported.
    pub fn req<T: FromNode>(&mut self, key: &'static str) -> Option<T> {
        match self.node(key) {
            Some(node) => T::from_node(node, self.report),
            None => self.missing(key),
        }
    }

    /// Reports that a key that must be there is not; always none.
    pub fn missing<T>(&self, key: &'static str) -> Option<T> {
        self.report.problem(self.span_of(key), format!("'{key}' is required for {}", self.what));
        None
    }

    /// As [`Fields::req`], with the message for the case that the key is missing.
    pub fn req_or<T: FromNode>(&mut self, key: &'static str, message: impl Into<String>) -> Option<T> {
        match self.node(key) {
            Some(node) => T::from_node(node, self.report),
            None => {
                self.report.problem(self.span_of(key), message);
                None
            }
        }
    }

    /// The text of a key, made into a value by `parse`; its error is reported at the text.
    pub fn parsed<T, E: Display>(&mut self, key: &'static str, parse: impl FnOnce(&str) -> Result<T, E>) -> Option<T> {
        let node = self.node(key)?;
        let text = text(node, self.report)?;
        parse(text).map_err(|error| self.report.problem(node.span, error.to_string())).ok()
    }

    /// A duration in milliseconds, or a default.
    pub fn millis_or(&mut self, key: &'static str, default: Duration) -> Duration {
        self.opt(key).map_or(default, |Millis(duration)| duration)
    }

    /// A number within bounds, or a default.
    pub fn within<T: TryFrom<i128> + PartialOrd + Display>(
        &mut self,
        key: &'static str,
        bounds: RangeInclusive<T>,
        default: T,
    ) -> T {
        let Some(number) = self.opt::<i128>(key) else { return default };
        if let Ok(number) = T::try_from(number)
            && bounds.contains(&number)
        {
            return number;
        }
        let message = format!("{number} is not between {} and {}", bounds.start(), bounds.end());
        self.report.problem(self.span_of(key), message);
        default
    }

    /// Warns about each of these keys that is given: it is read, and changes nothing. `why` follows the words "has no
    /// effect".
    pub fn without_effect(&mut self, keys: &[&'static str], why: &str) {
        for key in keys {
            if self.node(key).is_some() {
                self.report.warn(self.span_of(key), format!("{key} has no effect{why}"));
            }
        }
    }

    /// A mapping below this one, read with `read`; `what` names it in messages.
    pub fn section<T>(
        &mut self,
        key: &'static str,
        what: impl Into<String>,
        read: impl FnOnce(&mut Fields<'a>) -> Option<T>,
    ) -> Option<T> {
        let node = self.node(key)?;
        Fields::read(node, what, self.report, read)
    }

    /// A list, each element read with `read`; those that it reports are left out. None if the key is absent.
    pub fn each<T>(
        &mut self,
        key: &'static str,
        mut read: impl FnMut(&'a Node, &'a Report) -> Option<T>,
    ) -> Option<Vec<T>> {
        let node = self.node(key)?;
        let Value::List(items) = &node.value else {
            self.report.problem(node.span, format!("'{key}' must be a list, found {}", node.describe()));
            return None;
        };
        Some(items.iter().filter_map(|item| read(item, self.report)).collect())
    }

    /// The value of a key as it stands in the file; none if it is absent or nothing. The key counts as known.
    pub fn node(&mut self, key: &'static str) -> Option<&'a Node> {
        self.entry(key).map(|entry| &entry.value).filter(|node| !node.is_null())
    }

    /// A key with its value as they stand in the file. The key counts as known.
    pub fn entry(&mut self, key: &'static str) -> Option<&'a Entry> {
        if !self.known.contains(&key) {
            self.known.push(key);
        }
        self.find(key)
    }

    fn find(&self, key: &str) -> Option<&'a Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    /// Where a key's value stands; where the key stands if it has none; else where the mapping starts.
    #[must_use]
    pub fn span_of(&self, key: &str) -> Span {
        match self.find(key) {
            Some(entry) if entry.value.is_null() => entry.key_span,
            Some(entry) => entry.value.span,
            None => self.span(),
        }
    }

    /// Where the mapping starts.
    #[must_use]
    pub fn span(&self) -> Span {
        Span { end_line: self.span.line, end_column: self.span.column + 1, ..self.span }
    }

    /// Where problems and warnings go.
    #[must_use]
    pub fn report(&self) -> &'a Report {
        self.report
    }

    /// Changes what messages call the mapping, once its kind is known.
    pub fn call_it(&mut self, what: impl Into<String>) {
        self.what = what.into();
    }

    /// Leaves the keys that nobody asks for alone: those of a kind that is not built yet.
    pub fn ignore_unknown(&mut self) {
        self.ignore_unknown = true;
    }

    fn finish(self) {
        if self.ignore_unknown {
            return;
        }
        let unknown = || self.entries.iter().filter(|entry| !self.known.contains(&entry.key.as_str()));
        // Nobody knows whether it is a secret.
        for entry in unknown().filter(|entry| matches!(entry.value.value, Value::Scalar(_))) {
            self.report.hide(entry.value.span);
        }
        // Looking for the nearest key costs time, and more are not listed anyway.
        for entry in unknown().take(MAX_LISTED) {
            let mut message = format!("Unrecognized field \"{}\" in {}", entry.key.escape_debug(), self.what);
            if let Some(near) = nearest(&entry.key, self.known.iter().copied()) {
                message.push_str(&format!("; did you mean \"{near}\"?"));
            }
            message.push_str(&format!(" (known here: {})", self.known.join(", ")));
            self.report.problem(entry.key_span, message);
        }
    }
}

/// The known word that `word` may be a slip of.
#[must_use]
pub fn nearest<'k>(word: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    // Comparing costs the product of both lengths.
    if word.len() > 64 {
        return None;
    }
    let lower = word.to_lowercase();
    known
        .map(|known| (strsim::damerau_levenshtein(&lower, &known.to_lowercase()), known))
        .filter(|(distance, known)| *distance <= known.len().max(word.len()) / 3)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::super::{Port, read_text};
    use super::*;

    fn message(text: &str, read: impl FnOnce(&mut Fields<'_>) -> Option<()>) -> String {
        read_text("f", text, "the test", read).expect_err("the text must be refused").to_string()
    }

    #[test]
    fn an_unknown_key_is_refused_with_the_nearest_known_one() {
        let printed = message("prot: 1\nport: 2\n", |fields| {
            let _: (Option<Port>, Option<String>) = (fields.opt("port"), fields.opt("ip"));
            Some(())
        });
        assert!(printed.starts_with(
            "f:1:1: Unrecognized field \"prot\" in the test; did you mean \"port\"? (known here: port, ip)\n"
        ));
    }

    #[test]
    fn an_unknown_key_far_from_all_others_gets_no_proposal() {
        assert!(
            !message("routers: 1", |fields| fields.opt::<String>("admin").or(Some(String::new())).map(|_| ()))
                .contains("did you mean")
        );
    }

    #[test]
    fn all_mistakes_of_a_file_are_reported_at_once() {
        let printed = message("a: x\nb: {c: 1}\nd: 70000\n", |fields| {
            let _: Option<u32> = fields.opt("a");
            fields.section("b", "b", |fields| fields.req::<u32>("missing"));
            let _: Option<Port> = fields.opt("d");
            Some(())
        });
        let heads: Vec<&str> = printed.lines().filter(|line| line.starts_with("f:")).collect();
        assert_eq!(
            heads,
            [
                "f:1:4: 'x' is not a whole number",
                "f:2:4: 'missing' is required for b",
                "f:2:5: Unrecognized field \"c\" in b (known here: missing)",
                "f:3:4: 70000 outside valid range for ports",
            ]
        );
    }

    #[test]
    fn a_key_without_a_value_counts_as_absent() {
        let read = read_text("f", "a:\nb: ~\nc: null\n", "the test", |fields| {
            Some((fields.or("a", 1u32), fields.opt::<String>("b"), fields.section("c", "c", |_| Some(()))))
        });
        assert_eq!(read.expect("valid").0, (1, None, None));
        assert!(message("a:\n", |fields| fields.req::<u32>("a").map(|_| ())).starts_with("f:1:1: 'a' is required"));
    }

    #[test]
    fn something_else_than_a_mapping_is_refused() {
        assert!(message("- a", |_| Some(())).starts_with("f:1:1: the test must be a mapping, found a list"));
        assert!(
            message("a: b", |fields| fields.section("a", "a", |_| Some(()))).contains("a must be a mapping, found 'b'")
        );
        assert!(
            message("a: b", |fields| fields.each("a", |_, _| Some(())).map(|_| ()))
                .contains("'a' must be a list, found 'b'")
        );
    }
}
