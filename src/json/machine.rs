//! A node's machine: its own figures and stats, and its capacity.

use super::Writer;
use crate::figures::{MACHINE_FIGURES, Machine};
use crate::model::bits;
use crate::stat::{self, Stat};
use crate::swarm::Resources;

/// The keys `machine` and `capacity`; the latter is what Swarm schedules by now, for `reserved` is counted against that,
/// or else what the machine itself says, or what Swarm last said. `stats` is the mask of the stats to list.
pub(super) fn machine(
    json: &mut Writer,
    machine: &Machine,
    (swarm, last): (Option<Resources>, Option<Resources>),
    stats: u64,
) {
    let value = |stat: Stat| machine.values.get(stat);
    json.key("machine").open('{');
    json.key("figures").open('{');
    for figure in MACHINE_FIGURES {
        let value = (figure.of)(machine);
        match figure.decimals {
            0 => json.key(figure.name).number(value),
            decimals => json.key(figure.name).decimal(value, decimals),
        }
    }
    json.close('}');
    json.key("stats").open('{');
    for stat in bits(stat::NODES & stats) {
        json.stat(stat, value(stat));
    }
    json.close('}');
    json.close('}');
    json.key("capacity").open('{');
    let of = |stat, part: fn(Resources) -> u64| {
        let has = |resources: Option<Resources>| resources.map(part).filter(|part| *part > 0);
        has(swarm).or(value(stat)).or(has(last))
    };
    json.key("cpu_cores").decimal(of(stat::CPU_LIMIT, |all| all.nano_cpus), 9);
    json.key("memory_bytes").number(of(stat::MEMORY_LIMIT, |all| all.memory_bytes));
    json.close('}');
}
