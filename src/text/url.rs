//! Parts of URLs.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, utf8_percent_encode};

/// Everything but what never needs escaping, neither in a segment of a path nor in a parameter. (`;` would end a value.)
const COMPONENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// One segment of a path, or the value of one parameter, escaped.
pub fn component(text: &str) -> impl fmt::Display {
    utf8_percent_encode(text, COMPONENT)
}

/// What cannot stand in the path of a request. Everything else of a namespace is sent as it is, `%` included: the
/// server takes what it receives for the name, undecoded, and lists it in this form.
const NAMESPACE: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// Where the URLs in a text name a user, with or without a password: what stands before an `@`.
pub fn userinfo(text: &str) -> impl Iterator<Item = Range<usize>> {
    text.match_indices("://").filter_map(|(at, mark)| {
        let start = at + mark.len();
        let rest = &text[start..];
        let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
        let authority = &authority[..authority.find(char::is_whitespace).unwrap_or(authority.len())];
        authority.rfind('@').map(|end| start..start + end)
    })
}

/// A text that may be shown: its URLs name no user and no password.
pub fn without_userinfo(text: &str) -> Cow<'_, str> {
    let (mut shown, mut from) = (String::new(), 0);
    for range in userinfo(text) {
        shown.extend([&text[from..range.start], "***"]);
        from = range.end;
    }
    if from == 0 { Cow::Borrowed(text) } else { Cow::Owned(shown + &text[from..]) }
}

/// A path with parameters, ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    text: String,
    has_query: bool,
}

impl Target {
    /// A route without variable parts.
    pub fn route(route: &str) -> Self {
        Self { text: route.to_owned(), has_query: false }
    }

    /// A route followed by a namespace.
    pub fn namespace(route: &str, namespace: &str) -> Self {
        Self { text: format!("{route}/{}", utf8_percent_encode(namespace, NAMESPACE)), has_query: false }
    }

    /// With one parameter more.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        let mark = if self.has_query { '&' } else { '?' };
        self.text.extend([mark]);
        self.text.push_str(name);
        self.text.extend(["=", &component(value).to_string()]);
        self.has_query = true;
        self
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_in_a_url_is_not_shown() {
        for (text, shown) in [
            ("GET http://user:p4ss@host:7100/a@b was", "GET http://***@host:7100/a@b was"),
            ("https://user@host and https://a:b:c@[::1]:1", "https://***@host and https://***@[::1]:1"),
            ("http://host/?to=a@b mail@host", "http://host/?to=a@b mail@host"),
            ("http://u:p@ss@host", "http://***@host"),
            ("user:p@host", "user:p@host"),
        ] {
            assert_eq!(without_userinfo(text), shown);
        }
    }

    #[test]
    fn only_what_is_never_special_stays_as_it_is() {
        assert_eq!(component("My Service/x").to_string(), "My%20Service%2Fx");
        assert_eq!(component("dot.ted_1-~").to_string(), "dot.ted_1-~");
        assert_eq!(component("ünï;&=%").to_string(), "%C3%BCn%C3%AF%3B%26%3D%25");
    }

    #[test]
    fn a_listed_namespace_is_asked_for_as_it_is_listed() {
        let target = |namespace| Target::namespace("/api/1/dtabs", namespace).to_string();
        assert_eq!(target("x%20y"), "/api/1/dtabs/x%20y");
        assert_eq!(target("d1/"), "/api/1/dtabs/d1/");
        assert_eq!(target("a b?#"), "/api/1/dtabs/a%20b%3F%23");
        assert_eq!(target("käse"), "/api/1/dtabs/k%C3%A4se");
    }

    #[test]
    fn a_dtab_is_one_parameter_whatever_it_holds() {
        let target =
            Target::namespace("/api/1/bind", "default").with("path", "/svc/web").with("dtab", "/a=>/b;/c=>1 & 2");
        assert_eq!(
            target.to_string(),
            "/api/1/bind/default?path=%2Fsvc%2Fweb&dtab=%2Fa%3D%3E%2Fb%3B%2Fc%3D%3E1%20%26%202"
        );
    }
}
