//! State pages: what namers and the storage say about themselves.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::interpreter::Namers;
use crate::storage::Storage;

pub(super) type Show = Arc<dyn Fn() -> Option<Value> + Send + Sync>;

/// The state pages by path.
#[derive(Default)]
pub struct Pages {
    pages: BTreeMap<String, Show>,
}

impl Pages {
    /// Adds a page; `show` must not wait for anything, but may take its time. None = nothing to show at present.
    pub fn add(&mut self, path: String, show: impl Fn() -> Option<Value> + Send + Sync + 'static) {
        self.pages.insert(path, Arc::new(show));
    }

    /// Adds `/namer_state/<prefix>.json` for each namer that has such a page.
    #[must_use]
    pub fn with_namers(mut self, namers: &Namers) -> Self {
        for (_, configured) in namers.iter() {
            if configured.namer.state().is_some() {
                let prefix = configured.prefix.to_string();
                let path = format!("/namer_state{}.json", prefix.strip_prefix("/#").unwrap_or(&prefix));
                let namer = configured.namer.clone();
                self.add(path, move || namer.state());
            }
        }
        self
    }

    /// Adds the page of the storage, if it has one.
    #[must_use]
    pub fn with_storage(mut self, storage: &Arc<dyn Storage>) -> Self {
        if let Some((path, _)) = storage.state() {
            let storage = storage.clone();
            self.add(path, move || storage.state().map(|(_, state)| state));
        }
        self
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        self.pages.keys().map(String::as_str)
    }

    /// What makes the page.
    pub(super) fn find(&self, path: &str) -> Option<Show> {
        self.pages.get(path).cloned()
    }
}

impl fmt::Debug for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.pages.keys()).finish()
    }
}
