//! Replies of the `Namer` service, for a client of another server: what [`super::result`] writes there is read here.
//!
//! What a reply says is checked before anybody believes it: a union has one member that is known, nodes are there, ids
//! are paths, addresses have four or sixteen bytes. (Linkerd's loop ends for good on some of these, see
//! ThriftNamerClient.scala:217-239.)

mod addresses;
mod trees;

use super::call::Head;
use super::encode::{EXCEPTION, REPLY};
use super::read::{Fault, Reader, Type};
use super::{Method, Stamp};
use crate::name::{Addr, DelegateTree, NameTree, Path};

/// What a server answered.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply<T> {
    /// The value, and what to show next time to be told of the next one.
    Value {
        /// Whatever the server wants to see again.
        stamp: Stamp,
        /// The value.
        value: T,
    },
    /// The method's declared failure, with its reason.
    Failure(String),
    /// A TApplicationException, with its text.
    Exception(String),
}

/// A concrete name, as a server tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundName {
    /// The id; never the empty path.
    pub id: Path,
    /// What no namer consumed.
    pub residual: Path,
}

/// A reply that nobody can make sense of.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadReply(String);

impl<T> Reply<T> {
    /// The same reply with another value.
    ///
    /// # Errors
    /// The value does not give one.
    pub fn map<U>(self, value_of: impl FnOnce(T) -> Result<U, BadReply>) -> Result<Reply<U>, BadReply> {
        Ok(match self {
            Self::Value { stamp, value } => Reply::Value { stamp, value: value_of(value)? },
            Self::Failure(reason) => Reply::Failure(reason),
            Self::Exception(text) => Reply::Exception(text),
        })
    }
}

impl BadReply {
    /// What is wrong with it, in words.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

/// Reads the answer to `bind`.
///
/// # Errors
/// [`BadReply`]
pub fn bind(message: &[u8]) -> Result<Reply<NameTree<BoundName>>, BadReply> {
    read(Method::Bind, message, "tree", |reader, kind| {
        reader.structure("tree", kind)?;
        trees::bound(reader)
    })
}

/// Reads the answer to `addr`.
///
/// # Errors
/// [`BadReply`]
pub fn addr(message: &[u8]) -> Result<Reply<Addr>, BadReply> {
    read(Method::Addr, message, "value", |reader, kind| {
        reader.structure("value", kind)?;
        addresses::value(reader)
    })
}

/// Reads the answer to `dtab`: its text.
///
/// # Errors
/// [`BadReply`]
pub fn dtab(message: &[u8]) -> Result<Reply<String>, BadReply> {
    read(Method::Dtab, message, "dtab", |reader, kind| reader.long_text("dtab", kind))
}

/// Reads the answer to `delegate`.
///
/// # Errors
/// [`BadReply`]
pub fn delegate(message: &[u8]) -> Result<Reply<DelegateTree<BoundName>>, BadReply> {
    read(Method::Delegate, message, "tree", |reader, kind| {
        reader.structure("tree", kind)?;
        trees::delegation(reader)
    })
}

/// Reads the reply to a call of `method`; `value` reads the field of that name.
fn read<T>(
    method: Method,
    message: &[u8],
    field: &str,
    value: impl Fn(&mut Reader<'_>, Type) -> Result<T, Fault>,
) -> Result<Reply<T>, BadReply> {
    let mut reader = Reader::of_reply(message);
    let Head { kind, name, seqid: _ } = Head::read(&mut reader)?;
    if kind == EXCEPTION {
        return Ok(Reply::Exception(exception(&mut reader)?));
    }
    if kind != REPLY || name != method.name().as_bytes() {
        let name = String::from_utf8_lossy(name);
        return Err(wrong(format!("a message of kind {kind} called '{name}' answers {}", method.name())).into());
    }
    // A union in all but name: the value or the failure.
    let mut reply = None;
    while let Some((id, kind)) = reader.field()? {
        let member = match id {
            0 => {
                reader.structure("success", kind)?;
                let (stamp, value) = stamped(&mut reader, field, &value)?;
                Reply::Value { stamp, value }
            }
            1 => {
                reader.structure("failure", kind)?;
                Reply::Failure(reason(&mut reader)?)
            }
            _ => {
                reader.skip(kind)?;
                continue;
            }
        };
        only(&mut reply, member)?;
    }
    Ok(there("success", reply)?)
}

/// The struct of a value, behind its start: all four have a stamp and one field more.
fn stamped<T>(
    reader: &mut Reader<'_>,
    field: &str,
    read_value: impl Fn(&mut Reader<'_>, Type) -> Result<T, Fault>,
) -> Result<(Stamp, T), Fault> {
    let (mut stamp, mut value) = (Stamp::new(), None);
    while let Some((id, kind)) = reader.field()? {
        match id {
            1 => stamp = reader.binary("stamp", kind)?.into(),
            2 => value = Some(read_value(reader, kind)?),
            _ => reader.skip(kind)?,
        }
    }
    Ok((stamp, there(field, value)?))
}

/// `TApplicationException`: its text.
fn exception(reader: &mut Reader<'_>) -> Result<String, Fault> {
    let mut text = String::new();
    while let Some((id, kind)) = reader.field()? {
        match id {
            1 => text = reader.long_text("message", kind)?,
            _ => reader.skip(kind)?,
        }
    }
    Ok(text)
}

/// Any of the declared failures begins with its reason, which namerd leaves out if the JVM gave it none.
fn reason(reader: &mut Reader<'_>) -> Result<String, Fault> {
    let mut reason = String::new();
    while let Some((id, kind)) = reader.field()? {
        match id {
            1 => reason = reader.long_text("reason", kind)?,
            _ => reader.skip(kind)?,
        }
    }
    Ok(reason)
}

/// A field that is a path.
fn path(reader: &mut Reader<'_>, field: &str, kind: Type) -> Result<Path, Fault> {
    let count = reader.list(field, kind, Type::String)?;
    let elems = (0..count).map(|_| reader.bytes()).collect::<Result<Vec<_>, _>>()?;
    Path::from_elems(elems).map_err(|_| wrong(format!("'{field}' has an empty element")))
}

/// `BoundName`, behind its start.
fn bound_name(reader: &mut Reader<'_>) -> Result<BoundName, Fault> {
    let (mut name, mut residual) = (None, Path::empty());
    while let Some((id, kind)) = reader.field()? {
        match id {
            1 => name = Some(path(reader, "id", kind)?),
            2 => residual = path(reader, "residual", kind)?,
            _ => reader.skip(kind)?,
        }
    }
    Ok(BoundName { id: there("id", name)?, residual })
}

/// Takes the member of a union.
fn only<T>(slot: &mut Option<T>, member: T) -> Result<(), Fault> {
    if slot.replace(member).is_some() { Err(wrong("a union has more than one member")) } else { Ok(()) }
}

fn there<T>(field: &str, value: Option<T>) -> Result<T, Fault> {
    value.ok_or_else(|| wrong(format!("there is no '{field}'")))
}

fn wrong(text: impl Into<String>) -> Fault {
    Fault::Protocol(text.into())
}

impl From<Fault> for BadReply {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Cut => Self("the message ends early".to_owned()),
            Fault::Protocol(text) => Self(text),
        }
    }
}
