//! The text of the telemeter `io.l5d.influxdb`: InfluxDB lines, one a scope.

use std::fmt::Write;

use super::Legacy;
use super::tree::{Node, Shown, escaped};
use crate::text::java;

impl Legacy {
    /// All metrics. `host` is the `Host` of the request, which is how namerd tells its instances apart.
    pub fn influx(&self, host: Option<&str>) -> String {
        let mut out = String::new();
        write(&mut out, &self.shared.root.read(), "", &tag(host.unwrap_or("none")));
        out
    }
}

/// A text that cannot end the tag it stands in. namerd takes anything.
fn tag(host: &str) -> String {
    host.chars().map(|c| if c.is_ascii_alphanumeric() || ".:-_[]".contains(c) { c } else { '_' }).collect()
}

/// Writes what is below `node`, deepest scopes first, and then its own children as the fields of one line.
fn write(out: &mut String, node: &Node, scope: &str, host: &str) {
    let mut fields = Vec::new();
    for (name, child) in &node.children {
        let below = if scope.is_empty() { name.clone() } else { format!("{scope}:{name}") };
        write(out, child, &below, host);
        match child.metric.shown() {
            Shown::Nothing => {}
            Shown::Count(count) => fields.push((name.clone(), count.to_string())),
            Shown::Gauge(value) => fields.push((name.clone(), java::float(value))),
            Shown::Window(window) => {
                let [p50, p90, p95, p99, p9990, p9999] = window.quantiles;
                let numbers = [
                    ("count", window.count),
                    ("sum", window.sum),
                    ("min", window.min),
                    ("max", window.max),
                    ("p50", p50),
                    ("p90", p90),
                    ("p95", p95),
                    ("p99", p99),
                    ("p999", p9990),
                    ("p9999", p9999),
                ];
                fields.extend(numbers.map(|(key, value)| (format!("{name}_{key}"), value.to_string())));
                fields.push((format!("{name}_avg"), java::double(window.avg)));
            }
        }
    }
    if !fields.is_empty() {
        fields.sort();
        let fields: Vec<String> = fields.into_iter().map(|(key, value)| format!("{key}={value}")).collect();
        let _ = writeln!(out, "{},host={host} {}", escaped(scope), fields.join(",")); // a String takes everything
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_line_has_the_metrics_of_one_scope_and_deeper_scopes_come_first() {
        let legacy = Legacy::default();
        legacy.scope("jvm").gauge("thread/daemon_count", || 30.0);
        legacy.scope("jvm").gauge("thread/count", || 31.0);
        legacy.scope("jvm").gauge("uptime", || 1.0);
        let lines =
            "jvm:thread,host=127.0.0.1:39991 count=31.0,daemon_count=30.0\njvm,host=127.0.0.1:39991 uptime=1.0\n";
        assert_eq!(legacy.influx(Some("127.0.0.1:39991")), lines);
    }

    #[tokio::test]
    async fn scopes_are_escaped_fields_are_not_and_a_host_cannot_break_out() {
        let legacy = Legacy::default();
        legacy.scope("namer").scope("#/io.l5d.fs").counter("a.b").inc();
        assert_eq!(legacy.influx(None), "namer:__io_l5d_fs,host=none a.b=1\n");
        assert_eq!(legacy.influx(Some("x y,z=1")), "namer:__io_l5d_fs,host=x_y_z_1 a.b=1\n");
    }

    #[tokio::test(start_paused = true)]
    async fn a_histogram_is_shown_once_it_was_snapshotted_even_if_it_is_empty() {
        let legacy = Legacy::default();
        legacy.scope("gc").histogram("pause");
        assert_eq!(legacy.influx(None), "");
        tokio::time::advance(Legacy::SNAPSHOT_INTERVAL).await;
        let zeros =
            "pause_max=0,pause_min=0,pause_p50=0,pause_p90=0,pause_p95=0,pause_p99=0,pause_p999=0,pause_p9999=0";
        let line = format!("gc,host=none pause_avg=0.0,pause_count=0,{zeros},pause_sum=0\n");
        assert_eq!(legacy.influx(None), line);
    }
}
