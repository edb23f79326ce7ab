//! One task's files, read round by round.

use super::*;
use crate::{
    source::fake::{ID, Layout, MEMORY_TOTAL, Machine, PID, STARTED_AT, recording, target},
    stat::Stat,
};
use proptest::{array, collection::vec, option, prelude::*};

struct Rig {
    machine: Machine,
    scratch: Scratch,
    reader: Reader,
    round: u64,
}

fn open(machine: Machine, target: &Target, level: Level) -> Result<Rig, Unseen> {
    let host = machine.host();
    let mut scratch = Scratch::new(&host);
    let reader = Reader::open(&host, target, level, 0, &mut scratch)?;
    Ok(Rig { machine, scratch, reader, round: 0 })
}

/// A reader of the recorded container under `/docker`, at level `all`.
fn rig(layout: Layout) -> Rig {
    let machine = Machine::new(layout);
    machine.container(&format!("/docker/{ID}"));
    open(machine, &target(), Level::All).unwrap()
}

impl Rig {
    fn read(&mut self) -> Values {
        self.round += 1;
        self.reader.read(self.round, self.round * 1_000_000_000, &mut self.scratch).unwrap().clone()
    }
    fn write(&self, file: &str, bytes: impl AsRef<[u8]>) {
        self.machine.write(&format!("sys/fs/cgroup/{file}"), bytes);
    }
    fn faults(&self) -> Vec<(Fault, u64)> {
        self.scratch.around.faults.iter().filter(|(_, n)| *n > 0).collect()
    }
}

/// What the engine's own record said of the paused container, and `docker stats`: 9.141MiB / 64MiB, 1.18kB / 0B,
/// 0B / 21MB, 1.
const RECORDED_V1: &[(Stat, u64)] = &[
    (stat::CPU, 8_274_898_924),
    (stat::CPU_USER, 8_190_000_000),
    (stat::CPU_SYSTEM, 70_000_000),
    (stat::MEMORY_USED, 9_584_640),
    (stat::MEMORY_USAGE, 28_459_008),
    (stat::RX_BYTES, 1182),
    (stat::TX_BYTES, 0),
    (stat::RX_PACKETS, 13),
    (stat::PIDS, 1),
    (stat::BLOCK_READ, 0),
    (stat::BLOCK_WRITTEN, 20_979_712),
    (stat::BLOCK_READS, 0),
    (stat::BLOCK_WRITES, 8),
    (stat::MEMORY_ANON, 61_440),
    (stat::CPU_PERIODS, 171),
    (stat::THROTTLED_PERIODS, 145),
    (stat::THROTTLED, 3_073_634_204),
    (stat::MEMORY_KERNEL, 823_296),
    (stat::MEMORY_PEAK, 31_948_800),
    (stat::MEMORY_SWAP, 0),
    (stat::OOM_KILLS, 0),
    (stat::MEMORY_LIMIT, 64 << 20),
    (stat::CPU_LIMIT, 500_000_000),
    (stat::PIDS_LIMIT, 50),
    (stat::START_TIME, STARTED_AT),
];

fn mask(stats: &[Stat]) -> u64 {
    stats.iter().fold(0, |mask, stat| mask | stat.bit())
}

fn pressures(values: &Values) -> usize {
    let all = [stat::CPU_WAITING, stat::CPU_STALLED, stat::MEMORY_WAITING, stat::IO_WAITING];
    all.into_iter().filter(|stat| values.get(*stat).is_some()).count()
}

#[test]
fn v1_however_mounted_gives_what_the_engine_and_docker_stats_said() {
    for layout in [Layout::V1Apart, Layout::V1Together, Layout::Hybrid] {
        let mut rig = rig(layout);
        let values = rig.read();
        for (stat, expected) in RECORDED_V1 {
            assert_eq!(values.get(*stat), Some(*expected), "{stat:?}, {layout:?}");
        }
        assert_eq!(pressures(&values), if layout == Layout::Hybrid { 2 } else { 0 }, "absent without v2");
        assert_eq!(rig.faults(), []);
    }
}

#[test]
fn b044_b124_v2_alone_under_either_driver_gives_what_was_recorded() {
    for place in [format!("/docker/{ID}"), format!("/system.slice/docker-{ID}.scope")] {
        let machine = Machine::new(Layout::V2);
        machine.container(&place);
        let mut rig = open(machine, &target(), Level::All).unwrap();
        let values = rig.read();
        for (stat, expected) in [
            (stat::CPU, 10_393_872_000),
            (stat::MEMORY_USED, 22_704_128 - 21_590_016),
            (stat::MEMORY_LIMIT, 64 << 20),
            (stat::MEMORY_PEAK, 23_846_912),
            (stat::MEMORY_SWAP, 0),
            (stat::BLOCK_READ, 618_496),
            (stat::BLOCK_WRITES, 234),
            (stat::CPU_LIMIT, 500_000_000),
            (stat::CPU_WAITING, 6_787_577_000),
            (stat::OOM_KILLS, 0),
            (stat::PIDS, 1),
        ] {
            assert_eq!(values.get(stat), Some(expected), "{stat:?}, {place}");
        }
        assert_eq!(values.get(stat::PIDS_LIMIT), None, "pids.max says max");
        assert_eq!(rig.faults(), []);
    }
}

#[test]
fn the_same_state_gives_the_same_columns_in_both_versions() {
    let mut v1 = rig(Layout::V1Apart);
    let mut v2 = rig(Layout::V2);
    // The v1 recording's state, as a v2 kernel would write it; the counts of ticks and µs are whole ones.
    let d = format!("docker/{ID}");
    v1.write(&format!("cpuacct/{d}/cpuacct.usage"), "8270000000\n");
    v2.write(
        &format!("{d}/cpu.stat"),
        "usage_usec 8270000\nuser_usec 8190000\nsystem_usec 70000\nnr_periods 171\nnr_throttled 145\nthrottled_usec 3073634\n",
    );
    v1.write(&format!("cpu/{d}/cpu.stat"), "nr_periods 171\nnr_throttled 145\nthrottled_time 3073634000\n");
    v2.write(&format!("{d}/memory.current"), "28459008\n");
    v2.write(
        &format!("{d}/memory.stat"),
        "anon 61440\nfile 27267072\nkernel 823296\nshmem 8388608\nfile_mapped 0\nfile_dirty 4096\nfile_writeback 0\n\
         inactive_file 18874368\nactive_file 4096\npgfault 1748\npgmajfault 0\n",
    );
    v2.write(&format!("{d}/memory.peak"), "31948800\n");
    v2.write(&format!("{d}/pids.max"), "50\n");
    v2.write(&format!("{d}/io.stat"), "254:0 rbytes=0 wbytes=20979712 rios=0 wios=8 dbytes=0 dios=0\n");
    let (mut one, mut other) = (v1.read(), v2.read());
    let pressure = stat::CPU_WAITING.bit() | stat::CPU_STALLED.bit();
    for values in [&mut one, &mut other] {
        values.retain(!pressure);
    }
    assert_eq!(one, other);
    let pressure = stat::IO_WAITING.bit()
        | stat::IO_STALLED.bit()
        | stat::MEMORY_WAITING.bit()
        | stat::MEMORY_STALLED.bit()
        | pressure;
    let life = stat::RESTARTS.bit() | stat::HEALTH.bit() | stat::PAUSED.bit() | stat::EXIT_CODE.bit();
    assert_eq!(one.present(), stat::TASKS & !pressure & !life, "all that is in files, but no pressure");
}

#[test]
fn a_level_opens_what_it_needs_and_gives_no_more() {
    let machine = Machine::new(Layout::V1Apart);
    machine.container(&format!("/docker/{ID}"));
    let mut rig = open(machine, &target(), Level::Docker).unwrap();
    assert_eq!(rig.read().present(), Level::Docker.mask());
    let names: Vec<_> = rig.reader.files.iter().map(|(row, _)| row.name).collect();
    let expected = ["cpuacct.usage", "memory.usage_in_bytes", "memory.stat", "pids.current", "net/dev", "blkio bytes"];
    assert_eq!(names, expected);
}

#[test]
fn a_missing_or_garbled_file_spoils_only_its_own_fields() {
    let machine = Machine::new(Layout::V1Apart);
    machine.container(&format!("/docker/{ID}"));
    let d = format!("docker/{ID}");
    machine.remove(&format!("sys/fs/cgroup/pids/{d}/pids.current"));
    machine.remove(&format!("sys/fs/cgroup/memory/{d}/memory.kmem.usage_in_bytes"));
    machine.write(&format!("sys/fs/cgroup/memory/{d}/memory.usage_in_bytes"), "28459");
    machine.write(&format!("sys/fs/cgroup/cpu/{d}/cpu.cfs_quota_us"), "\u{fffd}\n");
    let mut rig = open(machine, &target(), Level::All).unwrap();
    let values = rig.read();
    let lost = [
        stat::PIDS,
        stat::MEMORY_KERNEL,
        stat::MEMORY_USAGE,
        stat::MEMORY_USED,
        stat::MEMORY_WORKING_SET,
        stat::CPU_LIMIT,
    ];
    for (stat, expected) in RECORDED_V1 {
        let expected = (!lost.contains(stat)).then_some(*expected);
        assert_eq!(values.get(*stat), expected, "{stat:?}");
    }
    let expected = [(Fault::Malformed, 1), (Fault::NoController, 1)];
    assert_eq!(
        rig.faults(),
        expected,
        "the torn number; a missing file is no fault unless its controller has no other"
    );
}

#[test]
fn b037_a_limit_that_limits_nothing_is_absent() {
    let stat = String::from_utf8(recording("v1/memory/memory.stat")).unwrap();
    let with = |limit: u64| stat.replace("limit 67108864", &format!("limit {limit}"));
    for (limit, expected) in [
        (9_223_372_036_854_771_712, None),
        (MEMORY_TOTAL + 4096, None),
        (MEMORY_TOTAL, Some(MEMORY_TOTAL)),
        (1 << 30, Some(1 << 30)),
    ] {
        let mut rig = rig(Layout::V1Apart);
        rig.write(&format!("memory/docker/{ID}/memory.stat"), with(limit));
        assert_eq!(rig.read().get(stat::MEMORY_LIMIT), expected);
    }
}

#[test]
fn on_v2_the_tightest_limit_above_counts() {
    for (own, parent, top, expected) in [
        ("max", "max", "max", None),
        ("67108864", "max", "max", Some(64 << 20)),
        ("max", "33554432", "max", Some(32 << 20)),
        ("67108864", "max", "16777216", Some(16 << 20)),
    ] {
        let machine = Machine::new(Layout::V2);
        machine.container(&format!("/a/b/{ID}"));
        for (path, limit) in [(format!("a/b/{ID}"), own), ("a/b".into(), parent), ("a".into(), top)] {
            machine.write(&format!("sys/fs/cgroup/{path}/memory.max"), format!("{limit}\n"));
        }
        let mut rig = open(machine, &target(), Level::Docker).unwrap();
        assert_eq!(rig.read().get(stat::MEMORY_LIMIT), expected);
    }
}

#[test]
fn b065_b064_a_volume_on_a_disk_does_not_count_beside_the_disk() {
    let mut rig = rig(Layout::V2);
    rig.write(
        &format!("docker/{ID}/io.stat"),
        "253:0 rbytes=100 wbytes=100 rios=1 wios=1\n254:0 rbytes=100 wbytes=104 rios=1 wios=2\n",
    );
    let values = rig.read();
    assert_eq!((values.get(stat::BLOCK_READ), values.get(stat::BLOCK_WRITTEN)), (Some(100), Some(104)));
}

#[test]
fn b061_the_v1_file_that_has_data_is_taken_in_order_of_preference() {
    let mut rig = rig(Layout::V1Apart);
    let file = |name: &str| format!("blkio/docker/{ID}/blkio.{name}");
    rig.write(&file("throttle.io_service_bytes_recursive"), "Total 0\n");
    let values = rig.read();
    assert_eq!((values.get(stat::BLOCK_READ), values.get(stat::BLOCK_WRITES)), (Some(0), Some(0)));
    rig.write(&file("bfq.io_service_bytes_recursive"), "254:0 Read 5\n254:0 Write 0\nTotal 5\n");
    rig.write(&file("bfq.io_serviced_recursive"), "254:0 Read 1\n254:0 Write 0\nTotal 1\n");
    rig.write(&file("throttle.io_service_bytes_recursive"), "254:0 Read 6\nTotal 6\n");
    rig.reader.hurry();
    let values = rig.read();
    assert_eq!((values.get(stat::BLOCK_READ), values.get(stat::BLOCK_READS)), (Some(5), Some(1)));
    // From here on it stays with that one.
    rig.write(&file("bfq.io_service_bytes_recursive"), "254:0 Read 9\n254:0 Write 0\nTotal 9\n");
    rig.reader.hurry();
    assert_eq!(rig.read().get(stat::BLOCK_READ), Some(9));
}

#[test]
fn counters_never_fall_when_an_interface_goes_or_a_device_is_unplugged() {
    let mut rig = rig(Layout::V2);
    let before = rig.read();
    rig.machine.write(&format!("proc/{PID}/net/dev"), "  lo: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n");
    rig.write(&format!("docker/{ID}/io.stat"), "");
    for _ in 0..4 {
        rig.reader.hurry();
        let after = rig.read();
        for stat in [stat::RX_BYTES, stat::RX_PACKETS, stat::BLOCK_READ, stat::BLOCK_WRITTEN, stat::BLOCK_WRITES] {
            assert_eq!(after.get(stat), before.get(stat), "{stat:?}");
        }
    }
    // A new interface counts from its beginning.
    rig.machine.write(&format!("proc/{PID}/net/dev"), " eth1: 18 1 0 0 0 0 0 0 9 1 0 0 0 0 0 0\n");
    rig.reader.hurry();
    assert_eq!(rig.read().get(stat::RX_BYTES), Some(1182 + 18));
}

#[test]
fn b082_b085_b086_without_a_network_of_its_own_network_figures_are_absent() {
    let machine = Machine::new(Layout::V1Apart);
    machine.container(&format!("/docker/{ID}"));
    let mut rig = open(machine, &Target { network: false, ..target() }, Level::All).unwrap();
    assert_eq!(rig.read().present() & files::NETWORK, 0);
}

#[test]
fn another_process_network_is_not_taken_for_the_containers() {
    let machine = Machine::new(Layout::V1Apart);
    machine.container(&format!("/docker/{ID}"));
    machine.write(&format!("proc/{PID}/cgroup"), "4:memory:/user.slice\n");
    let mut rig = open(machine, &target(), Level::All).expect("its cgroup is where the driver puts it");
    let values = rig.read();
    assert_eq!(values.present() & files::NETWORK, 0);
    assert_eq!(values.get(stat::CPU), Some(8_274_898_924));
    assert_eq!(rig.faults(), [(Fault::OtherProcess, 1)]);
}

#[test]
fn an_idle_tasks_other_figures_are_at_most_idle_rounds_old() {
    let mut rig = rig(Layout::V1Apart);
    rig.read();
    rig.read();
    let pids = format!("pids/docker/{ID}/pids.current");
    let mut ages = Vec::new();
    for n in 2..30u64 {
        // A figure that changes each round, of a task whose CPU counter stands still.
        rig.write(&pids, format!("{n}\n"));
        ages.push(n - rig.read().get(stat::PIDS).unwrap());
    }
    assert_eq!(ages.iter().max(), Some(&(IDLE_ROUNDS - 1)));
    assert_eq!(ages.iter().filter(|age| **age == 0).count() as u64, 28 / IDLE_ROUNDS + 1);
}

#[test]
fn a_running_tasks_figures_are_all_of_this_round_and_of_the_one_after() {
    let mut rig = rig(Layout::V1Apart);
    let (cpu, pids) = (format!("cpuacct/docker/{ID}/cpuacct.usage"), format!("pids/docker/{ID}/pids.current"));
    for n in 1..10u64 {
        rig.write(&cpu, format!("{}\n", 9_000_000_000 + n));
        rig.write(&pids, format!("{n}\n"));
        assert_eq!(rig.read().get(stat::PIDS), Some(n));
    }
    rig.write(&pids, "77\n");
    assert_eq!(rig.read().get(stat::PIDS), Some(77), "it came to rest after the last reading");
}

#[test]
fn limits_are_at_most_limit_rounds_old() {
    let mut rig = rig(Layout::V2);
    rig.read();
    rig.write(&format!("docker/{ID}/cpu.max"), "max 100000\n");
    rig.write(&format!("docker/{ID}/pids.max"), "7\n");
    let fresh_after = (1..100).find(|_| rig.read().get(stat::PIDS_LIMIT) == Some(7)).unwrap();
    assert!(fresh_after <= LIMIT_ROUNDS);
    assert_eq!(rig.reader.last().get(stat::CPU_LIMIT), None);
    rig.write(&format!("docker/{ID}/pids.max"), "8\n");
    assert_eq!(rig.read().get(stat::PIDS_LIMIT), Some(7));
    rig.reader.hurry();
    assert_eq!(rig.read().get(stat::PIDS_LIMIT), Some(8), "the engine said that it was changed");
}

#[test]
fn a_container_that_cannot_be_seen_is_said_so() {
    let result = open(Machine::new(Layout::V1Apart), &target(), Level::All);
    assert_eq!(result.err(), Some(Unseen::Nowhere));
}

#[test]
fn b028_b038_a_controller_that_is_off_leaves_its_figures_absent_and_no_others() {
    let machine = Machine::new(Layout::V2);
    machine.container(&format!("/docker/{ID}"));
    for file in ["current", "stat", "max", "peak", "events", "swap.current"] {
        machine.remove(&format!("sys/fs/cgroup/docker/{ID}/memory.{file}"));
    }
    let mut rig = open(machine, &target(), Level::All).unwrap();
    let values = rig.read();
    assert!(values.iter().all(|(stat, _)| !stat.name().starts_with("memory")), "{values:?}");
    assert_eq!((values.get(stat::PIDS), values.get(stat::CPU)), (Some(1), Some(10_393_872_000)));
    assert_eq!(rig.faults(), [(Fault::NoController, 1)], "and the reason is counted");
}

#[test]
fn b028_b122_rootless_has_what_was_delegated_and_counts_what_was_not() {
    let scope = format!("/user.slice/user-1000.slice/user@1000.service/user.slice/docker-{ID}.scope");
    let machine = Machine::new(Layout::V2);
    machine.container(&scope);
    // systemd delegates memory and pids unless told; cpu.stat has the usage in any cgroup.
    for file in ["io.stat", "cpu.max"] {
        machine.remove(&format!("sys/fs/cgroup{scope}/{file}"));
    }
    machine.write(&format!("sys/fs/cgroup{scope}/cpu.stat"), "usage_usec 7\nuser_usec 5\nsystem_usec 2\n");
    let mut rig = open(machine, &target(), Level::All).unwrap();
    let values = rig.read();
    assert_eq!((values.get(stat::CPU), values.get(stat::CPU_USER)), (Some(7_000), Some(5_000)));
    assert_eq!((values.get(stat::MEMORY_USED), values.get(stat::PIDS)), (Some(22_704_128 - 21_590_016), Some(1)));
    let absent = files::BLOCK | stat::CPU_LIMIT.bit() | stat::THROTTLED.bit() | stat::CPU_PERIODS.bit();
    assert_eq!(values.present() & absent, 0);
    assert_eq!(rig.faults(), [(Fault::NoController, 1)]);
}

#[test]
fn a_file_of_many_interfaces_is_read_to_its_end() {
    let mut rig = rig(Layout::V1Apart);
    let line = |n: usize| format!("veth{n:04}: 1 0 0 0 0 0 0 0 2 0 0 0 0 0 0 0\n");
    rig.machine.write(&format!("proc/{PID}/net/dev"), (0..200).map(line).collect::<String>());
    let values = rig.read();
    assert_eq!((values.get(stat::RX_BYTES), values.get(stat::TX_BYTES)), (Some(200), Some(400)));
}

#[test]
fn b046_swap_is_swap_alone() {
    // 12.49e9 were shown where nothing was swapped and 9.17e9 were resident.
    let mut rig = rig(Layout::V2);
    let d = format!("docker/{ID}");
    rig.write(&format!("{d}/memory.current"), "9170000000\n");
    rig.write(&format!("{d}/memory.swap.current"), "0\n");
    rig.reader.hurry();
    let values = rig.read();
    assert_eq!((values.get(stat::MEMORY_USAGE), values.get(stat::MEMORY_SWAP)), (Some(9_170_000_000), Some(0)));
}

#[test]
fn b071_a_device_without_a_name_takes_nothing_else_with_it() {
    let mut rig = rig(Layout::V1Apart);
    let whole = rig.read();
    let unknown =
        "(unknown) Read 9\n(unknown) Write 9\n(unknown) Total 18\n254:0 Read 0\n254:0 Write 20979712\nTotal 1\n";
    rig.write(&format!("blkio/docker/{ID}/blkio.throttle.io_service_bytes_recursive"), unknown);
    rig.reader.hurry();
    assert_eq!(rig.read(), whole, "net and pids among them");
    assert_eq!(rig.faults(), [(Fault::Malformed, 3)]);
}

#[test]
fn b076_without_any_figures_of_block_devices_there_is_none_and_not_0() {
    let machine = Machine::new(Layout::V2);
    machine.container(&format!("/docker/{ID}"));
    machine.remove(&format!("sys/fs/cgroup/docker/{ID}/io.stat"));
    let mut rig = open(machine, &target(), Level::All).unwrap();
    assert_eq!(rig.read().present() & files::BLOCK, 0);
}

#[test]
fn b088_without_its_process_a_container_has_no_network_figures_and_all_others() {
    let machine = Machine::new(Layout::V2);
    machine.container(&format!("/docker/{ID}"));
    std::fs::remove_dir_all(machine.root.join(format!("proc/{PID}"))).unwrap();
    let mut rig = open(machine, &target(), Level::All).unwrap();
    let values = rig.read();
    assert_eq!(values.present() & files::NETWORK, 0);
    assert_eq!((values.get(stat::CPU), values.get(stat::PIDS)), (Some(10_393_872_000), Some(1)));
}

#[test]
fn b029_b125_a_file_that_fails_for_a_while_is_a_gap_and_goes_on_from_where_it_was() {
    let mut rig = rig(Layout::V2);
    let cpu = |usage: &str| format!("usage_usec {usage}\n");
    let file = format!("docker/{ID}/cpu.stat");
    let mut said = Vec::new();
    for bytes in [cpu("1000"), String::new(), cpu("x"), cpu("1500")] {
        rig.write(&file, bytes);
        said.push(rig.read().get(stat::CPU));
    }
    assert_eq!(said, [Some(1_000_000), None, None, Some(1_500_000)], "never 0");
}

#[test]
fn pressure_of_a_task_that_only_waits_is_what_it_is_in_every_round() {
    // Blocked on a hung disk: no CPU time, io.pressure rises by a second a second. Seen to be refused as "rose by 3".
    let machine = Machine::new(Layout::V2);
    machine.container(&format!("/docker/{ID}"));
    machine.write(&format!("sys/fs/cgroup/docker/{ID}/io.pressure"), "");
    let mut rig = open(machine, &target(), Level::All).unwrap();
    let (pressure, network) = (format!("docker/{ID}/io.pressure"), format!("proc/{PID}/net/dev"));
    let mut before = None;
    let mut rises = Vec::new();
    for second in 1..40u64 {
        rig.write(
            &pressure,
            format!(
                "some avg10=0 avg60=0 avg300=0 total={0}\nfull avg10=0 avg60=0 avg300=0 total={0}\n",
                second * 1_000_000
            ),
        );
        // Packets that wake nobody: 300 bytes a second.
        rig.machine.write(&network, format!("eth0: {} 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n", 300 * second));
        let now = rig.read();
        let read = [stat::IO_WAITING, stat::RX_BYTES].map(|stat| now.get(stat).unwrap());
        if let Some(before) = before.replace(read) {
            rises.push([read[0] - before[0], read[1] - before[1]]);
        }
    }
    // At first it is not known yet that anything moves.
    let (first, rest) = rises.split_at(IDLE_ROUNDS as usize + 1);
    assert!(first.iter().all(|rise| rise[0] <= 1_000_000_000 && rise[1] <= 300), "{first:?}");
    assert!(rest.iter().all(|rise| *rise == [1_000_000_000, 300]), "{rest:?}");
    let told = rig.reader.last().get(stat::RX_BYTES).unwrap();
    assert!(300 * 39 - told <= 300 * (IDLE_ROUNDS - 1), "never further behind than the age that is allowed: {told}");
    let (last, _) = rig.reader.read_last(&mut rig.scratch);
    assert_eq!((last.get(stat::RX_BYTES), last.get(stat::IO_WAITING)), (Some(300 * 39), Some(39_000_000_000)));
}

#[test]
fn b029_b076_v1_block_io_that_cannot_be_read_is_absent_and_counted() {
    let machine = Machine::new(Layout::V1Apart);
    machine.container(&format!("/docker/{ID}"));
    let folder = format!("sys/fs/cgroup/blkio/docker/{ID}");
    let mut all: Vec<_> = files::V1_BLKIO.iter().flat_map(|(bytes, ops)| [*bytes, *ops]).collect();
    all.retain(|name| machine.root.join(&folder).join(name).exists());
    // Reading a folder fails, as reading a file that the kernel refuses does.
    for name in all {
        machine.remove(&format!("{folder}/{name}"));
        std::fs::create_dir(machine.root.join(&folder).join(name)).unwrap();
    }
    let mut rig = open(machine, &target(), Level::All).unwrap();
    let values = rig.read();
    assert_eq!(values.present() & files::BLOCK, 0, "never 0");
    assert_eq!(values.get(stat::CPU), Some(8_274_898_924));
    assert!(rig.scratch.around.faults.of(Fault::Unreadable) > 0, "{:?}", rig.faults());
}

/// The state of a container, to be written as kernels of either version write it.
#[derive(Clone, Debug)]
struct State {
    ticks: [u64; 2],
    throttling: [u64; 3],
    memory: [u64; 8],
    inactive: u64,
    faults: [u64; 2],
    events: [u64; 2],
    peak: u64,
    swap: u64,
    pids: u64,
    limits: [Option<u64>; 3],
    devices: Vec<[u64; 4]>,
}

fn any_state() -> impl Strategy<Value = State> {
    let bytes = 0..1u64 << 40;
    let limits = [option::of(1u64..1 << 20), option::of(1u64..MEMORY_TOTAL / 4096), option::of(1_000u64..1 << 30)];
    let one = (array::uniform2(0..1u64 << 30), array::uniform3(0..1u64 << 40), array::uniform8(bytes.clone()));
    let two = (bytes.clone(), array::uniform2(0..1u64 << 30), array::uniform2(0..9u64), bytes.clone(), bytes);
    let three = (1..9_999u64, limits, vec(array::uniform4(0..1u64 << 40), 0..4));
    (one, two, three).prop_map(|(one, two, three)| State {
        ticks: one.0,
        throttling: one.1,
        memory: one.2,
        inactive: two.0,
        faults: two.1,
        events: two.2,
        peak: two.3,
        swap: two.4,
        pids: three.0,
        limits: three.1,
        devices: three.2,
    })
}

impl State {
    fn write_v1(&self, write: impl Fn(&str, String)) {
        let [user, system] = self.ticks;
        write("cpuacct/cpuacct.usage", format!("{}\n", (user + system) * 10_000_000));
        write("cpuacct/cpuacct.stat", format!("user {user}\nsystem {system}\n"));
        let [periods, throttled, us] = self.throttling;
        let text = format!("nr_periods {periods}\nnr_throttled {throttled}\nthrottled_time {}\n", us * 1000);
        write("cpu/cpu.stat", text);
        let [usage, anon, file, kernel, shmem, mapped, dirty, writeback] = self.memory;
        write("memory/memory.usage_in_bytes", format!("{usage}\n"));
        write("memory/memory.kmem.usage_in_bytes", format!("{kernel}\n"));
        write("memory/memory.max_usage_in_bytes", format!("{}\n", self.peak));
        write("memory/memory.failcnt", format!("{}\n", self.events[0]));
        write("memory/memory.oom_control", format!("oom_kill_disable 0\nunder_oom 0\noom_kill {}\n", self.events[1]));
        let [pids, pages, quota] = self.limits;
        let limit = pages.map_or(9_223_372_036_854_771_712, |pages| pages * 4096);
        let text = format!(
            "cache 1\nrss 2\ninactive_file {0}\nhierarchical_memory_limit {limit}\ntotal_cache {file}\ntotal_rss {anon}\n\
             total_shmem {shmem}\ntotal_mapped_file {mapped}\ntotal_dirty {dirty}\ntotal_writeback {writeback}\ntotal_swap {1}\n\
             total_pgfault {2}\ntotal_pgmajfault {3}\ntotal_inactive_file {0}\ntotal_active_file 7\n",
            self.inactive, self.swap, self.faults[0], self.faults[1]
        );
        write("memory/memory.stat", text);
        write("pids/pids.current", format!("{}\n", self.pids));
        write("pids/pids.max", pids.map_or("max\n".into(), |limit| format!("{limit}\n")));
        write("cpu/cpu.cfs_quota_us", quota.map_or("-1\n".into(), |quota| format!("{quota}\n")));
        write("cpu/cpu.cfs_period_us", "100000\n".into());
        let rows = |places: [usize; 2]| {
            let row = |(minor, row): (usize, &[u64; 4])| {
                let [read, written] = places.map(|place| row[place]);
                format!("8:{minor} Read {read}\n8:{minor} Write {written}\n8:{minor} Sync 5\n8:{minor} Total 9\n")
            };
            self.devices.iter().enumerate().map(row).collect::<String>() + "Total 9\n"
        };
        write("blkio/blkio.throttle.io_service_bytes_recursive", rows([0, 1]));
        write("blkio/blkio.throttle.io_serviced_recursive", rows([2, 3]));
    }

    fn write_v2(&self, write: impl Fn(&str, String)) {
        let ([user, system], [periods, throttled, us]) = (self.ticks.map(|ticks| ticks * 10_000), self.throttling);
        let text = format!(
            "usage_usec {}\nuser_usec {user}\nsystem_usec {system}\nnr_periods {periods}\nnr_throttled {throttled}\n\
             throttled_usec {us}\nnr_bursts 0\nburst_usec 0\n",
            user + system
        );
        write("cpu.stat", text);
        let [usage, anon, file, kernel, shmem, mapped, dirty, writeback] = self.memory;
        write("memory.current", format!("{usage}\n"));
        write("memory.peak", format!("{}\n", self.peak));
        write("memory.swap.current", format!("{}\n", self.swap));
        write("memory.events", format!("low 0\nhigh 0\nmax {}\noom 0\noom_kill {}\n", self.events[0], self.events[1]));
        let text = format!(
            "anon {anon}\nfile {file}\nkernel {kernel}\nslab 3\nshmem {shmem}\nfile_mapped {mapped}\nfile_dirty {dirty}\n\
             file_writeback {writeback}\ninactive_file {}\nactive_file 7\npgfault {}\npgmajfault {}\n",
            self.inactive, self.faults[0], self.faults[1]
        );
        write("memory.stat", text);
        let [pids, pages, quota] = self.limits;
        let or_max = |limit: Option<u64>| limit.map_or("max\n".into(), |limit| format!("{limit}\n"));
        write("memory.max", or_max(pages.map(|pages| pages * 4096)));
        write("pids.current", format!("{}\n", self.pids));
        write("pids.max", or_max(pids));
        write("cpu.max", quota.map_or("max 100000\n".into(), |quota| format!("{quota} 100000\n")));
        let row = |(minor, [read, written, reads, writes]): (usize, &[u64; 4])| {
            format!("8:{minor} wios={writes} rbytes={read} wbytes={written} rios={reads} dbytes=0 dios=0\n")
        };
        write("io.stat", self.devices.iter().enumerate().map(row).collect());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn b041_b059_any_state_gives_the_same_columns_whichever_version_writes_it(before in any_state(), state in any_state()) {
        let (mut v1, mut v2) = (rig(Layout::V1Apart), rig(Layout::V2));
        let pressure = mask(&[
            stat::CPU_WAITING, stat::CPU_STALLED, stat::MEMORY_WAITING, stat::MEMORY_STALLED, stat::IO_WAITING, stat::IO_STALLED,
        ]);
        for (round, state) in [before, state].into_iter().enumerate() {
            state.write_v1(|file, text| {
                let (controller, name) = file.split_once('/').unwrap();
                v1.write(&format!("{controller}/docker/{ID}/{name}"), text);
            });
            state.write_v2(|file, text| v2.write(&format!("docker/{ID}/{file}"), text));
            v1.reader.hurry();
            v2.reader.hurry();
            let (one, mut other) = (v1.read(), v2.read());
            other.retain(!pressure);
            prop_assert_eq!(&one, &other, "round {}", round);
            prop_assert!(one.get(stat::MEMORY_USED) <= one.get(stat::MEMORY_USAGE));
            prop_assert_eq!(one.get(stat::MEMORY_LIMIT), state.limits[1].map(|pages| pages * 4096));
        }
        prop_assert_eq!(v1.faults().len() + v2.faults().len(), 0);
    }
}
