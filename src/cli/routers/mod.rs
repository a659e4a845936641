//! `rosterd routers check`: watches of Linkerd 1 routers, as their own admin pages show them.

mod page;
mod server;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::stream::{self, StreamExt};
use serde::Serialize;
use serde_json::{Value, json};

use self::page::{Loop, Page, Rules, Verdict};
use self::server::Server;
use super::args::RoutersCheck;
use super::client::{Client, ClientError, Port, Target};
use super::failure::Failure;
use super::output::Output;
use crate::text::url::without_userinfo;

/// So many routers are asked at a time.
const AT_ONCE: usize = 16;
/// An address that differs only for a moment is none that is stale.
const SETTLES: Duration = Duration::from_secs(3);
/// The kind of interpreter whose pages these are.
const KIND: &str = "io.l5d.namerd";

/// What is wrong with one watch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Finding {
    finding: &'static str,
    router: String,
    watch: String,
    reason: String,
}

/// What one URL came to.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Checked {
    url: String,
    watches: usize,
    /// Loops that wait to ask again.
    waiting: usize,
    /// By router.
    cancelled_connects: Vec<(String, u64)>,
    findings: Vec<Finding>,
}

/// Why a router could not be looked at.
#[derive(Debug, thiserror::Error)]
enum LookError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(
        "there are no routers in its configuration and metrics; is this the admin server of a Linkerd (9990 by default)?"
    )]
    NoLinkerd,
    #[error("this is no page of interpreter_state of io.l5d.namerd")]
    NoPage,
}

/// One page of a router.
struct Place {
    router: String,
    namespace: String,
    target: Target,
}

/// Checks all routers; the exit status.
pub(super) async fn run(args: RoutersCheck, output: &mut Output<'_>) -> Result<u8, Failure> {
    let RoutersCheck { urls, server, max_poll_age, retry_max, namespace, json } = args;
    let server = server.map(|url| Client::new(&url, Port::CONTROLLER)).transpose()?.map(Server::new);
    let rules = Rules { max_poll_age: (max_poll_age > 0).then_some(max_poll_age), retry_max };
    let check = |url: String| {
        let (server, namespaces) = (server.as_ref(), &namespace);
        async move { check(url, server, rules, namespaces).await }
    };
    let mut checked: Vec<Checked> = stream::iter(urls).map(check).buffered(AT_ONCE).collect().await;
    for checked in &mut checked {
        checked.url = without_userinfo(&checked.url).into_owned();
    }
    let findings = checked.iter().map(|checked| checked.findings.len()).sum::<usize>();
    if json {
        output.line(json!({ "routers": checked, "findings": findings }))?;
        return Ok(u8::from(findings > 0));
    }
    for Checked { url, cancelled_connects, findings, .. } in &checked {
        for Finding { finding, router, watch, reason } in findings {
            output.line(format_args!("{finding}\t{url}\t{router}\t{watch}\t{reason}"))?;
        }
        for (router, count) in cancelled_connects {
            output
                .say(format_args!("{url}: {router}: cancelled_connects {count}: loops may have ended without a word"));
        }
    }
    let (watches, waiting) =
        checked.iter().fold((0, 0), |sum, checked| (sum.0 + checked.watches, sum.1 + checked.waiting));
    output.say(format_args!(
        "{} routers, {watches} watches, {waiting} waiting to ask again, {findings} findings",
        checked.len()
    ));
    if checked.iter().flat_map(|checked| &checked.findings).any(|finding| finding.finding != "unreadable") {
        output.say("what is dead or hung does not heal by itself: restart that router");
    }
    Ok(u8::from(findings > 0))
}

/// Checks one.
async fn check(url: String, server: Option<&Server>, rules: Rules, namespaces: &[String]) -> Checked {
    let mut checked = Checked { url: url.clone(), ..Checked::default() };
    if let Err(error) = look(&mut checked, server, rules, namespaces).await {
        let (finding, router, watch) = ("unreadable", String::new(), String::new());
        checked.findings.push(Finding { finding, router, watch, reason: error.to_string() });
    }
    checked
}

async fn look(
    checked: &mut Checked,
    server: Option<&Server>,
    rules: Rules,
    namespaces: &[String],
) -> Result<(), LookError> {
    let client = Client::new(&checked.url, Port::ROUTER)?;
    let places = if checked.url.contains("/interpreter_state/") {
        vec![Place::of_page(&checked.url)]
    } else {
        let metrics: Value = client.get(&Target::route("/admin/metrics.json")).await?.json("metrics")?;
        checked.cancelled_connects = cancelled(&metrics);
        // One that may not be shown is made up for by the names in the metrics.
        let config = match client.get(&Target::route("/config.json")).await {
            Ok(answer) => answer.json("a configuration")?,
            Err(error) if error.status().is_some() => Value::Null,
            Err(error) => return Err(error.into()),
        };
        if !is_linkerd(&config, &metrics) {
            return Err(LookError::NoLinkerd);
        }
        places(&config, &metrics, namespaces)
    };
    for place in places {
        let page = match read(&client, &place.target).await {
            // A namespace that nobody has asked for yet, or one that was only guessed.
            Err(LookError::Client(error))
                if error.status().is_some_and(|status| status == http::StatusCode::NOT_FOUND) =>
            {
                continue;
            }
            page => page?,
        };
        judge(checked, &place, &page, rules);
        if let Some(server) = server {
            compare(checked, &client, &place, page, server).await?;
        }
    }
    Ok(())
}

async fn read(client: &Client, target: &Target) -> Result<Page, LookError> {
    let page: Page = client.get(target).await?.json("a page of interpreter_state of io.l5d.namerd")?;
    if page.is_one() { Ok(page) } else { Err(LookError::NoPage) }
}

/// Anything may answer with some JSON, and a wrong port is easily taken.
fn is_linkerd(config: &Value, metrics: &Value) -> bool {
    let has_routers = config.get("routers").and_then(Value::as_array).is_some_and(|routers| !routers.is_empty());
    has_routers || metrics.as_object().is_some_and(|metrics| metrics.keys().any(|name| name.starts_with("rt/")))
}

fn judge(checked: &mut Checked, place: &Place, page: &Page, rules: Rules) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    for (what, watched) in page.loops() {
        checked.watches += 1;
        let (finding, reason) = match watched.verdict(now, rules) {
            Verdict::Fine => continue,
            Verdict::Waiting => {
                checked.waiting += 1;
                continue;
            }
            Verdict::Dead(reason) => ("dead", reason),
            Verdict::Hung(reason) => ("hung", reason),
        };
        checked.findings.push(place.finding(finding, &what, reason));
    }
}

/// Finds addresses that differ from the server's, twice.
async fn compare(
    checked: &mut Checked,
    client: &Client,
    place: &Place,
    page: Page,
    server: &Server,
) -> Result<(), LookError> {
    let first = server.differing(place, page.addresses()).await?;
    if first.is_empty() {
        return Ok(());
    }
    tokio::time::sleep(SETTLES).await;
    let again = read(client, &place.target).await?;
    let suspects: BTreeSet<&String> = first.iter().map(|(id, _)| id).collect();
    let still = again.addresses().filter(|(id, _)| suspects.contains(id));
    for (id, reason) in server.differing(place, still).await? {
        checked.findings.push(place.finding("stale", &format!("addr {id}"), reason));
    }
    Ok(())
}

/// `rt/ROUTER/interpreter/…/cancelled_connects`, by router.
fn cancelled(metrics: &Value) -> Vec<(String, u64)> {
    let all = metrics.as_object().into_iter().flatten();
    all.filter_map(|(name, count)| {
        let (router, rest) = name.strip_prefix("rt/")?.split_once("/interpreter/")?;
        let count = count.as_u64().filter(|count| *count > 0)?;
        rest.ends_with("/cancelled_connects").then(|| (router.to_owned(), count))
    })
    .collect()
}

/// The pages of a router, from its configuration; or, where that is not shown, from the routers that metrics name.
fn places(config: &Value, metrics: &Value, namespaces: &[String]) -> Vec<Place> {
    let mut found = BTreeSet::new();
    for router in config.get("routers").and_then(Value::as_array).into_iter().flatten() {
        let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        let Some(label) = text(router, "label").or_else(|| text(router, "protocol")) else { continue };
        let Some(interpreter) = router.get("interpreter") else { continue };
        if text(interpreter, "kind").as_deref() == Some(KIND) {
            found.insert((label, text(interpreter, "namespace").unwrap_or_else(|| "default".to_owned())));
        }
    }
    let labels = metrics.as_object().into_iter().flatten().filter_map(|(name, _)| {
        name.strip_prefix("rt/")?.split_once("/interpreter/io.buoyant.namerd.iface.NamerdInterpreterConfig/")
    });
    let labels: BTreeSet<&str> = labels.map(|(label, _)| label).collect();
    let guessed = if config.is_null() && namespaces.is_empty() { vec!["default".to_owned()] } else { Vec::new() };
    for namespace in namespaces.iter().chain(&guessed) {
        found.extend(labels.iter().map(|label| ((*label).to_owned(), namespace.clone())));
    }
    found.into_iter().map(|(router, namespace)| Place::new(router, namespace)).collect()
}

// === impl Place ===

impl Place {
    fn new(router: String, namespace: String) -> Self {
        let target = Target::namespace(&format!("/{router}/interpreter_state/{KIND}"), &format!("{namespace}.json"));
        Self { router, namespace, target }
    }

    /// The page that a URL is.
    fn of_page(url: &str) -> Self {
        let (before, name) = url.rsplit_once('/').unwrap_or(("", url));
        let router = before.split("/interpreter_state").next().and_then(|before| before.rsplit('/').next());
        Self {
            router: router.unwrap_or_default().to_owned(),
            namespace: name.trim_end_matches(".json").to_owned(),
            target: Target::route(""),
        }
    }

    fn finding(&self, finding: &'static str, watch: &str, reason: String) -> Finding {
        let watch = watch.replacen(Loop::NAMESPACE, &self.namespace, 1);
        Finding { finding, router: self.router.clone(), watch, reason }
    }
}
