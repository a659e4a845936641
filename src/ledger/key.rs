//! What a watch is of.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Which question is asked again and again. Bindings and addresses are followed by loops of their own: one may stop
/// while the other goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Asks {
    /// What a name is bound to.
    Bind,
    /// The addresses of an id.
    Addr,
    /// The dtab of a namespace.
    Dtab,
}

/// What a watch is of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WatchKey {
    /// The question.
    pub asks: Asks,
    /// The namespace; empty for addresses.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub ns: Box<str>,
    /// The router's own dtab; mostly empty.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub dtab: Box<str>,
    /// The name or id; empty for a dtab.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub path: Box<str>,
}

// === impl Asks ===

impl Asks {
    /// As pages and metrics call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bind => "bind",
            Self::Addr => "addr",
            Self::Dtab => "dtab",
        }
    }
}

// === impl WatchKey ===

impl WatchKey {
    /// Bytes of its texts.
    pub(super) fn bytes(&self) -> usize {
        self.ns.len() + self.dtab.len() + self.path.len()
    }
}

impl fmt::Display for WatchKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.asks.name())?;
        for part in [&self.ns, &self.path].into_iter().filter(|part| !part.is_empty()) {
            write!(f, " {part}")?;
        }
        if !self.dtab.is_empty() {
            write!(f, " with {}", self.dtab)?;
        }
        Ok(())
    }
}
