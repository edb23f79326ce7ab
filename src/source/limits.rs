//! A container's limits: what only people change, so it is read seldom and its files are not held open.

use super::{
    cgroup::{Host, Place},
    files::{Cgroup, Controller, Figures},
    parse,
    reader::Scratch,
};
use crate::stat;
use std::path::PathBuf;

/// The files that hold limits, for the stats that are asked for.
#[derive(Debug, Default)]
pub struct Limits {
    /// v2: `memory.max` of the container and of each directory above it; the tightest counts.
    memory: Vec<PathBuf>,
    cpu: Option<Cpu>,
    pids: Option<PathBuf>,
}

#[derive(Debug)]
enum Cpu {
    V1 { quota: PathBuf, period: PathBuf },
    V2(PathBuf),
}

impl Limits {
    /// Where a container's limits are. On v1 `memory.stat` has the effective memory limit.
    pub fn new(host: &Host, place: &Place, mask: u64) -> Limits {
        let wanted = |stat: stat::Stat, controller| place.of(controller).filter(|_| mask & stat.bit() != 0);
        let memory = match wanted(stat::MEMORY_LIMIT, Controller::Memory) {
            Some((Cgroup::V2, own)) => {
                let top = host.mount_point(own);
                own.ancestors().take_while(|path| Some(*path) != top).map(|path| path.join("memory.max")).collect()
            }
            _ => Vec::new(),
        };
        let cpu = wanted(stat::CPU_LIMIT, Controller::Cpu).map(|(cgroup, path)| match cgroup {
            Cgroup::V1 => Cpu::V1 { quota: path.join("cpu.cfs_quota_us"), period: path.join("cpu.cfs_period_us") },
            Cgroup::V2 => Cpu::V2(path.join("cpu.max")),
        });
        let pids = wanted(stat::PIDS_LIMIT, Controller::Pids).map(|(_, path)| path.join("pids.max"));
        Limits { memory, cpu, pids }
    }

    /// Reads them all; one that cannot be read is absent.
    pub fn read(&self, figures: &mut Figures, scratch: &mut Scratch) {
        if !self.memory.is_empty() {
            let limits = self.memory.iter().filter_map(|path| parse::number_or_max(scratch.read_path(path)?)?);
            figures.limit = limits.min();
        }
        let cpu = match &self.cpu {
            Some(Cpu::V1 { quota, period }) => {
                let quota = scratch.read_path(quota).and_then(parse::number);
                quota.zip(scratch.read_path(period).and_then(parse::number))
            }
            Some(Cpu::V2(path)) => scratch.read_path(path).and_then(parse::cpu_max),
            None => None,
        };
        figures.values.put(stat::CPU_LIMIT, cpu.and_then(|(quota, period)| parse::nanocores(quota, period)));
        let pids = self.pids.as_ref().and_then(|path| parse::number_or_max(scratch.read_path(path)?)?);
        figures.values.put(stat::PIDS_LIMIT, pids);
    }
}
