//! What a caller asks, and the checks that turn its bytes into names.

use smallvec::SmallVec;

use crate::name::{Limits, Path};

use super::explain::DelegateAsk;
use super::read::Reader;

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
    /// The elements as they came, each preceded by its length in four bytes: a failure echoes them.
    pub(super) elems: Box<[u8]>,
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

/// The elements of a path in wire form.
pub(super) fn wire_elems(elems: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut reader = Reader::new(elems);
    std::iter::from_fn(move || reader.bytes().ok())
}

/// The path that these elements in wire form make; may be the empty one.
///
/// # Errors
/// There are too many for `limits`, or one is empty.
pub(super) fn wire_path(elems: &[u8], limits: &Limits) -> Result<Path, Refusal> {
    let count = wire_elems(elems).count();
    if count > limits.path_segments {
        let most = limits.path_segments;
        return Err(Refusal::Failure(format!("path of {count} elements is longer than {most} (limits.pathSegments)")));
    }
    // namerd's exception comes from the constructor of its paths, outside of what it declares.
    Path::from_elems(wire_elems(elems)).map_err(|error| Refusal::Internal(error.to_string()))
}

// === impl Method ===

impl Method {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Bind, Self::Addr, Self::Delegate, Self::Dtab];

    /// The name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bind => "bind",
            Self::Addr => "addr",
            Self::Delegate => "delegate",
            Self::Dtab => "dtab",
        }
    }

    pub(super) fn named(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.name().as_bytes() == name)
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

    /// The name that a failure echoes; only `bind` and `addr` have one.
    pub fn name(&self) -> Option<&NameRef> {
        match self {
            Self::Bind { name, .. } | Self::Addr { name } => Some(name),
            Self::Delegate(_) | Self::Dtab { .. } => None,
        }
    }
}

// === impl NameRef ===

impl NameRef {
    /// Bytes of what it holds.
    pub fn bytes(&self) -> usize {
        self.stamp.len() + self.elems.len() + self.ns.len()
    }

    /// The name as a path, which is never the empty one.
    ///
    /// # Errors
    /// It has no elements, too many for `limits`, or an empty one.
    pub fn path(&self, limits: &Limits) -> Result<Path, Refusal> {
        if self.elems.is_empty() {
            return Err(Refusal::Failure("empty path".to_owned()));
        }
        wire_path(&self.elems, limits)
    }

    /// The elements as they came, empty ones too.
    pub fn elems(&self) -> impl Iterator<Item = &[u8]> {
        wire_elems(&self.elems)
    }
}
