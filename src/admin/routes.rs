//! Which path answers what.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::{AdminState, grace, watches};
use crate::http1::{Params, Request, Response, Service};
use crate::iface::http::delegate::{self, Uses};
use crate::runtime::{Drain, ReadyState, Request as Wanted, heavy};
use crate::telemetry::{JsonQuery, OWN_CONTENT_TYPE, PrometheusConfig, TelemeterConfig};
use crate::text::calendar;

/// The paths that are always there.
const PATHS: &[&str] = &[
    "/admin",
    "/admin/drain",
    "/admin/index.txt",
    "/admin/ledger",
    "/admin/ledger/dtab",
    "/admin/metrics.json",
    "/admin/ping",
    "/admin/server_info",
    "/admin/shutdown",
    "/admin/watches",
    "/admin/watches.json",
    "/admin/watches/dtab.json",
    "/config.json",
    DELEGATOR,
    "/live",
    "/logging.json",
    METRICS,
    "/ready",
];
/// rosterd's own metrics. A telemeter with this path adds its names.
const METRICS: &str = "/metrics";
const DELEGATOR: &str = "/dtab/delegator.json";
/// namerd's path; the telemeter has no keys.
const INFLUX: &str = "/admin/metrics/influxdb";

const JSON: &str = "application/json";
const TEXT: &str = "text/plain";
/// twitter-server's way to spell it.
const JSON_UTF8: &str = "application/json;charset=UTF-8";
const TEXT_UTF8: &str = "text/plain;charset=UTF-8";

/// Answers the requests of the admin server.
pub(super) struct Routes {
    state: AdminState,
    drain: Drain,
}

impl Service for Routes {
    async fn call(&self, request: Request) -> Response {
        // Collapsed before anything looks at it: `//admin/shutdown` is as guarded as `/admin/shutdown`.
        let path = collapse(request.path());
        if self.state.security.as_ref().is_some_and(|security| !security.allows(&path)) {
            return Response::with_body(404, "");
        }
        if path == DELEGATOR {
            let AdminState { interpreter, names, .. } = &self.state;
            return delegate::by_request(&**interpreter, &request, names, Uses::RequestsDtab).await;
        }
        self.answer(&path, &request).await
    }
}

impl Routes {
    pub(super) fn new(state: AdminState, drain: Drain) -> Self {
        let routes = Self { state, drain };
        for telemeter in routes.prometheus() {
            if PATHS.contains(&&*collapse(&telemeter.path)) && collapse(&telemeter.path) != METRICS {
                tracing::warn!(path = telemeter.path, "io.l5d.prometheus is not served: the path has another meaning");
            }
        }
        routes
    }

    async fn answer(&self, path: &str, request: &Request) -> Response {
        match path {
            "/admin/ping" => twitter(200, "pong"),
            "/live" => text(200, "live\n"),
            "/ready" => self.ready(),
            METRICS => self.own_metrics(),
            "/admin/metrics.json" => self.metrics_json(&Params::of(request)),
            "/admin/shutdown" => self.shutdown(request),
            "/admin/drain" => self.drain(request),
            "/admin/watches" => watches::page(&self.state.ledger, request, watches::wants_html(request)),
            "/admin/watches.json" => watches::page(&self.state.ledger, request, false),
            "/admin/ledger" => watches::changes(&self.state.ledger, &self.state.ledger_access, request),
            "/admin/watches/dtab.json" => watches::reach(&self.state, request).await,
            "/admin/ledger/dtab" => watches::own_reach(&self.state, request).await,
            "/admin" | "/admin/index.txt" => text(200, self.index()),
            "/admin/server_info" => self.server_info(),
            "/config.json" => Response::with_body(200, self.state.config.to_string()).header("Content-Type", JSON_UTF8),
            "/logging.json" => self.logging(request),
            other => self.configured(other, request).await,
        }
    }

    /// Paths that depend on the configuration.
    async fn configured(&self, path: &str, request: &Request) -> Response {
        let legacy = self.state.metrics.legacy();
        if let Some(telemeter) = self.prometheus().find(|telemeter| collapse(&telemeter.path) == path) {
            return text(200, legacy.prometheus(&telemeter.prefix));
        }
        if path == INFLUX && self.state.telemeters.contains(&TelemeterConfig::Influx) {
            let host = request.header("host").map(String::from_utf8_lossy);
            return text(200, legacy.influx(host.as_deref()));
        }
        let Some(show) = self.state.pages.find(path) else { return nothing(path) };
        // A page may show a hundred thousand things.
        match heavy(move || show().map(|state| state.to_string())).await {
            Some(Some(state)) => Response::with_body(200, state).header("Content-Type", JSON),
            Some(None) => nothing(path),
            None => text(500, "internal error: making the page panicked; please report it with the log\n"),
        }
    }

    fn prometheus(&self) -> impl Iterator<Item = &PrometheusConfig> {
        self.state.telemeters.iter().filter_map(|telemeter| match telemeter {
            TelemeterConfig::Prometheus(config) => Some(config),
            TelemeterConfig::Influx | TelemeterConfig::Tracer => None,
        })
    }

    fn ready(&self) -> Response {
        match self.state.readiness.state() {
            ReadyState::Ready(lost) if lost.is_empty() => text(200, "ready\n"),
            ReadyState::Ready(lost) => text(200, format!("degraded: {}\n", lost.join("; "))),
            ReadyState::Starting(missing) => text(503, format!("waiting for: {}\n", missing.join("; "))),
            ReadyState::Draining => text(503, "draining\n"),
        }
    }

    fn own_metrics(&self) -> Response {
        let mut body = self.state.metrics.own_text();
        for telemeter in self.prometheus().filter(|telemeter| collapse(&telemeter.path) == METRICS) {
            body.push_str(&self.state.metrics.legacy().prometheus(&telemeter.prefix));
        }
        Response::with_body(200, body).header("Content-Type", OWN_CONTENT_TYPE)
    }

    fn metrics_json(&self, params: &Params) -> Response {
        let query = JsonQuery { tree: params.flag("tree"), pretty: params.flag("pretty"), subtree: params.get("q") };
        let (status, body) = match self.state.metrics.legacy().json(query) {
            Ok(body) => (200, body),
            Err(error) => (404, format!("{{\"error\": {}}}", serde_json::Value::from(error.to_string()))),
        };
        Response::with_body(status, body).header("Content-Type", JSON)
    }

    fn shutdown(&self, request: &Request) -> Response {
        if let Some(refusal) = refuse_control(request) {
            return refusal;
        }
        let params = Params::of(request);
        let grace = match params.get("grace") {
            None => None,
            Some(text) => match grace::parse(text) {
                Some(grace) => Some(grace),
                None => {
                    return twitter(400, format!("could not parse 'grace' parameter: {text} is not a valid duration"));
                }
            },
        };
        if !self.drain.request(Wanted { grace, ..Wanted::end("POST /admin/shutdown") }) {
            tracing::info!(client = %request.client.0, "POST /admin/shutdown ignored: the drain is on its way");
        }
        twitter(200, "quitting\n").closing()
    }

    /// Moves clients away. The process stays: an operator looks at it, or takes it out of service for a while.
    fn drain(&self, request: &Request) -> Response {
        if let Some(refusal) = refuse_control(request) {
            return refusal;
        }
        if !self.drain.request(Wanted::stay("POST /admin/drain")) {
            tracing::info!(client = %request.client.0, "POST /admin/drain ignored: the drain is on its way");
        }
        twitter(200, "draining\n")
    }

    fn index(&self) -> String {
        let telemeters = self.prometheus().map(|telemeter| collapse(&telemeter.path).into_owned());
        let influx = self.state.telemeters.contains(&TelemeterConfig::Influx).then(|| INFLUX.to_owned());
        let pages = self.state.pages.paths().map(str::to_owned);
        let fixed = PATHS.iter().map(|path| (*path).to_owned());
        let paths: BTreeSet<String> = fixed.chain(telemeters).chain(influx).chain(pages).collect();
        paths.into_iter().map(|path| path + "\n").collect()
    }

    fn server_info(&self) -> Response {
        let process = &self.state.process;
        let uptime = u64::try_from(process.uptime().as_millis()).unwrap_or(u64::MAX);
        // twitter-server's keys, in its spacing.
        let fields: [(&str, serde_json::Value); 6] = [
            ("name", "rosterd".into()),
            ("version", process.version.into()),
            ("build", "unknown".into()),
            ("build_revision", process.revision.into()),
            ("start_time", calendar::java(process.started).into()),
            ("uptime", uptime.into()),
        ];
        let lines: Vec<String> = fields.iter().map(|(key, value)| format!("  \"{key}\" : {value}")).collect();
        let body = format!("{{\n{}\n}}", lines.join(",\n"));
        Response::with_body(200, body).header("Content-Type", JSON_UTF8).last_header("Content-Language", "en")
    }

    fn logging(&self, request: &Request) -> Response {
        match request.method() {
            "GET" | "HEAD" => {
                let levels = self.state.logs.levels().into_iter();
                let levels: Vec<serde_json::Value> = levels
                    .map(|(logger, level)| serde_json::json!({"logger": logger, "level": level.to_string()}))
                    .collect();
                let body = serde_json::Value::from(levels).to_string();
                Response::with_body(200, body).header("Content-Type", JSON)
            }
            "POST" => refuse_other_sites(request).unwrap_or_else(|| self.set_level(request)),
            _ => Response::with_body(405, ""),
        }
    }

    fn set_level(&self, request: &Request) -> Response {
        let params = Params::of(request);
        let (Some(logger), Some(level)) = (params.get("logger"), params.get("level")) else {
            return Response::with_body(400, "");
        };
        // A level or logger that is none is answered with 200, as in namerd: its scripts set those of Java.
        let client = request.client.0;
        match level.parse() {
            Ok(known) if self.state.logs.set(logger, known) => tracing::info!(%client, logger, level, "log level set"),
            Ok(_) => tracing::warn!(%client, logger, "log level not set: no such logger"),
            Err(error) => tracing::warn!(%client, logger, %error, "log level not set"),
        }
        Response::with_body(200, "")
    }
}

/// Refuses what must not change the process: anything but a POST, and a POST of others.
fn refuse_control(request: &Request) -> Option<Response> {
    if request.method() != "POST" {
        let refusal = Response::with_body(405, "").header("Allow", "POST");
        return Some(refusal.header("Content-Type", TEXT_UTF8).last_header("Content-Language", "en"));
    }
    refuse_other_sites(request)
}

/// Refuses what a page of another site makes a browser send: whoever can open a page must not stop the process.
fn refuse_other_sites(request: &Request) -> Option<Response> {
    request.is_of_another_site().then(|| text(403, "refused: this was sent by a page of another site\n"))
}

/// A path with each run of slashes made one, as namerd's server does.
fn collapse(path: &str) -> Cow<'_, str> {
    if !path.contains("//") {
        return Cow::Borrowed(path);
    }
    let mut out = String::with_capacity(path.len());
    for c in path.chars() {
        if c != '/' || !out.ends_with('/') {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

fn nothing(path: &str) -> Response {
    text(404, format!("nothing here: {path}; /admin lists the paths there are\n"))
}

fn text(status: u16, body: impl Into<String>) -> Response {
    Response::with_body(status, body.into()).header("Content-Type", TEXT)
}

/// As twitter-server's own handlers answer.
fn twitter(status: u16, body: impl Into<String>) -> Response {
    let response = Response::with_body(status, body.into()).header("Content-Type", TEXT_UTF8);
    response.last_header("Content-Language", "en")
}
