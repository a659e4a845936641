# Sourced by ../backend: Consul agents. Ports, from the first of the block: 0-2 HTTP of the server, its client agent, the one with
# ACLs; 3 that of dc2; from 4 on three for each agent, server and gossip. 21-23 HTTP of the three servers of one cluster, from 24 on
# two for each, server and gossip.

consul_management=root-token

env_consul() {
    echo "CONSUL=127.0.0.1:$port"
    echo "CONSUL_CLIENT=127.0.0.1:$((port + 1))"
    echo "CONSUL_ACL=127.0.0.1:$((port + 2))"
    echo "CONSUL_ACL_TOKEN=$consul_management"
    echo "CONSUL_FIRST=127.0.0.1:$((port + 21))"
    echo "CONSUL_SECOND=127.0.0.1:$((port + 22))"
    echo "CONSUL_THIRD=127.0.0.1:$((port + 23))"
    echo "CONSUL_DC2=127.0.0.1:$((port + 3))"
    echo "CONSUL_DC2_SERVER=127.0.0.1:$((port + 13))"
    echo "CONSUL_DC2_WAN=127.0.0.1:$((port + 15))"
}

# consul_agent NAME PLACE DATACENTER OPTION...: PLACE is that of its ports. Returns when its own node is in the catalog, which is later
# than when /v1/status/leader answers.
consul_agent() {
    local name=$1 place=$2
    shift 2
    spawn_consul "$name" $((port + place)) $((port + 4 + place * 3)) "$@"
    wait_for "$name" 30 says_hello $((port + place)) /v1/catalog/service/consul '[{"' "X-Consul-Token: $consul_management"
}

# spawn_consul NAME HTTP SERVER DATACENTER OPTION...: two of its ports; those of gossip follow that of the server.
# Not `-dev`: that keeps nothing, and prints JSON with spaces and newlines. Unused ports are switched off, or two agents collide.
# A single server elects itself after 2 s with this multiplier, after 10 without.
spawn_consul() {
    local name=$1 http=$2 server=$3 dc=$4 program data
    shift 4
    program=$(find_program consul) || die "consul $(version_of consul) is not there; make it with tests/backends/build consul, or set ROSTERD_BACKENDS to a folder that has it"
    data=$(folder "$name")/data
    spawn "$name" "$program" agent -node "$name" -datacenter "$dc" -bind 127.0.0.1 -client 127.0.0.1 -log-level warn -data-dir "$data" \
        -hcl 'disable_update_check = true' -hcl 'leave_on_terminate = false' -hcl 'performance { raft_multiplier = 1 }' \
        -hcl "ports { http = $http, server = $server, serf_lan = $((server + 1)), serf_wan = $((server + 2)) }" \
        -hcl 'ports { https = -1, dns = -1, grpc = -1, grpc_tls = -1 }' "$@"
}

start_consul() { consul_agent consul 0 dc1 -server -bootstrap-expect 1; }

start_consul_client() {
    consul_agent consul-client 1 dc1 -hcl 'retry_interval = "1s"' -retry-join "127.0.0.1:$((port + 5))"
}

start_consul_acl() {
    consul_agent consul-acl 2 dc1 -server -bootstrap-expect 1 -hcl "acl {
        enabled = true, default_policy = \"deny\"
        tokens { initial_management = \"$consul_management\", agent = \"$consul_management\" }
    }"
}

# CONSUL_DC2_WAN_ADDRESS: where the other datacenter finds it, for a line in between that can be cut.
start_consul_dc2() {
    consul_agent consul-dc2 3 dc2 -server -bootstrap-expect 1 -hcl 'retry_interval_wan = "1s"' \
        -hcl "advertise_addr_wan = \"${CONSUL_DC2_WAN_ADDRESS:-127.0.0.1}\"" -retry-join-wan "127.0.0.1:$((port + 6))"
}

# consul_of_three NAME NUMBER: a server that needs one of the two others for anything. Returns when it answers, with or without them.
consul_of_three() {
    local at
    for at in 0 1 2; do
        set -- "$@" -retry-join "127.0.0.1:$((port + 25 + at * 2))"
    done
    local name=$1 number=$2
    shift 2
    spawn_consul "$name" $((port + 21 + number)) $((port + 24 + number * 2)) dc1 -server -bootstrap-expect 3 \
        -hcl 'ports { serf_wan = -1 }' -hcl 'retry_interval = "1s"' "$@"
    wait_for "$name" 30 says_hello $((port + 21 + number)) /v1/agent/self '"Config"'
}

start_consul_first() { consul_of_three consul-first 0; }

start_consul_second() { consul_of_three consul-second 1; }

start_consul_third() { consul_of_three consul-third 2; }
