//! Which kernel file gives which stat: one table for cgroup v1 and v2, and how each file's bytes become figures.
//!
//! Adding a stat is adding it to the row of its file and the line in [`parse`] that reads it. A row whose stats the
//! configured level does not ask for is never opened. It deliberately opens nothing itself.

use super::{
    Fault, Faults,
    parse::{self, Bad, Inactive},
    sums::Sums,
};
use crate::{
    model::{Values, bits},
    stat::{self, Stat},
};
use rustix::io::Errno;
use std::{io, path::PathBuf};

/// What a container's files said so far. Counters per interface and device live here, so that their sums never fall.
#[derive(Debug, Default)]
pub struct Figures {
    /// The stats.
    pub values: Values,
    /// Of `memory.stat`, if it was read: what is not counted as used.
    pub inactive: Option<Inactive>,
    /// The memory limit as the kernel has it, "none" included.
    pub limit: Option<u64>,
    /// Per interface of its network namespace.
    pub network: Sums<parse::Interface, 8>,
    /// Per device: bytes read, written.
    pub block_bytes: Sums<parse::Device, 2>,
    /// Per device: reads, writes.
    pub block_ops: Sums<parse::Device, 2>,
}

impl Figures {
    /// Makes stats absent, and what is derived from them.
    pub fn lose(&mut self, gives: u64) {
        for stat in bits(self.values.present() & gives) {
            self.values.clear(stat);
        }
        if gives & stat::MEMORY_INACTIVE_FILE.bit() != 0 {
            self.inactive = None;
        }
        if gives & stat::MEMORY_LIMIT.bit() != 0 {
            self.limit = None;
        }
    }

    /// MEMORY_USED, MEMORY_WORKING_SET and MEMORY_LIMIT, from what was read. A limit above the machine's memory limits nothing.
    pub fn derive(&mut self, memory_total: Option<u64>) {
        let read = self.values.get(stat::MEMORY_USAGE).zip(self.inactive);
        self.values.put(stat::MEMORY_USED, read.map(|(usage, inactive)| parse::memory_used(usage, inactive)));
        self.values.put(stat::MEMORY_WORKING_SET, read.map(|(usage, inactive)| parse::working_set(usage, inactive)));
        // Without MemTotal: v1 writes "none" as the largest i64, rounded down to a page (of at most 64 KiB).
        let most = memory_total.unwrap_or(i64::MAX as u64 - 0xffff);
        self.values.put(stat::MEMORY_LIMIT, self.limit.filter(|limit| *limit <= most && *limit != u64::MAX));
    }
}

/// What all containers of a node share while they are read.
#[derive(Debug, Default)]
pub struct Around {
    /// Which devices count.
    pub devices: Devices,
    /// What went wrong.
    pub faults: Faults,
}

/// Which block devices are leaves: one stacked on others (LVM, md, dm-crypt) hands its I/O down to them, where it
/// would count again.
#[derive(Debug, Default)]
pub struct Devices {
    roots: Vec<PathBuf>,
    known: Vec<(parse::Device, bool)>,
}

impl Devices {
    /// Devices as the `dev/block` folder of one of these sysfs roots shows them; the first that knows a device counts.
    pub fn new(roots: Vec<PathBuf>) -> Devices {
        Devices { roots, known: Vec::new() }
    }

    /// Looks at all devices anew: numbers are given to others after a device was unplugged.
    pub fn forget(&mut self) {
        self.known.clear();
    }

    /// Whether a device stands on no other.
    pub fn is_leaf(&mut self, device: parse::Device) -> bool {
        if let Some((_, leaf)) = self.known.iter().find(|(known, _)| *known == device) {
            return *leaf;
        }
        let (major, minor) = device;
        let slaves = |root: &PathBuf| {
            let folder = root.join(format!("dev/block/{major}:{minor}"));
            folder.exists().then(|| folder.join("slaves").read_dir().is_ok_and(|mut slaves| slaves.next().is_some()))
        };
        let leaf = !self.roots.iter().find_map(slaves).unwrap_or(false);
        self.known.truncate(super::sums::MAX_KEYS);
        self.known.push((device, leaf));
        leaf
    }
}

/// A cgroup hierarchy; on v2 all are one, but each may be switched off by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Controller {
    /// CPU time.
    Cpuacct,
    /// CPU limits and throttling.
    Cpu,
    /// Memory.
    Memory,
    /// Kernel tasks.
    Pids,
    /// Block I/O.
    Blkio,
    /// Pressure, on v2 only and no controller there: it comes with every cgroup.
    Pressure,
}

impl Controller {
    /// Every one.
    pub const ALL: [Controller; 6] = [
        Controller::Cpuacct,
        Controller::Cpu,
        Controller::Memory,
        Controller::Pids,
        Controller::Blkio,
        Controller::Pressure,
    ];

    /// Its name in v1 mount options and `/proc/PID/cgroup`.
    pub const fn v1_name(self) -> &'static str {
        match self {
            Controller::Cpuacct => "cpuacct",
            Controller::Cpu => "cpu",
            Controller::Memory => "memory",
            Controller::Pids => "pids",
            Controller::Blkio => "blkio",
            Controller::Pressure => "",
        }
    }
}

/// Which cgroup version a hierarchy is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cgroup {
    /// One hierarchy per controller, or per few.
    V1,
    /// The unified one.
    V2,
}

/// When a file is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// Every round.
    Always,
    /// While the CPU counter moves, and at least every [`super::reader::IDLE_ROUNDS`].
    Moving,
}

/// A kernel file and what it gives.
#[derive(Debug)]
pub struct Row {
    /// Where it is.
    pub cgroup: Cgroup,
    /// In which hierarchy.
    pub controller: Controller,
    /// Its name.
    pub name: &'static str,
    /// The stats read or derived from it.
    pub gives: u64,
    /// When it is read.
    pub when: When,
    /// Its bytes into figures.
    pub parse: fn(&[u8], &mut Figures, &mut Around) -> Bad,
}

const fn mask(stats: &[Stat]) -> u64 {
    let (mut mask, mut i) = (0, 0);
    while i < stats.len() {
        mask |= stats[i].bit();
        i += 1;
    }
    mask
}

/// What usage gives, with `memory.stat` beside it.
const MEMORY_USAGE: u64 = mask(&[stat::MEMORY_USAGE, stat::MEMORY_USED, stat::MEMORY_WORKING_SET]);

const MEMORY_STAT: u64 = mask(&[
    stat::MEMORY_USED,
    stat::MEMORY_WORKING_SET,
    stat::MEMORY_ANON,
    stat::MEMORY_FILE,
    stat::MEMORY_SHMEM,
    stat::PAGE_FAULTS,
    stat::MAJOR_PAGE_FAULTS,
    stat::MEMORY_MAPPED,
    stat::MEMORY_DIRTY,
    stat::MEMORY_WRITEBACK,
    stat::MEMORY_ACTIVE_FILE,
    stat::MEMORY_INACTIVE_FILE,
]);

/// The stats of a network namespace.
pub const NETWORK: u64 = mask(&parse::NETWORK);

/// The stats of `io.stat`, and of the v1 files that [`super::reader`] chooses among.
pub const BLOCK: u64 = mask(&[stat::BLOCK_READ, stat::BLOCK_WRITTEN, stat::BLOCK_READS, stat::BLOCK_WRITES]);

/// v1 files of the bytes of block I/O, and their siblings of operations, in the order of preference: the first that has
/// data counts. Which one the kernel fills depends on the I/O scheduler; the last counts where the third is missing.
pub const V1_BLKIO: [(&str, &str); 4] = [
    ("blkio.bfq.io_service_bytes_recursive", "blkio.bfq.io_serviced_recursive"),
    ("blkio.io_service_bytes_recursive", "blkio.io_serviced_recursive"),
    ("blkio.throttle.io_service_bytes_recursive", "blkio.throttle.io_serviced_recursive"),
    ("blkio.throttle.io_service_bytes", "blkio.throttle.io_serviced"),
];

macro_rules! rows {
    ($($cgroup:ident $controller:ident $name:literal $when:ident [$gives:expr] $parse:expr;)*) => {
        /// Every cgroup file that is held open, CPU time first: the others are read only where it moved.
        pub const ROWS: &[Row] = &[$(Row {
            cgroup: Cgroup::$cgroup, controller: Controller::$controller, name: $name, when: When::$when,
            gives: $gives, parse: $parse,
        }),*];
    };
}

rows! {
    V1 Cpuacct "cpuacct.usage" Always [stat::CPU.bit()] |bytes, f, _| parse::single(bytes, stat::CPU, &mut f.values);
    V2 Cpuacct "cpu.stat" Always [mask(&[stat::CPU, stat::CPU_USER, stat::CPU_SYSTEM]) | THROTTLING]
        |bytes, f, _| parse::cpu_stat(bytes, &mut f.values);
    V1 Cpuacct "cpuacct.stat" Moving [mask(&[stat::CPU_USER, stat::CPU_SYSTEM])]
        |bytes, f, _| parse::cpuacct_stat(bytes, &mut f.values);
    V1 Cpu "cpu.stat" Moving [THROTTLING] |bytes, f, _| parse::cpu_stat(bytes, &mut f.values);
    V1 Memory "memory.usage_in_bytes" Moving [MEMORY_USAGE]
        |bytes, f, _| parse::single(bytes, stat::MEMORY_USAGE, &mut f.values);
    V2 Memory "memory.current" Moving [MEMORY_USAGE]
        |bytes, f, _| parse::single(bytes, stat::MEMORY_USAGE, &mut f.values);
    V1 Memory "memory.stat" Moving [MEMORY_STAT | mask(&[stat::MEMORY_SWAP, stat::MEMORY_LIMIT])]
        |bytes, f, _| parse::memory_stat_v1(bytes, &mut f.values, f.inactive.insert(Inactive::default()), &mut f.limit);
    V2 Memory "memory.stat" Moving [MEMORY_STAT | stat::MEMORY_KERNEL.bit()]
        |bytes, f, _| parse::memory_stat_v2(bytes, &mut f.values, f.inactive.insert(Inactive::default()));
    V1 Memory "memory.kmem.usage_in_bytes" Moving [stat::MEMORY_KERNEL.bit()]
        |bytes, f, _| parse::single(bytes, stat::MEMORY_KERNEL, &mut f.values);
    V1 Memory "memory.max_usage_in_bytes" Moving [stat::MEMORY_PEAK.bit()]
        |bytes, f, _| parse::single(bytes, stat::MEMORY_PEAK, &mut f.values);
    V2 Memory "memory.peak" Moving [stat::MEMORY_PEAK.bit()]
        |bytes, f, _| parse::single(bytes, stat::MEMORY_PEAK, &mut f.values);
    V2 Memory "memory.swap.current" Moving [stat::MEMORY_SWAP.bit()]
        |bytes, f, _| parse::single(bytes, stat::MEMORY_SWAP, &mut f.values);
    V1 Memory "memory.oom_control" Moving [stat::OOM_KILLS.bit()]
        |bytes, f, _| parse::memory_events(bytes, &mut f.values);
    V2 Memory "memory.events" Moving [mask(&[stat::OOM_KILLS, stat::MEMORY_LIMIT_HITS])]
        |bytes, f, _| parse::memory_events(bytes, &mut f.values);
    V1 Memory "memory.failcnt" Moving [stat::MEMORY_LIMIT_HITS.bit()]
        |bytes, f, _| parse::single(bytes, stat::MEMORY_LIMIT_HITS, &mut f.values);
    V1 Pids "pids.current" Moving [stat::PIDS.bit()] |bytes, f, _| parse::single(bytes, stat::PIDS, &mut f.values);
    V2 Pids "pids.current" Moving [stat::PIDS.bit()] |bytes, f, _| parse::single(bytes, stat::PIDS, &mut f.values);
    V2 Blkio "io.stat" Moving [BLOCK] io_stat;
    V2 Pressure "cpu.pressure" Moving [mask(&[stat::CPU_WAITING, stat::CPU_STALLED])]
        |bytes, f, _| parse::pressure(bytes, stat::CPU_WAITING, stat::CPU_STALLED, &mut f.values);
    V2 Pressure "memory.pressure" Moving [mask(&[stat::MEMORY_WAITING, stat::MEMORY_STALLED])]
        |bytes, f, _| parse::pressure(bytes, stat::MEMORY_WAITING, stat::MEMORY_STALLED, &mut f.values);
    V2 Pressure "io.pressure" Moving [mask(&[stat::IO_WAITING, stat::IO_STALLED])]
        |bytes, f, _| parse::pressure(bytes, stat::IO_WAITING, stat::IO_STALLED, &mut f.values);
}

const THROTTLING: u64 = mask(&[stat::CPU_PERIODS, stat::THROTTLED_PERIODS, stat::THROTTLED]);

/// `/proc/PID/net/dev`; which hierarchy it says here means nothing.
pub const NET_DEV: Row = Row {
    cgroup: Cgroup::V2,
    controller: Controller::Pressure,
    name: "net/dev",
    gives: NETWORK,
    when: When::Moving,
    parse: net_dev,
};

/// A v1 file of bytes, once chosen.
pub const BLKIO_BYTES: Row = Row {
    cgroup: Cgroup::V1,
    controller: Controller::Blkio,
    name: "blkio bytes",
    gives: mask(&[stat::BLOCK_READ, stat::BLOCK_WRITTEN]),
    when: When::Moving,
    parse: |bytes, f, around| {
        f.block_bytes.begin();
        let bad = parse::blkio(bytes, |device, row| add_device(&mut f.block_bytes, device, row, around));
        put_pair(&mut f.values, [stat::BLOCK_READ, stat::BLOCK_WRITTEN], f.block_bytes.end(bad == 0));
        bad
    },
};

/// A v1 file of operations, once chosen.
pub const BLKIO_OPS: Row = Row {
    name: "blkio operations",
    gives: mask(&[stat::BLOCK_READS, stat::BLOCK_WRITES]),
    parse: |bytes, f, around| {
        f.block_ops.begin();
        let bad = parse::blkio(bytes, |device, row| add_device(&mut f.block_ops, device, row, around));
        put_pair(&mut f.values, [stat::BLOCK_READS, stat::BLOCK_WRITES], f.block_ops.end(bad == 0));
        bad
    },
    ..BLKIO_BYTES
};

fn io_stat(bytes: &[u8], f: &mut Figures, around: &mut Around) -> Bad {
    f.block_bytes.begin();
    f.block_ops.begin();
    let bad = parse::io_stat(bytes, |device, io| {
        add_device(&mut f.block_bytes, device, io.bytes, around);
        add_device(&mut f.block_ops, device, io.ops, around);
    });
    put_pair(&mut f.values, [stat::BLOCK_READ, stat::BLOCK_WRITTEN], f.block_bytes.end(bad == 0));
    put_pair(&mut f.values, [stat::BLOCK_READS, stat::BLOCK_WRITES], f.block_ops.end(bad == 0));
    bad
}

fn add_device(sums: &mut Sums<parse::Device, 2>, device: parse::Device, row: [Option<u64>; 2], around: &mut Around) {
    if around.devices.is_leaf(device) && !sums.row(device, row) {
        around.faults.count(Fault::Bounds);
    }
}

fn put_pair(values: &mut Values, stats: [Stat; 2], sums: [u64; 2]) {
    for (stat, sum) in stats.into_iter().zip(sums) {
        values.set(stat, sum);
    }
}

fn net_dev(bytes: &[u8], f: &mut Figures, around: &mut Around) -> Bad {
    f.network.begin();
    let bad = parse::net_dev(bytes, |interface, row| {
        if !f.network.row(interface, row) {
            around.faults.count(Fault::Bounds);
        }
    });
    for (stat, sum) in parse::NETWORK.into_iter().zip(f.network.end(bad == 0)) {
        f.values.set(stat, sum);
    }
    bad
}

/// What an error of reading a kernel file means.
pub fn fault(error: &io::Error) -> Fault {
    match Errno::from_io_error(error) {
        Some(Errno::NOENT | Errno::NODEV | Errno::SRCH) => Fault::Gone,
        Some(Errno::ACCESS | Errno::PERM) => Fault::Denied,
        Some(Errno::MFILE | Errno::NFILE) => Fault::OpenFiles,
        _ => Fault::Unreadable,
    }
}

/// Whether an error is how the kernel says that a kind of figure is switched off: absent, and nothing wrong.
pub fn is_switched_off(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::OPNOTSUPP)
}
