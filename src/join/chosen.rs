//! What a selector means here and now: which of the ids that carry a name are taken.
//!
//! An id beats a name, a name beats the beginning of an id. A name that several ids carry means the one with live
//! tasks, else the one with the newest `since`; the others are a warning. The beginning of several live tasks' ids is
//! left as it is, for there is nothing to tell them apart by: all are taken, with a warning.

use super::Join;
use super::told::Told;
use crate::model::{Millis, NodeId, RowMeta, ServiceId, TaskId, TaskMeta};
use crate::view::{Selector, TaskView};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

/// A selector without the ids that its names do not mean.
pub(super) struct Choice<'a> {
    pub(super) selector: &'a Selector,
    /// Its service is given by id: a name not known here cannot be meant.
    by_id: bool,
    other_services: BTreeSet<ServiceId>,
    other_nodes: BTreeSet<NodeId>,
    other_tasks: BTreeSet<TaskId>,
}

impl Choice<'_> {
    pub(super) fn takes_task(&self, task: &TaskMeta) -> bool {
        self.selector.takes_task(task)
            && !self.other_services.contains(&task.service_id)
            && !self.other_nodes.contains(&task.node_id)
            && !self.other_tasks.contains(&task.task_id)
    }
    pub(super) fn takes_row(&self, row: &RowMeta) -> bool {
        self.selector.takes_row(row)
            && !self.other_services.contains(&row.service_id)
            && !self.other_nodes.contains(&row.node_id)
    }
    pub(super) fn takes_node(&self, id: &NodeId, name: &str) -> bool {
        self.selector.node.as_deref().is_none_or(|text| text == id.as_str() || text == name)
            && !self.other_nodes.contains(id)
    }
    /// Whether it takes rows of a service as far as that is known: what no row tells, a name or a stack may mean.
    pub(super) fn takes_service(&self, id: &ServiceId, known: Option<&RowMeta>) -> bool {
        let Selector { service, stack, .. } = self.selector;
        self.asks_for_rows()
            && !self.other_services.contains(id)
            && service
                .as_deref()
                .is_none_or(|text| text == id.as_str() || known.map_or(!self.by_id, |row| text == &*row.service_name))
            && stack.as_deref().is_none_or(|text| known.is_none_or(|row| text == &*row.stack))
    }
    /// Whether it asks for rows at all: labels alone ask for tasks.
    pub(super) fn asks_for_rows(&self) -> bool {
        let Selector { all, service, node, stack, .. } = self.selector;
        *all || service.is_some() || node.is_some() || stack.is_some()
    }
    /// Whether it takes a service of this name and stack.
    pub(super) fn takes_service_called(&self, id: &ServiceId, name: &str, stack: &str) -> bool {
        !self.other_services.contains(id)
            && self.selector.service.as_deref().is_none_or(|text| text == id.as_str() || text == name)
            && self.selector.stack.as_deref().is_none_or(|text| text == stack)
    }
    /// Whether it asks for whole (node, service) rows, so that their task counts say how many tasks to expect.
    pub(super) fn is_whole(&self) -> bool {
        self.selector.task.is_none() && self.selector.labels.is_empty()
    }
}

/// How well an id answers to a text: by what, whether anything of it lives, and since when it is.
type Rank = (Match, bool, Millis);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Match {
    Beginning,
    Name,
    Id,
}

impl Match {
    fn of(text: &str, id: &str, name: &str) -> Match {
        match (text == id, text == name) {
            (true, _) => Match::Id,
            (_, true) => Match::Name,
            _ => Match::Beginning,
        }
    }
}

impl Join {
    pub(super) fn choose<'a>(
        &self,
        selector: &'a Selector,
        tasks: &BTreeMap<TaskId, TaskView>,
        told: &Told,
        warnings: &mut Vec<String>,
    ) -> Choice<'a> {
        let mut choice = Choice {
            selector,
            by_id: selector.service.as_deref().is_some_and(|text| self.is_service_id(text) || told.knows_service(text)),
            other_services: BTreeSet::new(),
            other_nodes: BTreeSet::new(),
            other_tasks: BTreeSet::new(),
        };
        if let Some(text) = &selector.node {
            choice.other_nodes = others("node", text, self.nodes_called(text, told), warnings);
        }
        if let Some(text) = &selector.service {
            choice.other_services = others("service", text, self.services_called(text, &choice, tasks, told), warnings);
        }
        if let Some(text) = &selector.task {
            choice.other_tasks = others("task", text, tasks_called(text, &choice, tasks), warnings);
        }
        choice
    }

    fn nodes_called(&self, text: &str, told: &Told) -> BTreeMap<NodeId, Rank> {
        let of_rows = self.nodes.iter().map(|(id, node)| {
            let live = node.row.as_ref().is_some_and(|(_, seen)| seen.fresh == self.read);
            let since = node.row.as_ref().map_or(0, |(row, _)| row.meta.since);
            (id, &node.name, live, since)
        });
        let listed = told.list.iter().flat_map(|list| &list.nodes);
        let listed = listed.map(|(id, node)| (id, &node.name, !node.is_down(), 0));
        let all = of_rows.chain(listed).filter(|(id, name, ..)| text == id.as_str() || text == &***name);
        best_of(all.map(|(id, name, live, since)| (id, (Match::of(text, id.as_str(), name), live, since))))
    }

    fn services_called(
        &self,
        text: &str,
        choice: &Choice<'_>,
        tasks: &BTreeMap<TaskId, TaskView>,
        told: &Told,
    ) -> BTreeMap<ServiceId, Rank> {
        let of_rows = self.rows_taken(std::slice::from_ref(choice)).map(|(row, _)| {
            let id = &row.meta.service_id;
            (id, (Match::of(text, id.as_str(), &row.meta.service_name), row.counts.running > 0, row.meta.since))
        });
        let of_tasks = tasks.values().filter(|task| choice.takes_task(&task.meta)).map(|task| {
            let id = &task.meta.service_id;
            (id, (Match::of(text, id.as_str(), &task.meta.service_name), !task.ended, 0))
        });
        // What Swarm lists is there, whether anything of it runs or not.
        let listed = told.list.iter().flat_map(|list| &list.services);
        let listed = listed.filter(|(id, service)| choice.takes_listed(id, service));
        let listed = listed.map(|(id, service)| (id, (Match::of(text, id.as_str(), &service.name), true, 0)));
        best_of(of_rows.chain(of_tasks).chain(listed))
    }
}

/// Each id once, with the best that is said of it.
fn best_of<'a, Id: Ord + Clone + 'a>(called: impl Iterator<Item = (&'a Id, Rank)>) -> BTreeMap<Id, Rank> {
    let mut all: BTreeMap<Id, Rank> = BTreeMap::new();
    for (id, (how, live, since)) in called {
        let best = all.entry(id.clone()).or_insert((how, live, since));
        *best = (best.0.max(how), best.1 || live, best.2.max(since));
    }
    all
}

fn tasks_called(text: &str, choice: &Choice<'_>, tasks: &BTreeMap<TaskId, TaskView>) -> BTreeMap<TaskId, Rank> {
    let called = tasks.iter().filter(|(_, task)| choice.takes_task(&task.meta));
    called
        .map(|(id, task)| {
            (id.clone(), (Match::of(text, id.as_str(), &task.meta.task_name), !task.ended, task.meta.started_at))
        })
        .collect()
}

/// The ids that a text does not mean.
fn others<Id: Ord + Clone + Display>(
    kind: &str,
    text: &str,
    called: BTreeMap<Id, Rank>,
    warnings: &mut Vec<String>,
) -> BTreeSet<Id> {
    let Some((taken, best)) = called.iter().max_by_key(|(id, rank)| (**rank, *id)) else { return BTreeSet::new() };
    let equal = |rank: &Rank| best.0 == Match::Beginning && best.1 == rank.1 && rank.0 == Match::Beginning;
    let others: BTreeSet<Id> =
        called.iter().filter(|(id, rank)| *id != taken && !equal(rank)).map(|(id, _)| id.clone()).collect();
    let kept = called.len() - others.len();
    if kept > 1 {
        warnings.push(format!("{text:?} is the beginning of {kept} {kind} ids: give more of it"));
    } else if !others.is_empty() {
        let list: Vec<String> = others.iter().take(8).map(Id::to_string).collect();
        let more = if others.len() > list.len() { ", …" } else { "" };
        warnings.push(format!("{kind} {text:?} is {taken} here, not {}{more}", list.join(", ")));
    }
    others
}
