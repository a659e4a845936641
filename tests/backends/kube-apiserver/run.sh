# Sourced by ../backend: a Kubernetes API server on the etcd beside it, and kubectl proxy. Ports of the block: 19 HTTPS, 20 the proxy.
# No controller runs: nothing makes Endpoints of Services, and nothing empties deleted namespaces.

env_kube_apiserver() {
    echo "KUBE=https://127.0.0.1:$((port + 19))"
    echo "KUBE_CA=$(folder kube-apiserver)/certs/apiserver.crt"
    echo "KUBE_ADMIN_TOKEN=admin-token"
    echo "KUBE_READER_TOKEN=reader-token"
    echo "KUBE_PROXY=127.0.0.1:$((port + 20))"
}

kube_is_ready() {
    curl -sf -m 2 -o /dev/null -k -H 'Authorization: Bearer admin-token' "https://127.0.0.1:$((port + 19))/readyz"
}

start_kube_apiserver() {
    local program place
    program=$(find_program kube-apiserver) || die "kube-apiserver $(version_of kube-apiserver) is not there; make it with tests/backends/build kube-apiserver, or set ROSTERD_BACKENDS to a folder that has it"
    runs etcd || die "kube-apiserver keeps its objects in etcd: start that first"
    place=$(folder kube-apiserver)
    mkdir -p "$place/certs"
    [ -f "$place/accounts.key" ] || openssl genrsa -out "$place/accounts.key" 2048 2>/dev/null
    # The user `reader` may do nothing until a test gives it a role.
    printf '%s\n' 'admin-token,admin,1,"system:masters"' 'reader-token,reader,2' >"$place/tokens.csv"
    spawn kube-apiserver "$program" --etcd-servers="http://127.0.0.1:$((port + 16))" \
        --bind-address=127.0.0.1 --advertise-address=127.0.0.1 --secure-port=$((port + 19)) --cert-dir="$place/certs" \
        --endpoint-reconciler-type=none --service-cluster-ip-range=10.96.0.0/16 --service-account-issuer=https://kubernetes.default.svc \
        --service-account-key-file="$place/accounts.key" --service-account-signing-key-file="$place/accounts.key" \
        --disable-admission-plugins=ServiceAccount --token-auth-file="$place/tokens.csv" --authorization-mode=RBAC
    wait_for kube-apiserver 90 kube_is_ready
}

start_kube_proxy() {
    local place
    place=$(folder kube-proxy)
    type -P kubectl >/dev/null || die "kubectl is not there; install the package kubernetes-client"
    runs kube-apiserver || die "kube-proxy needs kube-apiserver: start that first"
    mkdir -p "$place"
    cat >"$place/kubeconfig" <<K
apiVersion: v1
kind: Config
current-context: t
contexts: [{name: t, context: {cluster: t, user: admin}}]
clusters: [{name: t, cluster: {server: "https://127.0.0.1:$((port + 19))", certificate-authority: "$(folder kube-apiserver)/certs/apiserver.crt"}}]
users: [{name: admin, user: {token: admin-token}}]
K
    spawn kube-proxy kubectl --kubeconfig "$place/kubeconfig" proxy --port=$((port + 20)) --address=127.0.0.1
    wait_for kube-proxy 20 says_hello $((port + 20)) /readyz ok
}
