# shellcheck shell=sh
# What both machines do, in the machine: start containers of every kind, look at them by all means there are, power off.
#
# /vm/out is the record. done says that nothing went wrong; containers has a line for each: id, name, cgroup, pid.
# look1 … look3 are readings of docker stats, the engine's records and the kernel's files; ask1 and ask2, what the collector
# answered, lie between them.

set -eu
out=/vm/out
export PATH=/vm/bin:/usr/sbin:/usr/bin:/sbin:/bin

say() { echo "vm: $(cut -d ' ' -f 1 /proc/uptime) s: $*" >/dev/console; }

# However it ends: the machine does.
power_off() {
    [ -e "$out/done" ] || say "broken off"
    dmesg >"$out/dmesg" 2>&1 || true
    sync
    echo o >/proc/sysrq-trigger
    sleep 60
}
trap power_off EXIT

# within SECONDS WHAT COMMAND…: waits until the command succeeds.
within() {
    end=$(($(cut -d . -f 1 /proc/uptime) + $1))
    what=$2
    shift 2
    until "$@" >/dev/null 2>&1; do
        if [ "$(cut -d . -f 1 /proc/uptime)" -ge $end ]; then
            say "not within its time: $what"
            "$@" >/dev/console 2>&1 || true
            exit 1
        fi
        sleep 1
    done
    say "$what"
}

engine() {
    within 240 "the engine answers" curl -sf --unix-socket /run/docker.sock http://engine/_ping
    docker import --change 'ENV PATH=/bin' /vm/image.tar busybox:lab >/dev/null
    docker swarm init --advertise-addr 127.0.0.1 >/dev/null
}

configs() {
    mkdir -p /etc/swarmstats
    cat >/etc/swarmstats/collectord.yaml <<YAML
member: c1
members: {static: [{id: c1, addr: "127.0.0.1:7770"}]}
YAML
    cat >/etc/swarmstats/shipper.yaml <<YAML
include: all
level: all
members: {static: [{id: c1, addr: "127.0.0.1:7770"}]}
YAML
}

# start NAME OPTIONS COMMAND…: a plain container.
start() {
    name=$1 options=$2
    shift 2
    # shellcheck disable=SC2086
    docker run -d --name "$name" $options busybox:lab "$@" >/dev/null
}

# containers PARENT NETWORK: one of every kind; PARENT is a cgroup (or slice) below one whose memory limit is 64 MiB,
# NETWORK what the caller calls through: net, an overlay with virtual IPs, or bridge, which has no names either.
containers() {
    sed "s/\[net\]/[$2]/" /vm/stack.yml >/tmp/stack.yml
    docker stack deploy --resolve-image never -c /tmp/stack.yml vm >/dev/null 2>"$out/deploy.log"
    start custom "--network none --cgroup-parent $1" hold 8
    start nested '--network none --privileged' nest
    within 400 "all services run" services_run
    inside=/proc/$(pid_of vm_caller)/root
    if [ "$2" = bridge ]; then
        address='{{.NetworkSettings.Networks.bridge.IPAddress}}'
        docker inspect -f "$address" "$(of_service vm_sink)" >"$inside/dev/shm/address"
    fi
    within 120 "traffic flows" flowing
}

services_run() {
    docker service ls --format '{{.Replicas}}' | awk -F '[/ ]' '$1 != $2 { bad = 1 } END { exit bad || NR != 6 }'
}

of_service() { docker ps -q -f "label=com.docker.swarm.service.name=$1"; }

pid_of() { docker inspect -f '{{.State.Pid}}' "$(of_service "$1")"; }

flowing() { [ "$(cat "$inside/dev/shm/rounds")" -ge 2 ]; }

# short NAME: /vm_burn.1.x2f… is burn's, /custom is itself.
short() { echo "$1" | sed 's|^/||; s|^vm_||; s|\..*||'; }

shipper_is_ready() { curl -sf 127.0.0.1:7772/metrics; }
collector_is_ready() { curl -sf 127.0.0.1:7770/readyz; }

record() {
    docker ps -q | xargs docker inspect -f '{{.Id}} {{.Name}} {{.State.Pid}}' | while read -r id name pid; do
        name=$(short "$name")
        echo "$id $name $(sed -n "s|^0::\(.*${id}[^/]*\).*|\1|p" "/proc/$pid/cgroup") $pid"
    done >"$out/containers"
    within 200 "the nested container has what it holds, and its memory stands still" settled
    look 1
    # Longer than an idle task's figures may be old.
    sleep 5
    ask 1
    look 2
    sleep 10
    ask 2
    look 3
    uname -r >"$out/kernel"
    docker info --format '{{json .}}' >"$out/engine.json"
    docker service inspect vm_sink >"$out/sink.json"
    cat "$inside/dev/shm/address" >"$out/address"
    curl -sf 127.0.0.1:7772/metrics >"$out/shipper.metrics"
    curl -sf 127.0.0.1:7771/metrics >"$out/collectord.metrics"
    say "recorded"
}

# The inner container has a tenth of a CPU to fill its 12 MiB.
settled() {
    memory=/sys/fs/cgroup$(awk '$2 == "nested" { print $3 }' "$out/containers")/memory.current
    before=$(cat "$memory")
    sleep 4
    after=$(cat "$memory")
    [ "$after" -ge $((12 << 20)) ] && [ $((after - before)) -lt 65536 ] && [ $((before - after)) -lt 65536 ]
}

look() {
    say "look $1"
    docker stats --no-stream --no-trunc --format '{{json .}}' >"$out/look$1.docker"
    cat "$inside/dev/shm/rounds" >"$out/look$1.rounds"
    sed -n 's/^oom_kill //p' /proc/vmstat >"$out/look$1.kills"
    while read -r id name cgroup pid; do
        dir=$out/look$1/$name
        mkdir -p "$dir"
        curl -sf --unix-socket /run/docker.sock "http://engine/containers/$id/stats?stream=false&one-shot=true" >"$dir/engine.json"
        cp "/proc/$pid/net/dev" "$dir/net.dev"
        (
            cd "/sys/fs/cgroup$cgroup"
            # What is not there is not copied.
            cp -t "$dir" cpu.stat cpu.max cpu.pressure memory.current memory.stat memory.events memory.peak memory.pressure \
                memory.swap.current io.stat io.pressure pids.current pids.max 2>/dev/null || true
        )
        # Its own memory limit and those above it, one a line.
        limits=
        while [ -n "$cgroup" ]; do
            limits="$limits /sys/fs/cgroup$cgroup/memory.max"
            cgroup=${cgroup%/*}
        done
        # shellcheck disable=SC2086
        cat $limits >"$dir/memory.max" 2>/dev/null || true
    done <"$out/containers"
}

ask() {
    say "ask $1"
    date +%s.%N >"$out/ask$1.time"
    curl -sf '127.0.0.1:7770/v1/tasks?points=30' >"$out/ask$1.json"
    docker-swarmstats task --no-stream >"$out/ask$1.table"
}
