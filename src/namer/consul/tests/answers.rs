//! What becomes of what an agent answers.

use std::collections::{BTreeSet, HashMap};

use super::*;
use nodes::Health::{self, Critical, Maintenance, Passing, Warning};

#[tokio::test(start_paused = true)]
async fn addresses_change_without_the_tree_being_told() {
    let world = World::plain();
    let (one, two) = (node("192.168.1.35", 8080), node("192.168.1.36", 8080));
    world.consul.set(WEB, &list(std::slice::from_ref(&one)), 1);
    let (mut tree, mut addrs) = (world.tree("/dc1/web/residual"), world.addrs("/dc1/web"));
    tree.hears("/dc1/web and /residual").await;
    addrs.hears("[192.168.1.35:8080*1.0]").await;
    world.consul.set(WEB, &list(&[one, two]), 2);
    addrs.hears("[192.168.1.35:8080*1.0 192.168.1.36:8080*1.0]").await;
    tree.hears_nothing_for(Duration::from_secs(1)).await;
    world.consul.set(WEB, "[]", 3);
    tree.hears("neg").await;
    addrs.hears("neg").await;
    assert_eq!(tree.log, ["/dc1/web and /residual", "neg"]);
    assert_eq!(world.counts()[5], 3);
}

#[tokio::test(start_paused = true)]
async fn a_service_without_instances_is_neg_and_watched_on() {
    let world = World::plain();
    world.consul.set(WEB, "[]", 1);
    let mut tree = world.tree("/dc1/web/residual");
    tree.hears("neg").await;
    sleep(2).await;
    world.consul.set(WEB, &list(&[with(node("192.0.2.1", 8888), json!({ "ServiceAddress": "127.0.0.1" }))]), 2);
    assert!(tree.hears("/dc1/web and /residual").await < Duration::from_millis(200));
    assert_eq!(world.counts()[4..], [0, 2]);
}

#[tokio::test(start_paused = true)]
async fn the_order_of_an_answer_changes_nothing() {
    let world = World::new(Rules { transfer_metadata: true, ..Rules::default() });
    let nodes: Vec<Value> = (1..=5)
        .map(|n| with(node(&format!("192.0.2.{n}"), 80), json!({ "ServiceMeta": { "n": n.to_string() } })))
        .collect();
    world.consul.set(WEB, &list(&nodes), 1);
    let watch = world.watch(Addresses(world.namer.clone(), path("/dc1/web")));
    watch.answer(Duration::from_secs(5)).await.expect("an answer");
    let version = watch.current_version();
    let reversed: Vec<Value> = nodes.into_iter().rev().collect();
    for round in 2..10 {
        world.consul.set(WEB, &list(&reversed[round % 3..]), round as u64);
        world.consul.set(WEB, &list(&reversed), round as u64 + 10);
        sleep(2).await;
    }
    assert_eq!(watch.current_version(), version);
    assert_eq!(
        world.set("/dc1/web").await.meta().get("n"),
        Some(&"1".into()),
        "that of the first in the catalog's order"
    );
}

#[tokio::test(start_paused = true)]
async fn node_and_service_addresses_are_chosen_between() {
    let both = with(node("192.0.2.1", 80), json!({ "ServiceAddress": "192.0.2.9" }));
    for (prefer_service_address, shown) in
        [(true, "[192.0.2.2:80*1.0 192.0.2.9:80*1.0]"), (false, "[192.0.2.1:80*1.0 192.0.2.2:80*1.0]")]
    {
        let world = World::new(Rules { prefer_service_address, ..Rules::default() });
        world.consul.set(WEB, &list(&[both.clone(), node("192.0.2.2", 80)]), 1);
        world.addrs("/dc1/web").hears(shown).await;
    }
}

#[tokio::test(start_paused = true)]
async fn instances_without_port_or_address_are_left_out() {
    let world = World::plain();
    let odd = [
        with(node("192.0.2.1", 80), json!({ "ServicePort": null })),
        with(node("192.0.2.2", 80), json!({ "ServicePort": 70_000 })),
        with(node("192.0.2.3", 80), json!({ "ServicePort": -1 })),
        with(node("192.0.2.4", 80), json!({ "Address": "", "ServiceAddress": null })),
        // As in namerd: a transformer may put a port in its place.
        with(node("192.0.2.5", 80), json!({ "ServicePort": 0 })),
        with(node("2001:db8::1", 80), json!({})),
    ];
    world.consul.set(WEB, &list(&odd), 1);
    world.addrs("/dc1/web").hears("[192.0.2.5:0*1.0 2001:db8::1:80*1.0]").await;
    world.consul.set(WEB, &list(&odd[..4]), 2);
    world.tree("/dc1/web").hears("neg").await;
}

#[tokio::test(start_paused = true)]
async fn equal_instances_are_one_address_and_different_weights_keep_them_apart() {
    let weights = HashMap::from([("primary".to_owned(), 100.0), ("slow".to_owned(), 0.1), ("Primary".to_owned(), 7.0)]);
    let world = World::new(Rules { weights, ..Rules::default() });
    let tagged = |tags: &[&str]| with(node("192.0.2.1", 80), json!({ "ServiceTags": tags }));
    let nodes = [tagged(&["production", "primary", "slow"]), tagged(&["primary"]), tagged(&["slow"]), tagged(&[])];
    world.consul.set(WEB, &list(&nodes), 1);
    world.addrs("/dc1/web").hears("[192.0.2.1:80*0.1 192.0.2.1:80*1.0 192.0.2.1:80*100.0]").await;
}

#[tokio::test(start_paused = true)]
async fn metadata_goes_along_only_if_that_is_configured() {
    for (transfer_metadata, node_keys, service_keys) in [
        (true, vec!["endpoint_addr_weight", "nd_meta"], vec!["srv_meta"]),
        (false, vec!["endpoint_addr_weight"], vec![]),
    ] {
        let world = World::new(Rules { transfer_metadata, ..Rules::default() });
        world.consul.set(WEB, &list(&[node("192.0.2.1", 80)]), 1);
        let set = world.set("/dc1/web").await;
        let keys = |meta: &crate::name::Meta| meta.iter().map(|(key, _)| key.to_owned()).collect::<Vec<_>>();
        assert_eq!(
            (keys(&set.addrs()[0].meta), keys(set.meta())),
            (node_keys.into_iter().map(str::to_owned).collect(), service_keys.into_iter().map(str::to_owned).collect(),)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_worst_check_decides_and_no_check_passes() {
    let entry = |ip: &str, checks: &[&str]| {
        let checks: Vec<Value> = checks.iter().map(|status| json!({ "Status": status })).collect();
        json!({ "Node": { "Node": ip, "Address": ip }, "Service": { "ID": "web", "Port": 80 }, "Checks": checks })
    };
    let mut entries = vec![
        entry("192.0.2.1", &[]),
        entry("192.0.2.2", &["passing", "warning"]),
        entry("192.0.2.3", &["critical", "warning", "passing"]),
        entry("192.0.2.4", &["maintenance", "critical"]),
        entry("192.0.2.5", &["no such word"]),
    ];
    entries.push(json!({ "Node": { "Address": "192.0.2.6" }, "Service": { "Port": 80 }, "Checks": null }));
    let shows = async |wanted: &[Health]| {
        let statuses = Some(wanted.iter().copied().collect::<BTreeSet<_>>());
        let world = World::new(Rules { statuses, ..Rules::default() });
        world.consul.set("/v1/health/service/web", &list(&entries), 1);
        let mut addrs = world.addrs("/dc1/web");
        addrs.until(None, Duration::from_millis(50)).await;
        let last = |part: &str| part.trim_start_matches("192.0.2.").chars().next();
        let shown = addrs.log.last().expect("an answer").trim_matches(['[', ']']).to_owned();
        shown.split(' ').filter_map(last).collect::<String>()
    };
    assert_eq!(shows(&[Passing]).await, "123456", "Consul itself leaves the others out then");
    assert_eq!(shows(&[Passing, Maintenance]).await, "1456");
    assert_eq!(shows(&[Warning]).await, "2");
    assert_eq!(shows(&[Critical]).await, "3");
    assert_eq!(shows(&[Passing, Warning, Critical, Maintenance]).await, "123456");
}

#[tokio::test(start_paused = true)]
async fn every_address_of_a_host_name_counts_and_unknown_hosts_do_not() {
    let world = World::plain();
    let named = |host: &str| with(node("10.0.0.1", 80), json!({ "ServiceAddress": host }));
    world.consul.set(WEB, &list(&[named("three.example"), named("nowhere.example"), node("192.0.2.7", 80)]), 1);
    let mut addrs = world.addrs("/dc1/web");
    addrs.hears("[192.0.2.1:80*1.0 192.0.2.2:80*1.0 192.0.2.3:80*1.0 192.0.2.7:80*1.0]").await;
    world.consul.set(WEB, &list(&[named("nowhere.example")]), 2);
    let mut tree = world.tree("/dc1/web");
    tree.hears("neg").await;
    addrs.hears("neg").await;
    world.consul.set(WEB, &list(&[named("one.example"), named("nowhere.example")]), 3);
    tree.hears("/dc1/web and /").await;
    addrs.hears("[192.0.2.9:80*1.0]").await;
}

#[tokio::test(start_paused = true)]
async fn a_host_that_nobody_answers_for_holds_up_nothing_for_long() {
    let world = World::plain();
    let silent = with(node("10.0.0.1", 80), json!({ "ServiceAddress": "silent.example" }));
    world.consul.set(WEB, &list(&[node("192.0.2.7", 80)]), 1);
    let mut addrs = world.addrs("/dc1/web");
    addrs.hears("[192.0.2.7:80*1.0]").await;
    world.consul.set(WEB, &list(&[silent, node("192.0.2.8", 80)]), 2);
    assert!(addrs.hears("[192.0.2.8:80*1.0]").await < Duration::from_secs(3));
}

#[tokio::test(start_paused = true)]
async fn nulls_unknown_keys_and_missing_ones_are_no_trouble() {
    let world = World::plain();
    let body = r#"[{"Node":null,"Address":"192.0.2.1","ServicePort":80,"New":{"x":[1]},"ServiceTags":null,"NodeMeta":null},
                   {"Address":"192.0.2.2","ServicePort":81}, {}]"#;
    world.consul.set(WEB, body, 1);
    world.addrs("/dc1/web").hears("[192.0.2.1:80*1.0 192.0.2.2:81*1.0]").await;
}

#[tokio::test(start_paused = true)]
async fn the_state_page_has_namerds_keys() {
    let world = World::plain();
    world.consul.set(WEB, &list(&[node("192.0.2.1", 80)]), 7);
    world.addrs("/dc1/Web").hears("[192.0.2.1:80*1.0]").await;
    sleep(1).await;
    let page = world.namer.state().expect("a page");
    let web = &page["/dc1/web"];
    let address = json!({ "addr": "192.0.2.1:80", "metadata": { "endpoint_addr_weight": 1.0 } });
    assert_eq!(web["state"]["value"], json!({ "addrs": [address], "metadata": {} }));
    assert_eq!(web["state"]["running"], true);
    assert_eq!(web["poll"]["request"], format!("GET {WEB}?index=7&wait=5m&dc=dc1"));
    assert_eq!(web["poll"]["response"]["index"], "7");
    for key in ["lastRequestAt", "lastResponseAt"] {
        assert!(web["poll"][key].as_str().is_some_and(|time| time.ends_with(" +0000")), "{page}");
    }
    let _other = world.tree("/dc1/other");
    tokio::time::sleep(Duration::from_millis(10)).await;
    let page = world.namer.state().expect("a page");
    assert!(page["/dc1/other"]["state"]["value"].as_str().expect("text").starts_with("error: "), "{page}");
    assert!(page["/dc1/other"]["poll"]["error"].as_str().expect("text").contains("rpc error"), "{page}");
}
