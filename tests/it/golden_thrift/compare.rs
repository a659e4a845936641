//! When two frames count as equal: stamps by what they stand for, maps and sets without order, all else as it is.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;

use super::recording::Want;
use crate::support::mux;
use crate::support::thrift::{EXCEPTION, Message, REPLY, Value, hex};

static CLASS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^(Internal error processing \w+: ')[a-z]+(?:\.\w+)+: ").expect("a literal pattern"));

/// What is spoken on a connection, which its first frame decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    Mux,
    Thrift,
}

impl Protocol {
    /// Of a connection whose client sends this first, length and all.
    pub fn of(first: &[u8]) -> Self {
        const TYPES: &[u8] =
            &[0x01, 0x02, 0x40, 0x41, 0x42, 0x43, 0x44, 0x7f, 0x80, 0xbc, 0xbe, 0xbf, 0xc0, 0xc2, 0xfe, 0xff];
        match first.get(4..8) {
            Some([0x80, 1, 0, 1 | 4]) => Self::Thrift,
            Some([first, ..]) if TYPES.contains(first) => Self::Mux,
            _ => Self::Thrift,
        }
    }
}

/// A frame of the server, as far as it can be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decoded {
    /// What stands before the message: all of the frame where there is none.
    head: Vec<u8>,
    message: Option<Message>,
}

impl Decoded {
    /// Reads a frame without its length.
    pub fn read(protocol: Protocol, frame: &[u8]) -> Result<Self, String> {
        let message_at = match (protocol, frame) {
            (Protocol::Mux, [0xfe, _, _, _, 0, contexts @ ..]) => {
                if contexts.get(..2) != Some(&[0, 0]) {
                    return Err(format!("an Rdispatch with contexts: {}", hex(frame)));
                }
                Some(7)
            }
            (Protocol::Mux, [0xff, _, _, _, 0, ..]) => Some(5),
            (Protocol::Mux, _) => None,
            // The empty header of an answer to a client that asked for headers.
            (Protocol::Thrift, [0, ..]) => Some(1),
            (Protocol::Thrift, _) => Some(0),
        };
        let Some(at) = message_at else {
            return Ok(Self { head: frame.to_vec(), message: None });
        };
        let message = Message::read(&frame[at..]).map_err(|why| format!("{why}: {}", hex(frame)))?;
        Ok(Self { head: frame[..at].to_vec(), message: Some(message) })
    }

    fn shown(&self) -> String {
        match &self.message {
            Some(message) => format!("{} {}", hex(&self.head), message.to_json()),
            None => format!("{} ({:?})", hex(&self.head), String::from_utf8_lossy(&self.head)),
        }
    }

    /// The result of a method whose answers carry stamps: where the stamp stands in it.
    fn stamped(&mut self) -> Option<&mut Value> {
        let message = self.message.as_mut().filter(|message| message.kind == REPLY)?;
        // A delegation's stamp is always the same and no stamp at all.
        if message.name == "delegate" { None } else { message.body.field_mut(0)?.field_mut(1) }
    }

    /// The request's stamp in a declared failure.
    fn quoted(&mut self) -> Option<&mut Value> {
        let message = self.message.as_mut().filter(|message| message.kind == REPLY)?;
        message.body.field_mut(1)?.field_mut(3)?.field_mut(1)
    }

    /// Takes out what rosterd words in its own way; there must be something.
    fn without_text(&mut self) -> Result<(), String> {
        let text = match &mut self.message {
            Some(message) if message.kind == EXCEPTION => message.body.field_mut(1),
            Some(message) => message.body.field_mut(1).and_then(|failure| failure.field_mut(1)),
            None => {
                let at = if self.head[0] == 0xfe { 7 } else { 4 };
                let text = self.head.split_off(at);
                return if text.is_empty() { Err("no text".to_owned()) } else { Ok(()) };
            }
        };
        match text {
            Some(Value::Binary(text)) if !text.is_empty() => text.clear(),
            other => return Err(format!("no text but {other:?}")),
        }
        Ok(())
    }

    /// Takes the class of an exception out of `Internal error processing bind: 'CLASS: TEXT'`: rosterd has no classes.
    fn without_class(&mut self) {
        let Some(Value::Binary(text)) = self
            .message
            .as_mut()
            .filter(|message| message.kind == EXCEPTION)
            .and_then(|message| message.body.field_mut(1))
        else {
            return;
        };
        *text = CLASS.replace(&String::from_utf8_lossy(text), "$1").into_owned().into_bytes();
    }

    fn in_order(mut self) -> Self {
        if let Some(message) = &mut self.message {
            message.body = message.body.in_order();
        }
        self
    }
}

/// Which stamps were seen for the recorded ones.
#[derive(Default)]
pub struct Stamps(BTreeMap<Vec<u8>, Vec<u8>>);

impl Stamps {
    /// The bytes that a client sends: recorded stamps in it become those that were seen.
    pub fn in_request(&self, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        // Field 1 of type binary, its length, the stamp; a length of nine is a stamp that was spoilt on purpose.
        for at in 7..bytes.len().saturating_sub(7) {
            let field = bytes[at - 7..at - 1] == [0x0b, 0, 1, 0, 0, 0] && bytes[at - 1] >= 8;
            if let Some(seen) = self.0.get(&bytes[at..at + 8]).filter(|_| field) {
                bytes[at..at + 8].copy_from_slice(seen);
            }
        }
        bytes
    }

    /// Checks the stamp of an answer: the same one for the same value, another one for another.
    fn meet(&mut self, recorded: &[u8], seen: &[u8]) -> Result<(), String> {
        if seen.len() != 8 {
            return Err(format!("a stamp has eight bytes, not {}", hex(seen)));
        }
        let known = self.0.iter().find(|(earlier, stamp)| earlier.as_slice() == recorded || stamp.as_slice() == seen);
        match known {
            None => self.0.insert(recorded.to_vec(), seen.to_vec()),
            Some((earlier, stamp)) if earlier.as_slice() == recorded && stamp.as_slice() == seen => return Ok(()),
            Some((earlier, stamp)) => {
                let (earlier, stamp, recorded, seen) = (hex(earlier), hex(stamp), hex(recorded), hex(seen));
                return Err(format!("{seen} for recorded {recorded}, but before {stamp} for recorded {earlier}"));
            }
        };
        Ok(())
    }

    /// Compares a frame of the server, without its length, with what it must be.
    pub fn compare(&mut self, protocol: Protocol, want: &Want, got: &[u8]) -> Result<(), String> {
        let mut seen = Decoded::read(protocol, got)?;
        let recorded = match want {
            Want::DeclaredFailure { tag, method } => return declared_failure(&seen, *tag, method),
            Want::Frame(bytes) | Want::OtherText(bytes) => bytes,
        };
        let mut recorded = Decoded::read(protocol, recorded.get(4..).unwrap_or_default())?;
        let shown = (recorded.shown(), seen.shown());
        let differs = |why: String| format!("{why}\n      expected {}\n      got      {}", shown.0, shown.1);
        if let (Some(Value::Binary(recorded)), Some(Value::Binary(seen))) = (recorded.stamped(), seen.stamped()) {
            self.meet(recorded, seen).map_err(differs)?;
            seen.clone_from(recorded);
        }
        if let Some(Value::Binary(quoted)) = recorded.quoted()
            && let Some(sent) = self.0.get(quoted)
        {
            quoted.clone_from(sent);
        }
        if let Want::OtherText(_) = want {
            if recorded == seen {
                return Err(differs("the listed difference is none".to_owned()));
            }
            recorded.without_text().and(seen.without_text()).map_err(differs)?;
        }
        recorded.without_class();
        seen.without_class();
        if recorded.in_order() == seen.in_order() { Ok(()) } else { Err(differs("differs".to_owned())) }
    }
}

/// A declared failure with every field, since routers take a missing one for null.
fn declared_failure(seen: &Decoded, tag: u32, method: &str) -> Result<(), String> {
    let message = seen.message.as_ref().filter(|message| (message.kind, message.name.as_str()) == (REPLY, method));
    if mux::tag(&seen.head) == tag && message.is_some_and(whole_failure) {
        Ok(())
    } else {
        Err(format!("a declared failure of {method} for tag {tag} expected, got {}", seen.shown()))
    }
}

fn whole_failure(message: &Message) -> bool {
    let Some(failure) = message.body.field(1) else {
        return false;
    };
    let name = failure.field(3);
    let in_name = |field| name.is_some_and(|name| name.field(field).is_some());
    failure.field(1).is_some_and(|reason| *reason != Value::text(""))
        && failure.field(2).is_some()
        && [1, 2, 3].into_iter().all(in_name)
}
