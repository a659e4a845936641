//! What is asked of another name server, and what it may answer.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::name::{Addr, Dtab, NameTree, Path};

/// What is watched at another name server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Ask {
    /// What a path is bound to.
    Bind {
        /// Whose dtab.
        ns: Arc<str>,
        /// Text of the dtab that the request adds.
        dtab: Arc<str>,
        /// The path.
        path: Path,
    },
    /// The addresses of a bound id.
    Addr {
        /// The id.
        id: Path,
    },
    /// The dtab of a namespace, with its version where the protocol has one.
    Dtab {
        /// The namespace.
        ns: Arc<str>,
    },
    /// The names of all namespaces.
    Namespaces,
    /// The names that namers can list.
    Names,
}

/// What a server says to an [`Ask`].
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// To [`Ask::Bind`].
    Tree(NameTree<Named>),
    /// To [`Ask::Addr`].
    Addr(Addr),
    /// To [`Ask::Dtab`]: the table and its version, which is empty where it is not known; none = no such namespace.
    Dtab(Option<(Dtab, Bytes)>),
    /// To [`Ask::Namespaces`].
    Namespaces(BTreeSet<String>),
    /// To [`Ask::Names`].
    Names(BTreeSet<Path>),
}

/// A leaf of a bound tree.
#[derive(Clone, Debug, PartialEq)]
pub struct Named {
    /// The id.
    pub id: Path,
    /// What no namer consumed.
    pub residual: Path,
    /// The weight of the innermost union branch above it, where the server tells it with the leaf.
    pub weight: Option<f64>,
}

// === impl Ask ===

impl Ask {
    /// The word for its kind, in metrics and on pages.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Bind { .. } => "bind",
            Self::Addr { .. } => "addr",
            Self::Dtab { .. } => "dtab",
            Self::Namespaces => "namespaces",
            Self::Names => "names",
        }
    }
}

impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bind { ns, dtab, path } if dtab.is_empty() => write!(f, "bind {path} in {ns}"),
            Self::Bind { ns, path, .. } => write!(f, "bind {path} in {ns} under a dtab of its own"),
            Self::Addr { id } => write!(f, "addr {id}"),
            Self::Dtab { ns } => write!(f, "dtab {ns}"),
            Self::Namespaces | Self::Names => f.write_str(self.kind()),
        }
    }
}
