//! What is wrong with a file, collected while it is read and printed with the lines concerned.

use std::cell::{Cell, RefCell};
use std::fmt;

use super::source::{FileId, Source, Span, without_mark};
use crate::name::Limits;
use crate::text::url::{userinfo, without_userinfo};

/// More problems than this are counted, not listed.
pub(super) const MAX_LISTED: usize = 100;
/// Characters of a line shown around a problem.
const WINDOW: usize = 100;

/// One thing wrong at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub span: Span,
    /// What, and what to do about it.
    pub message: String,
}

/// Collects problems and warnings while files are read.
#[derive(Debug, Default)]
pub struct Report {
    sources: Vec<Source>,
    problems: RefCell<Vec<Problem>>,
    warnings: RefCell<Vec<Problem>>,
    hidden: RefCell<Vec<Span>>,
    limits: Cell<Limits>,
}

impl Report {
    /// Adds a file that problems can point into.
    ///
    /// # Panics
    /// With more than 256 files; a configuration has at most two.
    pub fn add_source(&mut self, name: &str, text: &str) -> FileId {
        let id = u8::try_from(self.sources.len()).expect("a configuration has at most two files");
        self.sources.push(Source::new(name, without_mark(text)));
        FileId(id)
    }

    /// Sets what paths and dtabs of the files that are read from now on may be.
    pub fn limit_names(&self, limits: Limits) {
        self.limits.set(limits);
    }

    pub(super) fn limits(&self) -> Limits {
        self.limits.get()
    }

    /// Adds a problem: the file will be refused.
    pub fn problem(&self, span: Span, message: impl Into<String>) {
        let message = without_userinfo(&message.into()).into_owned();
        self.problems.borrow_mut().push(Problem { span, message });
    }

    /// Adds a warning: the file is accepted, but something in it has no effect.
    pub fn warn(&self, span: Span, message: impl Into<String>) {
        let message = without_userinfo(&message.into()).into_owned();
        self.warnings.borrow_mut().push(Problem { span, message });
    }

    /// Masks a range when its line is quoted.
    pub(super) fn hide(&self, span: Span) {
        self.hidden.borrow_mut().push(span);
    }

    /// `file:line:column` of a place.
    #[must_use]
    pub fn place(&self, span: Span) -> String {
        let name = self.source(span.file).map_or("", |source| source.name.as_str());
        format!("{name}:{}:{}", span.line, span.column)
    }

    /// The file's text.
    pub(super) fn source(&self, file: FileId) -> Option<&Source> {
        self.sources.get(usize::from(file.0))
    }

    /// The value with the warnings, if nothing is wrong.
    ///
    /// # Errors
    /// All problems in the order of the files, also when there is no value.
    pub fn finish<T>(self, value: Option<T>) -> Result<(T, Vec<Warning>), Problems> {
        let mut warnings = self.warnings.take();
        warnings.sort_by_key(|warning| warning.span);
        let warnings = warnings
            .into_iter()
            .map(|warning| Warning(format!("{}: {}", self.place(warning.span), one_line(&warning.message))))
            .collect();
        let mut list = self.problems.take();
        list.sort_by_key(|problem| problem.span);
        list.dedup();
        match value {
            Some(value) if list.is_empty() => Ok((value, warnings)),
            _ => Err(Problems { sources: self.sources, list, hidden: self.hidden.take() }),
        }
    }
}

/// Messages may repeat text of the file.
fn one_line(message: &str) -> String {
    message.chars().fold(String::new(), |mut line, char| {
        match char {
            char if char.is_control() => line.extend(char.escape_default()),
            char => line.push(char),
        }
        line
    })
}

/// Something in an accepted file that has no effect, as one line `file:line:column: message`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning(pub String);

impl fmt::Display for Warning {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// Why a configuration was refused. Printed, each problem is `file:line:column: message` and the line with a mark.
#[derive(Clone)]
pub struct Problems {
    sources: Vec<Source>,
    list: Vec<Problem>,
    hidden: Vec<Span>,
}

impl Problems {
    /// The problems in the order of the files.
    #[must_use]
    pub fn list(&self) -> &[Problem] {
        &self.list
    }

    fn quote(&self, out: &mut fmt::Formatter<'_>, span: Span, line: &str) -> fmt::Result {
        let characters = |bytes: usize| line[..bytes].chars().count() as u32 + 1;
        let names: Vec<_> = userinfo(line).map(|range| characters(range.start)..characters(range.end)).collect();
        let hidden = |column: u32| {
            let at = (span.line, column);
            names.iter().any(|name| name.contains(&column))
                || self.hidden.iter().any(|secret| {
                    secret.file == span.file
                        && (secret.line, secret.column) <= at
                        && at < (secret.end_line, secret.end_column)
                })
        };
        let start = (span.column as usize - 1).saturating_sub(WINDOW / 2);
        let shown: String = (1u32..)
            .zip(line.chars())
            .skip(start)
            .take(WINDOW)
            .map(|(column, char)| match char {
                _ if hidden(column) => '*',
                char if char.is_control() => ' ',
                char => char,
            })
            .collect();
        let before = span.column as usize - 1 - start;
        let end = if span.end_line == span.line { span.end_column as usize } else { usize::MAX };
        let width = end.saturating_sub(span.column as usize).min(shown.chars().count().saturating_sub(before)).max(1);
        let gutter = span.line.to_string();
        writeln!(out, "  {gutter} | {}", shown.trim_end())?;
        writeln!(out, "  {:gutter$} | {:before$}{}", "", "", "^".repeat(width), gutter = gutter.len())
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Problem { span, message } in self.list.iter().take(MAX_LISTED) {
            let source = self.sources.get(usize::from(span.file.0));
            let name = source.map_or("", |source| source.name.as_str());
            writeln!(out, "{name}:{}:{}: {}", span.line, span.column, one_line(message))?;
            if let Some(line) = source.and_then(|source| source.line(span.line)) {
                self.quote(out, *span, line)?;
            }
        }
        match self.list.len() {
            0 => writeln!(out, "the configuration is not usable"),
            count if count > MAX_LISTED => writeln!(out, "and {} more problems", count - MAX_LISTED),
            _ => Ok(()),
        }
    }
}

/// The texts of the files may hold secrets, so `Debug` is the printed form too.
impl fmt::Debug for Problems {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

impl std::error::Error for Problems {}

#[cfg(test)]
mod tests {
    use super::*;

    fn refuse(text: &str, span: Span) -> String {
        let mut report = Report::default();
        report.add_source("namerd.yaml", text);
        report.problem(span, "bad port");
        report.finish(Some(())).expect_err("a problem was added").to_string()
    }

    fn span(line: u32, column: u32, end_column: u32) -> Span {
        Span { file: FileId(0), line, column, end_line: line, end_column }
    }

    #[test]
    fn a_problem_is_printed_with_its_place_and_its_line() {
        let printed = refuse("admin:\n  port: 70000\n", span(2, 9, 14));
        assert_eq!(printed, "namerd.yaml:2:9: bad port\n  2 |   port: 70000\n    |         ^^^^^\n");
    }

    #[test]
    fn of_a_long_line_only_the_surroundings_are_shown() {
        let text = format!("{}port{}", "a".repeat(5000), "b".repeat(5000));
        let printed = refuse(&text, span(1, 5001, 5005));
        assert!(printed.lines().all(|line| line.chars().count() < 130), "{printed}");
        assert!(printed.contains("port"), "{printed}");
    }

    #[test]
    fn a_place_behind_the_end_of_its_line_is_still_marked() {
        assert!(refuse("a:", span(1, 3, 3)).ends_with("  1 | a:\n    |   ^\n"));
        assert!(refuse("", span(1, 1, 1)).ends_with("    | ^\n"));
    }

    #[test]
    fn problems_are_sorted_and_repetitions_left_out() {
        let mut report = Report::default();
        report.add_source("f", "a\nb\nc");
        for line in [3, 1, 3] {
            report.problem(span(line, 1, 2), "bad");
        }
        let problems = report.finish(Some(())).expect_err("refused");
        assert_eq!(problems.list().iter().map(|problem| problem.span.line).collect::<Vec<_>>(), [1, 3]);
    }
}
