//! Where each stat comes from: the file and the key on cgroup v1, on v2, and for a machine as a whole.
//!
//! Documentation only: `docs/stats.md` is made of it. `tests/golden` checks the names of a task's files against those that
//! are read; keys, limits and a machine's files are for people to keep true.

use super::*;

/// Where one stat comes from; `-` where that kind of thing has none.
#[derive(Debug)]
pub struct Source {
    /// Which stat.
    pub stat: Stat,
    /// Of a task under cgroup v1.
    pub v1: &'static str,
    /// Of a task under cgroup v2.
    pub v2: &'static str,
    /// Of a machine.
    pub machine: &'static str,
}

macro_rules! sources {
    ($($stat:ident v1 $v1:literal v2 $v2:literal machine $machine:literal)*) => {
        /// One row for each stat, in the order of their numbers.
        pub const SOURCES: &[Source] = &[$(Source { stat: $stat, v1: $v1, v2: $v2, machine: $machine }),*];
    };
}

sources! {
    CPU                  v1 "cpuacct.usage" v2 "cpu.stat usage_usec" machine "/proc/stat cpu: user to softirq, guests once"
    CPU_USER             v1 "cpuacct.stat user" v2 "cpu.stat user_usec" machine "/proc/stat cpu: user, nice"
    CPU_SYSTEM           v1 "cpuacct.stat system" v2 "cpu.stat system_usec" machine "/proc/stat cpu: system, irq, softirq"
    MEMORY_USED          v1 "memory.usage_in_bytes less memory.stat total_inactive_file (docker stats' rule)" v2 "memory.current less memory.stat inactive_file (docker stats' rule)" machine "/proc/meminfo MemTotal less MemAvailable"
    MEMORY_USAGE         v1 "memory.usage_in_bytes" v2 "memory.current" machine "-"
    RX_BYTES             v1 "/proc/PID/net/dev" v2 "/proc/PID/net/dev" machine "net/dev of the engine's process: network cards"
    TX_BYTES             v1 "/proc/PID/net/dev" v2 "/proc/PID/net/dev" machine "net/dev of the engine's process: network cards"
    RX_PACKETS           v1 "/proc/PID/net/dev" v2 "/proc/PID/net/dev" machine "net/dev of the engine's process: network cards"
    TX_PACKETS           v1 "/proc/PID/net/dev" v2 "/proc/PID/net/dev" machine "net/dev of the engine's process: network cards"
    PIDS                 v1 "pids.current" v2 "pids.current" machine "/proc/loadavg"
    BLOCK_READ           v1 "blkio.[bfq.|throttle.]io_service_bytes[_recursive] Read, leaf devices" v2 "io.stat rbytes, leaf devices" machine "/proc/diskstats: whole leaf disks"
    BLOCK_WRITTEN        v1 "blkio.[bfq.|throttle.]io_service_bytes[_recursive] Write, leaf devices" v2 "io.stat wbytes, leaf devices" machine "/proc/diskstats: whole leaf disks"
    BLOCK_READS          v1 "blkio.[bfq.|throttle.]io_serviced[_recursive] Read, leaf devices" v2 "io.stat rios, leaf devices" machine "/proc/diskstats: whole leaf disks"
    BLOCK_WRITES         v1 "blkio.[bfq.|throttle.]io_serviced[_recursive] Write, leaf devices" v2 "io.stat wios, leaf devices" machine "/proc/diskstats: whole leaf disks"
    MEMORY_ANON          v1 "memory.stat total_rss" v2 "memory.stat anon" machine "/proc/meminfo AnonPages"
    MEMORY_FILE          v1 "memory.stat total_cache" v2 "memory.stat file" machine "/proc/meminfo Cached, Buffers"
    PAGE_FAULTS          v1 "memory.stat total_pgfault" v2 "memory.stat pgfault" machine "/proc/vmstat pgfault"
    CPU_PERIODS          v1 "cpu.stat nr_periods" v2 "cpu.stat nr_periods" machine "-"
    THROTTLED_PERIODS    v1 "cpu.stat nr_throttled" v2 "cpu.stat nr_throttled" machine "-"
    THROTTLED            v1 "cpu.stat throttled_time" v2 "cpu.stat throttled_usec" machine "-"
    CPU_WAITING          v1 "cpu.pressure some, where a v2 hierarchy is beside" v2 "cpu.pressure some" machine "/proc/pressure/cpu some"
    CPU_STALLED          v1 "cpu.pressure full, where a v2 hierarchy is beside" v2 "cpu.pressure full" machine "-"
    MEMORY_WAITING       v1 "memory.pressure some, where a v2 hierarchy is beside" v2 "memory.pressure some" machine "/proc/pressure/memory some"
    MEMORY_STALLED       v1 "memory.pressure full, where a v2 hierarchy is beside" v2 "memory.pressure full" machine "/proc/pressure/memory full"
    IO_WAITING           v1 "io.pressure some, where a v2 hierarchy is beside" v2 "io.pressure some" machine "/proc/pressure/io some"
    IO_STALLED           v1 "io.pressure full, where a v2 hierarchy is beside" v2 "io.pressure full" machine "/proc/pressure/io full"
    MEMORY_KERNEL        v1 "memory.kmem.usage_in_bytes" v2 "memory.stat kernel, before Linux 5.18 its parts" machine "/proc/meminfo Slab, KernelStack, PageTables, SecPageTables, Percpu"
    MEMORY_PEAK          v1 "memory.max_usage_in_bytes" v2 "memory.peak (Linux 5.19)" machine "-"
    MEMORY_SHMEM         v1 "memory.stat total_shmem" v2 "memory.stat shmem" machine "/proc/meminfo Shmem"
    MEMORY_SWAP          v1 "memory.stat total_swap" v2 "memory.swap.current" machine "/proc/meminfo SwapTotal less SwapFree"
    MAJOR_PAGE_FAULTS    v1 "memory.stat total_pgmajfault" v2 "memory.stat pgmajfault" machine "/proc/vmstat pgmajfault"
    OOM_KILLS            v1 "memory.oom_control oom_kill" v2 "memory.events oom_kill" machine "/proc/vmstat oom_kill"
    RX_ERRORS            v1 "/proc/PID/net/dev" v2 "/proc/PID/net/dev" machine "net/dev of the engine's process: network cards"
    TX_ERRORS            v1 "/proc/PID/net/dev" v2 "/proc/PID/net/dev" machine "net/dev of the engine's process: network cards"
    RX_DROPPED           v1 "/proc/PID/net/dev" v2 "/proc/PID/net/dev" machine "net/dev of the engine's process: network cards"
    TX_DROPPED           v1 "/proc/PID/net/dev" v2 "/proc/PID/net/dev" machine "net/dev of the engine's process: network cards"
    MEMORY_LIMIT         v1 "memory.stat hierarchical_memory_limit" v2 "memory.max, the tightest up to the root" machine "/proc/meminfo MemTotal"
    CPU_LIMIT            v1 "cpu.cfs_quota_us / cpu.cfs_period_us" v2 "cpu.max" machine "/proc/stat: CPUs online"
    PIDS_LIMIT           v1 "pids.max" v2 "pids.max" machine "the lowest of the kernel's limits"
    START_TIME           v1 "engine: State.StartedAt" v2 "engine: State.StartedAt" machine "/proc/stat btime"
    MEMORY_MAPPED        v1 "memory.stat total_mapped_file" v2 "memory.stat file_mapped" machine "-"
    MEMORY_DIRTY         v1 "memory.stat total_dirty" v2 "memory.stat file_dirty" machine "-"
    MEMORY_WRITEBACK     v1 "memory.stat total_writeback" v2 "memory.stat file_writeback" machine "-"
    MEMORY_ACTIVE_FILE   v1 "memory.stat total_active_file" v2 "memory.stat active_file" machine "-"
    MEMORY_INACTIVE_FILE v1 "memory.stat total_inactive_file" v2 "memory.stat inactive_file" machine "-"
    MEMORY_LIMIT_HITS    v1 "memory.failcnt" v2 "memory.events max" machine "-"
    MEMORY_WORKING_SET   v1 "memory.usage_in_bytes less memory.stat total_inactive_file, at least 0" v2 "memory.current less memory.stat inactive_file, at least 0" machine "-"
    RESTARTS             v1 "engine: RestartCount" v2 "engine: RestartCount" machine "-"
    HEALTH               v1 "engine: State.Health.Status" v2 "engine: State.Health.Status" machine "-"
    PAUSED               v1 "engine: State.Paused" v2 "engine: State.Paused" machine "-"
    EXIT_CODE            v1 "engine: State.ExitCode" v2 "engine: State.ExitCode" machine "-"
    LOAD1                v1 "-" v2 "-" machine "/proc/loadavg"
    LOAD5                v1 "-" v2 "-" machine "/proc/loadavg"
    LOAD15               v1 "-" v2 "-" machine "/proc/loadavg"
    MEMORY_SWAP_LIMIT    v1 "-" v2 "-" machine "/proc/meminfo SwapTotal"
    FILESYSTEM_SIZE      v1 "-" v2 "-" machine "statvfs of the engine's data"
    FILESYSTEM_USED      v1 "-" v2 "-" machine "statvfs of the engine's data"
    FILESYSTEM_AVAILABLE v1 "-" v2 "-" machine "statvfs of the engine's data"
    CPU_IOWAIT           v1 "-" v2 "-" machine "/proc/stat cpu: iowait"
    CPU_STEAL            v1 "-" v2 "-" machine "/proc/stat cpu: steal"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stat_has_its_source_of_each_kind_of_thing_that_has_it() {
        assert!(Stat::all().eq(SOURCES.iter().map(|source| source.stat)));
        for Source { stat, v1, v2, machine } in SOURCES {
            let (task, node) = (TASKS & stat.bit() != 0, NODES & stat.bit() != 0);
            assert_eq!((*v1 != "-", *v2 != "-"), (task, task), "{stat:?}");
            assert!(node || *machine == "-", "{stat:?}");
        }
    }
}
