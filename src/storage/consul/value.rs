//! What an answer says about dtabs.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;

use super::Layout;
use crate::consul::{Answer, Undecoded};
use crate::name::{Dtab, IndexedDtab, Limits, ParseError};
use crate::storage::VersionedDtab;

/// The dtab under a key; none if there is no such key. People write there by hand, so anything may stand in it.
pub(super) fn dtab(
    answer: &Answer,
    body: &[u8],
    limits: &Limits,
    key: &str,
) -> Result<Option<VersionedDtab>, Undecoded> {
    let Some(index) = answer.index.filter(|_| answer.found) else { return Ok(None) };
    let text = String::from_utf8_lossy(body);
    match Dtab::parse_with(&text, limits) {
        Ok(dtab) => Ok(Some(VersionedDtab::new(Arc::new(IndexedDtab::new(dtab)), version(index)))),
        Err(error) => Err(Undecoded::Content(unreadable(key, &text, &error))),
    }
}

/// The namespaces in a list of keys.
pub(super) fn namespaces(answer: &Answer, body: &[u8], layout: &Layout) -> Result<BTreeSet<String>, Undecoded> {
    let keys: Vec<String> = match answer.found {
        true => serde_json::from_slice(body).map_err(|error| Undecoded::Unreadable(error.to_string()))?,
        false => Vec::new(),
    };
    if keys.is_empty() && answer.filtered {
        return Err(Undecoded::Filtered);
    }
    Ok(layout.namespaces(keys))
}

/// The version of what was read under an index, which is that of the key's last change.
pub(super) fn version(index: u64) -> Bytes {
    index.to_string().into()
}

/// Where a text is wrong: line and column count from 1.
fn unreadable(key: &str, text: &str, error: &ParseError) -> String {
    let before: String = text.chars().take(error.position()).collect();
    let line = 1 + before.matches('\n').count();
    let column = 1 + before.rsplit('\n').next().unwrap_or_default().chars().count();
    format!(
        "the dtab under the key {key} of Consul cannot be read, {line}:{column}: {error}; `rosterd dtab put` writes it anew"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_text_is_shown_with_its_place() {
        let wrong = |text: &str| {
            let error = Dtab::parse(text).expect_err("wrong");
            unreadable("namerd/dtabs/x", text, &error)
        };
        let start = "the dtab under the key namerd/dtabs/x of Consul cannot be read, ";
        let told = wrong("lol im an invalid dtab");
        let end = "; `rosterd dtab put` writes it anew";
        assert_eq!(told, format!("{start}1:1: '/' expected but 'l' found at '[l]ol im an invalid dtab'{end}"));
        let told = wrong("# für uns\n/svc => /a;\n/b => /actual/{outage};\n");
        assert!(told.starts_with(&format!("{start}3:15: label char expected but '{{' found")), "{told}");
    }
}
