# shellcheck shell=bash disable=SC2154
# `./dev image`: the image of config/stack.yml, from this machine's own build and without a registry.

image_name=swarmstats:$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml" | head -n1)

# image [--host URL]: builds the binaries and imports them into an engine (DOCKER_HOST, else the machine's own).
image() {
    local host=()
    while [ $# -gt 0 ]; do
        case $1 in
            --host) host=(-H "${2:?the engine, as unix:///var/run/docker.sock}"); shift 2 ;;
            *) help >&2; exit 64 ;;
        esac
    done
    need docker=docker-cli
    build
    image_into "${host[@]}"
    say "image $image_name is there: docker stack deploy --resolve-image never -c config/stack.yml swarmstats"
}

# image_into [-H URL]: the binaries, the libraries they name, and nothing else: no shell, no package manager.
image_into() {
    local tree=$state/image program library
    rm -rf "$tree"
    mkdir -p "$tree"/{usr/local/bin,etc,tmp}
    for program in collectord shipper docker-swarmstats; do
        cp "$release/$program" "$tree/usr/local/bin/"
    done
    for library in $(ldd "$release"/{collectord,shipper,docker-swarmstats} | grep -o '/[^ ]*\.so[^ ]*' | sort -u); do
        mkdir -p "$tree${library%/*}"
        cp -L "$library" "$tree$library"
    done
    # Before glibc 2.34 what looks up names was opened at run time and is not among what the programs name.
    for library in /lib/*-linux-gnu/libnss_{dns,files}.so.2 /lib/*-linux-gnu/libresolv.so.2; do
        [ -e "$library" ] || continue
        mkdir -p "$tree${library%/*}"
        cp -L "$library" "$tree$library"
    done
    echo 'nobody:x:65534:65534:nobody:/:/' >"$tree/etc/passwd"
    echo 'hosts: files dns' >"$tree/etc/nsswitch.conf"
    tar -c --owner=0 --group=0 -C "$tree" . | docker "$@" import \
        --change 'ENV PATH=/usr/local/bin' --change 'USER 65534:65534' --change 'CMD ["collectord"]' \
        --change 'EXPOSE 7770 7771 7772 7773' - "$image_name" >/dev/null
    rm -r "$tree"
}
