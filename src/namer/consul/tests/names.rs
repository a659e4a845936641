//! Which names are asked for, and how.

use super::*;

#[tokio::test(start_paused = true)]
async fn capitals_stay_in_the_id_alone() {
    let world = World::plain();
    world.consul.set(WEB, &list(&[node("192.0.2.1", 8080)]), 1);
    let mut tree = world.tree("/dc1/WEB/Residual");
    tree.hears("/dc1/WEB and /Residual").await;
    world.addrs("/dc1/WEB").hears("[192.0.2.1:8080*1.0]").await;
    assert_eq!(world.asked()[0], format!("{WEB}?dc=dc1"));
}

#[tokio::test(start_paused = true)]
async fn too_few_elements_are_no_name_and_cost_no_request() {
    let world = World::plain();
    for name in ["/", "/dc1"] {
        world.tree(name).hears("neg").await;
    }
    world.addrs("/dc1").hears("neg").await;
    world.addrs("/dc1/web/more").hears("neg").await;
    let tagged = World::new(Rules { include_tag: true, ..Rules::default() });
    tagged.tree("/dc1/web").hears("neg").await;
    assert_eq!((world.asked().len(), tagged.asked().len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn odd_names_are_escaped_and_those_that_would_leave_the_path_are_not_asked_for() {
    let world = World::plain();
    for (name, target) in [
        (r"/dc1/My\x20Service\x2fx", "/v1/catalog/service/my%20service%2Fx?dc=dc1"),
        (r"/dc1/\xc3\xbcn\xc3\xafcode", "/v1/catalog/service/%C3%BCn%C3%AFcode?dc=dc1"),
        (r"/d\x26c/a\x3fb", "/v1/catalog/service/a%3Fb?dc=d%26c"),
    ] {
        let _tree = world.tree(name);
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert!(world.asked().contains(&target.to_owned()), "{name}: {:?}", world.asked());
    }
    let before = world.asked().len();
    world.tree("/dc1/.").hears("neg").await;
    world.tree("/dc1/..").hears("neg").await;
    assert_eq!(world.asked().len(), before);
}

#[tokio::test(start_paused = true)]
async fn one_poll_serves_all_names_and_observers_of_a_service() {
    let world = World::plain();
    world.consul.set(WEB, &list(&[node("192.0.2.1", 80)]), 1);
    let mut trees: Vec<_> = (0..50).map(|n| world.tree(&format!("/dc1/wEb/residual/{n}"))).collect();
    for (n, tree) in trees.iter_mut().enumerate() {
        tree.hears(&format!("/dc1/wEb and /residual/{n}")).await;
    }
    world.tree("/dc1/web").hears("/dc1/web and /").await;
    world.addrs("/dc1/web").hears("[192.0.2.1:80*1.0]").await;
    sleep(1).await;
    assert_eq!(world.asked(), [format!("{WEB}?dc=dc1"), format!("{WEB}?index=1&wait=5m&dc=dc1")]);
    assert_eq!(world.counts(), [1, 1, 1, 0, 0, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_tag_is_in_small_letters_too_and_part_of_the_id() {
    let rules = Rules { include_tag: true, set_host: true, ..Rules::default() };
    let world = World::new(rules);
    world.consul.set("/v1/catalog/service/servicename", &list(&[node("192.0.2.1", 80)]), 1);
    world.tree("/dc1/masTER/servicename/residual").hears("/dc1/masTER/servicename and /residual").await;
    assert!(world.asked().contains(&"/v1/catalog/service/servicename?dc=dc1&tag=master".to_owned()));
    let set = world.set("/dc1/masTER/servicename").await;
    assert_eq!(set.meta().get("authority"), Some(&"master.servicename.service.dc1.consul".into()));
}

#[tokio::test(start_paused = true)]
async fn local_is_the_datacenter_of_the_agent_and_follows_it() {
    let world = World::new(Rules { set_host: true, ..Rules::default() });
    world.consul.set(WEB, &list(&[node("192.0.2.1", 80)]), 1);
    let mut tree = world.tree("/.local/web/r");
    tree.hears("/.local/web and /r").await;
    world.tree("/dc1/web").hears("/dc1/web and /").await;
    let polls = world.asked().iter().filter(|target| target.starts_with(WEB) && !target.contains("index=")).count();
    assert_eq!(polls, 1, "both names are one service: {:?}", world.asked());
    let authority = |set: &AddrSet| set.meta().get("authority").cloned();
    assert_eq!(authority(&world.set("/.local/web").await), Some("web.service.dc1.consul".into()));
    world.consul.set(SELF, &agent_self("dc2", "acme.co.").to_string(), 2);
    sleep(310).await;
    assert_eq!(authority(&world.set("/.local/web").await), Some("web.service.dc2.acme.co".into()));
    assert!(world.asked().iter().any(|target| target.contains("dc=dc2")));
    assert_eq!(tree.log, ["/.local/web and /r"], "the name has not changed");
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_denies_or_knows_no_datacenter_is_asked_again() {
    let world = World::plain();
    for _ in 0..3 {
        world.consul.say(403, "Permission denied: lacks permission 'agent:read'");
    }
    world.consul.set(WEB, &list(&[node("192.0.2.1", 80)]), 1);
    let watch = world.watch(Lookup(world.namer.clone(), path("/.local/web")));
    tokio::time::sleep(Duration::from_millis(10)).await;
    let waits = watch.answer(Duration::from_millis(1)).await.expect_err("it waits").to_string();
    assert!(waits.contains("agent:read"), "{waits}");
    let mut tree = world.tree("/.local/web");
    assert!(tree.hears("/.local/web and /").await < Duration::from_secs(5));
    let silent = World::plain();
    silent.consul.set(SELF, r#"{"Config":{}}"#, 1);
    silent.consul.set(WEB, &list(&[node("192.0.2.1", 80)]), 1);
    silent.tree("/.local/web").hears("/.local/web and /").await;
    assert_eq!(silent.asked()[1], format!("{WEB}?dc=.local"));
}

#[tokio::test(start_paused = true)]
async fn the_authority_is_that_of_consuls_dns() {
    for (own, domain) in [
        (json!({ "Config": { "Domain": "consul.acme.co" }, "DebugConfig": { "DNSDomain": "x." } }), "consul.acme.co"),
        (json!({ "Config": {}, "DebugConfig": { "DNSDomain": "acme." } }), "acme"),
        (json!({ "DebugConfig": null }), "consul"),
    ] {
        let world = World::new(Rules { set_host: true, transfer_metadata: true, ..Rules::default() });
        world.consul.set(SELF, &own.to_string(), 1);
        world.consul.set("/v1/catalog/service/servicename", &list(&[node("192.0.2.1", 80)]), 1);
        let set = world.set("/dc1/serviceName").await;
        let meta: Vec<_> = set.meta().iter().map(|(key, value)| (key, value.as_str().unwrap_or_default())).collect();
        let authority = format!("servicename.service.dc1.{domain}");
        assert_eq!(meta, [("authority", authority.as_str()), ("srv_meta", "some_srv_meta")]);
    }
}

#[tokio::test(start_paused = true)]
async fn health_is_asked_for_as_namerd_does_apart_from_passing_false() {
    use nodes::Health::{Passing, Warning};
    let statuses = |statuses: &[nodes::Health]| Some(statuses.iter().copied().collect());
    let rules = |statuses| Rules { statuses, consistency: crate::consul::Consistency::Stale, ..Rules::default() };
    for (rules, target) in [
        (rules(statuses(&[Passing])), "/v1/health/service/web?stale=true&dc=dc1&passing=true"),
        (rules(statuses(&[Passing, Warning])), "/v1/health/service/web?stale=true&dc=dc1"),
        (rules(statuses(&[])), "/v1/health/service/web?stale=true&dc=dc1"),
        (rules(None), "/v1/catalog/service/web?stale=true&dc=dc1"),
    ] {
        let world = World::new(rules);
        let _tree = world.tree("/dc1/web");
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert_eq!(world.asked()[0], target);
    }
}

#[tokio::test(start_paused = true)]
async fn what_nobody_watches_is_let_go_after_a_while() {
    let world = World::plain();
    world.consul.set(WEB, &list(&[node("192.0.2.1", 80)]), 1);
    let mut tree = world.tree("/dc1/web");
    tree.hears("/dc1/web and /").await;
    drop(tree);
    sleep(500).await;
    let mut again = world.tree("/dc1/web");
    again.hears("/dc1/web and /").await;
    assert_eq!(world.counts()[2..4], [1, 0], "it was kept for who comes back");
    drop(again);
    sleep(700).await;
    assert_eq!(world.counts()[2..4], [1, 1]);
    let before = world.asked().len();
    sleep(3_600).await;
    assert_eq!(world.asked().len(), before);
}
