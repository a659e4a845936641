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

    // The token itself is deleted under the poll, and comes back under the same secret, as when it is rotated.
    let own: serde_json::Value =
        serde_json::from_slice(&consul.ask(Agent::Acl, "GET", "/v1/acl/token/self", &token, b"").body).expect("JSON");
    let accessor = own["AccessorID"].as_str().expect("an id");
    manage("DELETE", &format!("/v1/acl/token/{accessor}"), String::new());
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
