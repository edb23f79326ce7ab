//! Counters of whole services and stacks that rise from 0 at a router's start: what Prometheus can take from a router.
//!
//! A router's rows jump: a node that is heard again brings hours, a shipper that starts again forgets its ended tasks. So
//! what is counted are the rows' own increments from read to read, by (node, service) and life. Whatever was there when
//! it was first seen counts from there, but for two kinds of rows, which count whole:
//! * one that is new itself: its node had been seen in this epoch without it, or it was begun anew (`since`);
//! * one that is not remembered, all of whose tasks are younger than this process and than [`CATCH_UP`], as on a node
//!   that joins: nothing of it can have been counted, and no counter jumps by more than that time.
//!
//! What is not in a report for a while is kept, so that it goes on; so is what a node lists. A report may be older than
//! one before: its rows and lists are not taken again.
//!
//! Invariants: no counter falls while somebody has a row of it; what is read twice counts once; bounded by the rows and
//! nodes of the reports of [`CATCH_UP`]. Pure: the wall clock is passed in.

use crate::model::{Millis, NodeId, ServiceId, Values, bits};
use crate::stat::COUNTERS;
use crate::view::{NodeView, Report, RowView};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// For so long what is not reported is remembered, and a task counts as young.
const CATCH_UP: Millis = 120_000;

/// How a row was last seen.
#[derive(Debug)]
struct Row {
    epoch: u64,
    /// When its shipper began it.
    since: Millis,
    /// The highest of each counter.
    counters: Values,
    seen: Millis,
}

/// How a node was last seen.
#[derive(Debug)]
struct Node {
    epoch: u64,
    q: u64,
    services: BTreeSet<ServiceId>,
    /// Of those, the ones that were there when the epoch was first seen.
    old: BTreeSet<ServiceId>,
    seen: Millis,
}

/// The running tasks of a row in a report.
#[derive(Debug)]
struct Born {
    tasks: u64,
    /// When the first of them started.
    first: Millis,
}

/// See the head of this file.
#[derive(Debug)]
pub struct Rising {
    started: Millis,
    rows: BTreeMap<(NodeId, ServiceId), Row>,
    nodes: BTreeMap<NodeId, Node>,
    services: BTreeMap<ServiceId, Values>,
    stacks: BTreeMap<Arc<str>, Values>,
    /// The stack of each service that some node lists.
    stack_of: BTreeMap<ServiceId, Arc<str>>,
}

impl Rising {
    /// Counters of a process that starts now.
    pub fn new(started: Millis) -> Rising {
        Rising {
            started,
            rows: BTreeMap::new(),
            nodes: BTreeMap::new(),
            services: BTreeMap::new(),
            stacks: BTreeMap::new(),
            stack_of: BTreeMap::new(),
        }
    }

    /// Takes a report of the whole cluster.
    pub fn take(&mut self, report: &Report, now: Millis) {
        let key = |row: &RowView| (row.meta.node_id.clone(), row.meta.service_id.clone());
        let is_known = |row: &RowView| self.rows.contains_key(&key(row));
        let born = if report.rows.iter().all(is_known) { BTreeMap::new() } else { born(report) };
        for row in &report.rows {
            let key = key(row);
            let young = born.get(&key).is_some_and(|born| self.is_young(row, born, now));
            let Some(increment) = self.increment(key, row, young, now) else { continue };
            self.stack_of.insert(row.meta.service_id.clone(), row.meta.stack.clone());
            if increment.is_empty() {
                continue;
            }
            self.services.entry(row.meta.service_id.clone()).or_default().add_all(&increment);
            if !row.meta.stack.is_empty() {
                self.stacks.entry(row.meta.stack.clone()).or_default().add_all(&increment);
            }
        }
        report.nodes.iter().for_each(|node| self.list(node, now));
        self.forget(now);
    }

    /// A service's counters.
    pub fn of_service(&self, service: &str) -> Option<&Values> {
        self.services.get(service)
    }

    /// A stack's counters.
    pub fn of_stack(&self, stack: &str) -> Option<&Values> {
        self.stacks.get(stack)
    }

    /// All it ever had are tasks of which nothing can have been counted, if it is not remembered.
    fn is_young(&self, row: &RowView, born: &Born, now: Millis) -> bool {
        let from = self.started.max(now.saturating_sub(CATCH_UP));
        let all = row.counts.ended == 0 && row.counts.running == born.tasks;
        all && born.first >= from
    }

    /// What a row rose by since it was last seen, `None` of an older one; a counter that is there for the first time is
    /// there with 0.
    fn increment(&mut self, key: (NodeId, ServiceId), row: &RowView, young: bool, now: Millis) -> Option<Values> {
        let (epoch, since) = (row.version.epoch, row.meta.since);
        let node = self.nodes.get(&key.0);
        let last = self.rows.get(&key);
        let older = |last: &Row| (epoch, since) < (last.epoch, last.since);
        if node.is_some_and(|node| epoch < node.epoch) || last.is_some_and(older) {
            return None;
        }
        let begun_anew = last.is_some_and(|last| last.epoch == epoch && last.since < since);
        let whole = young && last.is_none()
            || begun_anew
            || node.is_some_and(|node| node.epoch == epoch && !node.old.contains(&key.1));
        let before = last.filter(|last| (last.epoch, last.since) == (epoch, since)).map(|last| &last.counters);
        let mut increment = Values::default();
        let mut counters = before.cloned().unwrap_or_default();
        for stat in bits(row.values.present() & COUNTERS) {
            let value = row.values.or_zero(stat);
            let by = match before {
                Some(before) => value.saturating_sub(before.get(stat).unwrap_or(value)),
                None if whole => value,
                None => 0,
            };
            increment.add(stat, by);
            counters.set(stat, value.max(counters.or_zero(stat)));
        }
        self.rows.insert(key, Row { epoch, since, counters, seen: now });
        Some(increment)
    }

    /// Takes a node's list of services, unless it is an older one.
    fn list(&mut self, node: &NodeView, now: Millis) {
        let (epoch, q) = (node.version.epoch, node.version.q);
        let services: BTreeSet<ServiceId> = node.meta.services.iter().cloned().collect();
        match self.nodes.get_mut(&node.meta.node_id) {
            Some(known) if (epoch, q) < (known.epoch, known.q) => known.seen = now,
            Some(known) if epoch == known.epoch => {
                known.old.retain(|service| services.contains(service));
                (known.q, known.services, known.seen) = (q, services, now);
            }
            _ => {
                let old = services.clone();
                self.nodes.insert(node.meta.node_id.clone(), Node { epoch, q, services, old, seen: now });
            }
        }
    }

    /// What is over everywhere goes; a row that is only on its way (its node lists it) takes nothing along.
    fn forget(&mut self, now: Millis) {
        let recent = |seen: Millis| now.saturating_sub(seen) <= CATCH_UP;
        self.nodes.retain(|_, node| recent(node.seen));
        let nodes = &self.nodes;
        let listed =
            |node: &NodeId, service: &ServiceId| nodes.get(node).is_some_and(|node| node.services.contains(service));
        self.rows.retain(|(node, service), row| recent(row.seen) || listed(node, service));
        let listed = nodes.values().flat_map(|node| &node.services);
        let there: BTreeSet<&ServiceId> = self.rows.keys().map(|(_, service)| service).chain(listed).collect();
        self.services.retain(|service, _| there.contains(service));
        self.stack_of.retain(|service, _| there.contains(service));
        let stacks: BTreeSet<&Arc<str>> = self.stack_of.values().collect();
        self.stacks.retain(|stack, _| stacks.contains(stack));
    }
}

/// Of each row that has running tasks in a report.
fn born(report: &Report) -> BTreeMap<(NodeId, ServiceId), Born> {
    let mut born: BTreeMap<_, Born> = BTreeMap::new();
    for task in report.tasks.iter().filter(|task| !task.ended) {
        let key = (task.meta.node_id.clone(), task.meta.service_id.clone());
        let of_row = born.entry(key).or_insert(Born { tasks: 0, first: Millis::MAX });
        of_row.tasks += 1;
        of_row.first = of_row.first.min(task.meta.started_at);
    }
    born
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Counts, Labels, NodeMeta, RowMeta, TaskId, TaskMeta, Version};
    use crate::stat::{CPU, RX_BYTES};
    use crate::view::TaskView;

    const STARTED: Millis = 1_700_000_000_000;

    fn node(epoch: u64, services: &[&str]) -> NodeView {
        let services = services.iter().map(|id| ServiceId::new(*id).unwrap()).collect();
        let meta = NodeMeta { node_id: NodeId::new("n1").unwrap(), node_name: "n1".into(), services, since: 0 };
        NodeView {
            meta: meta.into(),
            version: Version { epoch, q: 1 },
            fresh: true,
            age: 0,
            primary: false,
            values: Values::default(),
            monotonic: 0,
            previous: None,
        }
    }

    fn row(epoch: u64, service: &str, values: &[(crate::stat::Stat, u64)]) -> RowView {
        let meta = RowMeta {
            node_id: NodeId::new("n1").unwrap(),
            node_name: "n1".into(),
            service_id: ServiceId::new(service).unwrap(),
            service_name: service.into(),
            stack: "shop".into(),
            since: 0,
        };
        RowView {
            meta: meta.into(),
            version: Version { epoch, q: 1 },
            fresh: true,
            age: 0,
            primary: false,
            values: values.iter().copied().collect(),
            counts: Counts::default(),
        }
    }

    fn task(started_at: Millis) -> TaskView {
        let meta = TaskMeta {
            task_id: TaskId::new("t1").unwrap(),
            task_name: "t1".into(),
            slot: "".into(),
            service_id: ServiceId::new("web").unwrap(),
            service_name: "web".into(),
            stack: "shop".into(),
            node_id: NodeId::new("n1").unwrap(),
            node_name: "n1".into(),
            container_id: "c".into(),
            image: "".into(),
            started_at,
            labels: Labels::new(),
            shares_netns: false,
        };
        TaskView {
            meta: meta.into(),
            version: Version { epoch: 1, q: 1 },
            fresh: true,
            ended: false,
            primary: false,
            age: 0,
            values: Values::default(),
            monotonic: 0,
            previous: None,
            points: Vec::new(),
        }
    }

    fn report(nodes: Vec<NodeView>, rows: Vec<RowView>) -> Report {
        Report { nodes, rows, ..Report::default() }
    }

    #[test]
    fn counts_from_the_first_sight_and_never_falls_nor_twice() {
        let mut rising = Rising::new(STARTED);
        let cpu = |rising: &Rising, service: &str| rising.of_service(service).and_then(|values| values.get(CPU));
        rising.take(&report(vec![node(1, &["web"])], vec![row(1, "web", &[(CPU, 500)])]), STARTED);
        assert_eq!(cpu(&rising, "web"), Some(0), "hours of before are not this process's");
        let risen = report(vec![node(1, &["web"])], vec![row(1, "web", &[(CPU, 530)])]);
        rising.take(&risen, STARTED);
        rising.take(&risen, STARTED);
        assert_eq!(cpu(&rising, "web"), Some(30));
        // The shipper starts again: its tasks count whole for it, and from there for this.
        rising.take(&report(vec![node(2, &["web"])], vec![row(2, "web", &[(CPU, 540)])]), STARTED);
        assert_eq!(cpu(&rising, "web"), Some(30));
        rising.take(&report(vec![node(2, &["web"])], vec![row(2, "web", &[(CPU, 545)])]), STARTED);
        assert_eq!(cpu(&rising, "web"), Some(35));
        assert_eq!(rising.of_stack("shop").and_then(|values| values.get(CPU)), Some(35));
    }

    #[test]
    fn a_service_that_is_new_on_a_known_node_counts_whole_and_a_new_stat_from_its_first_sight() {
        let mut rising = Rising::new(STARTED);
        rising.take(&report(vec![node(1, &["web"])], vec![row(1, "web", &[(CPU, 500)])]), STARTED);
        let both = vec![row(1, "web", &[(CPU, 500), (RX_BYTES, 7)]), row(1, "api", &[(CPU, 40)])];
        rising.take(&report(vec![node(1, &["api", "web"])], both), STARTED);
        assert_eq!(rising.of_service("api").and_then(|values| values.get(CPU)), Some(40));
        assert_eq!(rising.of_service("web").and_then(|values| values.get(RX_BYTES)), Some(0));
    }

    #[test]
    fn a_row_that_comes_later_than_its_nodes_new_list_does_not_begin_anew() {
        let mut rising = Rising::new(STARTED);
        rising.take(&report(vec![node(1, &["web"])], vec![row(1, "web", &[(CPU, 500)])]), STARTED);
        rising.take(&report(vec![node(1, &["web"])], vec![row(1, "web", &[(CPU, 530)])]), STARTED);
        // The shipper starts again: its old rows are void, and of the new ones only the node's is there yet.
        rising.take(&report(vec![node(2, &["web"])], vec![]), STARTED);
        rising.take(&report(vec![node(2, &["web"])], vec![row(2, "web", &[(CPU, 540)])]), STARTED);
        let cpu = |values: Option<&Values>| values.and_then(|values| values.get(CPU));
        assert_eq!((cpu(rising.of_service("web")), cpu(rising.of_stack("shop"))), (Some(30), Some(30)));
    }

    #[test]
    fn what_is_over_everywhere_is_forgotten() {
        let mut rising = Rising::new(STARTED);
        rising.take(&report(vec![node(1, &["web"])], vec![row(1, "web", &[(CPU, 500)])]), STARTED);
        rising.take(&report(vec![node(1, &[])], vec![]), STARTED + 1);
        rising.take(&report(vec![node(1, &[])], vec![]), STARTED + CATCH_UP + 1);
        assert!(rising.of_service("web").is_none() && rising.of_stack("shop").is_none() && rising.rows.is_empty());
    }

    #[test]
    fn a_node_that_joins_brings_its_young_tasks_whole_and_nothing_of_what_ran_before() {
        let mut rising = Rising::new(STARTED);
        let joined = |born: Millis, ended: u64| {
            let mut row = row(1, "web", &[(CPU, 40)]);
            (row.counts.running, row.counts.ended) = (1, ended);
            let mut report = report(vec![node(1, &["web"])], vec![row]);
            report.tasks.push(task(born));
            report
        };
        let cpu = |rising: &Rising| rising.of_service("web").and_then(|values| values.get(CPU));
        rising.take(&joined(STARTED + 5_000, 0), STARTED + 9_000);
        assert_eq!(cpu(&rising), Some(40));
        // Its shipper starts again: that was counted.
        let mut again = joined(STARTED + 5_000, 0);
        again.rows[0].version.epoch = 2;
        again.nodes[0].version.epoch = 2;
        rising.take(&again, STARTED + 10_000);
        assert_eq!(cpu(&rising), Some(40));
        for (born, ended, now, why) in [
            (STARTED - 1, 0, STARTED + 9_000, "it ran before this process did"),
            (STARTED + 5_000, 1, STARTED + 9_000, "of another task nobody knows when it began"),
            (STARTED + 5_000, 0, STARTED + 5_001 + CATCH_UP, "a counter would jump by many minutes"),
        ] {
            let mut rising = Rising::new(STARTED);
            rising.take(&joined(born, ended), now);
            assert_eq!(cpu(&rising), Some(0), "{why}");
        }
    }

    #[test]
    fn an_answer_without_a_row_and_an_older_one_make_nothing_count_again() {
        let mut rising = Rising::new(STARTED);
        let at = |q: u64, services: &[&str], rows: &[(&str, u64)]| {
            let mut node = node(1, services);
            node.version.q = q;
            report(vec![node], rows.iter().map(|(of, cpu)| row(1, of, &[(CPU, *cpu)])).collect())
        };
        let first = at(1, &["web"], &[("web", 500)]);
        rising.take(&first, STARTED);
        rising.take(&at(2, &["api", "web"], &[("api", 40), ("web", 500)]), STARTED);
        rising.take(&at(2, &["api", "web"], &[("web", 500)]), STARTED);
        rising.take(&first, STARTED);
        rising.take(&at(3, &["api", "web"], &[("api", 45), ("web", 507)]), STARTED);
        let cpu = |values: Option<&Values>| values.and_then(|values| values.get(CPU));
        assert_eq!((cpu(rising.of_service("api")), cpu(rising.of_service("web"))), (Some(45), Some(7)));
        assert_eq!(cpu(rising.of_stack("shop")), Some(52));
    }
}
