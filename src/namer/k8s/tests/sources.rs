//! Endpoints or EndpointSlices.

use super::*;

const WEB: &str = "/srv/http/web";

#[tokio::test(start_paused = true)]
async fn the_slices_of_a_service_are_one_set_with_the_port_of_each() {
    let world = World::of_source(Source::Slices);
    world.api.put(SLICES, "web-1", slice("web", &[("10.0.0.1", ready()), ("10.0.0.2", json!({}))], &[("http", 8080)]));
    world.api.put(SLICES, "web-2", slice("web", &[("10.0.0.3", json!({ "ready": null }))], &[("http", 9090)]));
    world.api.put(SLICES, "shop-1", slice("shop", &[("10.0.0.9", ready())], &[("http", 8080)]));
    let mut addrs = world.addrs(WEB);
    addrs.hears("[10.0.0.1:8080 10.0.0.2:8080 10.0.0.3:9090]").await;
    let meta = world.set(WEB).await.addrs()[0].meta.clone();
    assert_eq!((meta.get("nodeName"), meta.get("zone")), (Some(&json!("node-10.0.0.1")), Some(&json!("a"))));
    // One moves to another service, one is emptied, one comes.
    world.api.put(SLICES, "web-2", slice("shop", &[("10.0.0.3", ready())], &[("http", 9090)]));
    addrs.hears("[10.0.0.1:8080 10.0.0.2:8080]").await;
    world.addrs("/srv/http/shop").hears("[10.0.0.3:9090 10.0.0.9:8080]").await;
    world.api.put(
        SLICES,
        "web-1",
        json!({ "metadata": { "labels": { "kubernetes.io/service-name": "web" } }, "endpoints": null, "ports": null }),
    );
    addrs.hears("neg").await;
}

#[tokio::test(start_paused = true)]
async fn an_address_counts_once_and_if_it_is_ready_anywhere() {
    let world = World::of_source(Source::Slices);
    let gone = json!({ "ready": false, "serving": false, "terminating": true });
    world.api.put(SLICES, "web-1", slice("web", &[("10.0.0.1", gone.clone()), ("10.0.0.2", ready())], &[("http", 80)]));
    world.api.put(SLICES, "web-2", slice("web", &[("10.0.0.1", ready()), ("10.0.0.2", ready())], &[("http", 80)]));
    let mut addrs = world.addrs(WEB);
    addrs.hears("[10.0.0.1:80 10.0.0.2:80]").await;
    world.api.put(SLICES, "web-2", slice("web", &[("10.0.0.1", json!({ "ready": false }))], &[("http", 80)]));
    addrs.hears("[10.0.0.2:80]").await;
}

#[tokio::test(start_paused = true)]
async fn who_terminates_and_still_serves_counts_where_nobody_is_ready() {
    let world = World::of_source(Source::Slices);
    let draining = json!({ "ready": false, "serving": true, "terminating": true });
    let starting = json!({ "ready": false, "serving": false, "terminating": false });
    world.api.put(
        SLICES,
        "web-1",
        slice("web", &[("10.0.0.1", draining.clone()), ("10.0.0.2", starting)], &[("http", 80)]),
    );
    let mut addrs = world.addrs(WEB);
    addrs.hears("[10.0.0.1:80]").await;
    world.api.put(SLICES, "web-1", slice("web", &[("10.0.0.1", draining), ("10.0.0.2", ready())], &[("http", 80)]));
    addrs.hears("[10.0.0.2:80]").await;
}

#[tokio::test(start_paused = true)]
async fn of_two_families_the_configured_one_counts() {
    let rules = |v4, v6| EndpointsRules { families: IpFamilies { v4, v6 }, source: Source::Slices, ..rules() };
    for (v4, v6, addrs) in
        [(true, false, "[10.0.0.1:80]"), (true, true, "[10.0.0.1:80]"), (false, true, "[2001:db8::1:80]")]
    {
        let world = World::new(rules(v4, v6));
        let mut six = slice("web", &[("2001:db8::1", ready())], &[("http", 80)]);
        six["addressType"] = "IPv6".into();
        let mut named = slice("web", &[("a.example", ready())], &[("http", 80)]);
        named["addressType"] = "FQDN".into();
        world.api.put(SLICES, "web-6", six);
        world.api.put(SLICES, "web-f", named);
        world.api.put(SLICES, "web-4", slice("web", &[("10.0.0.1", ready())], &[("http", 80)]));
        world.addrs(WEB).hears(addrs).await;
    }
}

#[tokio::test(start_paused = true)]
async fn where_slices_are_forbidden_or_unknown_endpoints_are_read_until_that_changes() {
    for status in [403, 404] {
        let world = World::of_source(Source::Auto);
        world.api.put(ENDPOINTS, "web", endpoints(&["10.0.0.1"], &[("http", 80)]));
        world.api.put(SLICES, "web-1", slice("web", &[("10.0.0.2", ready())], &[("http", 80)]));
        world.api.refuse("endpointslices", status);
        let mut addrs = world.addrs(WEB);
        addrs.hears("[10.0.0.1:80]").await;
        world.api.put(ENDPOINTS, "web", endpoints(&["10.0.0.3"], &[("http", 80)]));
        addrs.hears("[10.0.0.3:80]").await;
        world.api.refuse_nothing();
        assert!(addrs.until(Some("[10.0.0.2:80]"), Duration::from_secs(700)).await, "{:?}", addrs.log);
    }
}

#[tokio::test(start_paused = true)]
async fn slices_that_are_watched_are_not_left_for_endpoints_because_a_list_that_is_due_is_refused() {
    let world = World::of_source(Source::Auto);
    // What Kubernetes cuts after a thousand addresses.
    world.api.put(ENDPOINTS, "web", endpoints(&["10.0.0.1"], &[("http", 80)]));
    world.api.put(SLICES, "web-1", slice("web", &[("10.0.0.1", ready()), ("10.0.0.2", ready())], &[("http", 80)]));
    let mut addrs = world.addrs(WEB);
    addrs.hears("[10.0.0.1:80 10.0.0.2:80]").await;
    world.api.refuse("endpointslices?labelSelector=kubernetes.io%2Fservice-name%3Dweb&limit=", 403);
    sleep(700).await;
    assert!(world.api.count("endpointslices?labelSelector=kubernetes.io%2Fservice-name%3Dweb&limit=") > 1);
    addrs.hears_nothing_for(Duration::from_secs(1)).await;
    world.api.put(SLICES, "web-2", slice("web", &[("10.0.0.3", ready())], &[("http", 80)]));
    addrs.hears("[10.0.0.1:80 10.0.0.2:80 10.0.0.3:80]").await;
}

#[tokio::test(start_paused = true)]
async fn rules_made_for_namerd_which_do_not_let_it_list_are_enough() {
    let world = World::plain();
    world.api.put(ENDPOINTS, "web", endpoints(&["10.0.0.1"], &[("http", 80)]));
    world.api.refuse("limit=", 403);
    let mut addrs = world.addrs(WEB);
    addrs.hears("[10.0.0.1:80]").await;
    world.addrs("/srv/http/none").hears("neg").await;
    world.api.put(ENDPOINTS, "web", endpoints(&["10.0.0.2"], &[("http", 80)]));
    addrs.hears("[10.0.0.2:80]").await;
    // Deleted while nobody can hear of it.
    world.api.set_down(true);
    sleep(1).await;
    world.api.delete(ENDPOINTS, "web");
    world.api.compact();
    world.api.set_down(false);
    addrs.hears("neg").await;
    world.api.put(ENDPOINTS, "web", endpoints(&["10.0.0.3"], &[("http", 80)]));
    addrs.hears("[10.0.0.3:80]").await;
    assert_eq!(addrs.log.len(), 4, "{:?}", addrs.log);
}

#[tokio::test(start_paused = true)]
async fn a_service_of_more_than_a_thousand_addresses_is_complete() {
    let world = World::of_source(Source::Slices);
    for part in 0..50_u8 {
        let ips: Vec<String> = (0..100_u8).map(|n| format!("10.1.{part}.{n}")).collect();
        let all: Vec<(&str, Value)> = ips.iter().map(|ip| (ip.as_str(), ready())).collect();
        world.api.put(SLICES, &format!("web-{part}"), slice("web", &all, &[("http", 80)]));
    }
    assert_eq!(world.set(WEB).await.len(), 5_000);
}
