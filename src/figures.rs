//! From a [`Report`] to figures: per service, node and stack, and per task.
//!
//! `stats` and the columns of docker stats are sums over fresh tasks, `totals` the exact counters of rows; coverage and
//! age say how much of the group that is. Integers only: percentages are millionths of a percent.
//!
//! Invariants: absent is not zero; what does not add up is not added (the catalogue's `Group`); a network namespace that
//! several tasks share counts once; a value that cannot be is absent.
//! It deliberately does not decide what is missing: that is `join`.

use crate::model::{Millis, Values, bits};
use crate::stat::{self, CATALOGUE, Group as Rule};
use crate::view::{Report, RowView, TaskView};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A percentage in millionths of a percent; 100 % CPU is one CPU fully busy.
pub type MicroPercent = u64;

/// One percent.
pub const PERCENT: MicroPercent = 1_000_000;

/// No machine has more CPUs than a Linux kernel can be built for (`NR_CPUS` of x86-64): more CPU time than that many
/// can give is no reading.
pub const MAX_CPUS: u128 = 8192;

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
    /// docker stats' CPU %, over the tasks that have one.
    pub cpu_percent: Option<MicroPercent>,
    /// Memory used of those with a limit, by the sum of these limits.
    pub memory_percent: Option<MicroPercent>,
    /// Every stat of the catalogue that the group has.
    pub stats: Values,
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

/// CPU % between a task's reading and the one before: Δcpu/Δt. Absent for a first reading, after a reset, and where the
/// two cannot be true together.
pub fn cpu_percent(task: &TaskView) -> Option<MicroPercent> {
    let (monotonic, cpu) = task.previous?;
    let elapsed = task.monotonic.checked_sub(monotonic).filter(|nanos| *nanos > 0)?;
    let used = task.values.get(stat::CPU)?.checked_sub(cpu)?;
    if u128::from(used) > MAX_CPUS * u128::from(elapsed) {
        return None;
    }
    percent(used, elapsed)
}

/// `part` of `whole`, rounded; absent if `whole` is 0.
fn percent(part: u64, whole: u64) -> Option<MicroPercent> {
    let (part, whole) = (u128::from(part), u128::from(whole));
    let scaled = (part * 100 * u128::from(PERCENT) + whole / 2).checked_div(whole)?;
    u64::try_from(scaled).ok()
}

/// A task's own figures.
pub fn of_task(task: &TaskView) -> Group {
    let meta = &task.meta;
    let mut totals = task.values.clone();
    totals.retain(stat::COUNTERS);
    let memory = task.values.get(stat::MEMORY_USED).zip(task.values.get(stat::MEMORY_LIMIT));
    Group {
        id: meta.task_id.as_str().into(),
        name: meta.task_name.clone(),
        stack: meta.stack.clone(),
        tasks: Coverage { fresh: task.fresh.into(), known: (!task.ended).into() },
        age: Some(task.age),
        since: (meta.started_at > 0).then_some(meta.started_at),
        totals,
        cpu_percent: cpu_percent(task).filter(|_| !task.ended),
        memory_percent: memory.and_then(|(used, limit)| percent(used, limit)),
        stats: task.values.clone(),
    }
}

/// A report's groups, by name and then by id.
pub fn groups(report: &Report, by: By) -> Vec<Group> {
    let mut sums: BTreeMap<Arc<str>, Sum> = BTreeMap::new();
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
    }
    for task in &report.tasks {
        let meta = &task.meta;
        let sum = match by {
            By::Service => sum_of(&mut sums, meta.service_id.as_str(), &meta.service_name, Some(&meta.stack)),
            By::Node => sum_of(&mut sums, meta.node_id.as_str(), &meta.node_name, None),
            By::Stack if meta.stack.is_empty() => continue,
            By::Stack => sum_of(&mut sums, &meta.stack, &meta.stack, None),
        };
        sum.take_task(task);
    }
    let mut groups: Vec<Group> = sums.into_iter().map(|(id, sum)| sum.finish(id)).collect();
    groups.sort_by(|a, b| (&a.name, &a.id).cmp(&(&b.name, &b.id)));
    groups
}

fn sum_of<'a>(
    sums: &'a mut BTreeMap<Arc<str>, Sum>,
    id: &str,
    name: &Arc<str>,
    stack: Option<&Arc<str>>,
) -> &'a mut Sum {
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
struct Sum {
    name: Arc<str>,
    stack: Arc<str>,
    fresh: u64,
    known: u64,
    age: Option<Millis>,
    since: Option<Millis>,
    totals: Values,
    stats: Values,
    lacking: u64,
    cpu_percent: Option<MicroPercent>,
    used: u64,
    limits: u64,
}

impl Sum {
    fn take_row(&mut self, row: &RowView) {
        self.known += row.counts.running;
        self.since = self.since.max(Some(row.meta.since));
        for stat in bits(row.values.present() & stat::COUNTERS) {
            self.totals.add(stat, row.values.or_zero(stat));
        }
    }

    fn take_task(&mut self, task: &TaskView) {
        if !task.fresh {
            return;
        }
        self.fresh += 1;
        self.age = self.age.max(Some(task.age));
        for stat in bits(task.values.present() & task.meta.grouped()) {
            self.stats.add(stat, task.values.or_zero(stat));
        }
        self.lacking |= IF_ALL & !task.values.present();
        if let Some(cpu) = cpu_percent(task) {
            self.cpu_percent = Some(self.cpu_percent.unwrap_or(0).saturating_add(cpu));
        }
        if let Some((used, limit)) = task.values.get(stat::MEMORY_USED).zip(task.values.get(stat::MEMORY_LIMIT)) {
            self.used = self.used.saturating_add(used);
            self.limits = self.limits.saturating_add(limit);
        }
    }

    fn finish(mut self, id: Arc<str>) -> Group {
        self.stats.retain(!self.lacking);
        Group {
            id,
            name: self.name,
            stack: self.stack,
            // A row may be a moment older than its tasks.
            tasks: Coverage { fresh: self.fresh, known: self.known.max(self.fresh) },
            age: self.age,
            since: self.since,
            totals: self.totals,
            cpu_percent: self.cpu_percent,
            memory_percent: percent(self.used, self.limits),
            stats: self.stats,
        }
    }
}
