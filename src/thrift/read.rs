//! Reads the binary protocol from memory.
//!
//! Apache's crate does not fit here: it does not look at the types of fields, refuses text that is not UTF-8, and cannot
//! tell a message that ends early from one that is wrong, which namerd answers differently. The tests hold this reader
//! against it. Nothing is reserved for an announced size, only for bytes that are there.

use std::borrow::Cow;

/// Why a message is unreadable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It ends before what it announces.
    Cut,
    /// It says something that cannot be.
    Protocol(String),
}

/// Codes of types on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Type {
    Bool = 2,
    Byte = 3,
    Double = 4,
    I16 = 6,
    I32 = 8,
    I64 = 10,
    String = 11,
    Struct = 12,
    Map = 13,
    Set = 14,
    List = 15,
}

/// How many elements a container may have that is not passed over.
const MAX_ELEMENTS: usize = 65_536;

/// Bytes of a string other than a dtab, which its own reader limits.
const MAX_STRING: usize = 1 << 20;

/// Levels of a value that is passed over.
const MAX_NESTING: usize = 64;

/// What is left of a message.
#[derive(Clone, Copy)]
pub(super) struct Reader<'m> {
    rest: &'m [u8],
    most_elements: usize,
}

// === impl Fault ===

impl Fault {
    fn wrong_type(field: &str, expected: Type, actual: Type) -> Self {
        let (expected, actual) = (expected.name(), actual.name());
        Self::Protocol(format!("Received wrong type for field '{field}' (expected={expected}, actual={actual})."))
    }
}

// === impl Type ===

impl Type {
    fn of(code: u8) -> Result<Self, Fault> {
        Ok(match code {
            2 => Self::Bool,
            3 => Self::Byte,
            4 => Self::Double,
            6 => Self::I16,
            8 => Self::I32,
            10 => Self::I64,
            11 => Self::String,
            12 => Self::Struct,
            13 => Self::Map,
            14 => Self::Set,
            15 => Self::List,
            _ => return Err(Fault::Protocol(format!("unrecognized type code {}", code.cast_signed()))),
        })
    }

    /// Bytes of every value, where all have the same.
    const fn width(self) -> Option<usize> {
        match self {
            Self::Bool | Self::Byte => Some(1),
            Self::I16 => Some(2),
            Self::I32 => Some(4),
            Self::Double | Self::I64 => Some(8),
            Self::String | Self::Struct | Self::Map | Self::Set | Self::List => None,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Bool => "BOOL",
            Self::Byte => "BYTE",
            Self::Double => "DOUBLE",
            Self::I16 => "I16",
            Self::I32 => "I32",
            Self::I64 => "I64",
            Self::String => "STRING",
            Self::Struct => "STRUCT",
            Self::Map => "MAP",
            Self::Set => "SET",
            Self::List => "LIST",
        }
    }
}

// === impl Reader ===

impl<'m> Reader<'m> {
    /// Reads what a client sends.
    pub(super) fn new(message: &'m [u8]) -> Self {
        Self { rest: message, most_elements: MAX_ELEMENTS }
    }

    /// Reads what a server that we chose sends: as many elements as the message has room for. Sets of addresses may be
    /// large.
    pub(super) fn of_reply(message: &'m [u8]) -> Self {
        Self { rest: message, most_elements: usize::MAX }
    }

    /// What has not been read.
    pub(super) fn rest(&self) -> &'m [u8] {
        self.rest
    }

    pub(super) fn take(&mut self, count: usize) -> Result<&'m [u8], Fault> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(Fault::Cut)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(Fault::Cut)?;
        self.rest = rest;
        Ok(*taken)
    }

    pub(super) fn byte(&mut self) -> Result<u8, Fault> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(super) fn i32(&mut self) -> Result<i32, Fault> {
        self.array().map(i32::from_be_bytes)
    }

    pub(super) fn double(&mut self) -> Result<f64, Fault> {
        self.array().map(f64::from_be_bytes)
    }

    /// A length or a count.
    fn size(&mut self) -> Result<usize, Fault> {
        let size = self.i32()?;
        usize::try_from(size).map_err(|_| Fault::Protocol(format!("Negative length: {size}")))
    }

    /// A string or binary of any length.
    pub(super) fn bytes(&mut self) -> Result<&'m [u8], Fault> {
        let length = self.size()?;
        self.take(length)
    }

    /// The id and type of the next field of a struct, or nothing at its end.
    pub(super) fn field(&mut self) -> Result<Option<(i16, Type)>, Fault> {
        match self.byte()? {
            0 => Ok(None),
            code => {
                let kind = Type::of(code)?;
                Ok(Some((self.array().map(i16::from_be_bytes)?, kind)))
            }
        }
    }

    /// The value of a field that is a string or binary.
    pub(super) fn binary(&mut self, field: &str, kind: Type) -> Result<&'m [u8], Fault> {
        expect(field, Type::String, kind)?;
        let bytes = self.bytes()?;
        if bytes.len() > MAX_STRING {
            return Err(too_long(field, bytes.len(), "bytes", MAX_STRING));
        }
        Ok(bytes)
    }

    /// The value of a field that is text. Bytes that are not UTF-8 become U+FFFD, as in the JVM.
    pub(super) fn text(&mut self, field: &str, kind: Type) -> Result<String, Fault> {
        self.binary(field, kind).map(lossy)
    }

    /// As [`Reader::text`], of any length.
    pub(super) fn long_text(&mut self, field: &str, kind: Type) -> Result<String, Fault> {
        expect(field, Type::String, kind)?;
        self.bytes().map(lossy)
    }

    /// The start of a field that is a struct.
    pub(super) fn structure(&mut self, field: &str, kind: Type) -> Result<(), Fault> {
        expect(field, Type::Struct, kind)
    }

    /// The value of a field that is a number.
    pub(super) fn number(&mut self, field: &str, kind: Type) -> Result<i32, Fault> {
        expect(field, Type::I32, kind)?;
        self.i32()
    }

    /// The value of a field that is a double.
    pub(super) fn real(&mut self, field: &str, kind: Type) -> Result<f64, Fault> {
        expect(field, Type::Double, kind)?;
        self.double()
    }

    /// The start of a field that is a list, with the number of its elements.
    pub(super) fn list(&mut self, field: &str, kind: Type, element: Type) -> Result<usize, Fault> {
        expect(field, Type::List, kind)?;
        self.elements(field, element)
    }

    /// The start of a field that is a set, with the number of its elements.
    pub(super) fn set(&mut self, field: &str, kind: Type, element: Type) -> Result<usize, Fault> {
        expect(field, Type::Set, kind)?;
        self.elements(field, element)
    }

    fn elements(&mut self, field: &str, element: Type) -> Result<usize, Fault> {
        let code = self.byte()?;
        let count = self.count(field)?;
        // The type of no elements says nothing.
        if count > 0 {
            expect(field, element, Type::of(code)?)?;
        }
        Ok(count)
    }

    /// The start of a field that is a map, with the number of its entries.
    pub(super) fn map(&mut self, field: &str, kind: Type, key: Type, value: Type) -> Result<usize, Fault> {
        expect(field, Type::Map, kind)?;
        let codes = self.array::<2>()?;
        let count = self.count(field)?;
        if count > 0 {
            expect(field, key, Type::of(codes[0])?)?;
            expect(field, value, Type::of(codes[1])?)?;
        }
        Ok(count)
    }

    fn count(&mut self, field: &str) -> Result<usize, Fault> {
        let count = self.size()?;
        if count > self.most_elements {
            return Err(too_long(field, count, "elements", self.most_elements));
        }
        // Every element has at least one byte.
        if count > self.rest.len() { Err(Fault::Cut) } else { Ok(count) }
    }

    /// Passes over a value that nobody asked for.
    pub(super) fn skip(&mut self, kind: Type) -> Result<(), Fault> {
        self.skip_nested(kind, MAX_NESTING)
    }

    fn skip_nested(&mut self, kind: Type, levels: usize) -> Result<(), Fault> {
        if let Some(width) = kind.width() {
            return self.take(width).map(drop);
        }
        if kind == Type::String {
            return self.bytes().map(drop);
        }
        let Some(levels) = levels.checked_sub(1) else {
            return Err(Fault::Protocol(format!("a value nests deeper than {MAX_NESTING} levels")));
        };
        match kind {
            Type::Struct => {
                while let Some((_, kind)) = self.field()? {
                    self.skip_nested(kind, levels)?;
                }
                Ok(())
            }
            Type::Map => {
                let codes = self.array::<2>()?;
                self.skip_elements(codes, levels)
            }
            _ => {
                let codes = self.array::<1>()?;
                self.skip_elements(codes, levels)
            }
        }
    }

    /// Every element has at least one byte, so that the work is bounded by the message and not by the announced count.
    fn skip_elements<const N: usize>(&mut self, codes: [u8; N], levels: usize) -> Result<(), Fault> {
        let count = self.size()?;
        if count == 0 {
            return Ok(());
        }
        let mut kinds = [Type::Bool; N];
        for (kind, code) in kinds.iter_mut().zip(codes) {
            *kind = Type::of(code)?;
        }
        if let Some(width) = kinds.iter().map(|kind| kind.width()).sum::<Option<usize>>() {
            return self.take(count.saturating_mul(width)).map(drop);
        }
        for _ in 0..count {
            for kind in kinds {
                self.skip_nested(kind, levels)?;
            }
        }
        Ok(())
    }
}

fn expect(field: &str, expected: Type, actual: Type) -> Result<(), Fault> {
    if expected == actual { Ok(()) } else { Err(Fault::wrong_type(field, expected, actual)) }
}

fn too_long(field: &str, size: usize, unit: &str, most: usize) -> Fault {
    Fault::Protocol(format!("field '{field}' has {size} {unit}, which is more than {most}"))
}

fn lossy(bytes: &[u8]) -> String {
    match String::from_utf8_lossy(bytes) {
        Cow::Borrowed(text) => text.to_owned(),
        Cow::Owned(text) => text,
    }
}
