//! Paths, dtabs, name trees, addresses: plain values. Parse, print, compare; no I/O, no async, no other module but [`crate::text`].
//!
//! Grammar, printing and error texts are those of namerd 1.7.5, byte for byte: every store and every wire format
//! carries them.

mod addr;
mod delegate;
mod dtab;
mod error;
mod flat;
mod index;
mod limits;
mod parse;
mod path;
mod prefix;
mod show;
mod tree;

pub use addr::{Addr, AddrSet, Address, Meta, meta_keys};
pub use delegate::{DelegateTree, WeightedDelegate};
pub use dtab::{Dentry, Dtab};
pub use error::ParseError;
pub use index::{IndexedDtab, Layers};
pub use limits::{Limit, Limits};
pub use path::{EmptyElement, Path};
pub use prefix::{Elem, Prefix};
pub use show::show_weight;
pub use tree::{NameTree, Weighted};
