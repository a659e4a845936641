//! Patterns such as `/{service}/api`: matching a path, and filling in a name.

use std::sync::LazyLock;

use regex::Regex;

use crate::name::Path;
use crate::text::java::split;

/// A variable. The set of characters is that of namerd, down to the range from `:` to `_` that was hardly meant.
static VARIABLE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\{([a-zA-Z0-9.:-_]+)\}").expect("the expression is constant"));

/// Matches the first elements of a path, in their shown form, one segment each. The rest of the path is free.
#[derive(Clone, Debug)]
pub struct Pattern {
    segments: Vec<Segment>,
}

#[derive(Clone, Debug)]
enum Segment {
    /// `*`: any element.
    Any,
    /// Exactly this element.
    Exactly(String),
    /// An element in which the expression is found, and the variables of its groups.
    Captures(Regex, Vec<String>),
}

/// What the variables of a pattern stand for, in the order of the pattern.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captures(Vec<(String, String)>);

/// The path ended where the pattern wants any element. The texts are those of namerd, which throws here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathEnded {
    /// The path has no elements at all.
    #[error("tail of empty list")]
    AtOnce,
    /// Later.
    #[error("empty.tail")]
    Later,
}

// === impl Pattern ===

impl Pattern {
    /// Reads a pattern: segments between slashes. One that contains `{name}` is a regular expression in which `.` is
    /// a dot and each `{name}` anything, as long as possible; it may match anywhere in the element.
    ///
    /// # Errors
    /// A segment is no regular expression; for what users try first in the words of namerd.
    pub fn parse(text: &str) -> Result<Self, String> {
        let segments = split(text, '/').into_iter().skip_while(|segment| segment.is_empty()).map(Segment::parse);
        Ok(Self { segments: segments.collect::<Result<_, _>>()? })
    }

    /// Matches `path`: what was captured, or nothing when it does not match.
    ///
    /// # Errors
    /// The path ends where any element is wanted.
    pub fn captures(&self, path: &Path) -> Result<Option<Captures>, PathEnded> {
        let shown = path.to_string();
        let mut elems = shown.split('/').filter(|elem| !elem.is_empty());
        let mut captures = Captures::default();
        for segment in &self.segments {
            let elem = elems.next();
            let matches = match (segment, elem) {
                (Segment::Any, None) if path.is_empty() => return Err(PathEnded::AtOnce),
                (Segment::Any, None) => return Err(PathEnded::Later),
                (Segment::Any, Some(_)) => true,
                (Segment::Exactly(wanted), elem) => elem == Some(wanted),
                (Segment::Captures(..), None) => false,
                (Segment::Captures(regex, variables), Some(elem)) => captures.add(regex, variables, elem),
            };
            if !matches {
                return Ok(None);
            }
        }
        Ok(Some(captures))
    }
}

impl Segment {
    fn parse(text: &str) -> Result<Self, String> {
        if text == "*" {
            return Ok(Self::Any);
        }
        let variables = variables(text);
        if variables.is_empty() {
            return Ok(Self::Exactly(text.to_owned()));
        }
        // In this order: a variable with a dot in its name is no longer found, which makes the expression invalid.
        let escaped = text.replace('.', r"\.");
        let expression = variables.iter().fold(escaped, |text, variable| text.replace(variable, "(.*)"));
        let regex = Regex::new(&expression).map_err(|error| invalid(&expression, &error))?;
        let names = variables.iter().map(|variable| variable[1..variable.len() - 1].to_owned());
        Ok(Self::Captures(regex, names.collect()))
    }
}

/// The variables of a text, with their braces.
pub(super) fn variables(text: &str) -> Vec<&str> {
    VARIABLE.find_iter(text).map(|found| found.as_str()).collect()
}

fn invalid(expression: &str, error: &regex::Error) -> String {
    match expression.chars().next() {
        Some(sign @ ('*' | '+' | '?')) => {
            format!("Dangling meta character '{sign}' near index 0\n{expression}\n^")
        }
        _ => error.to_string(),
    }
}

// === impl Captures ===

impl Captures {
    /// The variables and their values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Puts the values in the place of `{name}` in `text`; what is not known stays.
    pub fn fill_in(&self, text: &str) -> String {
        // Values are elements in shown form, so none of them contains a variable again.
        self.0.iter().rfold(text.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
    }

    /// Adds what `regex` captures from `elem`; a variable that is there already gets a new value.
    fn add(&mut self, regex: &Regex, variables: &[String], elem: &str) -> bool {
        let Some(found) = regex.captures(elem) else {
            return false;
        };
        for (group, name) in variables.iter().enumerate() {
            let value = found.get(group + 1).map_or("", |value| value.as_str()).to_owned();
            match self.0.iter_mut().find(|(known, _)| known == name) {
                Some((_, known)) => *known = value,
                None => self.0.push((name.clone(), value)),
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captures(pattern: &str, path: &str) -> Result<Option<Captures>, PathEnded> {
        Pattern::parse(pattern).expect("a pattern").captures(&path.parse().expect("a path"))
    }

    #[test]
    fn a_star_wants_an_element_and_anything_else_only_does_not_match_without() {
        assert_eq!(captures("/foo/*", "/foo"), Err(PathEnded::Later));
        assert_eq!(captures("/*", "/"), Err(PathEnded::AtOnce));
        assert_eq!(captures("/foo/bar/*", "/foo"), Ok(None), "it does not come that far");
        assert_eq!(captures("/foo/{A}/*", "/foo"), Ok(None));
    }

    #[test]
    fn an_empty_pattern_matches_every_path() {
        for pattern in ["", "/", "///"] {
            for path in ["/", "/a/b"] {
                assert_eq!(captures(pattern, path), Ok(Some(Captures::default())), "{pattern} {path}");
            }
        }
    }

    #[test]
    fn an_expression_of_the_user_counts_as_one() {
        let found = captures("/v[0-9]+-{A}", "/v12-x").expect("long enough").expect("matches");
        assert_eq!(found.iter().collect::<Vec<_>>(), [("A", "x")]);
        assert_eq!(captures("/v[0-9]+-{A}", "/vx-x"), Ok(None));
    }

    #[test]
    fn what_is_no_expression_is_refused() {
        let error = Pattern::parse("/a/*{A}").expect_err("nothing to repeat");
        assert_eq!(error, "Dangling meta character '*' near index 0\n*(.*)\n^");
        for pattern in ["/({A}", "/[{A}", "/{a.b}"] {
            Pattern::parse(pattern).expect_err(pattern);
        }
    }
}
