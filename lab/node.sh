# shellcheck shell=bash disable=SC2154
# A swarm node of our own on this machine: a network namespace with its own host name, mounts, cgroup and engine.
#
# A node NAME is made of
#   * the network namespace NAME and the cgroup /NAME (in each hierarchy): all that is in them is ours, so ending
#     what is in them ends the node, even after a crash;
#   * one sleeping process that keeps its host name and mounts, so that an engine started again finds its mounts;
#   * the folder DIR: docker.sock, data/ and exec/ of the engine, logs;
#   * /run/NAME, which says which DIR the node belongs to.
# Nothing of an engine touches the machine's own network, firewall, /run or mounts. Names never contain spaces.

node_needs() {
    [ "$(id -u)" = 0 ] || die "an engine of our own needs root"
    need dockerd=docker.io docker=docker.io iptables=iptables ip=iproute2 busybox=busybox-static
    need docker=docker-cli # newer releases have the client apart
    if ldd "$(command -v busybox)" >/dev/null 2>&1; then # a dynamic busybox does not run alone in an image
        need static-busybox=busybox-static
    fi
}

# spawn PIDFILE LOG COMMAND…: starts a process of its own session. (9 is the lock of `run`.)
spawn() {
    local pidfile=$1 log=$2
    shift 2
    setsid "$@" </dev/null >>"$log" 2>&1 9>&- &
    echo $! >"$pidfile"
    disown
}

# alive PIDFILE: whether the process it names runs and is ours (its command line names our folder).
alive() {
    local pid
    pid=$(cat "$1" 2>/dev/null) && [ -n "$pid" ] && grep -qsF "$state" "/proc/$pid/cmdline"
}

# stop PIDFILE: SIGTERM, and SIGKILL after 10 s.
stop() {
    local i
    if alive "$1"; then
        kill -TERM "$(cat "$1")" 2>/dev/null || true
        for ((i = 0; i < 100; i++)); do
            alive "$1" || break
            sleep 0.1
        done
        alive "$1" && kill -KILL "$(cat "$1")" 2>/dev/null
    fi
    rm -f "$1"
}

# until_true SECONDS WHAT COMMAND…: waits until the command succeeds, or gives up saying WHAT did not happen.
until_true() {
    local end=$((SECONDS + $1)) what=$2
    shift 2
    until "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$end" ] || die "$what: not within its time"
        sleep 0.1
    done
}

# node_create NAME DIR: the node without its engine.
node_create() {
    local name=$1 dir=$2
    node_destroy "$name" "$dir"
    mkdir -p "$dir"
    echo "$dir" >"/run/$name"
    echo 'nameserver 127.0.0.1' >"$dir/resolv.conf" # name look-ups fail at once
    echo '{}' >"$dir/daemon.json"                   # not the machine's own
    ip netns add "$name"
    ip -n "$name" link set lo up
    # shellcheck disable=SC2016
    spawn "$dir/node.pid" "$dir/node.log" nsenter --net="/run/netns/$name" unshare --uts --mount sh -euc '
        hostname "$1"
        resolv=$(readlink -f /etc/resolv.conf)
        mount -t tmpfs tmpfs /run
        mkdir -p "${resolv%/*}"
        [ -e "$resolv" ] || touch "$resolv"
        mount --bind "$2/resolv.conf" "$resolv"
        for folder in /etc/docker /var/lib/docker /opt/containerd; do # written to whatever the engine is told
            mkdir -p "$folder"
            mount -t tmpfs tmpfs "$folder"
        done
        exec sleep infinity' node "$name" "$dir"
    until_true 5 "node $name" grep -qz sleep "/proc/$(cat "$dir/node.pid")/comm"
}

# on_node DIR COMMAND…: runs the command with the node's network, host name and mounts.
on_node() {
    local dir=$1
    shift
    nsenter -t "$(cat "$dir/node.pid")" --net --uts --mount "$@"
}

# engine_start NAME DIR: starts the node's engine and waits for it.
engine_start() {
    local name=$1 dir=$2 containerd=$2/exec/containerd/containerd.pid
    if [ -e "$containerd" ]; then # the one of an earlier engine must be gone first
        until_true 20 "end of the earlier containerd of $name" gone "$(cat "$containerd")"
    fi
    spawn "$dir/engine.pid" "$dir/engine.log" nsenter -t "$(cat "$dir/node.pid")" --net --uts --mount \
        dockerd --config-file "$dir/daemon.json" --data-root "$dir/data" --exec-root "$dir/exec" \
        --pidfile "$dir/dockerd.pid" --host "unix://$dir/docker.sock" \
        --cgroup-parent "/$name" --exec-opt native.cgroupdriver=cgroupfs
    until_true 60 "engine of $name (see $dir/engine.log)" engine_answers "$dir/docker.sock"
}

gone() { ! kill -0 "$1" 2>/dev/null; }

engine_answers() { timeout 5 docker -H "unix://$1" version --format '{{.Server.Version}}'; }

# engine_image DIR: imports the image busybox:lab without a registry.
engine_image() {
    local dir=$1
    image_tree "$dir/image"
    tar -c -C "$dir/image" . | docker -H "unix://$dir/docker.sock" import --change 'ENV PATH=/bin' - busybox:lab >/dev/null
    rm -r "$dir/image"
}

# image_tree TREE: busybox and the loads of lab/loads as an image's root.
image_tree() {
    local tree=$1 applet
    mkdir -p "$tree/bin" "$tree/tmp"
    cp "$(command -v busybox)" "$tree/bin/busybox"
    for applet in $("$tree/bin/busybox" --list); do
        [ "$applet" = busybox ] || ln -s busybox "$tree/bin/$applet"
    done
    cp lab/loads/* "$tree/bin/"
}

# node_pids NAME: every process of the node: in its network namespace, or in a container of its engine.
node_pids() {
    ip netns pids "$1" 2>/dev/null || true
    find /sys/fs/cgroup -path "*/$1/*" -name cgroup.procs -exec cat {} + 2>/dev/null || true
}

# node_destroy NAME DIR: ends the node and removes every trace. SIGKILL is enough: its mounts end with its processes.
node_destroy() {
    local name=$1 dir=$2 owner pids i file
    owner=$(cat "/run/$name" 2>/dev/null || echo "$dir")
    pids=$(node_pids "$name")
    if [ "$owner" != "$dir" ] && [ -d "$owner" ] && [ -n "$pids" ]; then
        die "$name belongs to another checkout, which must end it first: $owner"
    fi
    for ((i = 0; i < 100; i++)); do
        for file in /sys/fs/cgroup/freezer/"$name"/*/freezer.state; do
            [ ! -e "$file" ] || echo THAWED >"$file" # a paused container cannot die
        done
        [ -n "$pids" ] || break
        # shellcheck disable=SC2086
        kill -KILL $pids 2>/dev/null || true
        sleep 0.1
        pids=$(node_pids "$name")
    done
    find /sys/fs/cgroup -depth -type d \( -path "*/$name" -o -path "*/$name/*" \) -exec rmdir {} + 2>/dev/null || true
    ! [ -e "/run/netns/$name" ] || ip netns del "$name"
    rm -rf "${dir:?}" "/run/$name"
}
