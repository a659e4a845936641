//! The text of the telemeter `io.l5d.prometheus`: namerd's names, without types and help.

use std::fmt::Write;

use super::Legacy;
use super::tree::{Shown, escaped};
use crate::text::java;

impl Legacy {
    /// All metrics, `prefix` in front of each name.
    pub fn prometheus(&self, prefix: &str) -> String {
        let mut out = String::new();
        self.shared.root.read().visit("", ':', &mut |name, metric| {
            let name = escaped(&format!("{prefix}{name}"));
            write(&mut out, &name, metric.shown());
        });
        out
    }
}

fn write(out: &mut String, name: &str, shown: Shown) {
    // A String takes everything.
    let mut line = |suffix: &str, value: &str| {
        let _ = writeln!(out, "{name}{suffix} {value}");
    };
    match shown {
        Shown::Nothing => {}
        Shown::Count(count) => line("", &count.to_string()),
        Shown::Gauge(value) => line("", &java::float(value)),
        Shown::Window(window) if window.count == 0 => {}
        Shown::Window(window) => {
            line("_count", &window.count.to_string());
            line("_sum", &window.sum.to_string());
            line("_avg", &java::double(window.avg));
            let [p50, p90, p95, p99, p9990, p9999] = window.quantiles;
            let quantiles = [
                ("0", window.min),
                ("0.5", p50),
                ("0.9", p90),
                ("0.95", p95),
                ("0.99", p99),
                ("0.999", p9990),
                ("0.9999", p9999),
                ("1", window.max),
            ];
            for (quantile, value) in quantiles {
                line(&format!("{{quantile=\"{quantile}\"}}"), &value.to_string());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn scopes_are_joined_by_colons_and_all_else_becomes_underscores() {
        let legacy = Legacy::default();
        legacy.scope("foo").counter("bar/bas").inc();
        assert_eq!(legacy.prometheus(""), "foo:bar:bas 1\n");
        assert_eq!(legacy.prometheus("linkerd_"), "linkerd_foo:bar:bas 1\n");
        let legacy = Legacy::default();
        legacy.scope("namer").scope("#/io.l5d.consul").counter("client/requests").add(3);
        assert_eq!(legacy.prometheus("a-b/"), "a_b_namer:__io_l5d_consul:client:requests 3\n");
    }

    #[tokio::test]
    async fn gauges_are_spelled_as_in_java() {
        let legacy = Legacy::default();
        legacy.scope("jvm").gauge("heap/used", || 64_290_816.0);
        legacy.scope("jvm").gauge("nan", || f64::NAN);
        assert_eq!(legacy.prometheus(""), "jvm:heap:used 6.4290816E7\njvm:nan NaN\n");
    }

    #[tokio::test(start_paused = true)]
    async fn a_histogram_has_quantiles_and_an_empty_one_prints_nothing() {
        let legacy = Legacy::default();
        let histogram = legacy.scope("foo").histogram("bar");
        histogram.record(1);
        assert_eq!(legacy.prometheus(""), "");
        tokio::time::advance(Legacy::SNAPSHOT_INTERVAL).await;
        let quantiles: String = ["0", "0.5", "0.9", "0.95", "0.99", "0.999", "0.9999", "1"]
            .map(|quantile| format!("foo:bar{{quantile=\"{quantile}\"}} 1\n"))
            .concat();
        assert_eq!(legacy.prometheus(""), format!("foo:bar_count 1\nfoo:bar_sum 1\nfoo:bar_avg 1.0\n{quantiles}"));
        tokio::time::advance(Legacy::SNAPSHOT_INTERVAL).await;
        assert_eq!(legacy.prometheus(""), "");
    }
}
