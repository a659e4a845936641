//! `AddrVal`

use std::net::IpAddr;

use super::{only, there, wrong};
use crate::name::{Addr, AddrSet, Address, Meta, meta_keys};
use crate::thrift::read::{Fault, Reader, Type};

/// The union, behind its start.
pub(super) fn value(reader: &mut Reader<'_>) -> Result<Addr, Fault> {
    let mut addr = None;
    while let Some((id, kind)) = reader.field()? {
        let member = match id {
            1 => {
                reader.structure("bound", kind)?;
                Addr::Bound(bound(reader)?)
            }
            2 => {
                reader.structure("neg", kind)?;
                reader.skip(kind)?;
                Addr::Neg
            }
            _ => return Err(wrong(format!("an address set that is neither bound nor neg, but member {id}"))),
        };
        only(&mut addr, member)?;
    }
    there("bound or neg", addr)
}

/// `BoundAddr`
fn bound(reader: &mut Reader<'_>) -> Result<AddrSet, Fault> {
    let (mut addrs, mut set_meta) = (None, Meta::default());
    while let Some((id, kind)) = reader.field()? {
        match id {
            1 => {
                let count = reader.set("addresses", kind, Type::Struct)?;
                addrs = Some((0..count).map(|_| address(reader)).collect::<Result<Vec<_>, _>>()?);
            }
            2 => set_meta = meta(reader, kind)?,
            _ => reader.skip(kind)?,
        }
    }
    Ok(AddrSet::new(there("addresses", addrs)?, set_meta))
}

/// `TransportAddress`
fn address(reader: &mut Reader<'_>) -> Result<Address, Fault> {
    let (mut ip, mut port, mut address_meta) = (None, None, Meta::default());
    while let Some((id, kind)) = reader.field()? {
        match id {
            1 => ip = Some(address_ip(reader.binary("ip", kind)?)?),
            2 => {
                let number = reader.number("port", kind)?;
                port = Some(u16::try_from(number).map_err(|_| wrong(format!("{number} is no port")))?);
            }
            3 => address_meta = meta(reader, kind)?,
            _ => reader.skip(kind)?,
        }
    }
    Ok(Address { ip: there("ip", ip)?, port: there("port", port)?, meta: address_meta })
}

fn address_ip(bytes: &[u8]) -> Result<IpAddr, Fault> {
    if let Ok(v4) = <[u8; 4]>::try_from(bytes) {
        return Ok(v4.into());
    }
    match <[u8; 16]>::try_from(bytes) {
        Ok(v6) => Ok(v6.into()),
        Err(_) => Err(wrong(format!("an address of {} bytes", bytes.len()))),
    }
}

/// A field that is an `AddrMeta`.
fn meta(reader: &mut Reader<'_>, kind: Type) -> Result<Meta, Fault> {
    reader.structure("meta", kind)?;
    let mut meta = Meta::default();
    while let Some((id, kind)) = reader.field()? {
        meta = match id {
            1 => meta.with(meta_keys::AUTHORITY, reader.text("authority", kind)?),
            2 => meta.with(meta_keys::NODE_NAME, reader.text("nodeName", kind)?),
            3 => match reader.real("endpoint_addr_weight", kind)? {
                weight if weight.is_finite() => meta.with(meta_keys::ENDPOINT_ADDR_WEIGHT, weight),
                weight => return Err(wrong(format!("an address of weight {weight}"))),
            },
            _ => {
                reader.skip(kind)?;
                meta
            }
        };
    }
    Ok(meta)
}
