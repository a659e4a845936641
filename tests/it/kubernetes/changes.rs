//! What happens in a cluster, seen through rosterd.

use std::time::Duration;

use serde_json::json;

use super::{ENDPOINTS, SERVICES, SLICES, endpoints, proxied, rosterd, slice};
use crate::support::{Follow, Kubernetes, get, is_neg, unique};

#[test]
fn services_come_scale_and_go_within_a_moment() {
    let kubernetes = Kubernetes::shared();
    let web = unique("web");
    let rosterd = rosterd("io.l5d.k8s", &proxied(kubernetes.proxy()));
    let id = format!("/#/io.l5d.k8s/srv/http/{web}");
    let mut tree = Follow::bind(&rosterd, &format!("/svc/{web}/r"));
    let mut addrs = Follow::addr(&rosterd, &id);
    tree.until("neg", is_neg);
    addrs.until("neg", is_neg);
    kubernetes.put(ENDPOINTS, &web, endpoints(&["10.0.0.1"]));
    let mut slowest = addrs.until_addrs(&["10.0.0.1:8080"]);
    tree.until("a leaf", |value| value["bound"]["id"] == id.as_str());
    kubernetes.put(ENDPOINTS, &web, endpoints(&["10.0.0.1", "10.0.0.2", "10.0.0.3"]));
    slowest = slowest.max(addrs.until_addrs(&["10.0.0.1:8080", "10.0.0.2:8080", "10.0.0.3:8080"]));
    // A rolling update to new addresses only.
    kubernetes.put(ENDPOINTS, &web, endpoints(&["10.0.1.1", "10.0.1.2"]));
    slowest = slowest.max(addrs.until_addrs(&["10.0.1.1:8080", "10.0.1.2:8080"]));
    assert_eq!(tree.seen.len(), 2, "addresses do not touch the tree: {:?}", tree.seen);
    kubernetes.put(ENDPOINTS, &web, endpoints(&[]));
    addrs.until("neg", is_neg);
    tree.until("neg", is_neg);
    kubernetes.put(ENDPOINTS, &web, endpoints(&["10.0.2.1"]));
    addrs.until_addrs(&["10.0.2.1:8080"]);
    kubernetes.delete(ENDPOINTS, &web);
    addrs.until("neg", is_neg);
    assert!(slowest < Duration::from_secs(2), "{slowest:?}");
    let page = get(rosterd.admin(), "/namer_state/io.l5d.k8s.json");
    assert!(page.text().contains(&format!("\"srv/{web}\"")), "{}", page.text());
}

#[test]
fn a_service_gives_its_port_numbers_and_its_load_balancer_a_name() {
    let kubernetes = Kubernetes::shared();
    let web = unique("web");
    let spec = |target: serde_json::Value| json!({ "spec": { "type": "LoadBalancer", "ports": [{ "name": "http", "port": 80, "targetPort": target }] } });
    kubernetes.put(ENDPOINTS, &web, endpoints(&["10.0.0.1"]));
    let namer = rosterd("io.l5d.k8s", &proxied(kubernetes.proxy()));
    let external = rosterd("io.l5d.k8s.external", &proxied(kubernetes.proxy()));
    let mut numbered = Follow::addr(&namer, &format!("/#/io.l5d.k8s/srv/80/{web}"));
    let mut balanced = Follow::addr(&external, &format!("/#/io.l5d.k8s.external/srv/http/{web}"));
    numbered.until("neg", is_neg);
    balanced.until("neg", is_neg);
    let service = spec(json!(9090));
    let created = kubernetes.ask("POST", SERVICES, &{
        let mut service = service.clone();
        service["metadata"]["name"] = web.as_str().into();
        service
    });
    assert_eq!(created.head.status(), 201, "{created:?}");
    numbered.until_addrs(&["10.0.0.1:9090"]);
    balanced.stays(Duration::from_millis(200));
    let mut known: serde_json::Value = serde_json::from_slice(&created.body).expect("JSON");
    known["status"]["loadBalancer"]["ingress"] = json!([{ "ip": "192.0.2.7" }]);
    let path = format!("{SERVICES}/{web}/status");
    assert_eq!(kubernetes.ask("PUT", &path, &known).head.status(), 200);
    balanced.until_addrs(&["192.0.2.7:80"]);
    kubernetes.delete(SERVICES, &web);
    numbered.until("neg", is_neg);
    balanced.until("neg", is_neg);
}

#[test]
fn five_thousand_addresses_in_slices_are_one_service() {
    let kubernetes = Kubernetes::shared();
    let web = unique("web");
    let keys = format!("{}, source: endpointSlices", proxied(kubernetes.proxy()));
    let rosterd = rosterd("io.l5d.k8s", &keys);
    let part = |part: usize| (0..100).map(|n| format!("10.1.{part}.{n}")).collect::<Vec<_>>();
    for number in 0..50 {
        let ips = part(number);
        let ips: Vec<&str> = ips.iter().map(String::as_str).collect();
        kubernetes.put(SLICES, &format!("{web}-{number}"), slice(&web, &ips));
    }
    let mut addrs = Follow::addr(&rosterd, &format!("/#/io.l5d.k8s/srv/http/{web}"));
    let count = |value: &serde_json::Value| value["addrs"].as_array().map_or(0, Vec::len);
    addrs.until("all of them", |value| count(value) == 5_000);
    kubernetes.delete(SLICES, &format!("{web}-7"));
    addrs.until("without one slice", |value| count(value) == 4_900);
}

#[test]
fn a_hundred_services_of_a_namespace_are_one_watch() {
    let kubernetes = Kubernetes::shared();
    let web = unique("many");
    kubernetes.make_namespace(&web);
    let collection = format!("/api/v1/namespaces/{web}/endpoints");
    let rosterd = rosterd("io.l5d.k8s", &proxied(kubernetes.proxy()));
    let mut all: Vec<Follow> =
        (0..40).map(|n| Follow::addr(&rosterd, &format!("/#/io.l5d.k8s/{web}/http/s{n}"))).collect();
    for addrs in &mut all {
        addrs.until("neg", is_neg);
    }
    crate::support::wait_until("one stream", || {
        crate::support::metric(&rosterd, "rosterd_kubernetes_streams_open") == 1
    });
    for (n, addrs) in all.iter_mut().enumerate() {
        kubernetes.put(&collection, &format!("s{n}"), endpoints(&[&format!("10.2.0.{n}")]));
        addrs.until_addrs(&[&format!("10.2.0.{n}:8080")]);
    }
}
