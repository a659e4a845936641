//! The text of a file as a tree whose nodes know their place. Scalars keep their text as written: `yes`, `1e3` and
//! `0x10` are not interpreted here, and whether a scalar was quoted is remembered (a quoted port is refused).

use super::report::Report;
use super::secret::may_be_secret;
use super::source::{FileId, Span, without_mark};
use super::{json, yaml};

/// Bytes of a file that are read at most.
pub const MAX_BYTES: usize = 16 << 20;
/// Levels of lists and mappings within each other.
pub const MAX_DEPTH: usize = 64;
/// Nodes of a tree, those that aliases repeat included.
pub const MAX_NODES: usize = 1_000_000;

/// A value and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The whole value.
    pub span: Span,
    /// What it is.
    pub value: Value,
}

/// The three shapes of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Text, a number, a boolean or nothing.
    Scalar(Scalar),
    /// A sequence.
    List(Vec<Node>),
    /// Keys and values in the order of the file, each key once.
    Map(Vec<Entry>),
}

/// A scalar as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scalar {
    /// The text, without quotes, escapes resolved.
    pub text: String,
    /// Quoted, or a block of text (`|`, `>`): never a number, a boolean or nothing.
    pub quoted: bool,
}

/// A key of a mapping and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The text of the key.
    pub key: String,
    /// Where the key stands.
    pub key_span: Span,
    /// The value.
    pub value: Node,
}

impl Node {
    /// A plain scalar.
    pub(super) fn plain(text: impl Into<String>, span: Span) -> Self {
        Self { span, value: Value::Scalar(Scalar { text: text.into(), quoted: false }) }
    }

    /// Text that stands in no file; its place is to be set.
    #[must_use]
    pub fn text(text: &str) -> Self {
        let scalar = Scalar { text: text.to_owned(), quoted: true };
        Self { span: Span::default(), value: Value::Scalar(scalar) }
    }

    /// Whether this is nothing: `null`, `~`, or a key without a value.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(&self.value, Value::Scalar(Scalar { text, quoted: false })
            if matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL"))
    }

    /// What a message calls this value.
    #[must_use]
    pub fn describe(&self) -> String {
        match &self.value {
            Value::Scalar(_) if self.is_null() => "nothing".to_owned(),
            Value::Scalar(scalar) => {
                let short: String = scalar.text.chars().take(40).collect();
                let dots = if short.len() < scalar.text.len() { "…" } else { "" };
                format!("'{}{dots}'", short.escape_debug())
            }
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a mapping".to_owned(),
        }
    }

    /// The entry of a mapping with this key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Entry> {
        match &self.value {
            Value::Map(entries) => entries.iter().find(|entry| entry.key == key),
            Value::Scalar(_) | Value::List(_) => None,
        }
    }
}

/// Reads a text: JSON if its first character other than blanks is `{`, else YAML, as namerd decides. Only the first
/// document counts. Problems, also those that leave a tree usable, go to `report`.
#[must_use]
pub fn parse(text: &str, file: FileId, report: &Report) -> Option<Node> {
    if text.len() > MAX_BYTES {
        report.problem(Span::start_of(file), format!("the file has {} bytes, more than {MAX_BYTES}", text.len()));
        return None;
    }
    let text = without_mark(text);
    let root = if text.trim_start().starts_with('{') {
        json::parse(text, file, report)
    } else {
        yaml::parse(text, file, report)
    };
    match &root {
        Some(root) => hide_secrets(root, report),
        None => hide_what_looks_secret(text, file, report),
    }
    root
}

/// Characters before a colon that are looked at as a key.
const LONGEST_KEY: usize = 64;

/// Of a text that cannot be read the rest of each line is hidden in which a key with a secret stands.
fn hide_what_looks_secret(text: &str, file: FileId, report: &Report) {
    for (number, line) in (1..).zip(text.split('\n')) {
        let chars: Vec<char> = line.chars().collect();
        let is_secret = |colon: &usize| {
            if chars[*colon] != ':' {
                return false;
            }
            let before = chars[..*colon].iter().rev().skip_while(|char| matches!(char, ' ' | '"' | '\''));
            let word = before.take_while(|char| char.is_alphanumeric() || "_-".contains(**char)).take(LONGEST_KEY);
            may_be_secret(&word.collect::<Vec<_>>().into_iter().rev().collect::<String>())
        };
        if let Some(colon) = (0..chars.len()).find(is_secret) {
            let column = u32::try_from(colon + 2).unwrap_or(u32::MAX);
            report.hide(Span { file, line: number, column, end_line: number + 1, end_column: 1 });
        }
    }
}

fn hide_secrets(node: &Node, report: &Report) {
    match &node.value {
        Value::Scalar(_) => {}
        Value::List(items) => items.iter().for_each(|item| hide_secrets(item, report)),
        Value::Map(entries) => {
            for entry in entries {
                if may_be_secret(&entry.key) {
                    report.hide(entry.value.span);
                }
                hide_secrets(&entry.value, report);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tree in a short form: quoted scalars in quotes, everything else plain.
    fn show(node: &Node) -> String {
        let join = |parts: Vec<String>| parts.join(" ");
        match &node.value {
            Value::Scalar(Scalar { text, quoted: true }) => format!("{text:?}"),
            Value::Scalar(Scalar { text, quoted: false }) => text.clone(),
            Value::List(items) => format!("[{}]", join(items.iter().map(show).collect())),
            Value::Map(entries) => {
                format!("{{{}}}", join(entries.iter().map(|e| format!("{}={}", e.key, show(&e.value))).collect()))
            }
        }
    }

    fn read(text: &str) -> Result<Node, String> {
        let mut report = Report::default();
        let file = report.add_source("f", text);
        let root = parse(text, file, &report);
        report.finish(root).map(|(root, _)| root).map_err(|problems| problems.to_string())
    }

    fn refused(text: &str, fragment: &str) {
        let message = read(text).expect_err("the text must be refused");
        assert!(message.contains(fragment), "{message}");
    }

    #[test]
    fn scalars_keep_their_text_and_their_quotes() {
        let tree = read("a: yes\nb: 1e3\nc: 0x10\nd: \"41\"\ne: ''\nf:\n1: x\ng: |\n  /a => /b;\n").expect("valid");
        assert_eq!(show(&tree), r#"{a=yes b=1e3 c=0x10 d="41" e="" f= 1=x g="/a => /b;\n"}"#);
    }

    #[test]
    fn a_text_that_starts_with_a_brace_is_json() {
        let tree = read("\n\t {\"a\":\t[1, true, null, \"x\\u00e9\\ud83d\\ude00\\/\\n\"],\n\"b\" : {}} trailing");
        assert_eq!(show(&tree.expect("valid")), "{a=[1 true null \"xé😀/\\n\"] b={}}");
    }

    #[test]
    fn every_node_knows_its_place() {
        for text in ["a: 1\nkey:\n  - é: value", "{\"a\": 1,\n\"key\":\n  [ {é: 1}]}"] {
            let yaml = text.starts_with('a');
            let Ok(tree) = read(text) else {
                assert!(!yaml, "the second text is not JSON");
                continue;
            };
            let entry = tree.get("key").expect("key");
            assert_eq!((entry.key_span.line, entry.key_span.column, entry.key_span.end_column), (2, 1, 4));
            let Value::List(items) = &entry.value.value else { panic!("a list") };
            let inner = &items[0].get("é").expect("é").value;
            assert_eq!((inner.span.line, inner.span.column, inner.span.end_column), (3, 8, 13));
        }
        let tree = read("{\"a\": 1,\n\"key\":\n  [ {\"é\": 10}]}").expect("valid");
        let entry = tree.get("key").expect("key");
        assert_eq!((entry.key_span.line, entry.key_span.column, entry.key_span.end_column), (2, 1, 6));
        let Value::List(items) = &entry.value.value else { panic!("a list") };
        let inner = &items[0].get("é").expect("é").value;
        assert_eq!((inner.span.line, inner.span.column, inner.span.end_column), (3, 11, 13));
    }

    #[test]
    fn a_key_twice_is_refused_in_both_formats_with_both_places() {
        refused("a: 1\nb: 2\na: 3\n", "f:3:1: Duplicate field 'a', already given at f:1:1");
        refused("{\"a\": 1,\n \"a\": 3}", "f:2:2: Duplicate field 'a', already given at f:1:2");
    }

    #[test]
    fn later_documents_and_what_follows_a_json_object_are_ignored() {
        assert_eq!(show(&read("a: 1\n---\nb: [").expect("valid")), "{a=1}");
        assert_eq!(show(&read("---\na: 1\n...\n{{{{").expect("valid")), "{a=1}");
        assert_eq!(show(&read("{\"a\": 1}}}}").expect("valid")), "{a=1}");
    }

    #[test]
    fn a_byte_order_mark_takes_no_place() {
        refused("\u{feff}a: 1\na: 2", "f:2:1: Duplicate field 'a', already given at f:1:1");
        refused("\u{feff}{\"a\": x}", "f:1:7: 'x' is not a JSON value");
    }

    #[test]
    fn an_empty_file_is_nothing() {
        for text in ["", "\n", "# only a comment\n", "---\n"] {
            assert!(read(text).expect("valid").is_null(), "{text:?}");
        }
    }

    #[test]
    fn aliases_and_merge_keys_repeat_what_they_name() {
        let tree = read("x: &x {a: 1, b: 2}\ny: *x\nz: {<<: *x, b: 3}\n").expect("valid");
        assert_eq!(show(&tree), "{x={a=1 b=2} y={a=1 b=2} z={b=3 a=1}}");
        refused("a: *nothing\n", "f:1:4: ");
    }

    #[test]
    fn an_alias_bomb_is_refused() {
        let mut bomb = "a: &a [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for (name, of) in ('b'..='j').zip('a'..) {
            let items = vec![format!("*{of}"); 10].join(", ");
            bomb.push_str(&format!("{name}: &{name} [{items}]\n"));
        }
        refused(&bomb, "aliases");
        let text = format!("a: &a {}\nb: [{}]", "x".repeat(1 << 20), vec!["*a"; 100].join(","));
        refused(&text, "aliases");
    }

    #[test]
    fn deep_nesting_is_refused_where_it_gets_too_deep() {
        refused(&format!("a: {0}{1}", "[".repeat(64), "]".repeat(64)), "f:1:67: more than 64 levels");
        refused(&format!("a: {}", "[".repeat(100_000)), "limit");
        let chain: String = (1..100).map(|level| format!("a{level}: &a{level} [*a{}]\n", level - 1)).collect();
        refused(&format!("a0: &a0 []\n{chain}"), "f:64:12: more than 64 levels");
        refused(&format!("{{\"a\": {}", "[".repeat(100_000)), "more than 64 levels");
        refused(&(0..100).map(|level| format!("{}a:\n", " ".repeat(level))).collect::<String>(), "more than 64 levels");
    }

    #[test]
    fn a_huge_file_is_refused() {
        refused(&"#".repeat(MAX_BYTES + 1), "more than 16777216");
    }

    #[test]
    fn broken_texts_name_the_place() {
        refused("a: [1\nb: 2\n", "f:2:");
        refused("a: 1\n\tb: 2\n", "found a tab");
        refused("{\"a\": 1,}", "f:1:9: expected a key in double quotes, found '}'");
        refused("{\"a\": 01}", "f:1:7: '01' is not a JSON value");
        refused("{\"a\": tru}", "f:1:7: 'tru' is not a JSON value");
        refused("{\"a\" 1}", "f:1:6: expected ':'");
        refused("{\"a\": \"x\ny\"}", "f:1:9: a control character");
        refused("{\"a\": \"\\ud83d\"}", "half of a surrogate pair");
        refused("{\"a\": \"\\x\"}", "f:1:8: unknown escape");
        refused("{\"a\": [1", "the end of the file");
        refused("? [a]\n: b\n", "f:1:3: a key must be text, found a list");
    }

    #[test]
    fn a_secret_is_masked_also_where_the_key_is_mistyped_or_the_text_cannot_be_read() {
        for text in [
            "tokne: s3cr3t",
            "x: {tokne: s3cr3t}",
            "x: {pasword: s3cr3t, token: s3cr3t}",
            "whatever: s3cr3t",
            "token: s3cr3t: no YAML",
            "a: {token: \"s3cr3t\" x",
            "{\"token\": \"s3cr3t\" \"x\"}",
            "url: 'http://user:s3cr3t@host:80'",
        ] {
            let read = super::super::read_text("f", text, "test", |fields| {
                fields.section("x", "x", |_| Some(())).or(Some(()))
            });
            let printed = read.expect_err("nothing of it is known").to_string();
            assert!(!printed.contains("s3cr3t") && printed.contains("f:1:"), "{printed}");
        }
    }

    #[test]
    fn a_secret_is_masked_where_its_line_is_quoted() {
        let printed = super::super::read_text("f", "{\"token\": \"s3cr3t\", \"x\": 1}", "test", |fields| {
            fields.opt::<super::super::Secret>("token")
        })
        .expect_err("x is unknown")
        .to_string();
        assert!(printed.contains("{\"token\": ********, \"x\": *}"), "{printed}");
    }
}
