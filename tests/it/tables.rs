//! Whole delegation tables, as people write them.

use std::collections::BTreeMap;

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
