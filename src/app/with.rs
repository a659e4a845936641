//! The second file (`--with`): keys that only rosterd has, so that namerd's own file stays loadable by namerd.
//!
//! It has rosterd's top-level keys, and those of storages and namers. The latter belong to the namer of the main file
//! with that prefix (without `/#`), by default its kind:
//!
//! ```yaml
//! stateDir: /var/lib/rosterd
//! storage: {inCluster: true}
//! namers:
//!   /io.l5d.consul: {fallThroughAfterMs: 500, maxPolls: 100}
//! ```

use crate::config::tree::{Entry, Node, Value};
use crate::config::{Fields, FromNode, OwnKeys, Report};
use crate::name::Path;
use crate::{namer, storage};

/// Puts the keys of the second file into the tree of the first. A key that both give is a problem.
pub(super) fn merge(main: &mut Node, own: &Node, report: &Report) {
    let Value::Map(main) = &mut main.value else { return };
    Fields::read(own, "the second file, which takes keys that only rosterd has", report, |fields| {
        copy(fields, OwnKeys::KEYS, main, report);
        copy(fields, &["interpreter"], main, report);
        if let Some(own) = fields.node("storage") {
            let storage = main.iter_mut().find(|entry| entry.key == "storage").map(|entry| &mut entry.value);
            merge_block(own, "storage in the second file", storage::OWN_KEYS, storage, report);
        }
        if let Some(own) = fields.node("namers") {
            merge_namers(own, main, report);
        }
        Some(())
    });
}

fn copy(fields: &mut Fields<'_>, keys: &[&'static str], target: &mut Vec<Entry>, report: &Report) {
    for entry in keys.iter().filter_map(|key| fields.entry(key)) {
        match target.iter().find(|first| first.key == entry.key) {
            None => target.push(entry.clone()),
            Some(first) => {
                let place = report.place(first.key_span);
                report.problem(entry.key_span, format!("'{}' is set here and at {place}: keep one", entry.key));
            }
        }
    }
}

fn merge_block(own: &Node, what: &str, keys: &[&'static str], target: Option<&mut Node>, report: &Report) {
    Fields::read(own, what, report, |fields| {
        let mut nowhere = Vec::new();
        let target = match target.map(|node| &mut node.value) {
            Some(Value::Map(entries)) => entries,
            // That the main file has no such mapping is reported when the main file is read.
            _ => &mut nowhere,
        };
        copy(fields, keys, target, report);
        Some(())
    });
}

fn merge_namers(own: &Node, main: &mut [Entry], report: &Report) {
    let Value::Map(blocks) = &own.value else {
        let message = format!("namers in the second file must be a mapping of prefixes, found {}", own.describe());
        return report.problem(own.span, message);
    };
    let mut namers: Vec<(Path, &mut Node)> = main
        .iter_mut()
        .filter(|entry| entry.key == "namers")
        .filter_map(|entry| match &mut entry.value.value {
            Value::List(items) => Some(items),
            Value::Scalar(_) | Value::Map(_) => None,
        })
        .flatten()
        .filter_map(|node| Some((prefix(node)?, node)))
        .collect();
    for block in blocks {
        let key = Node { span: block.key_span, ..Node::text(&block.key) };
        let Some(wanted) = Path::from_node(&key, report) else { continue };
        match namers.iter_mut().find(|(prefix, _)| *prefix == wanted) {
            Some((_, node)) => {
                let what = format!("the namer {wanted} in the second file");
                merge_block(&block.value, &what, namer::OWN_KEYS, Some(node), report);
            }
            None => {
                let known: Vec<String> = namers.iter().map(|(prefix, _)| prefix.to_string()).collect();
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                let message = format!("no namer of the main file has the prefix {wanted} (prefixes: {known})");
                report.problem(block.key_span, message);
            }
        }
    }
}

/// The prefix of a namer's block, if it can be told; what is wrong with the block is reported when it is read.
fn prefix(block: &Node) -> Option<Path> {
    let text = |key| match &block.get(key)?.value {
        node if node.is_null() => None,
        Node { value: Value::Scalar(scalar), .. } => Some(scalar.text.as_str()),
        _ => None,
    };
    match text("prefix") {
        Some(prefix) => Path::parse(prefix).ok(),
        None => text("kind").map(namer::own_prefix),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::Config;

    const MAIN: &str = "storage: {kind: io.l5d.inMemory}
interfaces: [{kind: io.l5d.httpController}]
maxPollAgeMs: 1000
namers:
- {kind: io.l5d.fs, rootDir: src}
- {kind: io.l5d.fs, rootDir: src, prefix: /x/y, fallThroughAfterMs: 1}
";

    fn load(own: &str) -> Result<Config, String> {
        Config::load("main.yaml", MAIN, Some(("own.yaml", own)))
            .map(|(config, _)| config)
            .map_err(|problems| problems.to_string())
    }

    fn refused(own: &str, line: &str) {
        let problems = load(own).expect_err("must be refused");
        let heads: Vec<&str> = problems.lines().filter(|line| !line.starts_with(' ')).collect();
        assert_eq!(heads, [line]);
    }

    #[test]
    fn keys_of_both_files_take_effect() {
        let config = load("drain: {lameDuckMs: 5}\nnamers:\n  /io.l5d.fs: {fallThroughAfterMs: 700}\n").expect("valid");
        assert_eq!(config.own.max_poll_age, Duration::from_secs(1));
        assert_eq!(config.own.drain.lame_duck, Duration::from_millis(5));
        let times: Vec<u128> = config.namers.iter().map(|namer| namer.fall_through_after.as_millis()).collect();
        assert_eq!(times, [700, 1]);
    }

    #[test]
    fn an_empty_second_file_changes_nothing() {
        assert!(load("").is_ok());
    }

    #[test]
    fn a_key_in_both_files_is_refused_with_both_places() {
        refused("maxPollAgeMs: 5", "own.yaml:1:1: 'maxPollAgeMs' is set here and at main.yaml:3:1: keep one");
        refused(
            "namers: {/x/y: {fallThroughAfterMs: 3}}",
            "own.yaml:1:17: 'fallThroughAfterMs' is set here and at main.yaml:6:49: keep one",
        );
    }

    #[test]
    fn mistakes_in_the_second_file_are_placed_there() {
        refused(
            "maxPollAge: 5",
            "own.yaml:1:1: Unrecognized field \"maxPollAge\" in the second file, which takes keys \
             that only rosterd has; did you mean \"maxPollAgeMs\"? (known here: stateDir, drain, maxPollAgeMs, limits, \
             ledger, ipFamilies, fixes, interpreter, storage, namers)",
        );
        refused("drain: {spreadMs: x}", "own.yaml:1:19: 'x' is not a whole number");
        refused(
            "namers: {/x: {fallThroughAfterMs: 3}}",
            "own.yaml:1:10: no namer of the main file has the prefix /x (prefixes: /io.l5d.fs, /x/y)",
        );
        refused("namers: {x: {}}", "own.yaml:1:10: '/' expected but 'x' found at '[x]'");
        refused("namers: []", "own.yaml:1:9: namers in the second file must be a mapping of prefixes, found a list");
    }

    #[test]
    fn keys_that_namerd_has_stay_in_the_main_file() {
        let problems = load("admin: {port: 1}\nnamers: {/io.l5d.fs: {rootDir: /}}\n").expect_err("must be refused");
        assert!(problems.contains("own.yaml:1:1: Unrecognized field \"admin\" in the second file"), "{problems}");
        let line = "own.yaml:2:23: Unrecognized field \"rootDir\" in the namer /io.l5d.fs in the second file";
        assert!(problems.contains(line), "{problems}");
    }
}
