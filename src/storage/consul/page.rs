//! The state page: every namespace that somebody watches, with what is known of it and its last request.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::DtabWatch;
use crate::store::{State, Table};

/// How many namespaces are shown.
const MOST: usize = 1_000;

/// How many bytes of a dtab are shown.
const MOST_TEXT: usize = 64 << 10;

/// As namerd shows it (`ConsulDtabStore.scala:160-230`); a last good value is shown as the value, and what is wrong with
/// its source as the error of the poll.
pub(super) fn page(watched: &Table<String, DtabWatch>) -> Value {
    let mut all: Vec<(String, Value)> = Vec::new();
    watched.visit(|namespace| {
        if all.len() < MOST {
            all.push((namespace.name.clone(), namespace.poll().journal().page(value(namespace))));
        }
    });
    all.sort_by(|(a, _), (b, _)| a.cmp(b));
    Value::Object(all.into_iter().collect::<Map<_, _>>())
}

fn value(namespace: &DtabWatch) -> Value {
    match namespace.cell.snapshot().state {
        State::Pending => "Still pending".into(),
        State::Failed(reason) => (*reason).into(),
        State::Ready(stored) => match &*stored {
            None => "".into(),
            Some(stored) => {
                let mut dtab = stored.dtab().to_string();
                if dtab.len() > MOST_TEXT {
                    dtab.truncate(dtab.floor_char_boundary(MOST_TEXT));
                    dtab.push_str("… (cut)");
                }
                json!({ "version": STANDARD.encode(stored.version()), "dtab": dtab })
            }
        },
    }
}
