//! Documents for users.

use std::path::{Path, PathBuf};

fn documents() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let pages = std::fs::read_dir(root.join("docs")).expect("there are pages");
    let pages = pages.map(|page| page.expect("a page").path());
    pages.chain(["README.md", "ARCHITECTURE.md", "CHANGELOG.md"].map(|name| root.join(name))).collect()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Targets of `[text](target)`, outside of code.
fn links(text: &str) -> Vec<&str> {
    let outside_of_code = text.split("```").step_by(2);
    outside_of_code
        .flat_map(|text| text.split("](").skip(1))
        .filter_map(|rest| rest.split_once(')').map(|(target, _)| target))
        .collect()
}

/// The anchor that a heading gets.
fn anchor(heading: &str) -> String {
    let kept = heading.trim_matches(['#', ' ']).to_lowercase();
    kept.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn every_link_in_the_documents_leads_somewhere() {
    let mut checked = 0;
    for document in documents() {
        let text = read(&document);
        for link in links(&text).into_iter().filter(|link| !link.contains("://")) {
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { document.clone() } else { document.with_file_name(file) };
            let linked = read(&target);
            let found = heading.is_empty() || linked.lines().any(|l| l.starts_with('#') && anchor(l) == heading);
            assert!(found, "{}: no heading for {link}", document.display());
            checked += 1;
        }
    }
    assert!(checked > 10, "the documents link to each other");
}

#[test]
fn a_heading_becomes_an_anchor() {
    assert_eq!(anchor("## rosterd's own keys"), "rosterds-own-keys");
    assert_eq!(links("[a](b.md#c) ```[x](y)``` [d](http://e)"), ["b.md#c", "http://e"]);
}
