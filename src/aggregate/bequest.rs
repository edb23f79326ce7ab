//! Older points that go from a collector that leaves to those that have its tasks from then on.
//!
//! Where all copies of a task leave at once nobody else has them. A task's points are told along the rounds of its node;
//! a round that only the other knows becomes one of the own, and what was not told of it here is not made up.

use super::Aggregate;
use super::history::{History, Rounds};
use crate::message::{BequeathedTask, Bequest};
use crate::model::{NodeId, TaskId};
use std::collections::BTreeMap;

/// The most runs in one message: some 200 kB.
const MAX_RUNS: usize = 2_000;

impl Aggregate {
    /// The nodes of which tasks are held.
    pub fn nodes(&self) -> Vec<NodeId> {
        self.nodes.keys().cloned().collect()
    }

    /// The points of those tasks of a node that go there, in messages of a bounded size.
    pub fn bequests(&self, node_id: &NodeId, goes: impl Fn(&TaskId) -> bool) -> Vec<Bequest> {
        let Some(node) = self.nodes.get(node_id) else { return Vec::new() };
        let tasks = node.tasks.iter().map(|at| &self.tasks[*at]);
        let mut bequests: Vec<Bequest> = Vec::new();
        let mut room = 0;
        for task in tasks.filter(|task| goes(&task.meta.task_id)) {
            let runs = task.history.runs();
            if runs.len() == 0 {
                continue;
            }
            if bequests.is_empty() || runs.len() > room {
                let (node_id, epoch) = (node_id.clone(), node.version.epoch);
                bequests.push(Bequest { node_id, epoch, rounds: node.rounds.iter().collect(), tasks: Vec::new() });
                room = MAX_RUNS;
            }
            room = room.saturating_sub(runs.len());
            let bequest = bequests.last_mut().expect("one was pushed above");
            bequest.tasks.push(BequeathedTask {
                task_id: task.meta.task_id.clone(),
                container_id: task.meta.container_id.clone(),
                started_at: task.meta.started_at,
                runs: runs.collect(),
            });
        }
        bequests
    }

    /// Takes what another had of tasks that are held here, in the same incarnation; of how many.
    pub fn inherit(&mut self, bequest: &Bequest) -> usize {
        let Some(node) = self.nodes.get_mut(&bequest.node_id) else { return 0 };
        if node.version.epoch != bequest.epoch || self.cfg.points == 0 {
            return 0;
        }
        let theirs: Rounds = bequest.rounds.iter().copied().collect();
        let rounds = node.rounds.with(&theirs, self.cfg.points);
        let own = std::mem::replace(&mut node.rounds, rounds);
        let given: BTreeMap<&TaskId, &BequeathedTask> =
            bequest.tasks.iter().map(|task| (&task.task_id, task)).collect();
        let mut n_tasks = 0;
        for at in &node.tasks {
            let task = &mut self.tasks[*at];
            let same = |given: &&&BequeathedTask| {
                (&given.container_id, given.started_at) == (&task.meta.container_id, task.meta.started_at)
            };
            let other = given.get(&task.meta.task_id).filter(same).map(|given| History::of(&given.runs));
            n_tasks += usize::from(other.is_some());
            if other.is_some() || own != node.rounds {
                task.history = task.history.along(&node.rounds, &own, other.as_ref().map(|other| (other, &theirs)));
            }
        }
        n_tasks
    }
}
