//! Whole delegation tables, as people write them.

use std::collections::BTreeMap;
use std::path::Path as File;

use rosterd::name::{Dtab, IndexedDtab, Layers, Path};
use serde::Deserialize;

/// A table of our own and what it must come to.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    id: String,
    dtab: String,
    shows: Option<String>,
    refused: Option<String>,
    #[serde(default)]
    leads: BTreeMap<String, String>,
}

impl Table {
    fn check(&self) -> Result<(), String> {
        match (Dtab::parse(&self.dtab), &self.shows, &self.refused) {
            (Ok(dtab), Some(shows), None) => {
                same("shows", &dtab.to_string(), shows)?;
                let again = Dtab::parse(shows).map_err(|error| error.to_string())?;
                same("reads back and shows", &again.to_string(), shows)?;
                let (dtab, empty) = (IndexedDtab::new(dtab), IndexedDtab::empty());
                let layers = Layers { namespace: &dtab, local: &empty };
                self.leads.iter().try_for_each(|(path, tree)| {
                    let path = Path::parse(path).map_err(|error| error.to_string())?;
                    same(&path.to_string(), &layers.lookup(&path).to_string(), tree)
                })
            }
            (Err(error), None, Some(refused)) => same("is refused with", &error.to_string(), refused),
            (result, ..) => Err(format!("came to {result:?}")),
        }
    }
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, got: &T, expected: &T) -> Result<(), String> {
    if got == expected { Ok(()) } else { Err(format!("{what}\n    {got:?} instead of\n    {expected:?}")) }
}

#[test]
fn tables_as_people_write_them_come_to_what_they_mean() {
    let tables: Vec<Table> =
        serde_yaml::from_str(include_str!("../data/tables.yaml")).expect("the file is well-formed");
    assert!(tables.len() >= 30, "{} tables", tables.len());
    let wrong: Vec<String> =
        tables.iter().filter_map(|table| table.check().err().map(|error| format!("{}: {error}", table.id))).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A table found in public; these stay outside the project.
#[derive(Deserialize)]
struct Found {
    id: String,
    features: Vec<String>,
    parses: bool,
    dtab: String,
}

#[derive(Deserialize)]
struct FoundTables {
    dtabs: Vec<Found>,
}

#[test]
fn tables_found_in_public_use_are_read_or_refused_with_the_place() {
    let file = File::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data/real-dtabs.yaml");
    let Ok(text) = std::fs::read_to_string(&file) else {
        println!("not run: the collection of public tables is not here");
        return;
    };
    let tables: FoundTables = serde_yaml::from_str(&text).expect("the file is well-formed");
    let (mut read, mut refused, mut wrong) = (0, 0, Vec::new());
    for table in tables.dtabs {
        // Other readers answer for these: dtabs inside JSON documents.
        if table.parses && table.features.iter().any(|feature| feature == "json" || feature == "crd") {
            continue;
        }
        match (Dtab::parse(&table.dtab), table.parses) {
            (Ok(dtab), true) if Dtab::parse(&dtab.to_string()).as_ref() == Ok(&dtab) => read += 1,
            (Err(error), false) if has_cursor(&error.to_string(), &table.dtab) => refused += 1,
            (result, _) => wrong.push(format!("{}: {result:?}", table.id)),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!((read, refused), (120, 4));
}

/// Whether a refusal echoes the text with one character of it in brackets.
fn has_cursor(message: &str, text: &str) -> bool {
    let Some((_, echo)) = message.split_once(" found at '") else { return false };
    let echo = echo.strip_suffix('\'').unwrap_or(echo);
    echo.char_indices().filter(|(_, c)| *c == '[').any(|(at, _)| {
        let mut after = echo[at + 1..].chars();
        let marked: String = after.next().into_iter().collect();
        after.as_str().strip_prefix(']').is_some_and(|rest| format!("{}{marked}{rest}", &echo[..at]) == text)
    })
}
