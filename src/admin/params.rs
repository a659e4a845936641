//! Parameters of a request, as Finagle reads them.

use percent_encoding::percent_decode_str;

use crate::http1::Request;

const FORM: &str = "application/x-www-form-urlencoded";

/// Names and values: those of a form first, then those of the query, so that the form wins.
#[derive(Debug, Default)]
pub(super) struct Params(Vec<(String, String)>);

impl Params {
    pub(super) fn of(request: &Request) -> Self {
        let kind = request.header("content-type").map(String::from_utf8_lossy);
        let media_type = kind.as_deref().and_then(|kind| kind.split(';').next()).map(str::trim);
        let form = media_type.filter(|kind| kind.eq_ignore_ascii_case(FORM)).map(|_| &*request.body);
        let mut all = parse(form.unwrap_or_default());
        all.extend(parse(request.query().unwrap_or_default()));
        Self(all)
    }

    /// The first value of this name.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Whether it is one of the words that mean yes: `1`, `t`, `true`.
    pub(super) fn flag(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| ["1", "t", "true"].iter().any(|yes| value.eq_ignore_ascii_case(yes)))
    }
}

/// Takes `a=b&c=d` apart; `;` separates like `&`. With a broken escape there are no parameters at all, as in namerd.
fn parse(text: &[u8]) -> Vec<(String, String)> {
    let text = String::from_utf8_lossy(text);
    let pairs = text.split(['&', ';']).filter(|pair| !pair.is_empty()).map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        Some((decode(key)?, decode(value)?))
    });
    pairs.collect::<Option<_>>().unwrap_or_default()
}

fn decode(text: &str) -> Option<String> {
    let escapes = text.split('%').skip(1);
    let whole = |escape: &str| escape.len() >= 2 && escape.bytes().take(2).all(|byte| byte.is_ascii_hexdigit());
    if !escapes.into_iter().all(whole) {
        return None;
    }
    let spaced = text.replace('+', " ");
    Some(percent_decode_str(&spaced).decode_utf8_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Vec<(String, String)> {
        parse(text.as_bytes())
    }

    fn pair(key: &str, value: &str) -> (String, String) {
        (key.to_owned(), value.to_owned())
    }

    #[test]
    fn ampersands_and_semicolons_separate_and_later_equals_signs_belong_to_the_value() {
        assert_eq!(parsed("a=1&b=x=>y;c"), [pair("a", "1"), pair("b", "x=>y"), pair("c", "")]);
        assert_eq!(parsed(""), []);
    }

    #[test]
    fn escapes_are_undone_and_a_broken_one_spoils_all() {
        assert_eq!(parsed("a%3D=%C3%A9+x"), [pair("a=", "é x")]);
        assert_eq!(parsed("a=1&b=%zz"), []);
        assert_eq!(parsed("a=1&b=%1"), []);
    }
}
