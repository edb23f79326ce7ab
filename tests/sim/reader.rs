//! A router-like reader: the real join over what the members hold, and what its answers must never do (T).

use crate::check::{Checked, Oracle, violation};
use crate::truth::{Known, Life};
use std::collections::{BTreeMap, BTreeSet};
use swarmstats::join::{Answers, Bounds, Join};
use swarmstats::model::{NodeId, ServiceId, TaskId, Values};
use swarmstats::stat::COUNTERS;
use swarmstats::view::{Ask, Report, TaskView};

/// One router process.
pub struct Reader {
    join: Join,
    /// The totals that each (node, epoch, service) was last answered with.
    floors: BTreeMap<(NodeId, u64, ServiceId), Values>,
    /// The nodes that an answer ever had; a world is shorter than the join's `row_keep`.
    nodes: BTreeSet<NodeId>,
}

impl Reader {
    pub fn new(replicas: u8) -> Reader {
        let bounds = Bounds { replicas: replicas.into(), ..Bounds::default() };
        Reader { join: Join::new(bounds), floors: BTreeMap::new(), nodes: BTreeSet::new() }
    }

    pub fn read(&mut self, answers: Answers, ask: &Ask, now: u64) -> Report {
        self.join.read(answers, ask, now * 1_000_000)
    }

    /// T: never above the truth, never back, nothing gone without a word, and if complete then not older than the bound.
    pub fn check(&mut self, report: &Report, oracle: &Oracle<'_>) -> Checked {
        let mut epochs: BTreeMap<&NodeId, u64> = BTreeMap::new();
        let nodes = report.nodes.iter().map(|node| (&node.meta.node_id, node.version.epoch));
        for (node, epoch) in nodes.chain(report.rows.iter().map(|row| (&row.meta.node_id, row.version.epoch))) {
            let newest = epochs.entry(node).or_default();
            *newest = epoch.max(*newest);
        }
        for row in &report.rows {
            let (node, service, epoch) = (&row.meta.node_id, &row.meta.service_id, row.version.epoch);
            let mut totals = row.values.clone();
            totals.retain(COUNTERS);
            let truth = oracle.life(node.as_str(), epoch)?.rounds.last().and_then(|round| round.rows.get(service));
            let above = |(stat, value): &(_, u64)| truth.is_none_or(|truth| *value > truth.values.or_zero(*stat));
            if let Some((stat, value)) = totals.iter().find(above) {
                return violation("T", format!("{node}/{service} {stat:?} is {value}, truth is {truth:?}"));
            }
            let floor = self.floors.insert((node.clone(), epoch, service.clone()), totals.clone());
            let fell = floor.iter().flat_map(Values::iter).find(|(stat, value)| *value > totals.or_zero(*stat));
            if let Some((stat, value)) = fell {
                let now = totals.or_zero(stat);
                return violation(
                    "T",
                    format!("{node}/{service} {stat:?} of epoch {epoch} fell from {value} to {now}"),
                );
            }
        }
        let has =
            |node, service| report.rows.iter().any(|row| (&row.meta.node_id, &row.meta.service_id) == (node, service));
        for (node, epoch, service) in self.floors.keys() {
            if epochs.get(node) == Some(epoch) && !has(node, service) {
                return violation("T", format!("{node}/{service} of epoch {epoch} is gone from the answer"));
            }
        }
        self.nodes.extend(report.nodes.iter().map(|view| view.meta.node_id.clone()));
        for node in &self.nodes {
            let is_there = report.nodes.iter().any(|view| view.meta.node_id == *node);
            let is_named = || report.missing.iter().any(|missing| missing.what == format!("node {node}"));
            if !is_there && (report.complete || !is_named()) {
                let text = format!("node {node} is gone, complete: {}, missing: {:?}", report.complete, report.missing);
                return violation("T", text);
            }
        }
        if report.complete { complete(report, oracle) } else { Ok(()) }
    }
}

fn complete(report: &Report, oracle: &Oracle<'_>) -> Checked {
    let then = oracle.now.saturating_sub(oracle.bound);
    for view in &report.nodes {
        let node = &view.meta.node_id;
        let life = oracle.life(node.as_str(), view.version.epoch)?;
        if life.died.is_some_and(|died| died < then) {
            return violation("T", format!("complete, though node {node}'s shipper died at {:?}", life.died));
        }
        for (service, truth) in life.round_at(then).iter().flat_map(|round| &round.rows) {
            let row = report.rows.iter().find(|row| row.meta.node_id == *node && row.meta.service_id == *service);
            let counters = truth.values.iter().filter(|(stat, _)| COUNTERS & stat.bit() != 0);
            for (stat, value) in counters {
                if row.is_none_or(|row| row.values.or_zero(stat) < value) {
                    let text = format!("complete, but {node}/{service} {stat:?} is {row:?}, was {value} at {then}");
                    return violation("T", text);
                }
            }
        }
        tasks(report, life, then)?;
    }
    Ok(())
}

/// Every task that ran then and still runs is there, and as new as then if it could be read ever since.
fn tasks(report: &Report, life: &Life, then: u64) -> Checked {
    let (Some(old), Some(new)) = (life.round_at(then), life.rounds.last()) else { return Ok(()) };
    let runs = |id: &TaskId, known: &Known| new.tasks.get(id).is_some_and(|now| now.container == known.container);
    for (id, known) in old.tasks.iter().filter(|(id, known)| runs(id, known)) {
        let view = report.tasks.iter().find(|view| view.meta.task_id == *id);
        let since = life.rounds.iter().filter(|round| round.at >= then);
        let was_read = since.filter_map(|round| round.tasks.get(id)).all(|known| known.fresh);
        let is_as_new = |view: &TaskView| !was_read || view.monotonic >= (known.read + life.monotonic) * 1_000_000;
        if view.is_none_or(|view| view.ended || !is_as_new(view)) {
            return violation("T", format!("complete, but task {id} is {view:?}, was {known:?} at {then}"));
        }
    }
    Ok(())
}

/// T at quiet: complete, and every row and every task is the newest that the shippers have.
pub fn equals(report: &Report, newest: &BTreeMap<NodeId, &Life>) -> Checked {
    if !report.complete {
        return violation("T", format!("at quiet an answer is not complete: {:?}", report.missing));
    }
    let (mut n_rows, mut n_tasks) = (0, 0);
    for (node, life) in newest {
        let round = life.rounds.last().unwrap();
        n_rows += round.rows.len();
        n_tasks += round.tasks.len();
        let view = report.nodes.iter().find(|view| view.meta.node_id == *node);
        if view.is_none_or(|view| view.values != round.machine || !view.fresh) {
            return violation("T", format!("at quiet node {node} is {view:?}, truth is {:?}", round.machine));
        }
        for (service, truth) in &round.rows {
            let row = report.rows.iter().find(|row| row.meta.node_id == *node && row.meta.service_id == *service);
            if row.is_none_or(|row| row.values != truth.values || row.counts != truth.counts) {
                return violation("T", format!("at quiet {node}/{service} is {row:?}, truth is {truth:?}"));
            }
        }
        for (id, known) in &round.tasks {
            let task = report.tasks.iter().find(|task| task.meta.task_id == *id);
            if task.is_none_or(|task| task.values != known.values || task.fresh != known.fresh || task.ended) {
                return violation("T", format!("at quiet task {id} is {task:?}, truth is {known:?}"));
            }
        }
    }
    let running = report.tasks.iter().filter(|task| !task.ended).count();
    if (report.rows.len(), running) != (n_rows, n_tasks) {
        let text = format!("at quiet {} rows and {running} tasks for {n_rows} and {n_tasks}", report.rows.len());
        return violation("T", text);
    }
    Ok(())
}
