//! `/admin/metrics.json`.

use std::fmt::Write;

use super::Legacy;
use super::tree::{Metric, Node, Shown};
use crate::text::java;

/// What a request asks for.
#[derive(Clone, Copy, Debug, Default)]
pub struct JsonQuery<'a> {
    /// `tree`: scopes within each other rather than joined by `/`.
    pub tree: bool,
    /// `pretty`: sorted by name, one a line. A tree never is, as in namerd.
    pub pretty: bool,
    /// `q`: only what is below these scopes.
    pub subtree: Option<&'a str>,
}

/// `q` names no scope.
#[derive(Clone, Debug, thiserror::Error)]
#[error("No such subtree: {0}")]
pub struct NoSuchSubtree(String);

impl Legacy {
    /// The tree as JSON, in namerd's shape.
    ///
    /// # Errors
    /// [`NoSuchSubtree`]
    pub fn json(&self, query: JsonQuery<'_>) -> Result<String, NoSuchSubtree> {
        let root = self.shared.root.read();
        let node = match query.subtree {
            None => &*root,
            Some(subtree) => {
                root.find(java::split(subtree, '/').into_iter()).ok_or_else(|| NoSuchSubtree(subtree.to_owned()))?
            }
        };
        Ok(if query.tree {
            let mut out = String::new();
            write_tree(&mut out, node);
            out
        } else {
            flat(node, query.pretty)
        })
    }
}

fn flat(node: &Node, pretty: bool) -> String {
    let mut groups: Vec<(String, Vec<(String, String)>)> = Vec::new();
    node.visit("", '/', &mut |name, metric| groups.push((name.to_owned(), fields(name, metric))));
    if pretty {
        groups.sort_by(|a, b| a.0.cmp(&b.0));
    }
    let fields: Vec<(String, String)> = groups.into_iter().flat_map(|(_, fields)| fields).collect();
    let mut out = String::from("{");
    for (at, (key, value)) in fields.iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        let (indent, colon) = if pretty { ("\n  ", " : ") } else { ("", ":") };
        write(&mut out, format_args!("{comma}{indent}{}{colon}{value}", quoted(key)));
    }
    out.push_str(match (pretty, fields.is_empty()) {
        (false, _) => "}",
        (true, false) => "\n}",
        (true, true) => " }",
    });
    out
}

fn write_tree(out: &mut String, node: &Node) {
    let kind = match node.metric {
        Metric::Counter(_) => "counter",
        Metric::Level(_) | Metric::Gauge(_) => "gauge",
        Metric::Histogram(_) | Metric::None => "stat",
    };
    out.push('{');
    let mut comma = "";
    for (key, value) in fields(kind, &node.metric) {
        write(out, format_args!("{comma}{}:{value}", quoted(&key)));
        comma = ",";
    }
    for (scope, child) in &node.children {
        write(out, format_args!("{comma}{}:", quoted(scope)));
        write_tree(out, child);
        comma = ",";
    }
    out.push('}');
}

fn fields(name: &str, metric: &Metric) -> Vec<(String, String)> {
    match metric.shown() {
        Shown::Nothing => Vec::new(),
        Shown::Count(count) => vec![(name.to_owned(), count.to_string())],
        Shown::Gauge(value) if value.is_finite() => vec![(name.to_owned(), java::float(value))],
        Shown::Gauge(value) => vec![(name.to_owned(), quoted(&java::float(value)))],
        Shown::Window(window) => {
            let mut fields = vec![(format!("{name}.count"), window.count.to_string())];
            if window.count > 0 {
                let [p50, p90, p95, p99, p9990, p9999] = window.quantiles;
                let numbers = [
                    ("max", window.max),
                    ("min", window.min),
                    ("p50", p50),
                    ("p90", p90),
                    ("p95", p95),
                    ("p99", p99),
                    ("p9990", p9990),
                    ("p9999", p9999),
                    ("sum", window.sum),
                ];
                fields.extend(numbers.map(|(key, value)| (format!("{name}.{key}"), value.to_string())));
                fields.push((format!("{name}.avg"), java::double(window.avg)));
            }
            fields
        }
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn write(out: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(text); // a String takes everything
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flat(legacy: &Legacy) -> String {
        legacy.json(JsonQuery::default()).expect("the root")
    }

    fn below(legacy: &Legacy, subtree: &str, tree: bool) -> String {
        let query = JsonQuery { tree, pretty: false, subtree: Some(subtree) };
        legacy.json(query).unwrap_or_else(|error| error.to_string())
    }

    #[tokio::test]
    async fn counters_are_whole_numbers_and_gauges_are_not() {
        let legacy = Legacy::default();
        legacy.scope("foo").counter("bar/bas").inc();
        assert_eq!(flat(&legacy), r#"{"foo/bar/bas":1}"#);
        let legacy = Legacy::default();
        legacy.scope("foo").gauge("bar/bas", || 1.0);
        assert_eq!(flat(&legacy), r#"{"foo/bar/bas":1.0}"#);
        legacy.scope("foo").gauge("bar/bas", || f64::NAN);
        assert_eq!(flat(&legacy), r#"{"foo/bar/bas":"NaN"}"#);
    }

    #[tokio::test]
    async fn a_tree_nests_scopes_and_names_kinds() {
        let legacy = Legacy::default();
        legacy.scope("foo").counter("bar/bas").inc();
        let tree = legacy.json(JsonQuery { tree: true, pretty: true, subtree: None }).expect("the root");
        assert_eq!(tree, r#"{"foo":{"bar":{"bas":{"counter":1}}}}"#);
        legacy.scope("foo").counter("bar/bas/x").inc();
        assert_eq!(below(&legacy, "foo/bar", true), r#"{"bas":{"counter":1,"x":{"counter":1}}}"#);
    }

    #[tokio::test]
    async fn q_selects_what_is_below_a_scope() {
        let legacy = Legacy::default();
        legacy.scope("foo").counter("bar/bas").inc();
        legacy.scope("foo").counter("bar/bass").inc();
        legacy.scope("foo").counter("foo").add(276);
        legacy.scope("namer").scope("#/io.l5d.fs").counter("x").inc();
        assert_eq!(below(&legacy, "foo/bar", false), r#"{"bas":1,"bass":1}"#);
        assert_eq!(below(&legacy, "foo/bar/", false), r#"{"bas":1,"bass":1}"#);
        assert_eq!(below(&legacy, "foo/bar", true), r#"{"bas":{"counter":1},"bass":{"counter":1}}"#);
        assert_eq!(below(&legacy, "foo/foo", false), r#"{"":276}"#);
        for unknown in ["nope", "", "foo/nope", "namer/#/io.l5d.fs"] {
            assert_eq!(below(&legacy, unknown, false), format!("No such subtree: {unknown}"));
        }
    }

    #[tokio::test]
    async fn pretty_is_sorted_by_the_whole_name() {
        let legacy = Legacy::default();
        assert_eq!(legacy.json(JsonQuery { pretty: true, ..JsonQuery::default() }).expect("the root"), "{ }");
        legacy.scope("a").counter("b").inc();
        legacy.scope("a.x").counter("b").inc();
        let pretty = legacy.json(JsonQuery { pretty: true, ..JsonQuery::default() }).expect("the root");
        assert_eq!(pretty, "{\n  \"a.x/b\" : 1,\n  \"a/b\" : 1\n}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_histogram_appears_with_its_first_snapshot() {
        let legacy = Legacy::default();
        let latency = legacy.scope("s").histogram("latency");
        latency.record(2);
        latency.record(3);
        assert_eq!(flat(&legacy), "{}");
        assert_eq!(below(&legacy, "s", true), r#"{"latency":{}}"#);
        tokio::time::advance(Legacy::SNAPSHOT_INTERVAL).await;
        let shown = [
            r#""s/latency.count":2,"s/latency.max":3,"s/latency.min":2,"s/latency.p50":2,"s/latency.p90":3"#,
            r#""s/latency.p95":3,"s/latency.p99":3,"s/latency.p9990":3,"s/latency.p9999":3,"s/latency.sum":5"#,
            r#""s/latency.avg":2.5"#,
        ];
        assert_eq!(flat(&legacy), format!("{{{}}}", shown.join(",")));
        assert!(below(&legacy, "s", true).starts_with(r#"{"latency":{"stat.count":2,"stat.max":3,"#));
        tokio::time::advance(Legacy::SNAPSHOT_INTERVAL).await;
        assert_eq!(flat(&legacy), r#"{"s/latency.count":0}"#);
    }
}
