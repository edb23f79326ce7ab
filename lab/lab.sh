# shellcheck shell=bash disable=SC2154
# The lab: three nodes with one swarm, services with known loads in it, a collectord and a shipper on each node.
#
# Everything is in target/lab: env (for the tests), nI/ (a node, see node.sh), conf/, log/ and run/ (pid files).
# Node nI has the address 10.77.0.1I; this machine is 10.77.0.1 on the bridge swarmstats0.

lab_dir=$state/lab
lab_bridge=swarmstats0

lab() {
    case "${1:-}" in
        up) shift; lab_needs; lab_up "$@" ;;
        down) lab_down ;;
        status) lab_status ;;
        start) lab_start "${2:?which one: c1..c3, s1..s3, n1..n3}" ;;
        exec) on_node "$lab_dir/${2:?which node: n1..n3}" "${@:3}" ;;
        *) help >&2; exit 64 ;;
    esac
}

lab_needs() { node_needs; }

lab_docker() { docker -H "unix://$lab_dir/n$1/docker.sock" "${@:2}"; }

lab_up() {
    local i began=$SECONDS pids=() pid tier=processes
    case "${1:-}" in
        '') ;;
        --without-tier) tier=none ;;
        --stack) tier=stack ;;
        *) help >&2; exit 64 ;;
    esac
    [ "$tier" = none ] || build
    lab_down
    say "starting three engines"
    mkdir -p "$lab_dir"/{conf,log,run}
    ip link add "$lab_bridge" type bridge
    ip address add 10.77.0.1/24 dev "$lab_bridge"
    ip link set "$lab_bridge" up
    lab_firewall -I
    for i in 1 2 3; do
        lab_node "$i" &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do wait "$pid"; done
    lab_count_block_io

    say "making them one swarm"
    lab_docker 1 swarm init --advertise-addr 10.77.0.11 >/dev/null
    local token
    token=$(lab_docker 1 swarm join-token -q worker)
    for i in 2 3; do
        lab_docker "$i" swarm join --token "$token" --advertise-addr "10.77.0.1$i" 10.77.0.11:2377 >/dev/null
    done
    say "starting the services"
    lab_docker 1 stack deploy --resolve-image never -c lab/lab.yml lab 2>&1 | sed 's/^/dev:   /'
    until_true 90 "all tasks of the lab running" lab_tasks_run
    # One node after the other: engines that join an overlay network at one moment may wait 30 s for each other.
    for i in 2 3 4; do
        lab_docker 1 service scale --detach "lab_traffic=$i" >/dev/null
        until_true 90 "traffic task $i running" lab_tasks_run
    done
    case $tier in
        processes)
            lab_env
            say "starting three collectord and three shippers"
            for i in 1 2 3; do lab_start "c$i"; done
            for i in 1 2 3; do lab_start "s$i"; done
            ;;
        stack)
            lab_stack
            lab_stack_env
            ;;
        none) lab_env ;;
    esac
    say "the lab is up after $((SECONDS - began)) s; target/lab/env names its addresses"
}

# lab_node I: node I on the bridge, its engine, its image.
lab_node() {
    local name=swarmstats-n$1 dir=$lab_dir/n$1
    node_create "$name" "$dir"
    ip link add "swarmstats-v$1" type veth peer name eth0 netns "$name"
    ip link set "swarmstats-v$1" master "$lab_bridge" up
    ip -n "$name" address add "10.77.0.1$1/24" dev eth0
    ip -n "$name" link set eth0 up
    ip -n "$name" route add default via 10.77.0.1
    engine_start "$name" "$dir"
    engine_image "$dir"
}

# lab_firewall -I|-D: where an engine of the machine's own is at work, bridged frames pass its firewall.
lab_firewall() {
    local side
    for side in -i -o; do
        iptables -w -C FORWARD $side "$lab_bridge" -j ACCEPT 2>/dev/null && [ "$1" = -I ] && continue
        iptables -w "$1" FORWARD $side "$lab_bridge" -j ACCEPT 2>/dev/null || true
    done
}

# cgroup v1 counts block I/O only after a throttle rule was set once on that disk.
lab_count_block_io() {
    local disk parent
    [ -d /sys/fs/cgroup/blkio ] || return 0
    disk=$(findmnt -no SOURCE -T "$lab_dir")
    parent=$(lsblk -no PKNAME "$disk" 2>/dev/null | head -n1) || true
    [ -z "$parent" ] || disk=/dev/$parent
    lab_docker 1 run --rm --network none --device-write-bps "$disk:1gb" busybox:lab true ||
        say "block I/O counters could not be switched on for $disk: they may stay 0"
}

# Every service has as many running tasks as it wants, and all four services are there.
lab_tasks_run() {
    lab_docker 1 service ls --format '{{.Replicas}}' | awk -F/ '$1 == $2 { n++ } END { exit n != 4 }'
}

# The tier as people deploy it: config/stack.yml, the very file, on three managers.
lab_stack() {
    local i
    say "importing $image_name on each node"
    for i in 1 2 3; do
        image_into -H "unix://$lab_dir/n$i/docker.sock"
        # Where an engine's socket usually is: that is what the stack mounts.
        on_node "$lab_dir/n$i" ln -sf "$lab_dir/n$i/docker.sock" /var/run/docker.sock
    done
    lab_docker 1 node promote swarmstats-n2 swarmstats-n3 >/dev/null
    say "deploying config/stack.yml"
    lab_docker 1 stack deploy --resolve-image never -c config/stack.yml swarmstats 2>&1 | sed 's/^/dev:   /'
    until_true 120 "the stack runs" lab_stack_runs
    for i in 1 2 3; do
        until_true 60 "router of n$i answers completely" lab_stack_answers "$i"
    done
}

# Every service of the stack has as many running tasks as it wants, and all three are there.
lab_stack_runs() {
    lab_docker 1 service ls --filter label=com.docker.stack.namespace=swarmstats --format '{{.Replicas}}' |
        awk '{ split($1, n, "/") } n[1] == n[2] && n[2] > 0 { n_up++ } END { exit n_up != 3 }'
}

lab_stack_answers() {
    on_node "$lab_dir/n$1" "$release/docker-swarmstats" --no-stream --host "http://10.77.0.1$1:7770"
}

lab_stack_env() {
    cat >"$lab_dir/env" <<END
# Where the lab's stack is, for the tests (written by ./dev lab up --stack).
ROUTERS="http://10.77.0.11:7770 http://10.77.0.12:7770 http://10.77.0.13:7770"
ENGINES="$lab_dir/n1/docker.sock $lab_dir/n2/docker.sock $lab_dir/n3/docker.sock"
NODES="swarmstats-n1 swarmstats-n2 swarmstats-n3"
STACK="swarmstats"
END
}

lab_env() {
    cat >"$lab_dir/env" <<END
# Where the lab is, for the tests (written by ./dev lab up).
ROUTERS="http://10.77.0.11:7770 http://10.77.0.12:7770 http://10.77.0.13:7770"
METRICS="http://10.77.0.11:7771/metrics http://10.77.0.12:7771/metrics http://10.77.0.13:7771/metrics"
SHIPPERS="http://10.77.0.11:7773 http://10.77.0.12:7773 http://10.77.0.13:7773"
ENGINES="$lab_dir/n1/docker.sock $lab_dir/n2/docker.sock $lab_dir/n3/docker.sock"
NODES="swarmstats-n1 swarmstats-n2 swarmstats-n3"
END
}

# lab_start X: starts c1..c3, s1..s3 or an engine n1..n3, and waits until it is ready.
lab_start() {
    local i=${1#?} dir=$lab_dir/n${1#?}
    [ -d "$dir" ] || die "no node n$i: is the lab up?"
    case $1 in
        n[123])
            ! alive "$dir/engine.pid" || die "$1 runs already"
            engine_start "swarmstats-n$i" "$dir"
            ;;
        c[123] | s[123])
            ! alive "$lab_dir/run/$1.pid" || die "$1 runs already"
            lab_conf "$1" >"$lab_dir/conf/$1.yaml"
            local program=collectord ready=10.77.0.1$i/7770/readyz
            [ "${1%?}" = c ] || program=shipper ready=10.77.0.1$i/7772/metrics
            spawn "$lab_dir/run/$1.pid" "$lab_dir/log/$1.log" nsenter -t "$(cat "$dir/node.pid")" --net --uts --mount \
                "$release/$program" --config "$lab_dir/conf/$1.yaml"
            until_true 20 "$1 ready (see target/lab/log/$1.log)" http_ok "$ready"
            ;;
        *) die "no $1 in the lab" ;;
    esac
}

# lab_conf X: the configuration of c1..c3 or s1..s3.
lab_conf() {
    local i=${1#?} at=10.77.0.1${1#?} m
    if [ "${1%?}" = c ]; then
        printf 'member: %s\nroles: [collector, router]\n' "$1"
        printf 'api:\n  listen: %s:7770\nmetrics:\n  listen: %s:7771\n' "$at" "$at"
        # Node n1 is the manager.
        [ "$i" != 1 ] || printf 'swarm:\n  engine: unix://%s/n1/docker.sock\n' "$lab_dir"
    else
        printf 'engine: unix://%s/n%s/docker.sock\ninterval: 1s\n' "$lab_dir" "$i"
        printf 'api:\n  listen: %s:7773\nmetrics:\n  listen: %s:7772\n' "$at" "$at"
    fi
    printf 'members:\n  static:\n'
    for m in 1 2 3; do printf '    - {id: c%s, addr: "10.77.0.1%s:7770"}\n' "$m" "$m"; done
}

# http_ok HOST/PORT/PATH: whether a GET is answered with 200.
http_ok() {
    local host port path
    IFS=/ read -r host port path <<<"$1"
    # shellcheck disable=SC2016
    timeout 3 bash -c 'exec 3<>"/dev/tcp/$0/$1"; printf "GET /%s HTTP/1.1\r\nHost: lab\r\nConnection: close\r\n\r\n" "$2" >&3
        read -r _ code _ <&3; [ "$code" = 200 ]' "$host" "$port" "$path"
}

lab_status() {
    local i x
    [ -d "$lab_dir" ] || { say "the lab is down"; return 0; }
    for i in 1 2 3; do
        for x in "n$i/engine" "run/c$i" "run/s$i"; do
            if alive "$lab_dir/$x.pid"; then
                say "$x: pid $(cat "$lab_dir/$x.pid")"
            else
                say "$x: not running"
            fi
        done
    done
    timeout 10 docker -H "unix://$lab_dir/n1/docker.sock" node ls || true
    timeout 10 docker -H "unix://$lab_dir/n1/docker.sock" service ls || true
}

# lab_down: ends all of it; what a crashed earlier run left as well.
lab_down() {
    local i pids=() pid
    for i in 1 2 3; do
        ip link del "swarmstats-v$i" 2>/dev/null || true
        node_destroy "swarmstats-n$i" "$lab_dir/n$i" &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do wait "$pid"; done
    if [ -e "/sys/class/net/$lab_bridge" ]; then
        lab_firewall -D
        ip link del "$lab_bridge"
    fi
    rm -rf "$lab_dir"
}
