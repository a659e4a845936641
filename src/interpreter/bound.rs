//! Bound trees: what a binding comes to.

use std::fmt;
use std::sync::Arc;

use crate::name::{NameTree, Path};

/// The bound tree of a name: no alt is left in it, and a union holds neither neg nor fail.
pub type BoundTree = NameTree<Bound>;

/// A concrete name. Equality decides whether watchers are told: id, residual and weights, never addresses.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// What the name is called; routers key pools and metrics by it.
    pub id: BoundId,
    /// What no namer consumed.
    pub residual: Path,
    /// Where its addresses come from.
    pub source: AddrSource,
    /// The weight of the innermost union branch above it, kept in the metadata of the address set
    /// (`namer_nametree_weight`) even when the union has fallen away.
    pub weight: Option<f64>,
}

/// The id of a bound name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum BoundId {
    /// An id that can be looked up again.
    Path(Path),
    /// An id that is not a path (`/$/io.buoyant.http.status`); the wire formats have no word for it.
    Opaque,
}

/// Where the addresses of a leaf come from; equal sources share one watched address set.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AddrSource {
    /// No addresses at all.
    None,
    /// A configured namer, by its place in the list, and its own id.
    Namer {
        /// Place of the namer in the configuration.
        namer: u16,
        /// The id without the namer's prefix.
        id: Path,
    },
    /// Hosts and ports as `/$/inet` and its kin spell them: `host:port`, several separated by commas.
    Inet(Arc<str>),
    /// The same, resolved once for the life of the process (`/$/fixedinet`).
    Fixed(Arc<str>),
    /// Another name server, which knows the id.
    Upstream(Path),
    /// What a transformer makes of another source.
    Transformed {
        /// Place of the namer whose transformer it is.
        namer: u16,
        /// Place of the transformer in that namer's list.
        transformer: u16,
        /// What it is applied to.
        inner: Box<AddrSource>,
    },
}

// === impl AddrSource ===

impl AddrSource {
    /// Bytes of names in it.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Namer { id, .. } | Self::Upstream(id) => id.bytes(),
            Self::Inet(hosts) | Self::Fixed(hosts) => hosts.len(),
            Self::Transformed { inner, .. } => inner.bytes(),
        }
    }
}

// === impl BoundId ===

impl BoundId {
    /// The id as a path, if it is one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Path(path) => Some(path),
            Self::Opaque => None,
        }
    }
}

impl fmt::Display for BoundId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => path.fmt(f),
            Self::Opaque => f.write_str("(not a path)"),
        }
    }
}
