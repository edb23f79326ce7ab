//! The table of derived figures: what an item's `figures` are, with formula and base. JSON and documentation follow it.

use crate::stat;

/// How a figure's integer is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shown {
    /// Millionths of a percent; shown as a percentage with decimals.
    Percent,
    /// Bytes, counts, or bytes a second; shown as an integer.
    Integer,
}

/// One figure.
#[derive(Debug)]
pub struct Figure {
    /// Its key in JSON.
    pub name: &'static str,
    /// How it is shown.
    pub shown: Shown,
    /// How it is made for a task, from stats by their names; Δ is between the two newest readings, t the shipper's
    /// monotonic clock.
    pub formula: &'static str,
    /// What 100 % is, or the unit.
    pub base: &'static str,
    /// How it is made for a service, node or stack.
    pub group: &'static str,
    /// Whose definition it is.
    pub source: &'static str,
}

macro_rules! figures {
    ($($field:ident $shown:ident $formula:literal $base:literal $group:literal $source:literal)*) => {
        /// What is shown of a task or a group beside its stats; absent is not zero.
        #[derive(Clone, PartialEq, Eq, Debug, Default)]
        pub struct Figures {
            $(#[doc = $formula] #[doc = ""] #[doc = $base] pub $field: Option<u64>,)*
        }

        /// The table itself, in the order of JSON: docker stats' columns first.
        pub const FIGURES: &[Figure] = &[$(Figure {
            name: stringify!($field),
            shown: Shown::$shown,
            formula: $formula,
            base: $base,
            group: $group,
            source: $source,
        }),*];

        impl Figures {
            /// All of them, in the order of [`FIGURES`].
            pub fn iter(&self) -> impl Iterator<Item = (&'static Figure, Option<u64>)> {
                FIGURES.iter().zip([$(self.$field),*])
            }
        }
    };
}

figures! {
    cpu_percent                       Percent "Δcpu_seconds_total / Δt"                                  "one CPU"                                  "sum"            "docker stats CPU %, over elapsed time: a hypervisor's steal does not inflate it"
    memory_used_bytes                 Integer "memory_used_bytes"                                        "bytes"                                    "sum"            "docker stats MEM USAGE"
    memory_limit_bytes                Integer "memory_limit_bytes"                                       "bytes"                                    "sum, absent if one task has none" "docker stats LIMIT, but absent where there is none"
    memory_percent                    Percent "memory_used_bytes / memory_limit_bytes"                   "the memory limit"                         "sum of those with a limit / sum of their limits" "docker stats MEM %"
    network_receive_bytes             Integer "network_receive_bytes_total"                              "bytes"                                    "sum, a shared network namespace once" "docker stats NET I/O"
    network_transmit_bytes            Integer "network_transmit_bytes_total"                             "bytes"                                    "sum, a shared network namespace once" "docker stats NET I/O"
    block_read_bytes                  Integer "block_read_bytes_total"                                   "bytes"                                    "sum"            "docker stats BLOCK I/O"
    block_written_bytes               Integer "block_written_bytes_total"                                "bytes"                                    "sum"            "docker stats BLOCK I/O"
    pids                              Integer "pids"                                                     "kernel tasks"                             "sum"            "docker stats PIDS"
    cpu_percent_of_node               Percent "cpu_percent / the node's CPUs"                            "all CPUs of the node"                     "sum / CPUs of the nodes its tasks are on, each once" "capacity counts once: a node of 8 CPUs with half a CPU used is at 6.25 %"
    cpu_percent_of_limit              Percent "cpu_percent / cpu_limit_cores"                            "the CPU limit"                            "sum of those with a limit / sum of their limits" "Netdata's CPU utilization within limits"
    memory_percent_of_node            Percent "memory_used_bytes / the node's memory"                    "all memory of the node"                   "sum / memory of the nodes its tasks are on, each once" "docker stats MEM % where there is no limit"
    memory_working_set_bytes          Integer "memory_working_set_bytes"                                 "bytes"                                    "sum"            "cAdvisor, kubelet"
    memory_anon_bytes                 Integer "memory_anon_bytes"                                        "bytes"                                    "sum"            "kernel"
    memory_file_bytes                 Integer "memory_file_bytes"                                        "bytes"                                    "sum"            "kernel"
    memory_shmem_bytes                Integer "memory_shmem_bytes"                                       "bytes"                                    "sum"            "kernel"
    memory_swap_bytes                 Integer "memory_swap_bytes"                                        "bytes"                                    "sum"            "kernel"
    network_receive_bytes_per_second  Integer "Δnetwork_receive_bytes_total / Δt"                        "bytes a second"                           "sum, a shared network namespace once" "-"
    network_transmit_bytes_per_second Integer "Δnetwork_transmit_bytes_total / Δt"                       "bytes a second"                           "sum, a shared network namespace once" "-"
    block_read_bytes_per_second       Integer "Δblock_read_bytes_total / Δt"                             "bytes a second"                           "sum"            "-"
    block_written_bytes_per_second    Integer "Δblock_written_bytes_total / Δt"                          "bytes a second"                           "sum"            "-"
    cpu_throttled_percent             Percent "Δcpu_throttled_periods_total / Δcpu_periods_total"        "the CFS periods between the two readings" "sum / sum"      "kernel"
    pressure_cpu_percent              Percent "Δpressure_cpu_waiting_seconds_total / Δt"                 "elapsed time"                             "its worst task" "kernel (PSI some)"
    pressure_memory_percent           Percent "Δpressure_memory_waiting_seconds_total / Δt"              "elapsed time"                             "its worst task" "kernel (PSI some)"
    pressure_io_percent               Percent "Δpressure_io_waiting_seconds_total / Δt"                  "elapsed time"                             "its worst task" "kernel (PSI some)"
    oom_kills                         Integer "memory_oom_kills_total"                                   "kills"                                    "sum since `since`, ended tasks included" "kernel"
    restarts                          Integer "restarts"                                                 "restarts"                                 "sum"            "engine's RestartCount"
}

/// The presence mask of the stats that figures, `state`, `health` and `exit_code` are made of.
pub const NEEDED: u64 = stat::Level::Docker.mask()
    | stat::RATED
    | stat::CPU_LIMIT.bit()
    | stat::MEMORY_WORKING_SET.bit()
    | stat::MEMORY_ANON.bit()
    | stat::MEMORY_FILE.bit()
    | stat::MEMORY_SHMEM.bit()
    | stat::MEMORY_SWAP.bit()
    | stat::OOM_KILLS.bit()
    | stat::RESTARTS.bit()
    | stat::PAUSED.bit()
    | stat::HEALTH.bit()
    | stat::EXIT_CODE.bit();
