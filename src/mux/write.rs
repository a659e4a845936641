//! Messages as bytes.

use super::frame::HEADER;
use super::{Kind, Message, Tag};
use crate::wire::Output;

impl Message {
    /// Writes the message as one frame, dispatches without contexts, destination and dtab.
    ///
    /// # Panics
    /// If a message has 4 GiB or more.
    pub fn write(&self, out: &mut Output) {
        let (kind, tag) = (self.kind(), self.tag());
        match self {
            Self::Tdrain(_) | Self::Rdrain(_) | Self::Tping(_) | Self::Rping(_) | Self::Rdiscarded(_) => {
                header(out, kind, tag, false, 0);
            }
            Self::Treq { payload, .. } => framed(out, kind, tag, &[0], payload),
            Self::Tdispatch { payload, .. } => framed(out, kind, tag, &[0; 6], payload),
            Self::Rreq { status, payload, .. } => framed(out, kind, tag, &[*status as u8], payload),
            Self::Rdispatch { status, payload, .. } => framed(out, kind, tag, &[*status as u8, 0, 0], payload),
            Self::Tdiscarded { which, reason, .. } => framed(out, kind, tag, &which.get().to_be_bytes()[1..], reason),
            Self::Tlease { unit, howmuch, .. } => framed(out, kind, tag, &[*unit], &howmuch.to_be_bytes()),
            Self::Rerr { reason, .. } => framed(out, kind, tag, &[], reason),
            Self::Tinit { init, .. } | Self::Rinit { init, .. } => {
                let mut body = init.version.to_be_bytes().to_vec();
                for text in init.headers.iter().flat_map(|(key, value)| [key, value]) {
                    body.extend(length(text.len()).to_be_bytes());
                    body.extend(text);
                }
                framed(out, kind, tag, &[], &body);
            }
        }
    }
}

fn framed(out: &mut Output, kind: Kind, tag: Tag, start: &[u8], rest: &[u8]) {
    header(out, kind, tag, false, start.len() + rest.len());
    out.push(start);
    out.push(rest);
}

/// Length, kind and tag of a frame with so many bytes of body.
pub(super) fn header(out: &mut Output, kind: Kind, tag: Tag, more: bool, body: usize) {
    let flag = if more { Tag::MORE } else { 0 };
    let number = u32::from(kind.number().cast_unsigned()) << 24;
    let [length, header] = [length(HEADER + body), number | flag | tag.get()].map(u32::to_be_bytes);
    out.push(&[length, header].concat());
}

fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("what we send is far below 4 GiB")
}
