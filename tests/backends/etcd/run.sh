# Sourced by ../backend: etcd with both of its APIs. Ports of the block: 16 clients, 17 peers.

env_etcd() { echo "ETCD=127.0.0.1:$((port + 16))"; }

start_etcd() {
    local program clients=http://127.0.0.1:$((port + 16)) peers=http://127.0.0.1:$((port + 17))
    program=$(find_program etcd) || die "etcd $(version_of etcd) is not there; make it with tests/backends/build etcd, or set ROSTERD_BACKENDS to a folder that has it"
    spawn etcd "$program" --name t --data-dir "$(folder etcd)/data" --enable-v2=true --logger=zap --log-level=warn \
        --listen-client-urls "$clients" --advertise-client-urls "$clients" \
        --listen-peer-urls "$peers" --initial-advertise-peer-urls "$peers" --initial-cluster "t=$peers"
    wait_for etcd 20 says_hello $((port + 16)) /health '"health":"true"'
}
