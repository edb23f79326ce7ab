# shellcheck shell=bash disable=SC2154
# `./dev run`: a collectord, a shipper and the live table on this machine, until it is told to stop.
#
# Everything is in target/run. The machine's own engine is used where one answers; else a private node (see node.sh)
# with a demo swarm. SIGINT and SIGTERM end it at any moment, and with it everything it started.

run_dir=$state/run
run_node=swarmstats-run

run() {
    local socket=/var/run/docker.sock include=swarm i
    mkdir -p "$run_dir"/{conf,log}
    exec 9>"$state/run.lock"
    flock -n 9 || die "./dev run is at work in this checkout already"
    trap run_end EXIT

    build
    [[ ${DOCKER_HOST:-} != unix://* ]] || socket=${DOCKER_HOST#unix://}
    if command -v docker >/dev/null && engine_answers "$socket" >/dev/null 2>&1; then
        say "using the engine at $socket"
        docker -H "unix://$socket" info --format '{{.Swarm.LocalNodeState}}' | grep -qx active || include=all
    else
        say "no engine answers: starting a private one"
        run_private_engine
        socket=$run_dir/node/docker.sock
    fi

    run_conf "$socket" "$include"
    for i in collectord shipper; do
        stop "$run_dir/$i.pid" # of a run that was killed
        spawn "$run_dir/$i.pid" "$run_dir/log/$i.log" "$release/$i" --config "$run_dir/conf/$i.yaml"
    done
    until_true 20 "collectord ready (see target/run/log/collectord.log)" http_ok 127.0.0.1/7770/readyz
    until_true 20 "shipper ready (see target/run/log/shipper.log)" http_ok 127.0.0.1/7772/metrics
    say "JSON     http://127.0.0.1:7770/v1/services"
    say "metrics  http://127.0.0.1:7771/metrics"
    say "logs     target/run/log"
    say "Ctrl-C ends it"
    if [ -t 1 ]; then
        "$release/docker-swarmstats" <&0 9>&- & # of this session: the terminal's size and keys are its own
        wait $!
    else
        while true; do
            # What is missing is said there, and no reason to end.
            interruptible "$release/docker-swarmstats" --no-stream || true
            interruptible sleep 2
        done
    fi
}

run_conf() {
    cat >"$run_dir/conf/collectord.yaml" <<END
member: c1
members:
  static:
    - {id: c1, addr: "127.0.0.1:7770"}
swarm:
  engine: unix://$1
END
    cat >"$run_dir/conf/shipper.yaml" <<END
engine: unix://$1
include: $2
interval: 1s
members:
  static:
    - {id: c1, addr: "127.0.0.1:7770"}
END
}

run_private_engine() {
    local socket=$run_dir/node/docker.sock
    node_needs
    node_create "$run_node" "$run_dir/node"
    engine_start "$run_node" "$run_dir/node"
    engine_image "$run_dir/node"
    docker -H "unix://$socket" swarm init --advertise-addr 127.0.0.1 >/dev/null
    say "starting a few services in it"
    docker -H "unix://$socket" stack deploy --resolve-image never -c lab/demo.yml demo 2>&1 | sed 's/^/dev:   /'
}

# run_end: ends everything this run has started.
run_end() {
    trap '' INT TERM
    trap - EXIT
    say "stopping"
    end_jobs
    stop "$run_dir/shipper.pid"
    stop "$run_dir/collectord.pid"
    ! [ -d "$run_dir/node" ] || node_destroy "$run_node" "$run_dir/node"
}
