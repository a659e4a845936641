//! Rights, tokens and TLS: rosterd talks to the API server itself.

use std::time::Duration;

use serde_json::json;

use super::{ENDPOINTS, SLICES, config, endpoints, slice};
use crate::support::{Follow, Kubernetes, Rosterd, folder, unique};

/// A role of the user `reader` in the namespace `srv`: which verbs on which resources.
fn grant(kubernetes: &Kubernetes, name: &str, rules: serde_json::Value) {
    let api = "/apis/rbac.authorization.k8s.io/v1/namespaces/srv";
    kubernetes.put(&format!("{api}/roles"), name, json!({ "rules": rules }));
    let role = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name });
    let user = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "reader" });
    kubernetes.put(&format!("{api}/rolebindings"), name, json!({ "roleRef": role, "subjects": [user] }));
}

#[test]
fn rights_are_named_where_they_lack_used_where_they_are_given_and_a_token_is_renewed() {
    let kubernetes = Kubernetes::start();
    let web = unique("web");
    kubernetes.put(ENDPOINTS, &web, endpoints(&["10.0.0.1"]));
    kubernetes.put(SLICES, &format!("{web}-1"), slice(&web, &["10.0.0.2"]));
    let folder = folder();
    let token = folder.path().join("token");
    std::fs::write(&token, "stale-token").expect("written");
    let (server, authority) = (kubernetes.variable("KUBE"), kubernetes.variable("KUBE_CA"));
    let kubeconfig = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: t\n\
         contexts: [{{name: t, context: {{cluster: t, user: t}}}}]\n\
         clusters: [{{name: t, cluster: {{server: '{server}', certificate-authority: '{authority}'}}}}]\n\
         users: [{{name: t, user: {{tokenFile: token}}}}]\n"
    );
    std::fs::write(folder.path().join("kubeconfig"), kubeconfig).expect("written");
    let rosterd = Rosterd::start_in(folder, &config("io.l5d.k8s", "kubeconfig: kubeconfig"));
    let mut addrs = Follow::addr(&rosterd, &format!("/#/io.l5d.k8s/srv/http/{web}"));
    addrs.stays(Duration::from_millis(500));
    rosterd.wait_for_output("does not know who asks (401)");

    // A token that is known, of somebody without rights.
    std::fs::write(&token, kubernetes.variable("KUBE_READER_TOKEN")).expect("written");
    rosterd.wait_for_output("apiGroups: [\"discovery.k8s.io\"]");
    addrs.stays(Duration::from_millis(500));

    // Rights as rules made for namerd give them: no list.
    grant(&kubernetes, "namerd", json!([{ "apiGroups": [""], "resources": ["endpoints"], "verbs": ["get", "watch"] }]));
    addrs.until_addrs(&["10.0.0.1:8080"]);
    kubernetes.put(ENDPOINTS, &web, endpoints(&["10.0.0.3"]));
    addrs.until_addrs(&["10.0.0.3:8080"]);
    let refusals = rosterd.output().matches("refuses to list").count();
    assert!(refusals <= 2, "each is said once: {}", rosterd.output());
}
