//! What members told of Swarm in one read: the youngest list, what it means here, and which running tasks it disowns.

use super::chosen::Choice;
use crate::model::{MemberId, Millis, NodeId, ServiceId, TaskId};
use crate::swarm::{LATE, List, STOP_GRACE_UNKNOWN, Service, Task, Truth, is_swarm_id};
use crate::view::{Holding, TaskView};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A task that began no longer than this before the list was made may have come after it: clocks of nodes differ.
const JUST_BEGUN: Millis = 30_000;

/// See the head of this file.
#[derive(Default)]
pub(super) struct Told {
    /// The youngest list, whatever its age.
    pub(super) list: Option<List>,
    /// The list names a node that was heard of here: only then what it does not name is no node of this swarm's.
    of_here: bool,
    /// Which members cannot list Swarm, and why.
    pub(super) troubles: BTreeMap<MemberId, Arc<str>>,
}

impl Told {
    /// Takes what Swarm says out of the holdings; `is_known` tells the nodes that were heard of here.
    pub(super) fn of<'a>(holdings: impl Iterator<Item = &'a mut Holding>, is_known: impl Fn(&NodeId) -> bool) -> Told {
        let mut told = Told::default();
        for holding in holdings {
            let Some(swarm) = holding.swarm.take() else { continue };
            if let Some(trouble) = swarm.trouble {
                told.troubles.insert(holding.member.clone(), trouble);
            }
            // Between lists of one age the choice must not depend on the order of answers.
            let rank = |list: &List| (list.age, std::cmp::Reverse(list.listed_at));
            let youngest = [told.list.take(), swarm.list].into_iter().flatten().min_by_key(rank);
            told.list = youngest;
        }
        told.of_here = told.list.iter().flat_map(|list| list.nodes.keys()).any(is_known);
        told
    }

    /// The list, if it still tells what is so now.
    pub(super) fn fresh(&self) -> Option<&List> {
        self.list.as_ref().filter(|list| list.is_fresh())
    }

    pub(super) fn knows_service(&self, text: &str) -> bool {
        self.list.as_ref().is_some_and(|list| list.services.contains_key(text))
    }

    /// Whether Swarm has removed a node, so that nobody has to wait for its shipper.
    pub(super) fn has_removed(&self, node: &NodeId) -> bool {
        let is_listed = |list: &List| list.nodes.contains_key(node);
        self.of_here && is_swarm_id(node.as_str()) && self.fresh().is_some_and(|list| !is_listed(list))
    }

    /// Whether Swarm does not reach a node.
    pub(super) fn is_down(&self, node: &NodeId) -> bool {
        self.fresh().and_then(|list| list.nodes.get(node)).is_some_and(|node| node.is_down())
    }

    /// The running tasks that Swarm wants no more, or never heard of.
    pub(super) fn orphans(&self, tasks: &BTreeMap<TaskId, TaskView>) -> BTreeSet<TaskId> {
        let Some(list) = self.fresh() else { return BTreeSet::new() };
        let disowned = |task: &&TaskView| {
            let meta = &task.meta;
            // A plain container goes by its own id; whether its container is told does not matter.
            is_swarm_id(meta.task_id.as_str())
                && list.nodes.contains_key(&meta.node_id)
                && task.fresh
                && !list.tasks.contains_key(&meta.task_id)
                && list.watched >= stop_grace(list, &meta.service_id).saturating_add(LATE)
                && meta.started_at.saturating_add(JUST_BEGUN) <= list.listed_at
        };
        tasks.values().filter(disowned).map(|task| task.meta.task_id.clone()).collect()
    }

    /// What of the list an answer shows.
    pub(super) fn truth(
        &self,
        choices: &[Choice<'_>],
        orphans: BTreeSet<TaskId>,
        absent: BTreeSet<NodeId>,
    ) -> Option<Truth> {
        let mut list = self.list.clone()?;
        list.tasks.clear();
        list.services.retain(|id, service| choices.iter().any(|choice| choice.takes_listed(id, service)));
        list.nodes.retain(|id, node| choices.iter().any(|choice| choice.takes_node(id, &node.name)));
        Some(Truth { list, orphans, absent })
    }
}

/// How long a task may run on that was told to stop before its lister knew of it.
fn stop_grace(list: &List, service: &ServiceId) -> Millis {
    list.services.get(service).map_or(STOP_GRACE_UNKNOWN, |service| service.stop_grace)
}

impl Choice<'_> {
    /// Whether it asks for a service that Swarm lists, wherever its tasks are.
    pub(super) fn takes_listed(&self, id: &ServiceId, service: &Service) -> bool {
        self.is_whole() && self.selector.node.is_none() && self.takes_service_called(id, &service.name, &service.stack)
    }

    /// Whether it asks for a task that Swarm lists.
    pub(super) fn takes_listed_task(&self, list: &List, id: &TaskId, task: &Task) -> bool {
        let Some(service) = list.services.get(&task.service) else { return false };
        let on = |node: &NodeId| list.nodes.get(node).is_some_and(|known| self.takes_node(node, &known.name));
        self.selector.labels.is_empty()
            && self.selector.task.as_deref().is_none_or(|text| list.is_called(id, task, text))
            && self.takes_service_called(&task.service, &service.name, &service.stack)
            && (self.selector.node.is_none() || task.node.as_ref().is_some_and(on))
    }
}
