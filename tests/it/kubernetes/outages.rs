//! What happens to a cluster, and does not happen to names.

use std::time::Duration;

use super::{ENDPOINTS, endpoints, proxied, rosterd};
use crate::support::{Follow, Kubernetes, get, metric};

#[test]
fn an_api_server_that_crashes_hangs_and_forgets_takes_nothing_away_and_what_changed_is_seen() {
    let kubernetes = Kubernetes::start();
    let rosterd = rosterd("io.l5d.k8s", &proxied(kubernetes.proxy()));
    kubernetes.put(ENDPOINTS, "web", endpoints(&["10.0.0.1"]));
    kubernetes.put(ENDPOINTS, "gone", endpoints(&["10.0.9.1"]));
    let mut addrs = Follow::addr(&rosterd, "/#/io.l5d.k8s/srv/http/web");
    let mut gone = Follow::addr(&rosterd, "/#/io.l5d.k8s/srv/http/gone");
    addrs.until_addrs(&["10.0.0.1:8080"]);
    gone.until_addrs(&["10.0.9.1:8080"]);

    // A crash.
    kubernetes.command("kill", "kube-apiserver");
    addrs.stays(Duration::from_secs(2));
    let ready = get(rosterd.admin(), "/ready");
    assert_eq!(ready.head.status(), 200);
    assert!(ready.text().contains("/#/io.l5d.k8s"), "{}", ready.text());
    kubernetes.command("start", "kube-apiserver");
    kubernetes.put(ENDPOINTS, "web", endpoints(&["10.0.0.2"]));
    addrs.until_addrs(&["10.0.0.2:8080"]);
    gone.stays(Duration::from_millis(500));

    // What rosterd cannot hear of: it sleeps while something is deleted and the history is forgotten.
    rosterd.signal(rustix::process::Signal::STOP);
    kubernetes.delete(ENDPOINTS, "gone");
    kubernetes.put(ENDPOINTS, "web", endpoints(&["10.0.0.3"]));
    for n in 0..20 {
        kubernetes.put(ENDPOINTS, "other", endpoints(&[&format!("10.0.8.{n}")]));
    }
    kubernetes.command("kill", "kube-apiserver");
    kubernetes.compact();
    kubernetes.command("start", "kube-apiserver");
    rosterd.signal(rustix::process::Signal::CONT);
    addrs.until_addrs(&["10.0.0.3:8080"]);
    gone.until("neg", crate::support::is_neg);

    // A store that hangs.
    kubernetes.command("pause", "etcd");
    addrs.stays(Duration::from_secs(3));
    kubernetes.command("resume", "etcd");
    kubernetes.put(ENDPOINTS, "web", endpoints(&["10.0.0.4"]));
    addrs.until_addrs(&["10.0.0.4:8080"]);
    // A proxy that restarts.
    kubernetes.command("kill", "kube-proxy");
    addrs.stays(Duration::from_secs(1));
    kubernetes.command("start", "kube-proxy");
    kubernetes.put(ENDPOINTS, "web", endpoints(&["10.0.0.5"]));
    addrs.until_addrs(&["10.0.0.5:8080"]);
    let shown: Vec<&String> = addrs.seen.iter().filter(|value| value.contains("neg")).collect();
    assert!(shown.is_empty(), "{shown:?}");
    let too_old = metric(&rosterd, "rosterd_kubernetes_requests_ended_total{server=\"127.0.0.1");
    assert!(too_old > 0, "requests are counted");
}
