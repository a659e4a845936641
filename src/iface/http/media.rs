//! Dtabs in bodies: JSON or text, as the client wishes.

use serde_json::{Map, Value};

use super::json;
use crate::http1::Request;
use crate::iface::NameReader;
use crate::name::{Dentry, Dtab};

/// How a dtab is written in a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Media {
    /// `application/json`
    Json,
    /// `application/dtab`
    Dtab,
    /// `text/plain`
    Text,
}

/// Why a body holds no dtab; each is the body of a 400.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadDtab {
    /// A `Content-Type` that is none of the three, or none at all. The blank at the end is namerd's.
    #[error("Invalid Content-Type \"{0}\". ")]
    ContentType(String),
    /// The parser's words.
    #[error("{0}")]
    Text(String),
    /// What is shown for it could not be read again.
    #[error("the dtab could not be read again once it is stored: {0}")]
    Shown(String),
    /// JSON that is no list of entries.
    #[error("the body is not a list of {{\"prefix\": …, \"dst\": …}}: {0}")]
    Json(String),
    /// Entries that are null, or lack a prefix or a destination.
    #[error("The dtab contains invalid dentries: {0}")]
    Dentries(String),
}

// === impl Media ===

impl Media {
    /// The first of the three that `Accept` lists, whatever its `q`; else JSON.
    pub(super) fn accepted(request: &Request) -> Self {
        request
            .header_values("accept")
            .flat_map(|value| value.split(|byte| *byte == b','))
            .find_map(Self::named)
            .unwrap_or(Self::Json)
    }

    /// Reads a dtab that is to be stored from the body of a request.
    pub(super) fn read(request: &Request, names: &NameReader) -> Result<Dtab, BadDtab> {
        let dtab = Self::parse(request, names)?;
        // Storages keep the shown form. It may be longer (`9*` is shown as `9.00*`), and a weight of 400 digits is shown
        // as one that cannot be read.
        match names.dtab(&dtab.to_string()) {
            Ok(_) => Ok(dtab),
            Err(error) => Err(BadDtab::Shown(error.to_string())),
        }
    }

    fn parse(request: &Request, names: &NameReader) -> Result<Dtab, BadDtab> {
        // Some clients send the header twice; the first counts.
        let header = request.header("content-type").unwrap_or_default();
        match Self::named(header) {
            None => Err(BadDtab::ContentType(String::from_utf8_lossy(header).into_owned())),
            Some(Self::Json) => read_json(&request.body, names),
            Some(Self::Dtab | Self::Text) => {
                let text = String::from_utf8_lossy(&request.body);
                names.dtab(&text).map_err(|error| BadDtab::Text(error.to_string()))
            }
        }
    }

    /// Writes a dtab.
    pub(super) fn text(self, dtab: &Dtab) -> String {
        match self {
            Self::Json => json::dtab(dtab),
            Self::Dtab | Self::Text => dtab.to_string(),
        }
    }

    /// Its name, in answers without parameters.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Dtab => "application/dtab",
            Self::Text => "text/plain",
        }
    }

    fn named(value: &[u8]) -> Option<Self> {
        let name = value.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        [Self::Json, Self::Dtab, Self::Text]
            .into_iter()
            .find(|media| name.eq_ignore_ascii_case(media.name().as_bytes()))
    }
}

/// What follows the list is not looked at, and of a key that comes twice the last counts, as in namerd.
fn read_json(body: &[u8], names: &NameReader) -> Result<Dtab, BadDtab> {
    let broken = |error: &dyn std::fmt::Display| BadDtab::Json(error.to_string());
    names.fits(body.len()).map_err(|reason| broken(&reason))?;
    let mut values = serde_json::Deserializer::from_slice(body).into_iter::<Vec<Option<Map<String, Value>>>>();
    let entries = values.next().ok_or_else(|| broken(&"it is empty"))?.map_err(|error| broken(&error))?;
    let invalid = || BadDtab::Dentries(String::from_utf8_lossy(body).into_owned());
    let mut dtab = Vec::with_capacity(entries.len());
    for (position, entry) in entries.into_iter().enumerate() {
        let entry = entry.ok_or_else(invalid)?;
        let at = |error: &dyn std::fmt::Display| BadDtab::Json(format!("entry {}: {error}", position + 1));
        if let Some(unknown) = entry.keys().find(|key| !matches!(key.as_str(), "prefix" | "dst")) {
            return Err(at(&format_args!("unknown key {}", Value::from(unknown.as_str()))));
        }
        let text = |key: &str| match entry.get(key) {
            None | Some(Value::Null) => Err(invalid()),
            Some(Value::String(text)) => Ok(text),
            Some(_) => Err(at(&format_args!("{key} is not a text"))),
        };
        let (prefix, dst) = (text("prefix")?, text("dst")?);
        dtab.push(Dentry {
            prefix: names.prefix(prefix).map_err(|error| at(&error))?,
            dst: names.tree(dst).map_err(|error| at(&error))?,
        });
    }
    Ok(Dtab::from(dtab))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::Limits;
    use crate::runtime::LimitCounts;

    fn json(body: &str) -> Result<String, String> {
        read_json(body.as_bytes(), &NameReader::default())
            .map(|dtab| dtab.to_string())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn json_entries_become_a_dtab() {
        assert_eq!(json(r#"[{"prefix":"/a/*","dst":" 0.5 * /b & /c "}]"#).as_deref(), Ok("/a/*=>0.50*/b & /c"));
        assert_eq!(json("[]").as_deref(), Ok(""));
        assert_eq!(json(r#"[{"dst":"/b","prefix":"/x","prefix":"/a"}] and more"#).as_deref(), Ok("/a=>/b"));
    }

    #[test]
    fn incomplete_entries_are_shown_back() {
        for body in ["[null]", r#"[{"prefix":"/a"}]"#, r#"[{"prefix":null,"dst":"/b"}]"#, "[{}]"] {
            assert_eq!(json(body), Err(format!("The dtab contains invalid dentries: {body}")));
        }
    }

    #[test]
    fn any_other_json_is_refused_with_the_reason() {
        for (body, reason) in [
            ("", "it is empty"),
            ("{", "invalid type: map"),
            ("[", "EOF"),
            ("null", "invalid type: null"),
            (r#"["/a"]"#, "invalid type: string"),
            (r#"{"prefix":"/a","dst":"/b"}"#, "invalid type: map"),
            (r#"[{"prefix":"/a","dst":"/b","x":1}]"#, "entry 1: unknown key \"x\""),
            (r#"[{"prefix":"/a","dst":1}]"#, "entry 1: dst is not a text"),
            (r#"[{"prefix":"/a","dst":"/b"},{"prefix":"/a","dst":"b"}]"#, "entry 2: simple expected but 'b' found"),
            (r#"[{"prefix":"a","dst":"/b"}]"#, "entry 1: '/' expected but 'a' found at '[a]'"),
        ] {
            let error = json(body).expect_err("refused");
            assert!(error.contains(reason), "{body}: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn limits_hold_for_json_too_and_are_named() {
        let limits = Limits { depth: 3, path_segments: 2, dtab_bytes: 60 };
        let names = NameReader::new(limits, LimitCounts::default());
        let read = |body: &str| read_json(body.as_bytes(), &names).expect_err("refused").to_string();
        assert!(read(r#"[{"prefix":"/a","dst":"/a/b/c"}]"#).contains("limits.pathSegments"));
        assert!(read(r#"[{"prefix":"/a","dst":"((((/a))))"}]"#).contains("limits.depth"));
        assert!(read(&format!("[{}]", " ".repeat(60))).contains("limits.dtabBytes"));
    }
}
