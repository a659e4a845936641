//! Paths and dtabs in a configuration.

use super::report::Report;
use super::source::{Span, number};
use super::tree::Node;
use super::value::{FromNode, text};
use crate::name::{Dtab, Limits, ParseError, Path};

impl FromNode for Path {
    fn from_node(node: &Node, report: &Report) -> Option<Self> {
        parsed(node, report, Path::parse_with)
    }
}

impl FromNode for Dtab {
    fn from_node(node: &Node, report: &Report) -> Option<Self> {
        parsed(node, report, Dtab::parse_with)
    }
}

fn parsed<T>(node: &Node, report: &Report, parse: fn(&str, &Limits) -> Result<T, ParseError>) -> Option<T> {
    let text = text(node, report)?;
    parse(text, &report.limits())
        .map_err(|error| {
            let place = report.place_in(node.span, text, error.position());
            report.problem(place, error.to_string());
        })
        .ok()
}

impl Report {
    /// The place of a character of a scalar's text in the file, if the file shows that line of text as it is (no
    /// escapes, no folding), else the place of the scalar.
    fn place_in(&self, span: Span, text: &str, position: usize) -> Span {
        // What is missing at the end is missing behind the last character that is not blank.
        let text = text.trim_end();
        let before: String = text.chars().take(position).collect();
        let (line_of_text, column) = match before.rfind('\n') {
            Some(end) => (before.matches('\n').count(), before[end + 1..].chars().count()),
            None => (0, before.chars().count()),
        };
        let Some(wanted) = text.split('\n').nth(line_of_text) else { return span };
        // Blocks of text start at their first character, below the indicator.
        let line_number = span.line.saturating_add(number(line_of_text));
        let Some(line) = self.source(span.file).and_then(|source| source.line(line_number)) else { return span };
        let skip = if line_of_text == 0 { span.column as usize - 1 } else { 0 };
        let start = line.char_indices().nth(skip).map_or(line.len(), |(start, _)| start);
        let shown = &line[start..];
        let Some(at) = shown.find(wanted).filter(|_| !wanted.is_empty()) else { return span };
        let column = number(skip + shown[..at].chars().count() + column) + 1;
        Span { line: line_number, column, end_line: line_number, end_column: column + 1, ..span }
    }
}

#[cfg(test)]
mod tests {
    use super::super::read_text;
    use super::*;

    fn refused(text: &str) -> String {
        read_text("f", text, "the test", |fields| fields.req::<Dtab>("d")).expect_err("refused").to_string()
    }

    #[test]
    fn a_wrong_dtab_is_marked_where_it_is_wrong() {
        for (text, head) in [
            ("d: /svc >= /a", "f:1:9: '=' expected but '>' found at '/svc [>]= /a'\n"),
            ("d: \"/svc >= /a\"", "f:1:10: '=' expected but '>' found at '/svc [>]= /a'\n"),
            (
                "d: |\n  /a => /b;\n  /svc >= /a;\n",
                "f:3:8: '=' expected but '>' found at '/a => /b;\\n/svc [>]= /a;\\n'\n",
            ),
            // The place inside a text with escapes or folds is not that of the file.
            ("d: \"/s\\u0076c >= /a\"", "f:1:4: '=' expected but '>' found at '/svc [>]= /a'\n"),
            (
                "d: >\n  /a => /b;\n  /svc >= /a;\n",
                "f:2:3: '=' expected but '>' found at '/a => /b; /svc [>]= /a;\\n'\n",
            ),
        ] {
            assert_eq!(refused(text).split_inclusive('\n').next(), Some(head), "{text}");
        }
    }

    #[test]
    fn paths_and_dtabs_are_read_as_namerd_reads_them() {
        let read = read_text("f", "p: /svc/web\nd: |\n  /a => /b;\n  /c => /d", "the test", |fields| {
            Some((fields.req::<Path>("p")?, fields.req::<Dtab>("d")?))
        });
        let (path, dtab) = read.expect("valid").0;
        assert_eq!((path.to_string(), dtab.to_string()), ("/svc/web".to_owned(), "/a=>/b;/c=>/d".to_owned()));
    }
}
