//! The state page: every namespace that somebody watches, with what is known of it and its last request.

use std::fmt::{self, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::DtabWatch;
use crate::storage::VersionedDtab;
use crate::store::{Snapshot, State, Table};

/// How many namespaces are shown.
const MOST: usize = 1_000;

/// How many bytes of a dtab are shown.
const MOST_TEXT: usize = 64 << 10;

/// How many bytes of all dtabs are shown.
const MOST_TEXT_IN_ALL: usize = 8 << 20;

/// As namerd shows it (`ConsulDtabStore.scala:160-230`); a last good value is shown as the value, and what is wrong with
/// its source as the error of the poll.
pub(super) fn page(watched: &Table<String, DtabWatch>) -> Value {
    // Whoever looks a namespace up waits while the table is looked through, so nothing is made of it meanwhile.
    let mut all = Vec::new();
    watched.visit(|namespace| {
        all.push((namespace.name.clone(), namespace.poll().journal().clone(), namespace.cell.snapshot()));
    });
    all.sort_by(|(a, ..), (b, ..)| a.cmp(b));
    let left_out = all.len().saturating_sub(MOST);
    let mut room = MOST_TEXT_IN_ALL;
    let shown = all.into_iter().take(MOST).map(|(name, journal, snapshot)| {
        let value = value(&snapshot, &mut room);
        (name, journal.page(value))
    });
    let mut page: Map<String, Value> = shown.collect();
    if left_out > 0 {
        page.insert("(namespaces left out)".to_owned(), left_out.into());
    }
    page.into()
}

/// At most `room` bytes of text, which become fewer.
fn value(snapshot: &Snapshot<Option<VersionedDtab>>, room: &mut usize) -> Value {
    match &snapshot.state {
        State::Pending => "Still pending".into(),
        State::Failed(reason) => (**reason).into(),
        State::Ready(stored) => match &**stored {
            None => "".into(),
            Some(stored) => {
                let text = beginning(stored.dtab(), MOST_TEXT.min(*room));
                *room -= text.len().min(*room);
                json!({ "version": STANDARD.encode(stored.version()), "dtab": text })
            }
        },
    }
}

/// As much of `shown` as `most` bytes hold.
fn beginning(shown: &impl fmt::Display, most: usize) -> String {
    let mut beginning = Beginning { text: String::new(), most };
    if write!(beginning, "{shown}").is_err() {
        beginning.text.push_str("… (cut)");
    }
    beginning.text
}

/// Takes no more than so many bytes.
struct Beginning {
    text: String,
    most: usize,
}

impl Write for Beginning {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let room = self.most - self.text.len();
        self.text.push_str(&part[..part.floor_char_boundary(room)]);
        if part.len() > room { Err(fmt::Error) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_and_says_so() {
        assert_eq!(beginning(&"/a=>/b", 6), "/a=>/b");
        assert_eq!(beginning(&"/ä=>/b", 2), "/… (cut)");
        assert_eq!(beginning(&"/a=>/b", 0), "… (cut)");
        assert_eq!(beginning(&"", 0), "");
    }
}
