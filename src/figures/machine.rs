//! What a node's machine is doing and has, from its own reading: never a sum over its tasks, so that what is there
//! counts once however many of them run.
//!
//! A machine that is not fresh does nothing and has nothing: its capacity must not be counted on.

use super::{MicroPercent, PERCENT, Rates, scaled};
use crate::model::Values;
use crate::stat;
use crate::view::NodeView;

/// `/proc/stat` counts five kinds of work in ticks of 10 ms, each rounded for itself.
const TICKS: u64 = 50_000_000;

/// A machine's figures; absent is not zero.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Machine {
    /// Every stat it has.
    pub values: Values,
    /// CPU time by elapsed time; 100 % is one CPU.
    pub cpu_percent: Option<MicroPercent>,
    /// The same; 100 % is all its CPUs.
    pub cpu_percent_of_node: Option<MicroPercent>,
    /// Memory that new work cannot have, by all there is.
    pub memory_percent: Option<MicroPercent>,
    /// Its rates otherwise.
    pub rates: Rates,
    /// Readings that cannot be, for people.
    pub doubts: Vec<String>,
}

/// One figure of a machine.
#[derive(Debug)]
pub struct MachineFigure {
    /// Its key in JSON.
    pub name: &'static str,
    /// How many of its integer's digits stand behind the point.
    pub decimals: usize,
    /// How it is made, from stats by their names.
    pub formula: &'static str,
    /// What 100 % is, or the unit.
    pub base: &'static str,
    /// Its value.
    pub of: fn(&Machine) -> Option<u64>,
}

macro_rules! figures {
    ($($name:literal $decimals:literal $formula:literal $base:literal $of:expr;)*) => {
        /// What is shown of a machine beside its stats, in the order of JSON.
        pub const MACHINE_FIGURES: &[MachineFigure] = &[$(MachineFigure {
            name: $name, decimals: $decimals, formula: $formula, base: $base, of: $of,
        }),*];
    };
}

figures! {
    "cpu_percent" 6 "Δcpu_seconds_total / Δt" "one CPU" |m| m.cpu_percent;
    "cpu_percent_of_node" 6 "cpu_percent / cpu_limit_cores" "all CPUs of the node" |m| m.cpu_percent_of_node;
    "load1" 3 "load1" "tasks that run or wait" |m| m.values.get(stat::LOAD1);
    "load5" 3 "load5" "tasks that run or wait" |m| m.values.get(stat::LOAD5);
    "load15" 3 "load15" "tasks that run or wait" |m| m.values.get(stat::LOAD15);
    "memory_used_bytes" 0 "memory_used_bytes" "bytes" |m| m.values.get(stat::MEMORY_USED);
    "memory_limit_bytes" 0 "memory_limit_bytes" "bytes" |m| m.values.get(stat::MEMORY_LIMIT);
    "memory_percent" 6 "memory_used_bytes / memory_limit_bytes" "all memory of the node" |m| m.memory_percent;
    "swap_used_bytes" 0 "memory_swap_bytes" "bytes" |m| m.values.get(stat::MEMORY_SWAP);
    "swap_limit_bytes" 0 "memory_swap_limit_bytes" "bytes" |m| m.values.get(stat::MEMORY_SWAP_LIMIT);
    "filesystem_used_bytes" 0 "filesystem_used_bytes" "bytes" |m| m.values.get(stat::FILESYSTEM_USED);
    "filesystem_size_bytes" 0 "filesystem_size_bytes" "bytes" |m| m.values.get(stat::FILESYSTEM_SIZE);
    "filesystem_available_bytes" 0 "filesystem_available_bytes" "bytes" |m| m.values.get(stat::FILESYSTEM_AVAILABLE);
    "network_receive_bytes_per_second" 0 "Δnetwork_receive_bytes_total / Δt" "bytes a second" |m| m.rates.network[0];
    "network_transmit_bytes_per_second" 0 "Δnetwork_transmit_bytes_total / Δt" "bytes a second" |m| m.rates.network[1];
    "block_read_bytes_per_second" 0 "Δblock_read_bytes_total / Δt" "bytes a second" |m| m.rates.block[0];
    "block_written_bytes_per_second" 0 "Δblock_written_bytes_total / Δt" "bytes a second" |m| m.rates.block[1];
    "pressure_cpu_percent" 6 "Δpressure_cpu_waiting_seconds_total / Δt" "elapsed time" |m| m.rates.pressure[0];
    "pressure_memory_percent" 6 "Δpressure_memory_waiting_seconds_total / Δt" "elapsed time" |m| m.rates.pressure[1];
    "pressure_io_percent" 6 "Δpressure_io_waiting_seconds_total / Δt" "elapsed time" |m| m.rates.pressure[2];
}

/// A node's own figures.
pub fn of_machine(node: &NodeView) -> Machine {
    if !node.fresh {
        return Machine::default();
    }
    let (values, previous) = (&node.values, node.previous.as_ref());
    let cpus = values.get(stat::CPU_LIMIT).filter(|cpus| *cpus > 0);
    let elapsed = previous.map_or(0, |previous| node.monotonic.saturating_sub(previous.monotonic)).max(1);
    let most = cpus.map(|cpus| cpus.saturating_add(scaled(TICKS, 1_000_000_000, elapsed)));
    let rates = Rates::of(values, node.monotonic, previous, most);
    let all = |cpus| scaled(cpus, 100 * PERCENT, 1_000_000_000);
    let cpu_percent = rates.cpu.map(|percent| percent.min(cpus.map_or(u64::MAX, all)));
    let share = |(part, whole): (u64, u64)| (whole > 0).then(|| scaled(part, 100 * PERCENT, whole));
    let name = [&*node.meta.node_name, node.meta.node_id.as_str()].into_iter().find(|name| !name.is_empty());
    let name = format!("node {}", name.unwrap_or_default());
    Machine {
        cpu_percent,
        cpu_percent_of_node: cpu_percent.zip(cpus).map(|(percent, cpus)| scaled(percent, 1_000_000_000, cpus)),
        memory_percent: values.get(stat::MEMORY_USED).zip(values.get(stat::MEMORY_LIMIT)).and_then(share),
        doubts: rates.doubts(&name, values, previous).collect(),
        rates,
        values: values.clone(),
    }
}
