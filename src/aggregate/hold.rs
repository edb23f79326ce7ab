//! Answering: what this process holds of what is asked, with each key's freshness and age.

use super::node::{Node, Row, Task};
use super::{Aggregate, EndedTask};
use crate::figures::NEEDED;
use crate::model::{Millis, Nanos};
use crate::view::{Ask, Holding, NodeView, Previous, RowView, Selector, TaskView};
use std::collections::BTreeSet;

/// A shipper tries to reach a collector every 5 s or more often (config's `longest_pause`), and tells all at once.
const YOUNG: Nanos = 6_000_000_000;

impl Aggregate {
    /// Everything held that a selector of `ask` takes.
    pub fn hold(&self, ask: &Ask, now: Nanos) -> Holding {
        let mut places = BTreeSet::new();
        for selector in &ask.selectors {
            self.candidates(selector, &mut places);
        }
        let asked = |task: &&Task| !task.hold.dropped || ask.points > 0;
        let live = places.into_iter().map(|at| &self.tasks[at]).filter(asked);
        let live = live.filter_map(|task| self.task_view(task, ask, now));
        let takes = |ended: &&EndedTask| ask.selectors.iter().any(|selector| selector.takes_task(&ended.meta));
        let ended = self.ended.iter().filter(takes).map(|ended| ended_view(ended, ask.stats, now));
        let rows = self.rows.iter().map(|(_, row)| row);
        let rows = rows.filter(|row| ask.selectors.iter().any(|selector| selector.takes_row(&row.meta)));
        Holding {
            member: self.cfg.member.clone(),
            gen_: self.cfg.gen_,
            ring_id: self.ring_id,
            young: now.saturating_sub(self.began) < YOUNG,
            forgot: self.forgot.is_some_and(|at| now.saturating_sub(at) < YOUNG),
            tasks: live.chain(ended).collect(),
            rows: rows.filter_map(|row| self.row_view(row, now)).collect(),
            nodes: self.nodes.values().filter_map(|node| self.node_view(node, now)).collect(),
            swarm: None,
        }
    }

    /// Places of the tasks that a selector takes: by index where the id is given whole, else by looking at all.
    fn candidates(&self, selector: &Selector, places: &mut BTreeSet<usize>) {
        let takes = |at: &usize| selector.takes_task(&self.tasks[*at].meta);
        let by_task = selector.task.as_deref().and_then(|id| self.by_task.get(id));
        let by_service = selector.service.as_deref().and_then(|id| self.by_service.get(id));
        match (by_task, by_service) {
            (Some(at), _) => places.extend(Some(*at).filter(takes)),
            (None, Some(of_service)) => places.extend(of_service.iter().copied().filter(takes)),
            (None, None) => places.extend(self.tasks.iter().map(|(at, _)| at).filter(takes)),
        }
    }

    fn task_view(&self, task: &Task, ask: &Ask, now: Nanos) -> Option<TaskView> {
        let node = self.nodes.get(&task.meta.node_id)?;
        let fresh = node.fresh(&task.hold, now, self.cfg.max_round_trip);
        let newest = task.readings.newest();
        let live = task.hold.live && !task.hold.is_unread();
        let previous = if !live {
            None
        } else if task.changed == node.version.q || task.hold.aged() > 0 {
            task.readings.before()
        } else {
            // Nothing changed in the newest round, so the counters were the same in the round before.
            Previous::of(node.previous, &newest).filter(|_| node.previous > 0)
        };
        Some(TaskView {
            meta: task.meta.clone(),
            version: node.version_of(&task.hold),
            fresh,
            ended: false,
            primary: node.emits(&task.hold, now),
            age: node.age(&task.hold, fresh, now),
            values: newest.masked(ask.stats | NEEDED),
            monotonic: node.read_at(&task.hold),
            previous,
            points: task.history.points(&node.rounds, ask.points),
        })
    }

    fn row_view(&self, row: &Row, now: Nanos) -> Option<RowView> {
        let node = self.nodes.get(&row.meta.node_id)?;
        let fresh = node.fresh(&row.hold, now, self.cfg.max_round_trip);
        Some(RowView {
            meta: row.meta.clone(),
            version: node.version_of(&row.hold),
            fresh,
            age: node.age(&row.hold, fresh, now),
            primary: node.emits(&row.hold, now),
            values: row.values.clone(),
            counts: row.counts.clone(),
        })
    }

    fn node_view(&self, node: &Node, now: Nanos) -> Option<NodeView> {
        let meta = node.meta.clone()?;
        let fresh = node.fresh(&node.hold, now, self.cfg.max_round_trip);
        Some(NodeView {
            meta,
            version: node.version_of(&node.hold),
            fresh,
            age: node.age(&node.hold, fresh, now),
            primary: node.emits(&node.hold, now),
            values: node.machine.values.clone(),
            monotonic: node.read_at(&node.hold),
            previous: node.machine_before(),
        })
    }
}

fn ended_view(ended: &EndedTask, stats: u64, now: Nanos) -> TaskView {
    let age: Millis = now.saturating_sub(ended.at) / 1_000_000;
    TaskView {
        meta: ended.meta.clone(),
        version: ended.version,
        fresh: false,
        ended: true,
        primary: false,
        age,
        values: ended.readings.newest().masked(stats | NEEDED),
        monotonic: 0,
        previous: None,
        points: Vec::new(),
    }
}
