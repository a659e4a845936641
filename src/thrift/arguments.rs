//! The arguments of the four methods. Field names are those of the IDL, since clients see them in error texts.

use super::ask::{Ask, Method, NameRef, Stamp};
use super::explain;
use super::read::{Fault, Reader, Type};

/// Why arguments cannot be served.
#[derive(Debug)]
pub(super) enum Unusable {
    /// Their bytes are wrong.
    Unreadable(Fault),
    /// A struct is missing that nothing can stand for. A missing string or list is empty instead.
    Missing {
        /// Which one.
        what: &'static str,
        /// What was read of the name, for the failure that echoes it.
        name: NameRef,
    },
}

pub(super) type Read<T> = Result<T, Unusable>;

impl From<Fault> for Unusable {
    fn from(fault: Fault) -> Self {
        Self::Unreadable(fault)
    }
}

/// Reads the arguments of a call.
pub(super) fn read(method: Method, reader: &mut Reader<'_>) -> Read<Ask> {
    // All methods have one argument, whose number is 1. As with any field, the last one of several counts.
    let mut ask = None;
    while let Some((id, kind)) = reader.field()? {
        if id != 1 {
            reader.skip(kind)?;
            continue;
        }
        reader.structure("req", kind)?;
        ask = Some(match method {
            Method::Bind => bind(reader)?,
            Method::Addr => addr(reader)?,
            Method::Delegate => explain::read(reader).map(Ask::Delegate)?,
            Method::Dtab => dtab(reader)?,
        });
    }
    ask.ok_or_else(|| missing("req"))
}

/// `BindReq`
fn bind(reader: &mut Reader<'_>) -> Read<Ask> {
    let (mut dtab, mut name) = (String::new(), None);
    while let Some((id, kind)) = reader.field()? {
        match id {
            1 => dtab = reader.long_text("dtab", kind)?,
            2 => name = Some(name_ref(reader, kind)?),
            3 => drop(elems(reader, "clientId", kind)?),
            _ => reader.skip(kind)?,
        }
    }
    Ok(Ask::Bind { dtab, name: name.ok_or_else(|| missing("name"))? })
}

/// `AddrReq`
fn addr(reader: &mut Reader<'_>) -> Read<Ask> {
    let mut name = None;
    while let Some((id, kind)) = reader.field()? {
        match id {
            1 => name = Some(name_ref(reader, kind)?),
            2 => drop(elems(reader, "clientId", kind)?),
            _ => reader.skip(kind)?,
        }
    }
    Ok(Ask::Addr { name: name.ok_or_else(|| missing("name"))? })
}

/// `DtabReq`
fn dtab(reader: &mut Reader<'_>) -> Read<Ask> {
    let (mut stamp, mut ns) = (Stamp::new(), String::new());
    while let Some((id, kind)) = reader.field()? {
        match id {
            1 => stamp = reader.binary("stamp", kind)?.into(),
            2 => ns = reader.text("ns", kind)?,
            3 => drop(elems(reader, "clientId", kind)?),
            _ => reader.skip(kind)?,
        }
    }
    Ok(Ask::Dtab { stamp, ns })
}

/// A field that is a `NameRef`.
fn name_ref(reader: &mut Reader<'_>, kind: Type) -> Read<NameRef> {
    reader.structure("name", kind)?;
    let mut name = NameRef::default();
    while let Some((id, kind)) = reader.field()? {
        match id {
            1 => name.stamp = reader.binary("stamp", kind)?.into(),
            2 => name.elems = elems(reader, "name", kind)?.into(),
            3 => name.ns = reader.text("ns", kind)?,
            _ => reader.skip(kind)?,
        }
    }
    Ok(name)
}

/// A field that is a path: its elements in wire form.
pub(super) fn elems<'m>(reader: &mut Reader<'m>, field: &str, kind: Type) -> Result<&'m [u8], Fault> {
    let count = reader.list(field, kind, Type::String)?;
    let all = reader.rest();
    for _ in 0..count {
        reader.bytes()?;
    }
    Ok(&all[..all.len() - reader.rest().len()])
}

pub(super) fn missing(what: &'static str) -> Unusable {
    Unusable::Missing { what, name: NameRef::default() }
}
