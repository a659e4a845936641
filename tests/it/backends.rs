//! The real backends behind other stories: they can be had, broken and mended as the helpers say.

use serde_json::json;

use crate::support::{Agent, Consul, unique};

#[tokio::test]
async fn a_consul_crashes_comes_back_with_its_data_and_starts_anew_when_wiped() {
    let consul = Consul::start().await;
    consul.kv_put("a/b", "1");
    let (value, index) = consul.kv_get("a/b").expect("stored");
    assert_eq!(value, "1");
    let snapshot = consul.snapshot();
    consul.kv_put("a/b", "2");
    consul.kill(Agent::Server);
    consul.restart(Agent::Server);
    assert_eq!(consul.kv_get("a/b").expect("kept").0, "2");
    consul.restore(&snapshot);
    assert_eq!(consul.kv_get("a/b"), Some(("1".to_owned(), index)));
    consul.stop(Agent::Server);
    consul.wipe(Agent::Server);
    consul.restart(Agent::Server);
    assert_eq!(consul.kv_get("a/b"), None);
    consul.pause(Agent::Server);
    consul.resume(Agent::Server);
    consul.kv_put("a/b", "3");
    consul.kv_delete("a", true);
    assert_eq!(consul.kv_get("a/b"), None);
}

#[test]
fn agents_of_a_cluster_see_the_same_and_a_token_may_do_what_its_rules_say() {
    let consul = Consul::start_with(&[Agent::Server, Agent::Client, Agent::Dc2, Agent::Acl]);
    let web = unique("web");
    consul.register(&json!({ "Name": web, "ID": web, "Port": 80 }));
    let instances = |agent, dc: &str| {
        let path = format!("/v1/catalog/service/{web}?dc={dc}");
        let answer = consul.ask(agent, "GET", &path, "", b"");
        (answer.head.status(), answer.text().matches("\"ServicePort\":80").count())
    };
    assert_eq!(instances(Agent::Client, "dc1"), (200, 1));
    assert_eq!(instances(Agent::Dc2, "dc1"), (200, 1));
    consul.deregister(&web);
    assert_eq!(instances(Agent::Client, "dc1"), (200, 0));

    let token = consul.token("reader", "key_prefix \"a/\" { policy = \"read\" }");
    let may_write = || consul.ask(Agent::Acl, "PUT", "/v1/kv/a/b", &token, b"1").head.status() == 200;
    assert!(!may_write());
    consul.set_rules("reader", "key_prefix \"a/\" { policy = \"write\" }");
    assert!(may_write());
}

#[test]
fn one_server_serves_all_stories_that_leave_it_running() {
    let key = unique("shared");
    Consul::shared().kv_put(&key, "1");
    assert_eq!(Consul::shared().kv_get(&key).expect("stored").0, "1");
}

#[tokio::test]
async fn nothing_outlives_the_test_that_started_it() {
    let consul = Consul::start().await;
    let port = consul.port();
    drop(consul);
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err());
}
