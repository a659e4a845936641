//! Dtab texts of users: read, checked with the place of a mistake, printed for people, compared.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::hash::Hash;
use std::path::Path as FilePath;

use serde::{Deserialize, Serialize};

use crate::cli::failure::Failure;
use crate::cli::files;
use crate::config::{Report, Span};
use crate::name::{Dentry, Dtab, ParseError};

/// Prefixes longer than this do not move the column of the arrows.
const WIDEST: usize = 60;

/// An entry as JSON has it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
pub(in crate::cli) struct Entry {
    /// The left side.
    pub(in crate::cli) prefix: String,
    /// The right side.
    pub(in crate::cli) dst: String,
}

impl From<&Dentry> for Entry {
    fn from(dentry: &Dentry) -> Self {
        Self { prefix: dentry.prefix.to_string(), dst: dentry.dst.to_string() }
    }
}

/// A dtab in a file, ready to be sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Given {
    /// What to send: the text as it was written, comments included.
    pub(super) text: String,
    /// The version that a JSON file says it was made from.
    pub(super) version: Option<String>,
    /// The entries, unless only the server can tell, because its limits decide.
    pub(super) entries: Option<Vec<Entry>>,
    /// What looks like a mistake and is none by the grammar.
    pub(super) doubt: Option<String>,
}

/// `dtab get --json` prints this, so `dtab put` takes it.
#[derive(Deserialize)]
#[serde(untagged)]
enum Json {
    Versioned { version: Option<String>, dtab: Vec<Entry> },
    Bare(Vec<Entry>),
}

/// What messages call the file; `-` is standard input.
pub(super) fn name(file: &FilePath) -> String {
    if file == FilePath::new("-") { "standard input".to_owned() } else { file.display().to_string() }
}

/// Reads and checks the dtab in `file`; `-` is standard input.
pub(super) fn read(file: &FilePath) -> Result<Given, Failure> {
    check(&files::name(file), files::read(file)?)
}

/// Checks the text of the file `name`.
pub(super) fn check(name: &str, text: String) -> Result<Given, Failure> {
    // No dtab starts with either.
    if text.trim_start().starts_with(['{', '[']) {
        return check_json(name, &text);
    }
    let entries = match Dtab::parse(&text) {
        Ok(dtab) => Some(entries(&dtab)),
        // The limits of the server may be wider.
        Err(error) if error.limit().is_some() => None,
        Err(error) => return Err(Failure::Text(explain(name, &text, &error))),
    };
    let doubt = doubt(&text, entries.as_deref());
    Ok(Given { text, version: None, entries, doubt })
}

fn check_json(name: &str, text: &str) -> Result<Given, Failure> {
    let expected = "a dtab in JSON is what `rosterd dtab get --json` prints";
    let json: Json = serde_json::from_str(text)
        .map_err(|error| Failure::other(format_args!("{name} is JSON, but no dtab: {error}; {expected}")))?;
    let (version, entries) = match json {
        Json::Versioned { version, dtab } => (version, dtab),
        Json::Bare(dtab) => (None, dtab),
    };
    let mut text = String::new();
    for (index, Entry { prefix, dst }) in entries.iter().enumerate() {
        let entry = format!("{prefix} => {dst}");
        match Dentry::parse(&entry) {
            Err(error) if error.limit().is_none() => {
                let name = format!("{name}, entry {}", index + 1);
                return Err(Failure::Text(explain(&name, &entry, &error)));
            }
            _ => {}
        }
        text.push_str(&entry);
        text.push_str(" ;\n");
    }
    let doubt = doubt(&text, Some(&entries));
    Ok(Given { text, version, entries: Some(entries), doubt })
}

fn doubt(text: &str, entries: Option<&[Entry]>) -> Option<String> {
    if Dtab::comment_hides_entries(text) {
        let doubt = "the comment goes on to the end of the only line and holds entries; were line ends lost?";
        return Some(doubt.to_owned());
    }
    entries.is_some_and(<[Entry]>::is_empty).then(|| "the dtab has no entries".to_owned())
}

/// The entries in the form in which servers show them.
pub(in crate::cli) fn entries(dtab: &Dtab) -> Vec<Entry> {
    dtab.entries().iter().map(Entry::from).collect()
}

/// A mistake with its place, its line and a mark below it.
pub(in crate::cli) fn explain(name: &str, text: &str, error: &ParseError) -> String {
    let message = error.to_string();
    // The message repeats the text with the place marked in it; here the line is shown instead.
    let message = message.split_once(" at '").map_or(message.as_str(), |(short, _)| short).to_owned();
    let mut report = Report::default();
    let file = report.add_source(name, text);
    let (line, column) = place(text, error.position());
    report.problem(Span { file, line, column, end_line: line, end_column: column + 1 }, message);
    match report.finish::<()>(None) {
        Ok(((), _)) => String::new(),
        Err(problems) => problems.to_string(),
    }
}

/// Line and column, from 1, of a character.
fn place(text: &str, position: usize) -> (u32, u32) {
    let (mut line, mut column) = (1, 1);
    let mut characters = text.chars().peekable();
    for _ in 0..position {
        match characters.next() {
            Some('\r') if characters.peek() == Some(&'\n') => column += 1,
            Some('\n' | '\r') => (line, column) = (line + 1, 1),
            _ => column += 1,
        }
    }
    (line, column)
}

/// One entry a line, with the arrows below each other.
pub(in crate::cli) fn pretty(entries: &[Entry]) -> String {
    let lengths = entries.iter().map(|entry| entry.prefix.chars().count());
    let width = lengths.filter(|length| *length <= WIDEST).max().unwrap_or_default();
    entries.iter().fold(String::new(), |mut text, Entry { prefix, dst }| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{prefix:width$} => {dst} ;");
        text
    })
}

/// What became of a list: what is new, with `+`, and what is gone, with `-`. Empty when at most the order changed.
pub(in crate::cli) fn changes<T: Eq + Hash>(before: &[T], after: &[T], show: impl Fn(&T) -> String) -> Vec<String> {
    let mut old: HashMap<&T, usize> = HashMap::new();
    for entry in before {
        *old.entry(entry).or_default() += 1;
    }
    let mut changes = Vec::new();
    for entry in after {
        match old.get_mut(entry) {
            Some(left) if *left > 0 => *left -= 1,
            _ => changes.push(format!("+{}", show(entry))),
        }
    }
    for entry in before {
        if let Some(left @ 1..) = old.get_mut(entry) {
            *left -= 1;
            changes.push(format!("-{}", show(entry)));
        }
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        check("web.dtab", text.to_owned()).expect_err("must be refused").to_string()
    }

    fn entry(prefix: &str, dst: &str) -> Entry {
        Entry { prefix: prefix.to_owned(), dst: dst.to_owned() }
    }

    #[test]
    fn a_mistake_is_shown_in_its_line() {
        assert_eq!(
            refused("# routes\n/svc => /host ;\n/host = /srv ;\n"),
            "web.dtab:3:8: '>' expected but ' ' found\n  3 | /host = /srv ;\n    |        ^\n"
        );
    }

    #[test]
    fn places_count_characters_and_any_line_end() {
        assert_eq!(place("ab\r\ncd", 4), (2, 1));
        assert_eq!(place("ab\rcd", 4), (2, 2));
        assert_eq!(place("äö", 1), (1, 2));
        assert_eq!(place("", 0), (1, 1));
    }

    #[test]
    fn a_text_that_ends_too_early_is_marked_behind_its_end() {
        assert_eq!(
            refused("/svc => /host | "),
            "web.dtab:1:17: simple expected but end of input found\n  1 | /svc => /host |\n    |                 ^\n"
        );
    }

    #[test]
    fn a_text_is_sent_as_it_was_written() {
        let text = "# what web needs\n/svc=>/host;\n";
        let given = check("web.dtab", text.to_owned()).unwrap();
        assert_eq!((given.text.as_str(), given.doubt), (text, None));
        assert_eq!(given.entries, Some(vec![entry("/svc", "/host")]));
    }

    #[test]
    fn what_a_server_may_still_take_is_not_refused_here() {
        let deep = format!("/a => {}/b{}", "(".repeat(100), ")".repeat(100));
        assert_eq!(check("web.dtab", deep).unwrap().entries, None);
    }

    #[test]
    fn json_as_printed_by_get_is_taken_with_its_version() {
        let given =
            check("web.json", r#"{"version":"AA==","dtab":[{"prefix":"/a","dst":"/b | /c"}]}"#.to_owned()).unwrap();
        assert_eq!((given.text.as_str(), given.version.as_deref()), ("/a => /b | /c ;\n", Some("AA==")));
        assert_eq!(check("web.json", "[]".to_owned()).unwrap().version, None);
    }

    #[test]
    fn a_mistake_in_json_names_the_entry() {
        let text = r#"[{"prefix":"/a","dst":"/b"},{"prefix":"/a","dst":"b"}]"#;
        assert!(
            refused(text).starts_with("web.dtab, entry 2:1:7: simple expected but 'b' found\n"),
            "{}",
            refused(text)
        );
        assert!(refused("{\"dtab\": 1}").contains("`rosterd dtab get --json`"));
    }

    #[test]
    fn lost_line_ends_and_emptiness_are_doubted() {
        let doubt = |text: &str| check("web.dtab", text.to_owned()).unwrap().doubt;
        assert!(doubt("/svc => /a;# note/svc/x => /b;").unwrap().contains("line ends lost"));
        assert_eq!(doubt("/svc => /a # as before"), None);
        assert_eq!(doubt("/a#b => /c"), None);
        assert_eq!(doubt("# nothing\n").unwrap(), "the dtab has no entries");
    }

    #[test]
    fn arrows_stand_below_each_other_except_behind_a_very_long_prefix() {
        let long = format!("/{}", "x".repeat(80));
        assert_eq!(
            pretty(&[entry("/svc", "/host"), entry("/host/*", "/a | /b"), entry(&long, "/c")]),
            format!("/svc    => /host ;\n/host/* => /a | /b ;\n{long} => /c ;\n")
        );
        assert_eq!(pretty(&[]), "");
    }

    #[test]
    fn changes_name_what_came_and_what_went() {
        let changes = |before: &[&str], after: &[&str]| changes(before, after, |text| (*text).to_owned());
        assert_eq!(changes(&["a", "b", "c"], &["a", "x", "c"]), ["+x", "-b"]);
        assert_eq!(changes(&[], &["a"]), ["+a"]);
        assert_eq!(changes(&["a", "a"], &["a"]), ["-a"]);
        assert_eq!(changes(&["a", "b"], &["b", "a"]), Vec::<String>::new());
    }
}
