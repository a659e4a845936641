//! The configuration as `/config.json` shows it: what was set, without secrets.

use serde_json::{Map, Value as Json};

use crate::config::is_secret_key;
use crate::config::tree::{Node, Scalar, Value};
use crate::name::Dtab;

/// What stands for a secret.
const MASK: &str = "***";

/// The tree of a configuration as JSON. As in namerd `kind` comes last in each block, keys without a value are left
/// out, dtabs are in their canonical form and 127.0.0.1 has its name.
pub(super) fn show(node: &Node) -> Json {
    match &node.value {
        Value::Scalar(scalar) => show_scalar(scalar),
        Value::List(items) => items.iter().map(show).collect(),
        Value::Map(entries) => {
            let mut shown = Map::new();
            let (kind, others): (Vec<_>, Vec<_>) = entries.iter().partition(|entry| entry.key == "kind");
            for entry in others.into_iter().chain(kind).filter(|entry| !entry.value.is_null()) {
                let value = match &*entry.key {
                    key if is_secret_key(key) => MASK.into(),
                    "namespaces" => show_dtabs(&entry.value),
                    "ip" => match show(&entry.value) {
                        ip if ip == "127.0.0.1" => "localhost".into(),
                        ip => ip,
                    },
                    _ => show(&entry.value),
                };
                shown.insert(entry.key.clone(), value);
            }
            shown.into()
        }
    }
}

fn show_dtabs(namespaces: &Node) -> Json {
    let Value::Map(entries) = &namespaces.value else { return show(namespaces) };
    let dtabs = entries.iter().map(|entry| {
        let dtab = match &entry.value.value {
            Value::Scalar(scalar) => {
                Dtab::parse(&scalar.text).map_or_else(|_| scalar.text.clone().into(), |dtab| dtab.to_string().into())
            }
            Value::List(_) | Value::Map(_) => show(&entry.value),
        };
        (entry.key.clone(), dtab)
    });
    dtabs.collect::<Map<_, _>>().into()
}

/// A plain scalar that reads as a number, a boolean or nothing is one.
fn show_scalar(scalar: &Scalar) -> Json {
    let Scalar { text, quoted } = scalar;
    match text.as_str() {
        _ if *quoted => text.as_str().into(),
        "true" | "True" | "TRUE" => true.into(),
        "false" | "False" | "FALSE" => false.into(),
        "" | "~" | "null" | "Null" | "NULL" => Json::Null,
        // Only where the number reads the same: a text such as `1.10` or `0x10` must not change.
        _ => match serde_json::from_str::<serde_json::Number>(text) {
            Ok(number) if number.to_string() == *text => number.into(),
            Ok(_) | Err(_) => text.as_str().into(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;

    fn shown(text: &str) -> String {
        Config::load("namerd.yaml", text, None).expect("valid").0.shown.to_string()
    }

    #[test]
    fn what_was_set_is_shown_in_namerds_form() {
        let text = "admin: {ip: 127.0.0.1, port: 9991}
storage: {kind: io.l5d.inMemory, namespaces: {default: '/svc => /#/io.l5d.fs ;'}}
namers:
interfaces: [{kind: io.l5d.httpController, ip: 0.0.0.0}]
telemetry: [{kind: io.l5d.prometheus, prefix: '1'}]
";
        let json = r#"{"admin":{"ip":"localhost","port":9991},"#.to_owned()
            + r#""storage":{"namespaces":{"default":"/svc=>/#/io.l5d.fs"},"kind":"io.l5d.inMemory"},"#
            + r#""interfaces":[{"ip":"0.0.0.0","kind":"io.l5d.httpController"}],"#
            + r#""telemetry":[{"prefix":"1","kind":"io.l5d.prometheus"}]}"#;
        assert_eq!(shown(text), json);
    }

    #[test]
    fn keys_of_the_second_file_are_shown_too() {
        let text = "storage: {kind: io.l5d.inMemory}\ninterfaces: [{kind: io.l5d.httpController}]\n";
        let (config, _) = Config::load("namerd.yaml", text, Some(("own.yaml", "maxPollAgeMs: 5000"))).expect("valid");
        assert_eq!(config.shown["maxPollAgeMs"], 5000);
    }

    #[test]
    fn secrets_are_masked_whatever_they_are() {
        let mut report = crate::config::Report::default();
        let text = "a: {token: s3cr3t, host: h}\nauth: [s3cr3t]\npassword: 1234\n";
        let file = report.add_source("f", text);
        let node = crate::config::tree::parse(text, file, &report).expect("valid");
        let shown = super::show(&node).to_string();
        assert_eq!(shown, r#"{"a":{"token":"***","host":"h"},"auth":"***","password":"***"}"#);
    }

    #[test]
    fn numbers_are_numbers_only_where_they_read_the_same() {
        let mut report = crate::config::Report::default();
        let text = "[1, 1.10, 0x10, 2.5, -3, true, '7', 1_000, yes]";
        let file = report.add_source("f", text);
        let node = crate::config::tree::parse(text, file, &report).expect("valid");
        assert_eq!(super::show(&node).to_string(), r#"[1,"1.10","0x10",2.5,-3,true,"7","1_000","yes"]"#);
    }
}
