//! What lists and streams say.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

/// One element of a watch.
#[derive(Debug, Deserialize)]
pub(super) struct Event<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) object: &'a RawValue,
}

/// What every object has.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Head {
    pub(super) metadata: Option<Metadata>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Metadata {
    pub(super) name: Option<Box<str>>,
    pub(super) resource_version: Option<Box<str>>,
    /// Of a list: where it goes on.
    #[serde(rename = "continue")]
    pub(super) next: Option<String>,
}

/// A page of a list.
#[derive(Debug, Deserialize)]
pub(super) struct Page<'a> {
    #[serde(default)]
    pub(super) metadata: Option<Metadata>,
    /// Null where there is nothing.
    #[serde(default, borrow)]
    pub(super) items: Option<Vec<&'a RawValue>>,
}

/// What the server says instead of an answer.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Status {
    pub(super) message: Option<String>,
    pub(super) code: Option<u16>,
    pub(super) reason: Option<String>,
    pub(super) details: Option<Details>,
}

/// What a status is about.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Details {
    pub(super) name: Option<Box<str>>,
}

// === impl Head ===

impl Head {
    /// What can be known of an object, whatever else is wrong with it.
    pub(super) fn of(object: &[u8]) -> Metadata {
        let head: Result<Self, _> = serde_json::from_slice(object);
        head.ok().and_then(|head| head.metadata).unwrap_or_default()
    }
}

// === impl Status ===

impl Status {
    /// The object that is not there, if that is what it says.
    pub(super) fn object_not_found(&self) -> Option<Box<str>> {
        let is_not_found = self.reason.as_deref() == Some("NotFound");
        self.details.as_ref().filter(|_| is_not_found).and_then(|details| details.name.clone())
    }
}
