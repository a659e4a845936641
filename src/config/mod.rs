//! Configuration text to typed, checked values.
//!
//! The text of a file is read once into a tree in which every node knows its place ([`tree`]). A mapping is then taken
//! apart key by key with [`Fields`]; each kind of namer, storage, … brings a function that does so ([`Kind`]). Whatever
//! is wrong goes to one [`Report`], so that a user sees every mistake of the file at once, each as
//! `file:line:column: message`.
//!
//! This module knows no kind, no protocol and no backend; the whole file is put together in [`crate::app`].

mod fields;
mod json;
mod kind;
mod names;
mod own;
mod report;
mod secret;
mod socket;
mod source;
mod tls;
pub mod tree;
mod value;
mod yaml;

pub use fields::{Fields, nearest};
pub use kind::{Kind, KindState};
pub use own::{Drain, Fixes, IpFamilies, Ledger, OwnKeys, OwnLimits, Peer};
pub use report::{Problem, Problems, Report, Warning};
pub use secret::{Secret, is_secret_key};
pub use socket::SocketOptions;
pub use source::{FileId, Span};
pub use tls::{ClientAuth, ClientTls, ServerTls, Validation};
pub use value::{Directory, FromNode, Millis, Port};

/// Reads `text`, which must be one mapping, with `read`. `what` names the mapping in messages.
///
/// # Errors
/// Every problem found in the text, in the order of the file.
pub fn read_text<T>(
    name: &str,
    text: &str,
    what: &str,
    read: impl FnOnce(&mut Fields<'_>) -> Option<T>,
) -> Result<(T, Vec<Warning>), Problems> {
    let mut report = Report::default();
    let file = report.add_source(name, text);
    let value = tree::parse(text, file, &report).and_then(|root| Fields::read(&root, what, &report, read));
    report.finish(value)
}
