//! What names stand for. Most cases are those of namerd's own EndpointsNamerTest and ServiceNamerTest.

use super::*;

fn sessions() -> Value {
    endpoints(&["10.248.4.9", "10.248.7.11", "10.248.8.9"], &[("http", 8083), ("admin", 9990)])
}

#[tokio::test(start_paused = true)]
async fn addresses_follow_scaling_and_the_tree_is_told_once() {
    let world = World::plain();
    world.api.put(ENDPOINTS, "sessions", sessions());
    let mut tree = world.tree("/sRv/HtTp/SeSsIoNs/Residual");
    tree.hears("/srv/http/sessions and /Residual").await;
    let mut addrs = world.addrs("/srv/http/sessions");
    addrs.hears("[10.248.4.9:8083 10.248.7.11:8083 10.248.8.9:8083]").await;
    world.api.put(ENDPOINTS, "sessions", endpoints(&["10.248.1.11", "10.248.4.9"], &[("http", 8083)]));
    addrs.hears("[10.248.1.11:8083 10.248.4.9:8083]").await;
    tree.hears_nothing_for(Duration::from_secs(5)).await;
    let set = world.set("/srv/http/sessions").await;
    assert_eq!(set.addrs()[0].meta.get("nodeName"), Some(&json!("node-10.248.1.11")));
}

#[tokio::test(start_paused = true)]
async fn what_is_not_there_is_neg_until_it_comes() {
    let world = World::plain();
    world.api.put(ENDPOINTS, "sessions", sessions());
    world.api.put(ENDPOINTS, "empty-subset", json!({ "subsets": null }));
    world.api.put(ENDPOINTS, "unnamed", endpoints(&["10.0.0.1"], &[("", 80)]));
    for name in
        ["/srv/thrift/sessions", "/srv/http/empty-subset", "/srv/http/unnamed", "/srv/http/none", "/srv/80/none"]
    {
        world.tree(name).hears("neg").await;
        world.addrs(name).hears("neg").await;
    }
    for name in ["/srv/http", "/srv", "/", "/srv/http/no_name", "/s_v/http/a"] {
        world.tree(name).hears("neg").await;
    }
    let mut late = world.tree("/srv/http/late");
    late.hears("neg").await;
    world.api.put(ENDPOINTS, "late", sessions());
    late.hears("/srv/http/late and /").await;
}

#[tokio::test(start_paused = true)]
async fn a_number_is_a_port_of_the_service() {
    let world = World::plain();
    world.api.put(ENDPOINTS, "sessions", sessions());
    world.api.put(ENDPOINTS, "auth", endpoints(&["10.248.0.10"], &[("http", 8082)]));
    world.api.put(ENDPOINTS, "zero", json!({}));
    let ports = json!([{ "name": "http", "port": 80, "targetPort": 54321 }, { "port": 9990 }, { "port": 53, "targetPort": "53" }]);
    world.api.put(SERVICES, "sessions", service(ports.clone()));
    world.api.put(SERVICES, "zero", service(ports));
    world.api.put(
        SERVICES,
        "auth",
        service(json!([{ "port": 80, "targetPort": "http" }, { "port": 81, "targetPort": "x" }])),
    );
    world.api.put(SERVICES, "external", json!({ "spec": { "type": "ExternalName", "externalName": "a.example" } }));
    for (name, addrs) in [
        ("/srv/80/sessions", "[10.248.4.9:54321 10.248.7.11:54321 10.248.8.9:54321]"),
        ("/srv/9990/sessions", "[10.248.4.9:9990 10.248.7.11:9990 10.248.8.9:9990]"),
        ("/srv/53/sessions", "[10.248.4.9:53 10.248.7.11:53 10.248.8.9:53]"),
        ("/srv/555/sessions", "neg"),
        ("/srv/80/auth", "[10.248.0.10:8082]"),
        ("/srv/81/auth", "neg"),
        ("/srv/80/zero", "[]"),
        ("/srv/80/external", "neg"),
    ] {
        world.addrs(name).hears(addrs).await;
        let tree = if addrs == "neg" { "neg".to_owned() } else { format!("{name} and /") };
        world.tree(name).hears(&tree).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_rollout_that_changes_a_port_never_mixes_old_addresses_with_the_new_one() {
    let world = World::plain();
    let subsets = json!([subset(&["10.0.0.1"], &[("http", 8080)]), subset(&["10.0.0.2"], &[("http", 9090)])]);
    world.api.put(ENDPOINTS, "web", json!({ "subsets": subsets }));
    world.addrs("/srv/http/web").hears("[10.0.0.1:8080 10.0.0.2:9090]").await;
}

#[tokio::test(start_paused = true)]
async fn a_label_selects_from_the_start_and_when_it_changes() {
    let world = World::new(EndpointsRules { label: Some("version".into()), ..rules() });
    let labelled = |version: &str| {
        let mut object = sessions();
        object["metadata"]["labels"] = json!({ "version": version });
        object
    };
    world.api.put(ENDPOINTS, "sessions", labelled("v1"));
    let (mut one, mut two) = (world.tree("/srv/http/sessions/V1/rest"), world.tree("/srv/http/sessions/v2"));
    one.hears("/srv/http/sessions/v1 and /rest").await;
    two.hears("neg").await;
    world.tree("/srv/http/sessions").hears("neg").await;
    world.api.put(ENDPOINTS, "sessions", labelled("v2"));
    one.hears("neg").await;
    two.hears("/srv/http/sessions/v2 and /").await;
    assert_eq!(world.api.count("watch=true"), 1, "one watch serves all values");
}

#[tokio::test(start_paused = true)]
async fn a_namer_of_one_namespace_has_names_without_it() {
    let world = World::new(EndpointsRules { namespace: Some("srv".into()), ..rules() });
    world.api.put(ENDPOINTS, "sessions", sessions());
    world.tree("/http/sessions/d3adb33f").hears("/http/sessions and /d3adb33f").await;
    world.addrs("/http/sessions").hears("[10.248.4.9:8083 10.248.7.11:8083 10.248.8.9:8083]").await;
}

#[tokio::test(start_paused = true)]
async fn all_gone_and_back_is_followed_also_by_who_kept_the_old_leaf() {
    let world = World::plain();
    let world_v1 = |ips: &[&str]| endpoints(ips, &[("http", 7778)]);
    world.api.put(ENDPOINTS, "world-v1", world_v1(&["10.0.0.84", "10.0.0.85"]));
    let (mut tree, mut addrs) = (world.tree("/srv/http/world-v1"), world.addrs("/srv/http/world-v1"));
    tree.hears("/srv/http/world-v1 and /").await;
    addrs.hears("[10.0.0.84:7778 10.0.0.85:7778]").await;
    world.api.put(ENDPOINTS, "world-v1", json!({ "subsets": [] }));
    tree.hears("neg").await;
    addrs.hears("neg").await;
    world.api.put(ENDPOINTS, "world-v1", world_v1(&["10.0.0.87"]));
    tree.hears("/srv/http/world-v1 and /").await;
    addrs.hears("[10.0.0.87:7778]").await;
    world.api.delete(ENDPOINTS, "world-v1");
    addrs.hears("neg").await;
}

// === io.l5d.k8s.external ===

fn external(label: Option<&str>) -> World<ExternalNamer> {
    let api = FakeApi::default();
    let hosts = Hosts::new(IpFamilies::default());
    let namer = ExternalNamer::new(&api.server(), label.map(Into::into), hosts, Duration::from_secs(2));
    World { api, namer: Arc::new(namer), evaluators: Evaluators::start(1) }
}

fn balanced(ports: Value, ingress: Value) -> Value {
    json!({ "spec": { "ports": ports }, "status": { "loadBalancer": { "ingress": ingress } } })
}

#[tokio::test(start_paused = true)]
async fn a_load_balancer_serves_the_ports_of_its_service() {
    let world = external(None);
    let ports = json!([{ "name": "external", "port": 80, "targetPort": 8080 }, { "name": "admin", "port": 9990 }]);
    world.api.put(SERVICES, "l5d", balanced(ports.clone(), json!([{ "ip": "104.155.170.94" }])));
    let mut tree = world.tree("/sRv/ExTeRnAl/L5D/rEsIdUaL");
    tree.hears("/sRv/ExTeRnAl/L5D and /rEsIdUaL").await;
    let mut addrs = world.addrs("/srv/external/l5d");
    addrs.hears("[104.155.170.94:80]").await;
    let two = json!([{ "ip": "104.155.170.94" }, { "ip": "104.155.170.95" }]);
    world.api.put(SERVICES, "l5d", balanced(ports, two));
    addrs.hears("[104.155.170.95:80]").await;
    tree.hears_nothing_for(Duration::from_secs(1)).await;
    for name in ["/srv/foo/l5d", "/srv/external/foo", "/srv/80/l5d", "/srv/external"] {
        world.tree(name).hears("neg").await;
    }
    world.api.delete(SERVICES, "l5d");
    addrs.hears("neg").await;
    tree.hears("neg").await;
}

#[tokio::test(start_paused = true)]
async fn a_number_leads_to_the_port_that_its_target_names() {
    let world = external(Some("v"));
    let ports = json!([{ "name": "http", "port": 80, "targetPort": "http" }, { "name": "8443", "port": 443, "targetPort": 8443 }]);
    let mut object = balanced(ports, json!([{ "hostname": "localhost" }]));
    object["metadata"]["labels"] = json!({ "v": "V1" });
    world.api.put(SERVICES, "lb", object);
    world.addrs("/srv/80/lb/V1").hears("[127.0.0.1:80]").await;
    world.addrs("/srv/443/lb/V1").hears("[127.0.0.1:443]").await;
    world.tree("/srv/80/lb/v1").hears("neg").await;
    world.api.put(SERVICES, "pending", service(json!([{ "name": "http", "port": 80 }])));
    world.tree("/srv/http/pending/V1").hears("neg").await;
}
