# shellcheck shell=bash disable=SC2154
# Two emulated machines with cgroup v2, whose memory and CPU controllers this machine's own engine may lack:
#   systemd   Debian trixie:   Docker 26, Linux 6.12, real systemd, cgroup driver systemd, PSI on, virtual IPs
#   cgroupfs  Debian bookworm: Docker 20.10, Linux 6.1, no systemd, cgroup driver cgroupfs, PSI off
#
# Everything is in target/vm/MACHINE: root.ext4 (built once by debootstrap, never written to afterwards), kernel, initrd,
# vm.ext4 (our binaries and lab/vm go in, what was recorded comes out), console.log, out/ (the record: tests/vm judges it).
# A machine has no network and ends by itself, or by its deadline.

vm_dir=$state/vm
vm_deadline=900 # seconds; a computer with nothing else to do needs a fifth of it
vm_machines=(systemd cgroupfs)
vm_packages=docker.io,iproute2,iptables,procps,kmod,curl,linux-image-cloud-amd64

vm() {
    case "${1:-}" in
        build) vm_needs; vm_build ;;
        run) shift; vm_needs; build; vm_build; vm_run "$@" ;;
        *) help >&2; exit 64 ;;
    esac
}

vm_needs() {
    [ "$(id -u)" = 0 ] || die "building a machine's root needs root"
    need qemu-system-x86_64=qemu-system-x86 debootstrap=debootstrap mke2fs=e2fsprogs debugfs=e2fsprogs busybox=busybox-static
}

# vm_build: the roots that are missing, or were made otherwise than now.
vm_build() {
    local machine pids=() pid began=$SECONDS
    for machine in "${vm_machines[@]}"; do
        [ "$(cat "$vm_dir/$machine/made" 2>/dev/null)" != "$(vm_made)" ] || continue
        say "building the root of machine $machine (target/vm/$machine/build.log)"
        vm_apart vm_root "$machine" &
        pids+=($!)
    done
    [ ${#pids[@]} -gt 0 ] || return 0
    for pid in "${pids[@]}"; do wait "$pid"; done
    say "the roots took $((SECONDS - began)) s"
}

# vm_apart COMMAND…: in a background shell, which ends what it started when it is told to end.
vm_apart() {
    trap end_jobs EXIT
    trap 'exit 143' INT TERM
    "$@"
}

# vm_made: a digest of all that a root is made of.
vm_made() { { declare -f vm_root; echo "$vm_packages"; cat lab/vm/init lab/vm/vm.service; } | sha256sum; }

# vm_root MACHINE: Debian of a suite as an ext4 image, with its kernel beside it.
vm_root() {
    local dir=$vm_dir/$1 tree=$vm_dir/$1/tree suite=bookworm packages=$vm_packages mirror
    [ "$1" = cgroupfs ] || suite=trixie packages+=,docker-cli,systemd,systemd-sysv,dbus,udev
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Component: main' 'Origin: Debian' | head -n1)
    [ -n "$mirror" ] || die "no Debian source among this machine's apt sources"
    rm -rf "$dir"
    mkdir -p "$dir"
    interruptible debootstrap --variant=minbase --include="$packages" "$suite" "$tree" "$mirror" >"$dir/build.log" 2>&1 ||
        die "debootstrap failed: $(tail -n3 "$dir/build.log")"
    cp "$tree"/boot/vmlinuz-* "$dir/kernel"
    cp "$tree"/boot/initrd.img-* "$dir/initrd"
    rm -rf "$tree"/boot/* "$tree"/var/cache/apt/* "$tree"/var/lib/apt/lists/* "$tree"/usr/share/{doc,locale,man}
    mkdir -p "$tree/vm" "$tree/etc/docker"
    echo '{"iptables": false, "ip6tables": false}' >"$tree/etc/docker/daemon.json" # it would cost many seconds
    echo "vm-$1" >"$tree/etc/hostname"
    echo "127.0.0.1 localhost vm-$1" >"$tree/etc/hosts"
    install -m 755 lab/vm/init "$tree/vm-init"
    if [ "$1" = systemd ]; then
        cp lab/vm/vm.service "$tree/etc/systemd/system/"
        ln -s ../vm.service "$tree/etc/systemd/system/multi-user.target.wants/"
    fi
    mke2fs -q -t ext4 -d "$tree" "$dir/root.new" 2600M >>"$dir/build.log"
    rm -rf "$tree"
    mv "$dir/root.new" "$dir/root.ext4"
    vm_made >"$dir/made"
}

# vm_run [MACHINE…]: all at once; fails if one does not end well, with the end of its console.
vm_run() {
    local machine pids=() pid good=true began=$SECONDS
    [ $# -gt 0 ] || set -- "${vm_machines[@]}"
    for machine in "$@"; do
        [ -f "$vm_dir/$machine/root.ext4" ] || die "no machine $machine: there are ${vm_machines[*]}"
        vm_apart vm_one "$machine" &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do wait "$pid" || good=false; done
    $good || die "not every machine ended well"
    say "the machines took $((SECONDS - began)) s; their record is in target/vm"
}

# vm_one MACHINE: it runs until it has done everything, and is started anew where its kernel panicked in the emulator (whose
# two processors run truly at once) before it ran anything of ours: that says nothing about us.
vm_one() {
    local machine=$1 dir=$vm_dir/$1 began=$SECONDS start
    for start in 1 2 3; do
        say "starting machine $machine"
        vm_start "$machine"
        if [ -e "$dir/out/done" ]; then
            say "machine $machine took $((SECONDS - began)) s"
            return 0
        fi
        if [ "$start" = 3 ] || [ -n "$(ls -A "$dir/out" 2>/dev/null)" ] || ! grep -q 'Kernel panic' "$dir/console.log"; then
            break
        fi
        say "machine $machine: its kernel panicked while it started, before anything of ours ran: $(grep -m1 'RIP:' "$dir/console.log")"
    done
    say "machine $machine did not finish within its $vm_deadline s, or broke; the end of its console:"
    tail -n 40 "$dir/console.log" "$dir/qemu.log" | sed "s/^/$machine: /"
    return 1
}

# vm_start MACHINE: from power on to power off; what it recorded is in out/.
vm_start() {
    local machine=$1 dir=$vm_dir/$1 append='root=/dev/vda rw console=ttyS0 loglevel=3 panic=-1'
    case $machine in
        systemd) append+=' psi=1 systemd.mask=serial-getty@ttyS0.service' ;;
        cgroupfs) append+=' psi=0 init=/vm-init' ;;
    esac
    rm -rf "$dir/out" "$dir/console.log"
    vm_payload "$dir"
    # The root's writes go to a temporary file of qemu's own. Nothing here is worth a flush: the images are made anew.
    TMPDIR=$dir interruptible timeout -k 5 "$vm_deadline" qemu-system-x86_64 -accel tcg,thread=multi,tb-size=256 -cpu max,la57=off -smp 2 -m 1280 \
        -kernel "$dir/kernel" -initrd "$dir/initrd" -append "$append" \
        -drive "file=$dir/root.ext4,if=virtio,format=raw,snapshot=on,cache=unsafe" \
        -drive "file=$dir/vm.ext4,if=virtio,format=raw,cache=unsafe" \
        -nic none -display none -monitor none -serial "file:$dir/console.log" -no-reboot >"$dir/qemu.log" 2>&1 || true
    debugfs -R "rdump /out $dir" "$dir/vm.ext4" 2>>"$dir/qemu.log"
}

# vm_payload DIR: the disk that brings our programs and the image's tree, and takes the record home.
vm_payload() {
    local tree=$1/payload
    rm -rf "$tree"
    mkdir -p "$tree"/{bin,out}
    cp "$release"/{collectord,shipper,docker-swarmstats} "$tree/bin/"
    cp lab/vm/guest.sh lab/vm/systemd.sh lab/vm/cgroupfs.sh lab/vm/stack.yml config/swarmstats-shipper.service "$tree/"
    image_tree "$tree/image"
    cp lab/vm/loads/* "$tree/image/bin/"
    tar -C "$tree/image" -cf "$tree/image.tar" .
    rm -r "$tree/image"
    mke2fs -q -t ext4 -O ^has_journal -d "$tree" "$1/vm.ext4" 128M >"$1/payload.log" # debugfs replays no journal
    rm -r "$tree"
}
