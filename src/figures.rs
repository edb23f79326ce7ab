//! From a [`Report`] to figures: per service, node and stack, and per task.
//!
//! `stats` are sums over fresh tasks, `totals` the exact counters of rows, `figures` what is derived of them; coverage
//! and age say how much of the group that is. Integers only: percentages are millionths of a percent.
//!
//! Invariants: absent is not zero; what does not add up is not added (the catalogue's `Group`); a network namespace that
//! several tasks share counts once, and so does the capacity of a node; a value that cannot be is absent and named.
//! It deliberately does not decide what is missing: that is `join`.

mod machine;
mod rates;
mod rising;
mod table;

pub use machine::{MACHINE_FIGURES, Machine, MachineFigure, of_machine};
pub use rates::Rates;
pub use rising::Rising;
pub use table::{FIGURES, Figure, Figures, NEEDED, Shown};

use crate::model::{Millis, NodeId, Values, bits};
use crate::stat::{self, CATALOGUE, Group as Rule, Stat};
use crate::swarm::List;
use crate::view::{Report, RowView, TaskView};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A percentage in millionths of a percent; 100 % CPU is one CPU fully busy.
pub type MicroPercent = u64;

/// One percent.
pub const PERCENT: MicroPercent = 1_000_000;

/// No machine has more CPUs than a Linux kernel can be built for (`NR_CPUS` of x86-64): more CPU time than that many
/// can give is no reading, where the node's own number is not known.
pub const MAX_CPUS: u64 = 8192;

/// How many of a group's tasks its figures are of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Coverage {
    /// Tasks with a fresh sample: those summed up.
    pub fresh: u64,
    /// Tasks that run by what the rows say.
    pub known: u64,
}

/// The figures of a service, a node, a stack or a single task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// Its id; a stack's name.
    pub id: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// The stack of a service or a task, or empty.
    pub stack: Arc<str>,
    /// How much of it the figures are of.
    pub tasks: Coverage,
    /// Of its oldest fresh task; of a task, its own.
    pub age: Option<Millis>,
    /// Since this moment (wall clock) no ended task is missing in `totals`; of a task, when it was started.
    pub since: Option<Millis>,
    /// Counters, exact, ended tasks included; of a task, its own.
    pub totals: Values,
    /// Every stat of the catalogue that the group has.
    pub stats: Values,
    /// What is made of them.
    pub figures: Figures,
    /// Readings that cannot be, for people; no figure is made of them.
    pub doubts: Vec<String>,
}

/// What tasks are grouped by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum By {
    /// One group a service.
    Service,
    /// One group a node.
    Node,
    /// One group a stack; what has none is in no group.
    Stack,
}

/// `part × by / whole`, rounded, within 64 bits; `whole` is not 0.
fn scaled(part: u64, by: u64, whole: u64) -> u64 {
    let (part, by, whole) = (u128::from(part), u128::from(by), u128::from(whole));
    u64::try_from((part * by + whole / 2) / whole).unwrap_or(u64::MAX)
}

/// What the machines of a report have, by node.
#[derive(Debug, Default)]
pub struct Machines<'a>(BTreeMap<&'a NodeId, &'a Values>);

impl<'a> Machines<'a> {
    /// Of the nodes that a report knows.
    pub fn of(report: &'a Report) -> Machines<'a> {
        Machines(report.nodes.iter().map(|node| (&node.meta.node_id, &node.values)).collect())
    }
    /// All of a node's CPUs in nanocores (`CPU_LIMIT`) or bytes of memory (`MEMORY_LIMIT`), if it told them.
    fn has(&self, node: &NodeId, stat: Stat) -> Option<u64> {
        self.0.get(node)?.get(stat).filter(|all| *all > 0)
    }
}

/// A part by its whole, which is counted once for each thing that has it.
#[derive(Default)]
struct Share {
    part: u64,
    whole: u64,
}

impl Share {
    fn add(&mut self, part: u64, whole: u64) {
        self.part = self.part.saturating_add(part);
        self.whole = self.whole.saturating_add(whole);
    }
    /// `part × by / whole`.
    fn times(&self, by: u64) -> Option<u64> {
        (self.whole > 0).then(|| scaled(self.part, by, self.whole))
    }
}

/// A task's own figures.
pub fn of_task(task: &TaskView, machines: &Machines<'_>) -> Group {
    let meta = &task.meta;
    let mut totals = task.values.clone();
    totals.retain(stat::COUNTERS);
    let mut sum = Derived::default();
    sum.take(task, stat::TASKS, machines);
    let (figures, doubts) = sum.finish(&task.values, task.values.get(stat::OOM_KILLS));
    Group {
        id: meta.task_id.as_str().into(),
        name: meta.task_name.clone(),
        stack: meta.stack.clone(),
        tasks: Coverage { fresh: task.fresh.into(), known: (!task.ended).into() },
        age: Some(task.age),
        since: (meta.started_at > 0).then_some(meta.started_at),
        totals,
        stats: task.values.clone(),
        figures,
        doubts,
    }
}

/// A report's groups, by name and then by id.
pub fn groups(report: &Report, by: By) -> Vec<Group> {
    let machines = Machines::of(report);
    let mut sums: BTreeMap<Arc<str>, Sum<'_>> = BTreeMap::new();
    if let Some(truth) = &report.swarm {
        take_listed(&mut sums, &truth.list, by);
    }
    let is_disowned = |task: &TaskView| {
        report.swarm.as_ref().is_some_and(|truth| by != By::Node && truth.orphans.contains(&task.meta.task_id))
    };
    let is_absent = |row: &RowView| report.swarm.as_ref().is_some_and(|truth| truth.absent.contains(&row.meta.node_id));
    for node in report.nodes.iter().filter(|_| by == By::Node) {
        sum_of(&mut sums, node.meta.node_id.as_str(), &node.meta.node_name, None);
    }
    for row in &report.rows {
        let meta = &row.meta;
        let sum = match by {
            By::Service => sum_of(&mut sums, meta.service_id.as_str(), &meta.service_name, Some(&meta.stack)),
            By::Node => sum_of(&mut sums, meta.node_id.as_str(), &meta.node_name, None),
            By::Stack if meta.stack.is_empty() => continue,
            By::Stack => sum_of(&mut sums, &meta.stack, &meta.stack, None),
        };
        sum.take_row(row);
        if is_absent(row) {
            sum.known -= row.counts.running;
        }
    }
    for task in &report.tasks {
        let meta = &task.meta;
        let sum = match by {
            By::Service => sum_of(&mut sums, meta.service_id.as_str(), &meta.service_name, Some(&meta.stack)),
            By::Node => sum_of(&mut sums, meta.node_id.as_str(), &meta.node_name, None),
            By::Stack if meta.stack.is_empty() => continue,
            By::Stack => sum_of(&mut sums, &meta.stack, &meta.stack, None),
        };
        if is_disowned(task) {
            sum.known = sum.known.saturating_sub(1);
        } else {
            sum.take_task(task, &machines);
        }
    }
    let mut groups: Vec<Group> = sums.into_iter().map(|(id, sum)| sum.finish(id)).collect();
    groups.sort_by(|a, b| (&a.name, &a.id).cmp(&(&b.name, &b.id)));
    groups
}

/// What Swarm lists is there, even if nothing of it runs.
fn take_listed(sums: &mut BTreeMap<Arc<str>, Sum<'_>>, list: &List, by: By) {
    for (id, service) in &list.services {
        match by {
            By::Service => drop(sum_of(sums, id.as_str(), &service.name, Some(&service.stack))),
            By::Stack if !service.stack.is_empty() => drop(sum_of(sums, &service.stack, &service.stack, None)),
            By::Stack | By::Node => {}
        }
    }
    for (id, node) in list.nodes.iter().filter(|_| by == By::Node) {
        sum_of(sums, id.as_str(), &node.name, None);
    }
}

fn sum_of<'a, 'r>(
    sums: &'a mut BTreeMap<Arc<str>, Sum<'r>>,
    id: &str,
    name: &Arc<str>,
    stack: Option<&Arc<str>>,
) -> &'a mut Sum<'r> {
    // A new text is made for a new group only.
    let id = sums.get_key_value(id).map_or_else(|| Arc::from(id), |(known, _)| known.clone());
    sums.entry(id).or_insert_with(|| Sum {
        name: name.clone(),
        stack: stack.cloned().unwrap_or_default(),
        ..Sum::default()
    })
}

/// The stats of which a group has none if one of its tasks has none.
const IF_ALL: u64 = {
    let (mut mask, mut i) = (0, 0);
    while i < CATALOGUE.len() {
        if matches!(CATALOGUE[i].group, Rule::SumIfAll) {
            mask |= 1 << i;
        }
        i += 1;
    }
    mask
};

/// A group under construction.
#[derive(Default)]
struct Sum<'a> {
    name: Arc<str>,
    stack: Arc<str>,
    fresh: u64,
    known: u64,
    age: Option<Millis>,
    since: Option<Millis>,
    totals: Values,
    stats: Values,
    lacking: u64,
    derived: Derived<'a>,
}

impl<'a> Sum<'a> {
    fn take_row(&mut self, row: &RowView) {
        self.known += row.counts.running;
        self.since = self.since.max(Some(row.meta.since));
        for stat in bits(row.values.present() & stat::COUNTERS) {
            self.totals.add(stat, row.values.or_zero(stat));
        }
    }

    fn take_task(&mut self, task: &'a TaskView, machines: &Machines<'_>) {
        if !task.fresh {
            return;
        }
        self.fresh += 1;
        self.age = self.age.max(Some(task.age));
        for stat in bits(task.values.present() & task.meta.grouped()) {
            self.stats.add(stat, task.values.or_zero(stat));
        }
        self.lacking |= IF_ALL & !task.values.present();
        self.derived.take(task, task.meta.grouped(), machines);
    }

    fn finish(mut self, id: Arc<str>) -> Group {
        self.stats.retain(!self.lacking);
        let (figures, doubts) = self.derived.finish(&self.stats, self.totals.get(stat::OOM_KILLS));
        Group {
            id,
            name: self.name,
            stack: self.stack,
            // A row may be a moment older than its tasks.
            tasks: Coverage { fresh: self.fresh, known: self.known.max(self.fresh) },
            age: self.age,
            since: self.since,
            totals: self.totals,
            stats: self.stats,
            figures,
            doubts,
        }
    }
}

/// What is derived of one task or of several, under construction.
#[derive(Default)]
struct Derived<'a> {
    cpu: Option<MicroPercent>,
    network: [Option<u64>; 2],
    block: [Option<u64>; 2],
    throttled: Share,
    pressure: [Option<MicroPercent>; 3],
    cpu_of_limit: Share,
    memory_of_limit: Share,
    cpu_of_node: Share,
    memory_of_node: Share,
    /// Whose CPUs, and whose memory, are counted in the shares above.
    cpus_of: BTreeSet<&'a NodeId>,
    memory_of: BTreeSet<&'a NodeId>,
    doubts: Vec<String>,
}

impl<'a> Derived<'a> {
    /// Adds a task, of whose counters those of the mask `counted` are its own.
    fn take(&mut self, task: &'a TaskView, counted: u64, machines: &Machines<'_>) {
        let (values, node, previous) = (&task.values, &task.meta.node_id, task.previous.as_ref());
        let cpus = machines.has(node, stat::CPU_LIMIT);
        let rates = Rates::of(values, task.monotonic, previous.filter(|_| !task.ended), cpus);
        if rates.impossible != 0 {
            // Its name is not asked for where only sums are.
            let name = [&*task.meta.task_name, task.meta.task_id.as_str()].into_iter().find(|name| !name.is_empty());
            let name = format!("task {}", name.unwrap_or_default());
            self.doubts.extend(rates.doubts(&name, values, previous));
        }
        add(&mut self.cpu, rates.cpu);
        if counted & stat::RX_BYTES.bit() != 0 {
            self.network.iter_mut().zip(rates.network).for_each(|(sum, rate)| add(sum, rate));
        }
        self.block.iter_mut().zip(rates.block).for_each(|(sum, rate)| add(sum, rate));
        self.pressure.iter_mut().zip(rates.pressure).for_each(|(worst, share)| *worst = (*worst).max(share));
        if let Some((periods, throttled)) = rates.periods {
            self.throttled.add(throttled, periods);
        }
        if let Some((cpu, limit)) = rates.cpu.zip(values.get(stat::CPU_LIMIT)) {
            self.cpu_of_limit.add(cpu, limit);
        }
        if let Some((cpu, cpus)) = rates.cpu.zip(cpus) {
            self.cpu_of_node.add(cpu, if self.cpus_of.insert(node) { cpus } else { 0 });
        }
        let Some(used) = values.get(stat::MEMORY_USED) else { return };
        if let Some(limit) = values.get(stat::MEMORY_LIMIT) {
            self.memory_of_limit.add(used, limit);
        }
        if let Some(memory) = machines.has(node, stat::MEMORY_LIMIT) {
            self.memory_of_node.add(used, if self.memory_of.insert(node) { memory } else { 0 });
        }
    }

    /// With the stats of the whole, and how often it ran out of memory.
    fn finish(self, stats: &Values, oom_kills: Option<u64>) -> (Figures, Vec<String>) {
        /// CPU % by nanocores: a whole CPU is 10⁹ of them.
        const BY_CORES: u64 = 1_000_000_000;
        const HUNDRED: u64 = 100 * PERCENT;
        let figures = Figures {
            cpu_percent: self.cpu,
            memory_used_bytes: stats.get(stat::MEMORY_USED),
            memory_limit_bytes: stats.get(stat::MEMORY_LIMIT),
            memory_percent: self.memory_of_limit.times(HUNDRED),
            network_receive_bytes: stats.get(stat::RX_BYTES),
            network_transmit_bytes: stats.get(stat::TX_BYTES),
            block_read_bytes: stats.get(stat::BLOCK_READ),
            block_written_bytes: stats.get(stat::BLOCK_WRITTEN),
            pids: stats.get(stat::PIDS),
            cpu_percent_of_node: self.cpu_of_node.times(BY_CORES),
            cpu_percent_of_limit: self.cpu_of_limit.times(BY_CORES),
            memory_percent_of_node: self.memory_of_node.times(HUNDRED),
            memory_working_set_bytes: stats.get(stat::MEMORY_WORKING_SET),
            memory_anon_bytes: stats.get(stat::MEMORY_ANON),
            memory_file_bytes: stats.get(stat::MEMORY_FILE),
            memory_shmem_bytes: stats.get(stat::MEMORY_SHMEM),
            memory_swap_bytes: stats.get(stat::MEMORY_SWAP),
            network_receive_bytes_per_second: self.network[0],
            network_transmit_bytes_per_second: self.network[1],
            block_read_bytes_per_second: self.block[0],
            block_written_bytes_per_second: self.block[1],
            cpu_throttled_percent: self.throttled.times(HUNDRED),
            pressure_cpu_percent: self.pressure[0],
            pressure_memory_percent: self.pressure[1],
            pressure_io_percent: self.pressure[2],
            oom_kills,
            restarts: stats.get(stat::RESTARTS),
        };
        (figures, self.doubts)
    }
}

/// Adds to a sum of those that are there.
fn add(sum: &mut Option<u64>, more: Option<u64>) {
    if let Some(more) = more {
        *sum = Some(sum.unwrap_or(0).saturating_add(more));
    }
}
