//! Pages of a real Linkerd 1.7.5, and its server's answers.

use serde_json::{Value, json};

use super::page::{Page, Rules, Verdict};
use super::*;
use crate::cli::testing::{Fake, Ran, Reply, run};
use crate::text::calendar;

/// What a Linkerd showed at the end of a recording.
fn recorded(name: &str) -> String {
    let path = format!("{}/tests/data/golden/linkerd-client/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let recording: Value = serde_json::from_str(&std::fs::read_to_string(path).expect("recorded")).expect("JSON");
    recording["interpreter_state_at_the_end"].as_str().expect("a page").to_owned()
}

const RULES: Rules = Rules { max_poll_age: Some(120), retry_max: 10 };

/// Verdicts that are not fine, so long after a time of the recording.
fn verdicts(name: &str, time: &str, after: u64) -> Vec<(String, Verdict)> {
    let page: Page = serde_json::from_str(&recorded(name)).expect("a page");
    let now = calendar::read_java(&format!("2026-11-30 {time} +0000")).expect("a time") + after;
    let judged = page.loops().map(|(what, watched)| (what.replace('\u{1}', "default"), watched.verdict(now, RULES)));
    judged.filter(|(_, verdict)| *verdict != Verdict::Fine).collect()
}

#[test]
fn a_healthy_router_has_no_findings_until_its_polls_are_older_than_any_may_be() {
    assert_eq!(verdicts("thrift-basic", "10:30:30", 5), []);
    let hung = verdicts("thrift-basic", "10:30:30", 3_600);
    assert!(hung.len() > 4 && hung.iter().all(|(_, verdict)| matches!(verdict, Verdict::Hung(_))), "{hung:?}");
}

#[test]
fn a_loop_that_failed_is_waiting_at_first_and_dead_when_no_wait_is_that_long() {
    let addr = "addr /#/io.l5d.fs/web".to_owned();
    assert_eq!(verdicts("thrift-tdrain", "10:30:41", 1), [(addr.clone(), Verdict::Waiting)]);
    let dead = verdicts("thrift-tdrain", "10:30:41", 60);
    let [(what, Verdict::Dead(reason))] = &dead[..] else { panic!("{dead:?}") };
    assert!(*what == addr && reason.starts_with("has not asked again since it failed 61 s ago: ChannelException"));
    // It asked again after its failure.
    assert_eq!(verdicts("thrift-failures", "10:31:06", 5), []);
}

#[test]
fn a_loop_that_choked_on_an_answer_is_dead_without_any_error() {
    let dead = verdicts("thrift-badanswers", "10:30:30", 60);
    let reason = "has not asked again since its answer 60 s ago".to_owned();
    assert_eq!(dead, [("addr /#/io.l5d.fs/web".to_owned(), Verdict::Dead(reason))]);
}

#[test]
fn a_cancelled_connect_is_the_end_at_once() {
    let text =
        recorded("thrift-tdrain").replace("ChannelException", "com.twitter.finagle.CancelledConnectionException");
    let page: Page = serde_json::from_str(&text).expect("a page");
    let now = calendar::read_java("2026-11-30 10:30:41 +0000").expect("a time");
    let dead = page.loops().filter(|(_, watched)| matches!(watched.verdict(now, RULES), Verdict::Dead(_))).count();
    assert_eq!(dead, 1);
}

const CONFIG: &str = r#"{"routers":[{"protocol":"http","interpreter":{"kind":"io.l5d.namerd","dst":"/$/x"}},
    {"protocol":"http","label":"in","interpreter":{"kind":"io.l5d.namerd","namespace":"other","dst":"/$/x"}},
    {"protocol":"h2"}]}"#;
const METRICS: &str = r#"{"rt/http/interpreter/io.buoyant.namerd.iface.NamerdInterpreterConfig/cancelled_connects":2,
    "rt/in/interpreter/io.buoyant.namerd.iface.NamerdInterpreterConfig/cancelled_connects":0,"jvm/uptime":1.5}"#;

/// A router with a page of namespace `default`, which is also its name server.
async fn router(page: String, address: &'static str) -> Fake {
    Fake::start(move |request, _| {
        let path = request.split(' ').nth(1).expect("a request");
        match path.split('?').next().expect("a path") {
            "/config.json" => Reply::ok(CONFIG),
            "/admin/metrics.json" => Reply::ok(METRICS),
            "/http/interpreter_state/io.l5d.namerd/default.json" => Reply::ok(&page),
            "/api/1/addr/default" => Reply::ok(&format!(
                r#"{{"type":"bound","addrs":[{{"ip":"{address}","port":18081,"meta":{{}}}}],"meta":{{}}}}"#
            )),
            _ => Reply::status("404 Not Found"),
        }
    })
    .await
}

/// The page with its times moved to the present.
fn fresh(name: &str) -> String {
    let (mut text, now) = (recorded(name), calendar::java(SystemTime::now()));
    while let Some(at) = text.find("2026-11-30 10:") {
        text.replace_range(at..at + now.len(), &now);
    }
    text
}

async fn checked(fake: &Fake, more: &[&str]) -> Ran {
    run(fake, &[&["rosterd", "routers", "check", "SERVER"], more].concat()).await
}

#[tokio::test]
async fn the_pages_of_all_routers_are_found_and_read() {
    let fake = router(recorded("thrift-tdrain"), "127.0.0.1").await;
    let ran = checked(&fake, &[]).await;
    assert_eq!(ran.status, 1, "{}", ran.talk);
    let lines: Vec<Vec<&str>> = ran.data.lines().map(|line| line.split('\t').collect()).collect();
    assert_eq!(lines.len(), 2, "{}", ran.data);
    assert_eq!(lines[0][..4], ["hung", &fake.url(), "http", "bind default /svc/web"]);
    assert_eq!(lines[1][..4], ["dead", &fake.url(), "http", "addr /#/io.l5d.fs/web"]);
    assert!(
        ran.talk.contains("http: cancelled_connects 2") && ran.talk.contains("restart that router"),
        "{}",
        ran.talk
    );
    assert!(fake.asked().iter().any(|asked| asked.starts_with("GET /in/interpreter_state/io.l5d.namerd/other.json")));
    let json: Value = serde_json::from_str(&checked(&fake, &["--json"]).await.data).expect("JSON");
    assert_eq!((&json["findings"], &json["routers"][0]["watches"]), (&json!(2), &json!(2)));
}

#[tokio::test]
async fn addresses_that_differ_from_the_servers_are_stale() {
    let fake = router(fresh("thrift-failures"), "127.0.0.1").await;
    let url = fake.url();
    let same = checked(&fake, &["--server", &url]).await;
    assert_eq!((same.status, same.data.as_str()), (0, ""), "{}", same.talk);
    let fake = router(fresh("thrift-failures"), "127.0.0.9").await;
    let url = fake.url();
    let other = checked(&fake, &["--server", &url]).await;
    let line = format!(
        "stale\t{url}\thttp\taddr /#/io.l5d.fs/web\tonly at the router: 127.0.0.1:18081; only at the server: 127.0.0.9:18081\n"
    );
    assert_eq!((other.status, other.data), (1, line));
}

#[tokio::test]
async fn a_router_that_cannot_be_asked_is_a_finding_of_its_own() {
    let fake = Fake::start(|_, _| Reply::ok("<html>")).await;
    let ran = checked(&fake, &["127.0.0.1:1"]).await;
    assert_eq!((ran.status, ran.data.lines().count()), (1, 2), "{}", ran.data);
    assert!(ran.data.lines().all(|line| line.starts_with("unreadable\t")), "{}", ran.data);
}

#[tokio::test]
async fn what_is_no_linkerd_has_no_clean_bill_of_health() {
    for (config, metrics) in
        [("{}", "{}"), (r#"{"storage":{"kind":"io.l5d.inMemory"}}"#, r#"{"interface/connects":3}"#)]
    {
        let fake = Fake::start(move |request, _| match request.contains("/config.json") {
            true => Reply::ok(config),
            false => Reply::ok(metrics),
        })
        .await;
        let ran = checked(&fake, &[]).await;
        assert_eq!(ran.status, 1, "{}", ran.talk);
        assert!(ran.data.starts_with("unreadable\t") && ran.data.contains("(9990 by default)?"), "{}", ran.data);
        let page = format!("{}/out/interpreter_state/io.l5d.namerd/default.json", fake.url());
        let ran = run(&fake, &["rosterd", "routers", "check", &page]).await;
        assert_eq!(ran.status, 1, "{}", ran.talk);
        assert!(ran.data.contains("no page of interpreter_state"), "{}", ran.data);
    }
}
