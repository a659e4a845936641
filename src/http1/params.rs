//! Parameters: of the query, and of the body of a form.

use percent_encoding::percent_decode;

use super::head::MOST_LINE;
use super::{Request, Response};

/// The parameters of a request. The body of a form wins over the query; of a repeated name the first counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Params {
    pairs: Vec<(String, String)>,
}

/// More parameters than this are not looked at.
const MOST: usize = 256;

const FORM: &[u8] = b"application/x-www-form-urlencoded";

/// Longest form, which is that of a request line: what it says is the same, and is read on the spot.
const MOST_FORM: usize = MOST_LINE;

// === impl Params ===

impl Params {
    /// Refuses a form that is longer than a request line could be: its parameters are not read.
    ///
    /// # Errors
    /// The answer.
    pub fn check_form(request: &Request) -> Result<(), Response> {
        if is_form(request) && request.body.len() > MOST_FORM {
            return Err(Response::refusal(413, format_args!("a form of more than {MOST_FORM} bytes is not read")));
        }
        Ok(())
    }

    /// Reads them. A broken percent-escape makes all parameters of its part absent, as in namerd.
    pub fn of(request: &Request) -> Self {
        let mut pairs = Vec::new();
        if is_form(request) && request.body.len() <= MOST_FORM {
            pairs.extend(parse(&request.body).unwrap_or_default());
        }
        pairs.extend(request.query().and_then(parse).unwrap_or_default());
        Self { pairs }
    }

    /// The value of a parameter.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Is a parameter one of the words that mean yes? They are `1`, `t` and `true`, in any case of letters.
    pub fn flag(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| matches!(value.to_lowercase().as_str(), "1" | "t" | "true"))
    }

    /// Is it a watch?
    pub fn watch(&self) -> bool {
        self.flag("watch")
    }
}

fn is_form(request: &Request) -> bool {
    let kind = request.header("content-type").and_then(|value| value.split(|byte| *byte == b';').next());
    kind.is_some_and(|kind| kind.trim_ascii().eq_ignore_ascii_case(FORM))
}

/// `;` separates like `&`. None when an escape is broken.
fn parse(text: &[u8]) -> Option<Vec<(String, String)>> {
    let parts = text.split(|byte| matches!(byte, b'&' | b';')).filter(|part| !part.is_empty());
    parts
        .take(MOST)
        .map(|part| {
            let equals = part.iter().position(|byte| *byte == b'=');
            let (name, value) = equals.map_or((part, &b""[..]), |at| (&part[..at], &part[at + 1..]));
            Some((decode(name)?, decode(value)?))
        })
        .collect()
}

fn decode(text: &[u8]) -> Option<String> {
    let whole = |escape: &[u8]| escape.len() >= 2 && escape[..2].iter().all(u8::is_ascii_hexdigit);
    if !text.split(|byte| *byte == b'%').skip(1).all(whole) {
        return None;
    }
    let spaced: Vec<u8> = text.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
    Some(percent_decode(&spaced).decode_utf8_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(query: &str) -> Params {
        Params { pairs: parse(query.as_bytes()).unwrap_or_default() }
    }

    #[test]
    fn semicolons_separate_and_equals_signs_do_not_need_escapes() {
        let params = params("path=/x/web&dtab=/x=>/svc;/y=>/z&dtab=later");
        assert_eq!(params.get("path"), Some("/x/web"));
        assert_eq!(params.get("dtab"), Some("/x=>/svc"));
        assert_eq!(params.get("/y"), Some(">/z"));
        assert_eq!(params.get("z"), None);
    }

    #[test]
    fn escapes_are_utf8_and_plus_is_a_space() {
        let params = params("dtab=/x%3D%3E/y%3B/y=>+/s%c3%A9&raw=/#/a&empty&none=");
        assert_eq!(params.get("dtab"), Some("/x=>/y;/y=> /sé"));
        assert_eq!(params.get("raw"), Some("/#/a"));
        assert_eq!((params.get("empty"), params.get("none")), (Some(""), Some("")));
    }

    #[test]
    fn a_broken_escape_leaves_no_parameters() {
        for query in ["path=/a&x=%", "path=/a&x=%4", "path=/a&x=%zz", "path=/a&%+1"] {
            assert_eq!(params(query), Params::default(), "{query}");
        }
    }

    #[test]
    fn a_watch_is_asked_for_in_three_words() {
        for word in ["1", "t", "T", "true", "TRUE", "tRuE"] {
            assert!(params(&format!("watch={word}")).watch(), "{word}");
        }
        for query in ["", "watch", "watch=", "watch=0", "watch=yes", "watch=%201", "watch=false&watch=true"] {
            assert!(!params(query).watch(), "{query}");
        }
    }
}
