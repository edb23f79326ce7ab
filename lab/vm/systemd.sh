# shellcheck shell=sh
# A unit of the machine with systemd.
# shellcheck source=lab/vm/guest.sh
. /vm/guest.sh
engine

printf '[Slice]\nMemoryMax=64M\n' >/run/systemd/system/lab.slice
configs
install -m 755 /vm/bin/shipper /usr/local/bin/
install -m 644 /vm/swarmstats-shipper.service /etc/systemd/system/
systemctl daemon-reload
collectord --config /etc/swarmstats/collectord.yaml >"$out/collectord.log" 2>&1 &
within 60 "the collector is ready" collector_is_ready
systemctl enable --now swarmstats-shipper
within 60 "the shipper is ready" shipper_is_ready
containers lab-custom.slice net
record
systemctl show swarmstats-shipper >"$out/unit"
systemd-analyze verify /etc/systemd/system/swarmstats-shipper.service >"$out/verify" 2>&1 || true
systemd-analyze security --no-pager swarmstats-shipper >"$out/security" 2>&1 || true
cat "/proc/$(systemctl show -P MainPID swarmstats-shipper)/status" >"$out/shipper.status"
journalctl -o cat -u swarmstats-shipper >"$out/shipper.log"
journalctl -o cat -u docker >"$out/dockerd.log"
echo >"$out/done"
