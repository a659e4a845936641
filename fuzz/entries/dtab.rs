//! Any text as a dtab: it is read or refused, what is read shows as a text that reads back, and lookups do not depend
//! on the index.

use rosterd::name::{Dtab, Elem, IndexedDtab, Layers, NameTree, Path, Prefix};

pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let dtab = match Dtab::parse(text) {
        Ok(dtab) => dtab,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            assert!(error.position() <= text.chars().count(), "{error}");
            return;
        }
    };
    let shown = dtab.to_string();
    // A weight of more digits than a double has room for is infinite, and no text says that.
    if shown.contains("Infinity*") {
        return;
    }
    let again = Dtab::parse(&shown).unwrap_or_else(|error| panic!("{shown} does not read back: {error}"));
    let settled = again.to_string();
    // A weight close to 1 shows as `1.00*`, reads back as 1 and is then not shown at all.
    assert!(settled == shown || shown.contains("1.00*"), "{shown} reads back as {settled}");
    assert_eq!(Dtab::parse(&settled), Ok(again));

    let simplified = dtab.simplified();
    assert_eq!(simplified.simplified(), simplified);

    let (namespace, local) = (IndexedDtab::new(dtab.clone()), IndexedDtab::new(simplified));
    let layers = Layers { namespace: &namespace, local: &local };
    let both = dtab.concat(local.dtab());
    for entry in dtab.entries().iter().take(8) {
        let path = inside(&entry.prefix);
        let found = layers.lookup(&path);
        assert_eq!(found, both.lookup(&path), "{path}");
        assert_ne!(found, NameTree::Alt(Vec::new()));
    }
}

/// A path below a prefix.
fn inside(prefix: &Prefix) -> Path {
    let elems = prefix.elems().map(|elem| match elem {
        Elem::Label(label) => label,
        Elem::Any => b"any",
    });
    Path::from_elems(elems.chain([&b"below"[..]])).expect("labels are not empty")
}
