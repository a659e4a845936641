//! `telemetry:` of the configuration: the kinds there are, and their keys.

use crate::config::tree::Node;
use crate::config::{Fields, Kind, Port, Report};

/// All kinds of telemeters.
pub const KINDS: &[Kind<TelemeterConfig>] = &[
    Kind::built("io.l5d.prometheus", |fields| Some(TelemeterConfig::Prometheus(PrometheusConfig::read(fields)?))),
    Kind::built("io.l5d.influxdb", |_| Some(TelemeterConfig::Influx)),
    Kind::not_yet("io.l5d.statsd").experimental(),
    Kind::built("io.l5d.recentRequests", recent_requests),
    Kind::built("io.l5d.tracelog", tracelog),
    Kind::built("io.l5d.zipkin", zipkin),
    Kind::refused("io.l5d.commonMetrics", "its metrics are always at /admin/metrics.json: leave it out"),
    Kind::refused("io.l5d.usage", "only Linkerd has it"),
];

/// One element of `telemetry:`.
#[derive(Debug)]
pub struct TelemeterBlock {
    /// The kind.
    pub kind: &'static str,
    /// The keys of the kind.
    pub config: TelemeterConfig,
}

/// What a telemeter does. namerd's kinds are all there will be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TelemeterConfig {
    /// Metrics as Prometheus text on the admin port.
    Prometheus(PrometheusConfig),
    /// Metrics as InfluxDB lines at `/admin/metrics/influxdb`. It has no keys.
    Influx,
    /// Nothing: it receives traces, and there are none, as in namerd.
    Tracer,
}

/// Keys of `io.l5d.prometheus`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrometheusConfig {
    /// `path` on the admin server.
    pub path: String,
    /// `prefix` of every metric name.
    pub prefix: String,
}

impl TelemeterBlock {
    /// Reads one element. None only if a problem was reported.
    #[must_use]
    pub fn read(node: &Node, report: &Report) -> Option<Self> {
        Fields::read(node, "the telemeter", report, |fields| {
            let kind = Kind::choose(fields, "telemeter", KINDS)?;
            kind.check_experimental(fields, "telemeter")?;
            let config = kind.reader(fields)?(fields)?;
            if config == TelemeterConfig::Tracer {
                let message = format!("{} has no effect: there is no tracing, as in namerd", kind.name);
                report.warn(fields.span_of("kind"), message);
            }
            Some(Self { kind: kind.name, config })
        })
    }
}

impl PrometheusConfig {
    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let path = fields.or("path", "/admin/metrics/prometheus".to_owned());
        let prefix = fields.or("prefix", String::new());
        if !path.starts_with('/') {
            fields.report().problem(fields.span_of("path"), format!("the path '{path}' must start with '/'"));
            return None;
        }
        Some(Self { path, prefix })
    }
}

fn recent_requests(fields: &mut Fields<'_>) -> Option<TelemeterConfig> {
    let _: Option<u32> = fields.opt("capacity");
    let wanted = "sampleRate must be between 0.0 and 1.0";
    let rate: f64 = fields.req_or("sampleRate", wanted)?;
    if !(0.0..=1.0).contains(&rate) {
        fields.report().problem(fields.span_of("sampleRate"), wanted);
        return None;
    }
    Some(TelemeterConfig::Tracer)
}

fn tracelog(fields: &mut Fields<'_>) -> Option<TelemeterConfig> {
    let _: Option<f64> = fields.opt("sampleRate");
    let _: Option<()> = fields.parsed("level", |level| {
        const LEVELS: [&str; 9] = ["OFF", "FATAL", "CRITICAL", "ERROR", "WARNING", "INFO", "DEBUG", "TRACE", "ALL"];
        let known = LEVELS.iter().any(|name| name.eq_ignore_ascii_case(level));
        known.then_some(()).ok_or_else(|| format!("Illegal log level: {level} (known: {})", LEVELS.join(", ")))
    });
    Some(TelemeterConfig::Tracer)
}

fn zipkin(fields: &mut Fields<'_>) -> Option<TelemeterConfig> {
    let _: (Option<String>, Option<Port>, Option<f64>) =
        (fields.opt("host"), fields.opt("port"), fields.opt("sampleRate"));
    Some(TelemeterConfig::Tracer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Problems, Warning, read_text};

    fn read(telemeter: &str) -> Result<(TelemeterConfig, Vec<Warning>), Problems> {
        read_text("f", &format!("t: {telemeter}"), "the test", |fields| {
            let node = fields.node("t")?;
            TelemeterBlock::read(node, fields.report()).map(|block| block.config)
        })
    }

    fn refused(telemeter: &str, fragment: &str) {
        let problems = read(telemeter).expect_err("must be refused");
        assert_eq!(problems.list().len(), 1, "{problems}");
        assert!(problems.list()[0].message.contains(fragment), "{problems}");
    }

    #[test]
    fn prometheus_has_a_path_and_a_prefix() {
        let config = |path: &str, prefix: &str| {
            TelemeterConfig::Prometheus(PrometheusConfig { path: path.to_owned(), prefix: prefix.to_owned() })
        };
        let read = |text: &str| read(text).expect("valid").0;
        assert_eq!(read("{kind: io.l5d.prometheus}"), config("/admin/metrics/prometheus", ""));
        assert_eq!(read("{kind: io.l5d.prometheus, path: /m, prefix: l5d_}"), config("/m", "l5d_"));
        refused("{kind: io.l5d.prometheus, path: m}", "must start with '/'");
    }

    #[test]
    fn influxdb_has_no_keys() {
        assert_eq!(read("{kind: io.l5d.influxdb}").expect("valid").0, TelemeterConfig::Influx);
        refused("{kind: io.l5d.influxdb, path: /m}", "Unrecognized field \"path\"");
    }

    #[test]
    fn tracers_load_with_one_warning() {
        for telemeter in [
            "{kind: io.l5d.recentRequests, sampleRate: 1, capacity: 10}",
            "{kind: io.l5d.tracelog, sampleRate: 0.5, level: debug, experimental: true}",
            "{kind: io.l5d.zipkin, host: zipkin, port: 9410, sampleRate: 0.001}",
        ] {
            let (config, warnings) = read(telemeter).expect("valid");
            assert_eq!(config, TelemeterConfig::Tracer);
            assert_eq!(warnings.len(), 1);
            assert!(warnings[0].0.contains("has no effect"), "{warnings:?}");
        }
    }

    #[test]
    fn keys_of_tracers_are_checked_all_the_same() {
        refused("{kind: io.l5d.recentRequests}", "sampleRate must be between 0.0 and 1.0");
        refused("{kind: io.l5d.recentRequests, sampleRate: 1.1}", "sampleRate must be between 0.0 and 1.0");
        refused("{kind: io.l5d.tracelog, level: loud}", "Illegal log level: loud");
        refused("{kind: io.l5d.zipkin, port: 70000}", "70000 outside valid range for ports");
        refused("{kind: io.l5d.zipkin, prot: 1}", "Unrecognized field \"prot\"");
    }

    #[test]
    fn statsd_must_be_enabled_as_experimental() {
        refused("{kind: io.l5d.statsd, port: x}", "telemeter is experimental");
        refused("{kind: io.l5d.statsd, experimental: true}", "io.l5d.statsd: not built yet");
    }

    #[test]
    fn telemeters_that_namerd_does_not_have_are_refused_with_a_reason() {
        refused(
            "{kind: io.l5d.commonMetrics}",
            "Could not resolve type id 'io.l5d.commonMetrics' as a telemeter; its metrics",
        );
        refused("{kind: io.l5d.usage}", "Could not resolve type id 'io.l5d.usage' as a telemeter; only Linkerd has it");
    }
}
