//! What all objects have.

use std::collections::HashMap;

use serde::Deserialize;

use crate::k8s::Unread;

/// `metadata` as it is sent.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RawMeta {
    pub(super) name: Option<Box<str>>,
    resource_version: Option<Box<str>>,
    labels: Option<HashMap<Box<str>, Box<str>>>,
    annotations: Option<HashMap<Box<str>, Box<str>>>,
}

// === impl RawMeta ===

impl RawMeta {
    /// The value of a label, if there is a key to look for.
    pub(super) fn label(&self, key: Option<&str>) -> Option<Box<str>> {
        self.labels.as_ref()?.get(key?).cloned()
    }

    pub(super) fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.as_ref()?.get(key).map(|value| &**value)
    }

    /// Name and version.
    pub(super) fn identity(self) -> Result<(Box<str>, Option<Box<str>>), Unread> {
        let name = self.name.ok_or_else(|| Unread("it has no name".to_owned()))?;
        Ok((name, self.resource_version))
    }
}

/// A number that is a port; 0 is none.
pub(super) fn shown_port(number: Option<i64>) -> Option<u16> {
    number.and_then(|number| u16::try_from(number).ok()).filter(|port| *port != 0)
}
