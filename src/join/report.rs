//! What is told of a read: the tasks, rows and nodes that are known, and what is missing of them.

use super::chosen::Choice;
use super::told::Told;
use super::verdict::{Read, Verdict};
use super::{Join, age_at};
use crate::model::{MemberId, Nanos, NodeId, TaskId};
use crate::view::{Ask, Holding, NodeView, Report, RowView, TaskView};
use std::collections::{BTreeMap, BTreeSet};

impl Join {
    pub(super) fn report(
        &self,
        mut tasks: BTreeMap<TaskId, TaskView>,
        void: &BTreeSet<TaskId>,
        (silent, young): (&BTreeMap<MemberId, String>, &BTreeSet<MemberId>),
        told: &Told,
        ask: &Ask,
        now: Nanos,
    ) -> Report {
        let mut warnings = Vec::new();
        let choices: Vec<Choice<'_>> =
            ask.selectors.iter().map(|selector| self.choose(selector, &tasks, told, &mut warnings)).collect();
        tasks.retain(|_, task| choices.iter().any(|choice| choice.takes_task(&task.meta)));
        let (orphans, absent) = (told.orphans(&tasks), self.absent(told));
        let read = Read {
            choices: &choices,
            tasks: &tasks,
            void,
            silent,
            young,
            told,
            orphans: &orphans,
            absent: &absent,
            now,
        };
        let (missing, more) = Verdict::of(self, read);
        warnings.extend(more);
        let asked = self.nodes.iter().filter(|(id, node)| choices.iter().any(|c| c.takes_node(id, &node.name)));
        let nodes = asked.filter_map(|(_, node)| node.row.as_ref());
        let swarm = told.truth(&choices, orphans, absent);
        Report {
            swarm,
            tasks: tasks.into_values().collect(),
            rows: self
                .rows_taken(&choices)
                .map(|(row, seen)| RowView {
                    fresh: seen.fresh == self.read,
                    age: age_at(now, seen.heard),
                    primary: false,
                    ..row.clone()
                })
                .collect(),
            nodes: nodes
                .map(|(node, seen)| NodeView {
                    fresh: seen.fresh == self.read,
                    age: age_at(now, seen.heard),
                    primary: false,
                    ..node.clone()
                })
                .collect(),
            complete: missing.is_empty(),
            missing,
            warnings,
        }
    }

    /// The nodes whose tasks Swarm does not count any more: removed, or not reached by it and silent here too.
    fn absent(&self, told: &Told) -> BTreeSet<NodeId> {
        let nodes = self.nodes.iter().filter(|(_, node)| !self.is_fresh(node)).map(|(id, _)| id);
        nodes.filter(|id| told.has_removed(id) || told.is_down(id)).cloned().collect()
    }
}

/// What one process holds of what was asked, as a report: nothing is missing of that, and nothing is said about the
/// cluster.
pub fn local(holding: Holding, ask: &Ask) -> Report {
    let Holding { mut tasks, mut rows, mut nodes, .. } = holding;
    let named = |text: &str, node: &NodeView| text == node.meta.node_id.as_str() || text == &*node.meta.node_name;
    nodes.retain(|node| ask.selectors.iter().any(|s| s.node.as_deref().is_none_or(|text| named(text, node))));
    tasks.sort_by(|a, b| a.meta.task_id.cmp(&b.meta.task_id));
    rows.sort_by(|a, b| (&a.meta.service_id, &a.meta.node_id).cmp(&(&b.meta.service_id, &b.meta.node_id)));
    nodes.sort_by(|a, b| a.meta.node_id.cmp(&b.meta.node_id));
    Report { tasks, rows, nodes, complete: true, ..Report::default() }
}
