//! Text that must not be shown.

use std::fmt;

use super::fields::nearest;
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

/// Whether the value of this key may be a secret although nobody knows the key: a slip of a known one, or a word of the
/// same kind. Where a line is quoted it is better to hide too much.
pub(super) fn may_be_secret(key: &str) -> bool {
    let lower = key.to_lowercase();
    ["token", "passw", "pwd", "secret", "credential", "apikey", "passphrase"].iter().any(|word| lower.contains(word))
        || nearest(key, ["token", "auth", "password", "secret"].into_iter()).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_a_secret_key_is_one() {
        for key in ["token", "tokne", "Token", "aclToken", "passwrod", "passwd", "secrets", "auht", "api_secret"] {
            assert!(may_be_secret(key), "{key}");
        }
        for key in ["host", "port", "path", "pathPrefix", "tls", "clientAuth", "kind", "interfaces", "dst"] {
            assert!(!may_be_secret(key), "{key}");
        }
    }

    #[test]
    fn a_secret_is_not_printed() {
        assert_eq!(format!("{:?}", Some(Secret::new("s3cr3t"))), "Some(***)");
    }
}
