//! The catalogue: the single table that names every stat this project carries.
//!
//! Sampling, wire, JSON, exposition and documentation are derived from it. Adding a stat is adding a row here and the
//! line in `source` that reads it. Numbers are permanent: they are the bit in a presence mask and what a peer of
//! another version means by them; a retired number is never given away again.
//!
//! It deliberately holds scalars per task only: interfaces, disks and CPUs are summed by the reader.

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
}

impl Unit {
    /// How many of the core's units make one of the unit shown (base unit).
    pub const fn per_base(self) -> u64 {
        match self {
            Unit::Nanoseconds | Unit::Nanocores => 1_000_000_000,
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
    pub fn mask(self) -> u64 {
        Stat::all().filter(|s| s.row().level <= self).fold(0, |m, s| m | s.bit())
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
    /// The lowest level that has it.
    pub level: Level,
    /// Help text, one sentence without a full stop, as Prometheus shows it.
    pub help: &'static str,
}

macro_rules! catalogue {
    ($($number:literal $ident:ident $name:literal $unit:ident $kind:ident $group:ident $level:ident $help:literal)*) => {
        /// The table itself; the index of a row is its permanent number.
        pub const CATALOGUE: &[Row] = &[$(Row {
            name: $name, unit: Unit::$unit, kind: Kind::$kind, group: Group::$group, level: Level::$level, help: $help,
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
    0  CPU                  "cpu_seconds_total"                         Nanoseconds Counter Sum         Docker   "CPU time used"
    1  CPU_USER             "cpu_user_seconds_total"                    Nanoseconds Counter Sum         Standard "CPU time used in user mode"
    2  CPU_SYSTEM           "cpu_system_seconds_total"                  Nanoseconds Counter Sum         Standard "CPU time used in kernel mode"
    3  MEMORY_USED          "memory_used_bytes"                         Bytes       Gauge   Sum         Docker   "Memory used as docker stats counts it: usage less the inactive page cache"
    4  MEMORY_USAGE         "memory_usage_bytes"                        Bytes       Gauge   Sum         Standard "Memory charged to the cgroup, page cache included"
    5  RX_BYTES             "network_receive_bytes_total"               Bytes       Counter SumPerNetns Docker   "Bytes received over all interfaces but lo"
    6  TX_BYTES             "network_transmit_bytes_total"              Bytes       Counter SumPerNetns Docker   "Bytes sent over all interfaces but lo"
    7  RX_PACKETS           "network_receive_packets_total"             Count       Counter SumPerNetns Standard "Packets received over all interfaces but lo"
    8  TX_PACKETS           "network_transmit_packets_total"            Count       Counter SumPerNetns Standard "Packets sent over all interfaces but lo"
    9  PIDS                 "pids"                                      Count       Gauge   Sum         Docker   "Kernel tasks (threads)"
    10 BLOCK_READ           "block_read_bytes_total"                    Bytes       Counter Sum         Docker   "Bytes read from block devices"
    11 BLOCK_WRITTEN        "block_written_bytes_total"                 Bytes       Counter Sum         Docker   "Bytes written to block devices"
    12 BLOCK_READS          "block_reads_total"                         Count       Counter Sum         Standard "Read operations on block devices"
    13 BLOCK_WRITES         "block_writes_total"                        Count       Counter Sum         Standard "Write operations on block devices"
    14 MEMORY_ANON          "memory_anon_bytes"                         Bytes       Gauge   Sum         Standard "Anonymous memory (on cgroup v1 rss, with huge pages)"
    15 MEMORY_FILE          "memory_file_bytes"                         Bytes       Gauge   Sum         Standard "Page cache, tmpfs and shared memory included"
    16 PAGE_FAULTS          "memory_page_faults_total"                  Count       Counter Sum         Standard "Page faults"
    17 CPU_PERIODS          "cpu_periods_total"                         Count       Counter Sum         Standard "CFS periods in which the cgroup was runnable under a CPU limit"
    18 THROTTLED_PERIODS    "cpu_throttled_periods_total"               Count       Counter Sum         Standard "CFS periods in which the cgroup was throttled"
    19 THROTTLED            "cpu_throttled_seconds_total"               Nanoseconds Counter Sum         Standard "Time during which the cgroup was throttled"
    20 CPU_WAITING          "pressure_cpu_waiting_seconds_total"        Nanoseconds Counter Sum         Standard "Time in which some kernel task waited for a CPU (PSI some)"
    21 CPU_STALLED          "pressure_cpu_stalled_seconds_total"        Nanoseconds Counter Sum         Standard "Time in which every kernel task waited for a CPU (PSI full)"
    22 MEMORY_WAITING       "pressure_memory_waiting_seconds_total"     Nanoseconds Counter Sum         Standard "Time in which some kernel task waited for memory (PSI some)"
    23 MEMORY_STALLED       "pressure_memory_stalled_seconds_total"     Nanoseconds Counter Sum         Standard "Time in which every kernel task waited for memory (PSI full)"
    24 IO_WAITING           "pressure_io_waiting_seconds_total"         Nanoseconds Counter Sum         Standard "Time in which some kernel task waited for I/O (PSI some)"
    25 IO_STALLED           "pressure_io_stalled_seconds_total"         Nanoseconds Counter Sum         Standard "Time in which every kernel task waited for I/O (PSI full)"
    26 MEMORY_KERNEL        "memory_kernel_bytes"                       Bytes       Gauge   Sum         Standard "Kernel memory charged to the cgroup"
    27 MEMORY_PEAK          "memory_peak_bytes"                         Bytes       Gauge   Never       Standard "Highest memory usage of this incarnation, page cache included"
    28 MEMORY_SHMEM         "memory_shmem_bytes"                        Bytes       Gauge   Sum         Standard "tmpfs and shared memory"
    29 MEMORY_SWAP          "memory_swap_bytes"                         Bytes       Gauge   Sum         Standard "Swap used, memory not included"
    30 MAJOR_PAGE_FAULTS    "memory_major_page_faults_total"            Count       Counter Sum         Standard "Page faults that needed I/O"
    31 OOM_KILLS            "memory_oom_kills_total"                    Count       Counter Sum         Standard "Processes killed by the kernel for want of memory"
    32 RX_ERRORS            "network_receive_errors_total"              Count       Counter SumPerNetns Standard "Receive errors over all interfaces but lo"
    33 TX_ERRORS            "network_transmit_errors_total"             Count       Counter SumPerNetns Standard "Transmit errors over all interfaces but lo"
    34 RX_DROPPED           "network_receive_dropped_total"             Count       Counter SumPerNetns Standard "Received packets dropped over all interfaces but lo"
    35 TX_DROPPED           "network_transmit_dropped_total"            Count       Counter SumPerNetns Standard "Sent packets dropped over all interfaces but lo"
    36 MEMORY_LIMIT         "memory_limit_bytes"                        Bytes       Gauge   SumIfAll    Docker   "Memory limit of the task's own cgroup or the tightest above it; absent if there is none"
    37 CPU_LIMIT            "cpu_limit_cores"                           Nanocores   Gauge   SumIfAll    Standard "CPU limit; absent if there is none"
    38 PIDS_LIMIT           "pids_limit"                                Count       Gauge   SumIfAll    Standard "Limit of kernel tasks; absent if there is none"
    39 START_TIME           "start_time_seconds"                        Nanoseconds Gauge   Never       Standard "When the container was started, Unix time"
    40 MEMORY_MAPPED        "memory_mapped_file_bytes"                  Bytes       Gauge   Sum         All      "Page cache mapped into processes"
    41 MEMORY_DIRTY         "memory_dirty_bytes"                        Bytes       Gauge   Sum         All      "Page cache not yet written to disk"
    42 MEMORY_WRITEBACK     "memory_writeback_bytes"                    Bytes       Gauge   Sum         All      "Page cache being written to disk"
    43 MEMORY_ACTIVE_FILE   "memory_active_file_bytes"                  Bytes       Gauge   Sum         All      "Page cache recently used"
    44 MEMORY_INACTIVE_FILE "memory_inactive_file_bytes"                Bytes       Gauge   Sum         All      "Page cache first to be reclaimed"
    45 MEMORY_LIMIT_HITS    "memory_limit_hits_total"                   Count       Counter Sum         All      "How often usage ran into the memory limit"
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
    fn level_docker_is_what_docker_stats_shows() {
        let shown: Vec<_> = Stat::all().filter(|s| s.row().level == Level::Docker).collect();
        assert_eq!(
            shown,
            [CPU, MEMORY_USED, RX_BYTES, TX_BYTES, PIDS, BLOCK_READ, BLOCK_WRITTEN, MEMORY_LIMIT],
            "CPU %, MEM USAGE / LIMIT, NET I/O, BLOCK I/O, PIDS"
        );
    }
}
