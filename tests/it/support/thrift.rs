//! Thrift's binary protocol, read and written without any code of rosterd: values as they are on the wire, in which maps
//! and sets compare without order.

use serde_json::json;

/// A value with its type. Fields of a struct stay in the order of the wire.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Value {
    Bool(bool),
    Byte(i8),
    /// The bits, so that every double compares.
    Double(u64),
    I16(i16),
    I32(i32),
    I64(i64),
    Binary(Vec<u8>),
    Struct(Vec<(i16, Value)>),
    /// Types of keys and values, then the entries.
    Map(u8, u8, Vec<(Value, Value)>),
    Set(u8, Vec<Value>),
    List(u8, Vec<Value>),
}

pub const BINARY: u8 = 11;
pub const STRUCT: u8 = 12;

/// Kinds of messages.
pub const CALL: u8 = 1;
pub const REPLY: u8 = 2;
pub const EXCEPTION: u8 = 3;

/// A message with its header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    pub kind: u8,
    pub name: String,
    pub seqid: i32,
    /// A struct: the arguments, the result, or the exception.
    pub body: Value,
}

impl Message {
    /// Reads a message that fills the bytes, with or without a version.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        let mut input = Input(bytes);
        let message = if bytes.first().is_some_and(|first| first & 0x80 != 0) {
            let [0x80, 0x01, 0x00, kind] = input.array()? else {
                return Err("no version 1".to_owned());
            };
            let name = input.text()?;
            Self { kind, name, seqid: input.int()?, body: input.value(STRUCT, 0)? }
        } else {
            let name = input.text()?;
            let [kind] = input.array()?;
            Self { kind, name, seqid: input.int()?, body: input.value(STRUCT, 0)? }
        };
        if input.0.is_empty() { Ok(message) } else { Err(format!("{} bytes behind the message", input.0.len())) }
    }

    /// With a version, as every server writes it.
    pub fn write(&self) -> Vec<u8> {
        let mut out = vec![0x80, 0x01, 0x00, self.kind];
        Value::Binary(self.name.clone().into_bytes()).write(&mut out);
        Value::I32(self.seqid).write(&mut out);
        self.body.write(&mut out);
        out
    }

    /// Message and fields in JSON: `{"type": "reply", "name": …, "seqid": …, "body": {"0": …}}`.
    pub fn to_json(&self) -> serde_json::Value {
        let kind = match self.kind {
            CALL => "call",
            REPLY => "reply",
            EXCEPTION => "exception",
            _ => "oneway",
        };
        json!({"type": kind, "name": self.name, "seqid": self.seqid, "body": self.body.to_json()})
    }
}

impl Value {
    pub fn text(text: &str) -> Self {
        Self::Binary(text.as_bytes().to_vec())
    }

    /// A path: one binary per element.
    pub fn path(elements: &[&str]) -> Self {
        Self::List(BINARY, elements.iter().map(|element| Self::text(element)).collect())
    }

    /// The field of a struct.
    pub fn field(&self, id: i16) -> Option<&Self> {
        match self {
            Self::Struct(fields) => fields.iter().find(|(known, _)| *known == id).map(|(_, value)| value),
            _ => None,
        }
    }

    /// The field of a struct, to be changed.
    pub fn field_mut(&mut self, id: i16) -> Option<&mut Self> {
        match self {
            Self::Struct(fields) => fields.iter_mut().find(|(known, _)| *known == id).map(|(_, value)| value),
            _ => None,
        }
    }

    /// The same value with the entries of maps and the elements of sets in one order.
    pub fn in_order(&self) -> Self {
        let all = |values: &[Self]| values.iter().map(Self::in_order).collect::<Vec<_>>();
        match self {
            Self::Struct(fields) => Self::Struct(fields.iter().map(|(id, value)| (*id, value.in_order())).collect()),
            Self::List(kind, values) => Self::List(*kind, all(values)),
            Self::Set(kind, values) => {
                let mut values = all(values);
                values.sort();
                Self::Set(*kind, values)
            }
            Self::Map(key, value, entries) => {
                let mut entries: Vec<_> = entries.iter().map(|(k, v)| (k.in_order(), v.in_order())).collect();
                entries.sort();
                Self::Map(*key, *value, entries)
            }
            plain => plain.clone(),
        }
    }

    fn kind(&self) -> u8 {
        match self {
            Self::Bool(_) => 2,
            Self::Byte(_) => 3,
            Self::Double(_) => 4,
            Self::I16(_) => 6,
            Self::I32(_) => 8,
            Self::I64(_) => 10,
            Self::Binary(_) => BINARY,
            Self::Struct(_) => STRUCT,
            Self::Map(..) => 13,
            Self::Set(..) => 14,
            Self::List(..) => 15,
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        let size = |out: &mut Vec<u8>, size: usize| {
            out.extend(i32::try_from(size).expect("a test's value is small").to_be_bytes());
        };
        match self {
            Self::Bool(value) => out.push(u8::from(*value)),
            Self::Byte(value) => out.extend(value.to_be_bytes()),
            Self::Double(value) => out.extend(value.to_be_bytes()),
            Self::I16(value) => out.extend(value.to_be_bytes()),
            Self::I32(value) => out.extend(value.to_be_bytes()),
            Self::I64(value) => out.extend(value.to_be_bytes()),
            Self::Binary(value) => {
                size(out, value.len());
                out.extend(value);
            }
            Self::Struct(fields) => {
                for (id, value) in fields {
                    out.push(value.kind());
                    out.extend(id.to_be_bytes());
                    value.write(out);
                }
                out.push(0);
            }
            Self::Map(key, value, entries) => {
                out.extend([*key, *value]);
                size(out, entries.len());
                for (key, value) in entries {
                    key.write(out);
                    value.write(out);
                }
            }
            Self::Set(kind, values) | Self::List(kind, values) => {
                out.push(*kind);
                size(out, values.len());
                values.iter().for_each(|value| value.write(out));
            }
        }
    }

    /// Fields by their ids, bytes that are not text as `0x…`, maps as `{"map": [[key, value], …]}`.
    pub fn to_json(&self) -> serde_json::Value {
        let all = |values: &[Self]| values.iter().map(Self::to_json).collect::<Vec<_>>();
        match self {
            Self::Bool(value) => json!(value),
            Self::Byte(value) => json!(value),
            Self::Double(bits) => json!(f64::from_bits(*bits)),
            Self::I16(value) => json!(value),
            Self::I32(value) => json!(value),
            Self::I64(value) => json!(value),
            Self::Binary(bytes) => json!(shown(bytes)),
            Self::Struct(fields) => fields
                .iter()
                .map(|(id, value)| (id.to_string(), value.to_json()))
                .collect::<serde_json::Map<_, _>>()
                .into(),
            Self::Map(_, _, entries) => {
                let entries: Vec<_> =
                    entries.iter().map(|(key, value)| json!([key.to_json(), value.to_json()])).collect();
                json!({"map": entries})
            }
            Self::Set(_, values) | Self::List(_, values) => all(values).into(),
        }
    }
}

fn shown(bytes: &[u8]) -> String {
    let printable = |byte: &u8| (b' '..=b'~').contains(byte);
    match std::str::from_utf8(bytes) {
        Ok(text) if bytes.iter().all(printable) => text.to_owned(),
        _ => format!("0x{}", hex(bytes)),
    }
}

/// Two digits a byte.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What is left to read.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn take(&mut self, count: usize) -> Result<&[u8], String> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or("the message is cut short")?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        Ok(self.take(N)?.try_into().expect("as many were taken"))
    }

    fn int(&mut self) -> Result<i32, String> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    fn size(&mut self) -> Result<usize, String> {
        usize::try_from(self.int()?).map_err(|_| "a negative size".to_owned())
    }

    fn binary(&mut self) -> Result<Vec<u8>, String> {
        let size = self.size()?;
        Ok(self.take(size)?.to_vec())
    }

    fn text(&mut self) -> Result<String, String> {
        String::from_utf8(self.binary()?).map_err(|error| error.to_string())
    }

    fn value(&mut self, kind: u8, depth: usize) -> Result<Value, String> {
        if depth > 100 {
            return Err("nested too deeply".to_owned());
        }
        Ok(match kind {
            2 => match self.array()? {
                [0] => Value::Bool(false),
                [1] => Value::Bool(true),
                [odd] => return Err(format!("a bool of {odd}")),
            },
            3 => Value::Byte(i8::from_be_bytes(self.array()?)),
            4 => Value::Double(u64::from_be_bytes(self.array()?)),
            6 => Value::I16(i16::from_be_bytes(self.array()?)),
            8 => Value::I32(self.int()?),
            10 => Value::I64(i64::from_be_bytes(self.array()?)),
            BINARY => Value::Binary(self.binary()?),
            STRUCT => {
                let mut fields: Vec<(i16, Value)> = Vec::new();
                loop {
                    let [kind] = self.array()?;
                    if kind == 0 {
                        return Ok(Value::Struct(fields));
                    }
                    let id = i16::from_be_bytes(self.array()?);
                    if fields.iter().any(|(known, _)| *known == id) {
                        return Err(format!("field {id} comes twice"));
                    }
                    fields.push((id, self.value(kind, depth + 1)?));
                }
            }
            13 => {
                let [key, value] = self.array()?;
                let mut entries: Vec<(Value, Value)> = Vec::new();
                for _ in 0..self.size()? {
                    entries.push((self.value(key, depth + 1)?, self.value(value, depth + 1)?));
                }
                no_repeats(entries.iter().map(|(key, _)| key))?;
                Value::Map(key, value, entries)
            }
            14 | 15 => {
                let [of] = self.array()?;
                let mut values = Vec::new();
                for _ in 0..self.size()? {
                    values.push(self.value(of, depth + 1)?);
                }
                if kind == 14 {
                    no_repeats(values.iter())?;
                    Value::Set(of, values)
                } else {
                    Value::List(of, values)
                }
            }
            _ => return Err(format!("unknown type {kind}")),
        })
    }
}

fn no_repeats<'a>(values: impl Iterator<Item = &'a Value>) -> Result<(), String> {
    let mut values: Vec<_> = values.collect();
    values.sort();
    if values.windows(2).any(|pair| pair[0] == pair[1]) { Err("an element comes twice".to_owned()) } else { Ok(()) }
}
