//! The catalogue: the single table that names every stat this project carries.
//!
//! Sampling, wire, JSON, exposition and documentation are derived from it. Adding a stat is adding a row here and the
//! line in `source` that reads it. Numbers are permanent: they are the bit in a presence mask and what a peer of
//! another version means by them; a retired number is never given away again.
//!
//! It deliberately holds scalars per task only: interfaces, disks and CPUs are summed by the reader.

pub mod source;

use std::fmt;

/// One stat, by its place in [`CATALOGUE`] (which is its permanent number).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stat(u8);

impl Stat {
    /// The stat of a permanent number, or `None` where this version knows none.
    pub fn from_number(number: u32) -> Option<Stat> {
        u8::try_from(number).ok().filter(|n| usize::from(*n) < N_STATS).map(Stat)
    }
    /// The stat of the lowest number.
    pub(crate) const fn first() -> Stat {
        Stat(0)
    }
    /// Its permanent number, which is also its index in a [`crate::model::Values`].
    pub const fn number(self) -> usize {
        self.0 as usize
    }
    /// Its bit in a presence mask.
    pub const fn bit(self) -> u64 {
        1 << self.0
    }
    /// Its row of the catalogue.
    pub const fn row(self) -> &'static Row {
        &CATALOGUE[self.0 as usize]
    }
    /// Its name without scope prefix, as in `swarmstats_task_<name>` and in JSON: base units, `_total` for counters.
    pub const fn name(self) -> &'static str {
        self.row().name
    }
    /// The help text of a node's own figure, where a machine's means something else than a task's.
    pub fn help_of_node(self) -> &'static str {
        match self {
            CPU => "CPU time used: user and system; without idle, iowait and steal",
            CPU_USER => "CPU time used in user mode, nice included",
            CPU_SYSTEM => "CPU time used in kernel mode, interrupts included",
            MEMORY_USED => "Memory that is not available to new work: total less available",
            MEMORY_ANON => "Anonymous memory",
            MEMORY_FILE => "Page cache, buffers, tmpfs and shared memory",
            MEMORY_KERNEL => "Kernel memory: slabs, stacks, page tables, per-CPU data",
            MEMORY_SWAP => "Swap used",
            MEMORY_LIMIT => "Memory there is",
            CPU_LIMIT => "CPUs online",
            PIDS_LIMIT => "Limit of kernel tasks",
            START_TIME => "When the machine was started, Unix time",
            RX_BYTES => "Bytes received over the machine's network cards",
            TX_BYTES => "Bytes sent over the machine's network cards",
            RX_PACKETS => "Packets received over the machine's network cards",
            TX_PACKETS => "Packets sent over the machine's network cards",
            RX_ERRORS => "Receive errors of the machine's network cards",
            TX_ERRORS => "Transmit errors of the machine's network cards",
            RX_DROPPED => "Received packets dropped by the machine's network cards",
            TX_DROPPED => "Sent packets dropped by the machine's network cards",
            BLOCK_READ => "Bytes read from whole disks",
            BLOCK_WRITTEN => "Bytes written to whole disks",
            BLOCK_READS => "Read operations on whole disks",
            BLOCK_WRITES => "Write operations on whole disks",
            _ => self.row().help,
        }
    }
    /// Every stat, in order of its number.
    pub fn all() -> impl DoubleEndedIterator<Item = Stat> + Clone {
        (0..N_STATS as u8).map(Stat)
    }
}

impl fmt::Debug for Stat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What one unit of the core's integer is, and so how it is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Nanoseconds; shown as seconds with decimals.
    Nanoseconds,
    /// Nanocores (10⁻⁹ of a CPU); shown as cores with decimals.
    Nanocores,
    /// Bytes; shown as an integer.
    Bytes,
    /// A plain count; shown as an integer.
    Count,
    /// Thousandths of a count that has decimals (a load average); shown as a number with decimals.
    Thousandths,
}

impl Unit {
    /// How many of the core's units make one of the unit shown (base unit).
    pub const fn per_base(self) -> u64 {
        match self {
            Unit::Nanoseconds | Unit::Nanocores => 1_000_000_000,
            Unit::Thousandths => 1_000,
            Unit::Bytes | Unit::Count => 1,
        }
    }
}

/// Whether a stat only ever grows within an incarnation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Cumulative since the incarnation began; a decrease is a reset.
    Counter,
    /// The state at the moment of reading.
    Gauge,
}

/// How a stat of tasks becomes one of their service, node or stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Group {
    /// Added up over the tasks that have it.
    Sum,
    /// Added up, but absent if one of the tasks has none: a limit of an unlimited group is no number.
    SumIfAll,
    /// Added up, with a network namespace shared by several tasks counted once.
    SumPerNetns,
    /// Says nothing about a group: absent there.
    Never,
}

/// Whose stat it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Of {
    /// Of tasks alone, and of the groups they are in.
    Tasks,
    /// Of nodes alone: what the machine as a whole uses and has.
    Nodes,
    /// Of both.
    Both,
}

/// How much is read, sent and exported: config picks one, each holds the ones before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// What `docker stats` shows.
    Docker,
    /// What a good exporter shows; the default.
    Standard,
    /// Everything in the catalogue.
    All,
}

impl Level {
    /// The presence mask of all stats of this level.
    pub const fn mask(self) -> u64 {
        let (mut mask, mut i) = (0, 0);
        while i < N_STATS {
            if CATALOGUE[i].level as u8 <= self as u8 {
                mask |= 1 << i;
            }
            i += 1;
        }
        mask
    }
}

/// One row of the catalogue.
#[derive(Debug)]
pub struct Row {
    /// Name without scope prefix.
    pub name: &'static str,
    /// Unit of the core's integer.
    pub unit: Unit,
    /// Counter or gauge.
    pub kind: Kind,
    /// How it aggregates.
    pub group: Group,
    /// Whose it is.
    pub of: Of,
    /// The lowest level that has it.
    pub level: Level,
    /// Help text, one sentence without a full stop, as Prometheus shows it.
    pub help: &'static str,
}

macro_rules! catalogue {
    ($($number:literal $ident:ident $name:literal $unit:ident $kind:ident $group:ident $of:ident $level:ident $help:literal)*) => {
        /// The table itself; the index of a row is its permanent number.
        pub const CATALOGUE: &[Row] = &[$(Row {
            name: $name, unit: Unit::$unit, kind: Kind::$kind, group: Group::$group, of: Of::$of, level: Level::$level, help: $help,
        }),*];
        $(#[doc = $help] pub const $ident: Stat = Stat($number);)*
        #[cfg(test)]
        const NUMBERS: &[usize] = &[$($number),*];
    };
}

/// How many stats there are.
pub const N_STATS: usize = CATALOGUE.len();

// The order is by how often a figure changes, so that a busy task's change mask is a short varint.
catalogue! {
    0  CPU                  "cpu_seconds_total"                         Nanoseconds Counter Sum         Both  Docker   "CPU time used"
    1  CPU_USER             "cpu_user_seconds_total"                    Nanoseconds Counter Sum         Both  Standard "CPU time used in user mode"
    2  CPU_SYSTEM           "cpu_system_seconds_total"                  Nanoseconds Counter Sum         Both  Standard "CPU time used in kernel mode"
    3  MEMORY_USED          "memory_used_bytes"                         Bytes       Gauge   Sum         Both  Docker   "Memory used as docker stats counts it: usage less the inactive page cache"
    4  MEMORY_USAGE         "memory_usage_bytes"                        Bytes       Gauge   Sum         Tasks Standard "Memory charged to the cgroup, page cache included"
    5  RX_BYTES             "network_receive_bytes_total"               Bytes       Counter SumPerNetns Both  Docker   "Bytes received over all interfaces but lo"
    6  TX_BYTES             "network_transmit_bytes_total"              Bytes       Counter SumPerNetns Both  Docker   "Bytes sent over all interfaces but lo"
    7  RX_PACKETS           "network_receive_packets_total"             Count       Counter SumPerNetns Both  Standard "Packets received over all interfaces but lo"
    8  TX_PACKETS           "network_transmit_packets_total"            Count       Counter SumPerNetns Both  Standard "Packets sent over all interfaces but lo"
    9  PIDS                 "pids"                                      Count       Gauge   Sum         Both  Docker   "Kernel tasks (threads)"
    10 BLOCK_READ           "block_read_bytes_total"                    Bytes       Counter Sum         Both  Docker   "Bytes read from block devices"
    11 BLOCK_WRITTEN        "block_written_bytes_total"                 Bytes       Counter Sum         Both  Docker   "Bytes written to block devices"
    12 BLOCK_READS          "block_reads_total"                         Count       Counter Sum         Both  Standard "Read operations on block devices"
    13 BLOCK_WRITES         "block_writes_total"                        Count       Counter Sum         Both  Standard "Write operations on block devices"
    14 MEMORY_ANON          "memory_anon_bytes"                         Bytes       Gauge   Sum         Both  Standard "Anonymous memory (on cgroup v1 rss, with huge pages)"
    15 MEMORY_FILE          "memory_file_bytes"                         Bytes       Gauge   Sum         Both  Standard "Page cache, tmpfs and shared memory included"
    16 PAGE_FAULTS          "memory_page_faults_total"                  Count       Counter Sum         Both  Standard "Page faults"
    17 CPU_PERIODS          "cpu_periods_total"                         Count       Counter Sum         Tasks Standard "CFS periods in which the cgroup was runnable under a CPU limit"
    18 THROTTLED_PERIODS    "cpu_throttled_periods_total"               Count       Counter Sum         Tasks Standard "CFS periods in which the cgroup was throttled"
    19 THROTTLED            "cpu_throttled_seconds_total"               Nanoseconds Counter Sum         Tasks Standard "Time during which the cgroup was throttled"
    20 CPU_WAITING          "pressure_cpu_waiting_seconds_total"        Nanoseconds Counter Sum         Both  Standard "Time in which some kernel task waited for a CPU (PSI some)"
    21 CPU_STALLED          "pressure_cpu_stalled_seconds_total"        Nanoseconds Counter Sum         Both  Standard "Time in which every kernel task waited for a CPU (PSI full)"
    22 MEMORY_WAITING       "pressure_memory_waiting_seconds_total"     Nanoseconds Counter Sum         Both  Standard "Time in which some kernel task waited for memory (PSI some)"
    23 MEMORY_STALLED       "pressure_memory_stalled_seconds_total"     Nanoseconds Counter Sum         Both  Standard "Time in which every kernel task waited for memory (PSI full)"
    24 IO_WAITING           "pressure_io_waiting_seconds_total"         Nanoseconds Counter Sum         Both  Standard "Time in which some kernel task waited for I/O (PSI some)"
    25 IO_STALLED           "pressure_io_stalled_seconds_total"         Nanoseconds Counter Sum         Both  Standard "Time in which every kernel task waited for I/O (PSI full)"
    26 MEMORY_KERNEL        "memory_kernel_bytes"                       Bytes       Gauge   Sum         Both  Standard "Kernel memory charged to the cgroup"
    27 MEMORY_PEAK          "memory_peak_bytes"                         Bytes       Gauge   Never       Tasks Standard "Highest memory usage of this incarnation, page cache included"
    28 MEMORY_SHMEM         "memory_shmem_bytes"                        Bytes       Gauge   Sum         Both  Standard "tmpfs and shared memory"
    29 MEMORY_SWAP          "memory_swap_bytes"                         Bytes       Gauge   Sum         Both  Standard "Swap used, memory not included"
    30 MAJOR_PAGE_FAULTS    "memory_major_page_faults_total"            Count       Counter Sum         Both  Standard "Page faults that needed I/O"
    31 OOM_KILLS            "memory_oom_kills_total"                    Count       Counter Sum         Both  Standard "Processes killed by the kernel for want of memory"
    32 RX_ERRORS            "network_receive_errors_total"              Count       Counter SumPerNetns Both  Standard "Receive errors over all interfaces but lo"
    33 TX_ERRORS            "network_transmit_errors_total"             Count       Counter SumPerNetns Both  Standard "Transmit errors over all interfaces but lo"
    34 RX_DROPPED           "network_receive_dropped_total"             Count       Counter SumPerNetns Both  Standard "Received packets dropped over all interfaces but lo"
    35 TX_DROPPED           "network_transmit_dropped_total"            Count       Counter SumPerNetns Both  Standard "Sent packets dropped over all interfaces but lo"
    36 MEMORY_LIMIT         "memory_limit_bytes"                        Bytes       Gauge   SumIfAll    Both  Docker   "Memory limit of the task's own cgroup or the tightest above it; absent if there is none"
    37 CPU_LIMIT            "cpu_limit_cores"                           Nanocores   Gauge   SumIfAll    Both  Standard "CPU limit; absent if there is none"
    38 PIDS_LIMIT           "pids_limit"                                Count       Gauge   SumIfAll    Both  Standard "Limit of kernel tasks; absent if there is none"
    39 START_TIME           "start_time_seconds"                        Nanoseconds Gauge   Never       Both  Standard "When the container was started, Unix time"
    40 MEMORY_MAPPED        "memory_mapped_file_bytes"                  Bytes       Gauge   Sum         Tasks All      "Page cache mapped into processes"
    41 MEMORY_DIRTY         "memory_dirty_bytes"                        Bytes       Gauge   Sum         Tasks All      "Page cache not yet written to disk"
    42 MEMORY_WRITEBACK     "memory_writeback_bytes"                    Bytes       Gauge   Sum         Tasks All      "Page cache being written to disk"
    43 MEMORY_ACTIVE_FILE   "memory_active_file_bytes"                  Bytes       Gauge   Sum         Tasks All      "Page cache recently used"
    44 MEMORY_INACTIVE_FILE "memory_inactive_file_bytes"                Bytes       Gauge   Sum         Tasks All      "Page cache first to be reclaimed"
    45 MEMORY_LIMIT_HITS    "memory_limit_hits_total"                   Count       Counter Sum         Tasks All      "How often usage ran into the memory limit"
    46 MEMORY_WORKING_SET   "memory_working_set_bytes"                  Bytes       Gauge   Sum         Tasks Standard "Usage less the inactive page cache, never below 0: what cAdvisor and the kubelet call working set"
    47 RESTARTS             "restarts"                                  Count       Gauge   Sum         Tasks Standard "How often the engine restarted the container; Swarm makes a new task instead"
    48 HEALTH               "health_status"                             Count       Gauge   Never       Tasks Standard "Health check: 0 starting, 1 healthy, 2 unhealthy; absent without one"
    49 PAUSED               "paused"                                    Count       Gauge   Sum         Tasks Standard "1 while the container is paused"
    50 EXIT_CODE            "exit_code"                                 Count       Gauge   Never       Tasks Standard "Exit code of a container that ended"
    51 LOAD1                "load1"                                     Thousandths Gauge   Never       Nodes Standard "Load average over 1 minute"
    52 LOAD5                "load5"                                     Thousandths Gauge   Never       Nodes Standard "Load average over 5 minutes"
    53 LOAD15               "load15"                                    Thousandths Gauge   Never       Nodes Standard "Load average over 15 minutes"
    54 MEMORY_SWAP_LIMIT    "memory_swap_limit_bytes"                   Bytes       Gauge   Never       Nodes Standard "Swap there is"
    55 FILESYSTEM_SIZE      "filesystem_size_bytes"                     Bytes       Gauge   Never       Nodes Standard "Size of the file system that holds the engine's data"
    56 FILESYSTEM_USED      "filesystem_used_bytes"                     Bytes       Gauge   Never       Nodes Standard "Used of the file system that holds the engine's data"
    57 FILESYSTEM_AVAILABLE "filesystem_available_bytes"                Bytes       Gauge   Never       Nodes Standard "Left to unprivileged users of the file system that holds the engine's data"
    58 CPU_IOWAIT           "cpu_iowait_seconds_total"                  Nanoseconds Counter Never       Nodes Standard "CPU time idle while I/O was outstanding"
    59 CPU_STEAL            "cpu_steal_seconds_total"                   Nanoseconds Counter Never       Nodes Standard "CPU time the hypervisor gave to others"
}

/// The presence mask of what a node's own row can have.
pub const NODES: u64 = mask_of(Of::Nodes);

/// The presence mask of what a machine has: carried at every level, for figures of tasks are held against it.
pub const CAPACITY: u64 = CPU_LIMIT.bit() | MEMORY_LIMIT.bit();

/// The presence mask of what a task can have.
pub const TASKS: u64 = mask_of(Of::Tasks);

const fn mask_of(of: Of) -> u64 {
    let (mut mask, mut i) = (0, 0);
    while i < N_STATS {
        if CATALOGUE[i].of as u8 == of as u8 || matches!(CATALOGUE[i].of, Of::Both) {
            mask |= 1 << i;
        }
        i += 1;
    }
    mask
}

/// The presence mask of all counters.
pub const COUNTERS: u64 = {
    let (mut mask, mut i) = (0, 0);
    while i < N_STATS {
        if matches!(CATALOGUE[i].kind, Kind::Counter) {
            mask |= 1 << i;
        }
        i += 1;
    }
    mask
};

/// The presence mask of the counters that rates are made of, so that a task's reading before keeps them.
pub const RATED: u64 = CPU.bit()
    | RX_BYTES.bit()
    | TX_BYTES.bit()
    | BLOCK_READ.bit()
    | BLOCK_WRITTEN.bit()
    | CPU_PERIODS.bit()
    | THROTTLED_PERIODS.bit()
    | CPU_WAITING.bit()
    | MEMORY_WAITING.bit()
    | IO_WAITING.bit();

/// The presence mask of the stats that a shared network namespace must not count twice.
pub const PER_NETNS: u64 = {
    let (mut mask, mut i) = (0, 0);
    while i < N_STATS {
        if matches!(CATALOGUE[i].group, Group::SumPerNetns) {
            mask |= 1 << i;
        }
        i += 1;
    }
    mask
};

/// The presence mask of the stats that mean something for a group of tasks.
pub const GROUPED: u64 = {
    let (mut mask, mut i) = (0, 0);
    while i < N_STATS {
        if !matches!(CATALOGUE[i].group, Group::Never) {
            mask |= 1 << i;
        }
        i += 1;
    }
    mask
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_the_places_in_the_table_and_fit_a_mask() {
        assert!(NUMBERS.iter().enumerate().all(|(place, number)| place == *number));
        assert_eq!(crate::codec::MAX_POSITIONS - N_STATS, 1, "so many more fit: say so here when one is taken");
    }

    #[test]
    fn counters_and_only_counters_are_called_total() {
        for stat in Stat::all() {
            assert_eq!(stat.name().ends_with("_total"), stat.row().kind == Kind::Counter, "{stat:?}");
        }
    }

    #[test]
    fn names_are_unique_and_help_has_no_full_stop() {
        let mut names: Vec<_> = Stat::all().map(Stat::name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), N_STATS);
        assert!(Stat::all().all(|s| !s.row().help.ends_with('.')));
    }

    #[test]
    fn what_nodes_alone_have_says_nothing_about_a_group_of_tasks() {
        assert!(Stat::all().filter(|s| s.row().of == Of::Nodes).all(|s| s.row().group == Group::Never));
        assert_eq!(NODES | TASKS, (1 << N_STATS) - 1);
        assert_eq!(NODES & !TASKS, Stat::all().filter(|s| s.row().of == Of::Nodes).fold(0, |m, s| m | s.bit()));
    }

    #[test]
    fn b077_bytes_of_block_io_and_networks_are_cumulative_and_say_so() {
        let bytes = [BLOCK_READ, BLOCK_WRITTEN, RX_BYTES, TX_BYTES];
        assert!(bytes.iter().all(|stat| stat.name().ends_with("_bytes_total") && stat.row().kind == Kind::Counter));
    }

    #[test]
    fn level_docker_is_what_docker_stats_shows() {
        let shown: Vec<_> = Stat::all().filter(|s| s.row().level == Level::Docker).collect();
        assert_eq!(
            shown,
            [CPU, MEMORY_USED, RX_BYTES, TX_BYTES, PIDS, BLOCK_READ, BLOCK_WRITTEN, MEMORY_LIMIT],
            "CPU %, MEM USAGE / LIMIT, NET I/O, BLOCK I/O, PIDS"
        );
    }
}
