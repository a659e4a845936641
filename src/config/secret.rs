//! Text that must not be shown.

use std::fmt;

use super::tree::Node;
use super::{FromNode, Report};

/// A password or token. Its `Debug` form hides the text.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for the one place that sends it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("***")
    }
}

impl FromNode for Secret {
    fn from_node(node: &Node, report: &Report) -> Option<Self> {
        String::from_node(node, report).map(Self)
    }
}

/// Whether the value of this key is a secret: its text is masked wherever the configuration is shown.
#[must_use]
pub fn is_secret_key(key: &str) -> bool {
    matches!(key, "token" | "auth" | "password" | "secret")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_printed() {
        assert_eq!(format!("{:?}", Some(Secret::new("s3cr3t"))), "Some(***)");
    }
}
