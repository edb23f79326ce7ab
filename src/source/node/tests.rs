//! A machine's own figures, of recorded files and of the machine this runs on.

use super::*;
use crate::source::fake::{self, Layout, recording};
use std::{process::Command, time::Instant};

/// A machine of recorded files, with a card `eth0`.
fn fake() -> fake::Machine {
    let fake = fake::Machine::new(Layout::V2);
    for name in ["stat", "loadavg", "meminfo", "vmstat", "diskstats"] {
        fake.write(&format!("proc/{name}"), recording(&format!("machine/{name}")));
    }
    for name in ["cpu", "memory", "io"] {
        fake.write(&format!("proc/pressure/{name}"), recording(&format!("machine/pressure_{name}")));
    }
    fake.write("proc/1/net/dev", recording("machine/net_dev"));
    fake.write("proc/sys/kernel/pid_max", "32768\n");
    fake.write("proc/sys/kernel/threads-max", "192730\n");
    fake.write("sys/class/net/eth0/device/vendor", "");
    fake
}

fn machine(fake: &fake::Machine) -> Machine {
    let places = Places { proc_: fake.root.join("proc"), sys: fake.root.join("sys"), network_of: 1, data: None };
    Machine::new(places, Level::Standard)
}

fn net_dev(lines: &[(&str, u64)]) -> String {
    let line = |(name, rx): &(&str, u64)| format!("{name}: {rx} 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n");
    "Inter-|\n face |\n".to_owned() + &lines.iter().map(line).collect::<String>()
}

/// Rewritten in place, for its descriptor is held open.
fn received(fake: &fake::Machine, machine: &mut Machine, lines: &[(&str, u64)]) -> Option<u64> {
    fake.write("proc/1/net/dev", net_dev(lines));
    machine.read().get(stat::RX_BYTES)
}

#[test]
fn every_figure_of_a_recorded_machine() {
    let values = machine(&fake()).read();
    let absent = bits(Level::Standard.mask() & stat::NODES & !values.present());
    let without = [stat::CPU_STALLED, stat::FILESYSTEM_SIZE, stat::FILESYSTEM_USED, stat::FILESYSTEM_AVAILABLE];
    assert_eq!(absent.collect::<Vec<_>>(), without);
    for (stat, value) in [
        (stat::CPU, 22_200_780_000_000),
        (stat::MEMORY_LIMIT, 25_276_502_016),
        (stat::PIDS_LIMIT, 32_768),
        (stat::START_TIME, 1_796_062_267_000_000_000),
        (stat::RX_BYTES, 1_001_332_455),
        (stat::TX_PACKETS, 24_069),
        (stat::BLOCK_WRITTEN, 150_598_791_168),
        (stat::IO_WAITING, 167_433_103_000),
    ] {
        assert_eq!(values.get(stat), Some(value), "{stat:?}");
    }
}

#[test]
fn a_spoilt_or_missing_file_spoils_only_its_own_figures() {
    let fake = fake();
    fake.write("proc/loadavg", "garbage\n");
    fake.remove("proc/pressure/io");
    let mut machine = machine(&fake);
    let values = machine.read();
    let lost = [stat::LOAD1, stat::LOAD5, stat::LOAD15, stat::PIDS, stat::IO_WAITING, stat::IO_STALLED];
    assert!(lost.iter().all(|stat| values.get(*stat).is_none()), "{values:?}");
    assert!([stat::CPU, stat::MEMORY_USED, stat::MEMORY_WAITING].iter().all(|stat| values.get(*stat).is_some()));
    assert_eq!((machine.faults().of(Fault::Malformed), machine.faults().of(Fault::Unreadable)), (4, 0));
}

#[test]
fn b013_many_cpus_and_a_long_line_behind_them() {
    let fake = fake();
    let cpus: String = (0..300).map(|cpu| format!("cpu{cpu} 123456 0 65432 987654 0 0 0 0 0 0\n")).collect();
    fake.write("proc/stat", format!("cpu  300 0 0 0 0 0 0 0 0 0\n{cpus}intr 1{}\nbtime 9\n", " 0".repeat(40_000)));
    let values = machine(&fake).read();
    assert_eq!(values.get(stat::CPU), Some(3_000_000_000));
    assert_eq!(values.get(stat::CPU_LIMIT), Some(300_000_000_000));
    assert_eq!(values.get(stat::START_TIME), Some(9_000_000_000));
}

#[test]
fn b065_what_lies_on_one_disk_counts_once() {
    let fake = fake();
    // 4 × 1 GiB written through a volume and a loop device to a partition of one disk.
    let line = |device: &str, name: &str| format!("{device} {name} 0 0 0 0 4 0 8388608 0 0 0 0\n");
    let all = [("254 0", "vda"), ("254 1", "vda1"), ("253 0", "dm-0"), ("7 0", "loop0"), ("252 0", "zram0")];
    fake.write("proc/diskstats", all.map(|(device, name)| line(device, name)).concat());
    fake.write("sys/dev/block/254:1/partition", "1\n");
    let values = machine(&fake).read();
    assert_eq!((values.get(stat::BLOCK_WRITTEN), values.get(stat::BLOCK_WRITES)), (Some(4 << 30), Some(4)));
}

#[test]
fn traffic_counts_at_the_network_cards_and_never_falls() {
    let fake = fake();
    fake.write("sys/class/net/eth1/device/vendor", "");
    // A fast path beside eth0, as some clouds have; both are devices.
    fake.write("sys/class/net/enP1/device/vendor", "");
    fake.write("sys/class/net/enP1/master/device/vendor", "");
    let mut machine = machine(&fake);
    let others = [("lo", 9000), ("bond0", 900), ("eth0.7", 90), ("docker0", 50), ("veth1a", 50), ("enP1", 70)];
    let read = |machine: &mut Machine, cards: &[(&str, u64)]| received(&fake, machine, &[&others, cards].concat());
    assert_eq!(read(&mut machine, &[("eth0", 100), ("eth1", 20)]), Some(120));
    assert_eq!(read(&mut machine, &[("eth0", 105)]), Some(125), "eth1 went, what it had counts on");
    assert_eq!(read(&mut machine, &[("eth0", 105), ("eth1", 3)]), Some(128), "and came back with new counters");
}

#[test]
fn where_no_card_can_be_seen_what_no_engine_makes_counts() {
    let fake = fake();
    let mut machine = machine(&fake);
    let all = [("lo", 9), ("uplink", 100), ("docker_gwbridge", 7), ("br-0a1b", 7), ("veth9", 7), ("vxlan1", 7)];
    assert_eq!(received(&fake, &mut machine, &all), Some(100));
}

#[test]
fn where_no_card_can_be_seen_bonds_vlans_and_bridges_do_not_count_beside_what_they_are_made_of() {
    let fake = fake();
    fake.write("proc/1/net/bonding/bond0", "Bonding Mode: load balancing\n");
    fake.write("proc/1/net/vlan/config", "VLAN Dev name | VLAN ID\nName-Type: X\neth0.7 | 7 | eth0\n");
    let all = [("ens1", 60), ("ens2", 40), ("bond0", 100), ("eth0.7", 30), ("br0", 100), ("vmbr1", 100)];
    fake.write("proc/1/net/dev", net_dev(&all));
    assert_eq!(received(&fake, &mut machine(&fake), &all), Some(100));
}

#[test]
fn a_level_reads_and_gives_its_own_stats_only() {
    let fake = fake();
    let places = Places { proc_: fake.root.join("proc"), sys: fake.root.join("sys"), network_of: 1, data: None };
    let mut machine = Machine::new(places, Level::Docker);
    assert_eq!(machine.read().present(), Level::Docker.mask() | stat::CAPACITY, "and what the machine has");
    assert_eq!(machine.files.len(), 5, "stat, loadavg, meminfo, diskstats, net/dev");
}

/// What a command of the system says, as numbers.
fn says(command: &str, arguments: &[&str]) -> Vec<u64> {
    let output = Command::new(command).args(arguments).output().unwrap();
    String::from_utf8(output.stdout).unwrap().split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

#[test]
fn real_figures_are_those_of_nproc_free_df_and_the_kernel() {
    let data = Some(std::env::temp_dir());
    let places = Places { proc_: "/proc".into(), sys: "/sys".into(), network_of: 1, data };
    let mut machine = Machine::new(places, Level::Standard);
    let before = machine.read();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(500) {}
    let df = says("df", &["-B1", "--output=size,used,avail", std::env::temp_dir().to_str().unwrap()]);
    let after = machine.read();
    let close = |stat, to: u64, within: u64| {
        let value = after.get(stat).unwrap();
        assert!(value.abs_diff(to) <= within, "{stat:?} is {value}, not {to}");
    };
    close(stat::CPU_LIMIT, says("nproc", &["--all"])[0] * 1_000_000_000, 0);
    let free = says("free", &["-b"]);
    close(stat::MEMORY_LIMIT, free[0], 0);
    close(stat::MEMORY_SWAP_LIMIT, free[6], 0);
    close(stat::MEMORY_USED, free[0] - free[5], 1 << 29);
    close(stat::FILESYSTEM_SIZE, df[0], 0);
    close(stat::FILESYSTEM_USED, df[1], 1 << 30);
    close(stat::FILESYSTEM_AVAILABLE, df[2], 1 << 30);
    let up = fs::read_to_string("/proc/uptime").unwrap().split('.').next().unwrap().parse::<u64>().unwrap();
    close(stat::START_TIME, crate::clock::wall() * 1_000_000 - up * 1_000_000_000, 3_000_000_000);
    // The loop above used 0.5 s, the machine at most all its CPUs for as long; five ticks are for rounding.
    let used = after.get(stat::CPU).unwrap() - before.get(stat::CPU).unwrap();
    let (ticks, most) = (50_000_000, begun.elapsed().as_nanos() as u64 * after.get(stat::CPU_LIMIT).unwrap());
    assert!(used + ticks >= 400_000_000 && used <= most / 1_000_000_000 + ticks, "{used}");
    let rounds = 200;
    let begun = Instant::now();
    for _ in 0..rounds {
        machine.read();
    }
    println!("{} µs a round, unoptimised", begun.elapsed().as_micros() / rounds);
}

#[test]
fn the_file_system_of_the_engines_data_is_found_out_of_a_container_of_it() {
    let mounts = "9 8 254:0 /var/lib/docker/containers/ab/hostname /etc/hostname rw - ext4 /dev/vda rw\n";
    let own = "9 8 254:1 /containers/ab/hostname /etc/hostname rw - ext4 /dev/vdb rw\n";
    assert!(is_host_name_of("/var/lib/docker", mounts));
    assert!(!is_host_name_of("/data/docker", own), "it might be another engine's");
    assert!(!is_host_name_of("/data/docker", mounts), "a container of another engine");
    assert!(!is_host_name_of("/var/lib/docker", "9 8 254:0 /etc/hostname /etc/hostname rw - ext4 /dev/vda rw\n"));
    assert_eq!(data_of_engine(""), None);
    assert_eq!(data_of_engine("/no/such/place"), None);
}

#[tokio::test]
async fn the_network_is_the_engines_where_its_process_is_known() {
    let fake = fake();
    let socket = fake.root.join("engine.sock");
    let _engine = tokio::net::UnixListener::bind(&socket).unwrap();
    let (socket, proc_) = (socket.display().to_string(), fake.root.join("proc"));
    let own = std::process::id();
    assert_eq!(engine_process(&socket, &proc_).await, 1, "its number means nothing here");
    fake.write(&format!("proc/{own}/comm"), "socat\n");
    assert_eq!(engine_process(&socket, &proc_).await, 1, "a proxy");
    fake.write(&format!("proc/{own}/comm"), "dockerd\n");
    assert_eq!(engine_process(&format!("unix://{socket}"), &proc_).await, own);
    assert_eq!(engine_process("/no/such/socket", &proc_).await, 1);
}
