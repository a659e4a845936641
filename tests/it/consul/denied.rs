//! What a token may not do is named, and needs no restart once it may.

use std::time::Duration;

use serde_json::json;

use super::{Follow, is_neg, rosterd};
use crate::support::{Agent, Consul, get};

const READ: &str = "service_prefix \"\" { policy = \"read\" }\nnode_prefix \"\" { policy = \"read\" }";

#[test]
fn a_denial_names_its_rule_and_is_over_when_the_rule_is_there() {
    let consul = Consul::start_with(&[Agent::Acl]);
    let manage = |method: &str, path: &str, body: String| {
        let answer = consul.ask(Agent::Acl, method, path, consul.management_token(), body.as_bytes());
        assert_eq!(answer.head.status(), 200, "{method} {path}: {answer:?}");
        answer
    };
    let register = |n: u8| {
        let body = json!({ "Name": "web", "ID": format!("web-{n}"), "Address": format!("10.0.0.{n}"), "Port": 80 });
        manage("PUT", "/v1/agent/service/register", body.to_string());
    };
    register(1);
    let token = consul.token("rosterd", "key_prefix \"none\" { policy = \"read\" }");
    let rosterd = rosterd(consul.port_of(Agent::Acl), &format!(", useHealthCheck: true, token: {token}"));
    let says = |id: &str, rule: &str| {
        let deadline = std::time::Instant::now() + crate::support::PATIENCE;
        loop {
            let page = get(rosterd.admin(), "/namer_state/io.l5d.consul.json").text().to_owned();
            if page.contains(rule) {
                assert!(!page.contains(&token), "{page}");
                return;
            }
            assert!(std::time::Instant::now() < deadline, "{id}: {rule} is not named: {page}");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    let mut addrs = Follow::addr(&rosterd, "/#/io.l5d.consul/dc1/web");
    says("web", "service:read and node:read");
    addrs.stays(Duration::from_millis(100));
    let mut local = Follow::bind(&rosterd, "/#/io.l5d.consul/.local/web");
    rosterd.wait_for_output("needs agent:read");

    consul.set_rules("rosterd", READ);
    let granted = addrs.until_addrs(&["10.0.0.1:80"]);
    assert!(granted < Duration::from_secs(12), "{granted:?}");
    consul.set_rules("rosterd", &format!("{READ}\nagent_prefix \"\" {{ policy = \"read\" }}"));
    local.until("a leaf", |value| value["type"] == "leaf");

    // Taken away again: what is known stays.
    consul.set_rules("rosterd", "key_prefix \"none\" { policy = \"read\" }");
    register(2);
    addrs.stays(Duration::from_secs(3));
    consul.set_rules("rosterd", READ);
    addrs.until_addrs(&["10.0.0.1:80", "10.0.0.2:80"]);

    // The token itself is deleted under the poll, and comes back under the same secret.
    consul.delete_token(&token);
    says("web", "ACL not found"); // the log tells of an agent only now and then
    addrs.stays(Duration::from_secs(2));
    let again = json!({ "SecretID": token, "Policies": [{ "Name": "rosterd" }] });
    manage("PUT", "/v1/acl/token", again.to_string());
    register(3);
    addrs.until("the third", |value| super::shown(value).len() == 3);
    assert!(!rosterd.output().contains(&token), "a token is no business of logs");

    // Who shows no token is answered with empty lists, and nothing tells why.
    let nameless = super::rosterd(consul.port_of(Agent::Acl), "");
    Follow::bind(&nameless, "/svc/web").until("neg", is_neg);
}

/// A token is replaced where it stands: in the configuration of rosterd, which reads it when it starts, or in that of the
/// agent, for those who show none.
#[test]
fn a_token_is_replaced_by_another_one_and_then_deleted_and_nobody_misses_anything() {
    let consul = Consul::start_with(&[Agent::Acl]);
    let manage = |path: &str, body: serde_json::Value| {
        let answer = consul.ask(Agent::Acl, "PUT", path, consul.management_token(), body.to_string().as_bytes());
        assert_eq!(answer.head.status(), 200, "{path}: {answer:?}");
    };
    let register = |n: u8| {
        let body = json!({ "Name": "web", "ID": format!("web-{n}"), "Address": format!("10.0.0.{n}"), "Port": 80 });
        manage("/v1/agent/service/register", body);
    };
    let use_by_default = |token: &str| manage("/v1/agent/token/default", json!({ "Token": token }));
    let shows = |addrs: &mut Follow, n: usize| {
        addrs.until(&format!("{n} addresses"), |value| super::shown(value).len() == n);
    };
    register(1);
    let (old, new) = (consul.token("rosterd", READ), consul.token("rosterd", READ));
    use_by_default(&old);
    let start = |token: &str| {
        let token = if token.is_empty() { String::new() } else { format!(", token: {token}") };
        rosterd(consul.port_of(Agent::Acl), &format!(", useHealthCheck: true{token}"))
    };
    let id = "/#/io.l5d.consul/dc1/web";
    let (nameless, before) = (start(""), start(&old));
    let (mut of_agent, mut of_old) = (Follow::addr(&nameless, id), Follow::addr(&before, id));
    shows(&mut of_agent, 1);
    shows(&mut of_old, 1);

    // As in a rolling restart: one with the new token beside the one with the old.
    let after = start(&new);
    let mut of_new = Follow::addr(&after, id);
    shows(&mut of_new, 1);
    use_by_default(&new);
    register(2);
    [&mut of_agent, &mut of_old, &mut of_new].into_iter().for_each(|addrs| shows(addrs, 2));
    consul.delete_token(&old);
    register(3);
    [&mut of_agent, &mut of_new].into_iter().for_each(|addrs| shows(addrs, 3));

    // Who still shows the old one keeps what it knows, and says why that is old.
    of_old.stays(Duration::from_secs(2));
    crate::support::wait_until("the token is unknown, and that is told", || {
        get(before.admin(), "/namer_state/io.l5d.consul.json").text().contains("ACL not found")
    });
    assert!(get(before.admin(), "/ready").text().starts_with("degraded: /#/io.l5d.consul: stale since"));
    for (who, seen) in [("agent", &of_agent.seen), ("new", &of_new.seen)] {
        assert!(seen.iter().all(|value| value.contains("10.0.0.1")), "{who}: {seen:?}");
    }
    for rosterd in [&nameless, &after] {
        assert_eq!(get(rosterd.admin(), "/ready").text(), "ready\n");
    }
}

#[test]
fn a_check_that_connects_names_what_a_token_lacks() {
    let consul = Consul::start_with(&[Agent::Acl]);
    let body = json!({ "Name": "web", "ID": "web", "Address": "10.0.0.1", "Port": 80 }).to_string();
    let token = consul.management_token();
    consul.ask(Agent::Acl, "PUT", "/v1/agent/service/register", token, body.as_bytes());
    let port = consul.port_of(Agent::Acl);
    let check = |token: &str| {
        let folder = crate::support::folder();
        let file = folder.path().join("namerd.yaml");
        let agent = format!("host: 127.0.0.1, port: {port}{}", if token.is_empty() { "" } else { ", token: " });
        let config = format!(
            "storage: {{kind: io.l5d.consul, {agent}{token}}}\n\
             namers: [{{kind: io.l5d.consul, {agent}{token}, setHost: true}}]\n\
             interfaces: [{{kind: io.l5d.httpController, port: 0}}]\n"
        );
        std::fs::write(&file, config).expect("the folder is writable");
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_rosterd"));
        let done = command.arg("check").arg("--connect").arg(&file).output().expect("it can be run");
        let said = String::from_utf8(done.stderr).expect("text");
        assert!(token.is_empty() || !said.contains(token), "{said}");
        (done.status.success(), said)
    };
    let has = |said: &str, all: &[&str]| {
        for text in all {
            assert!(said.contains(text), "no {text:?} in {said}");
        }
    };
    let token = consul.token("rosterd", "key_prefix \"none\" { policy = \"read\" }");
    let (good, said) = check(&token);
    assert!(!good);
    has(&said, &["failed: storage io.l5d.consul: dtabs in Consul", "key:read", "key:write", "5 of 5 probes failed"]);
    has(&said, &["failed: namer /#/io.l5d.consul: services of Consul", "service:read", "node:read", "agent:read"]);
    // The rules of the documents, each in its exact words.
    let page = std::fs::read_to_string(crate::support::in_project("docs/consul-policy.md")).expect("the page is there");
    let (_, rest) = page.split_once("```hcl\n").expect("rules");
    let (policy, _) = rest.split_once("```").expect("their end");
    let rules = policy.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    let rules: Vec<String> = rules.filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    assert_eq!(rules.len(), 4, "{rules:?}");
    rules.iter().for_each(|rule| has(&said, &[rule]));

    // Services without their nodes, and dtabs that may be read only.
    let rules = "service_prefix \"\" { policy = \"read\" }\nkey_prefix \"namerd/dtabs/\" { policy = \"read\" }";
    consul.set_rules("rosterd", &format!("{rules}\nagent_prefix \"\" {{ policy = \"read\" }}"));
    let (good, said) = check(&token);
    assert!(!good);
    has(
        &said,
        &["ok: storage io.l5d.consul: dtabs in Consul", "needs node:read (", "key:write", "2 of 5 probes failed"],
    );
    assert!(!said.contains("service:read") && !said.contains("agent:read"), "only what is missing: {said}");

    // The policy of the documents.
    consul.set_rules("rosterd", policy);
    let (good, said) = check(&token);
    assert!(good, "{said}");
    has(&said, &["services of Consul at 127.0.0.1", "2 can be read", "1 can be read", "dc1, consul", "is allowed"]);
    let key = "/v1/kv/namerd/dtabs/rosterd-check?raw=true";
    assert_eq!(consul.ask(Agent::Acl, "GET", key, &token, b"").head.status(), 404, "nothing was written");

    let (good, said) = check("");
    assert!(!good);
    has(&said, &["its ACLs deny by default: set `token`"]);
    consul.kill(Agent::Acl);
    has(&check(&token).1, &["no connection to Consul", "is an agent running there?"]);
}
