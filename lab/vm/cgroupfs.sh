# shellcheck shell=sh
# Process 1 of the machine without systemd.
for mount in "proc /proc" "sysfs /sys" "tmpfs /run" "tmpfs /tmp" "cgroup2 /sys/fs/cgroup"; do
    mountpoint -q "${mount#* }" || mount -t "${mount% *}" none "${mount#* }"
done
# shellcheck source=lab/vm/guest.sh
. /vm/guest.sh
hostname vm-cgroupfs
ip link set lo up
# As with systemd: a daemon that starts its own containerd gives it 15 s only.
containerd >"$out/containerd.log" 2>&1 &
within 240 "containerd listens" test -S /run/containerd/containerd.sock
dockerd --containerd /run/containerd/containerd.sock >"$out/dockerd.log" 2>&1 &
engine

# As rootless Docker has it: in the slice of a user's own systemd, to which memory and pids alone are delegated. The
# controllers are taken away before anything of ours looks.
user=user.slice/user-1000.slice/user@1000.service/user.slice
start delegated "--network none --cgroup-parent /$user" hold 4
cd /sys/fs/cgroup/$user
sed 's/memory\|pids//g; s/[a-z]\+/-&/g' cgroup.subtree_control >/tmp/taken
cat /tmp/taken >cgroup.subtree_control
cd /

mkdir /sys/fs/cgroup/lab
echo 64M >/sys/fs/cgroup/lab/memory.max

configs
collectord --config /etc/swarmstats/collectord.yaml >"$out/collectord.log" 2>&1 &
shipper --config /etc/swarmstats/shipper.yaml >"$out/shipper.log" 2>&1 &
within 60 "the collector is ready" collector_is_ready
within 60 "the shipper is ready" shipper_is_ready
containers /lab/custom bridge
record
echo >"$out/done"
