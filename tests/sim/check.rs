//! Named invariants of what a process and a reader say, against the oracle.

use crate::truth::Life;
use std::collections::BTreeMap;
use swarmstats::model::{Values, bits};
use swarmstats::stat::RATED;
use swarmstats::view::{Holding, NodeView, RowView, TaskView};

/// What must not be.
#[derive(Debug)]
pub struct Violation {
    pub invariant: &'static str,
    pub text: String,
}

pub type Checked<T = ()> = Result<T, Violation>;

pub fn violation<T>(invariant: &'static str, text: String) -> Checked<T> {
    Err(Violation { invariant, text })
}

/// The lives of all shippers, by (node, epoch).
pub struct Oracle<'a> {
    pub lives: &'a BTreeMap<(usize, u64), usize>,
    pub all: &'a [Life],
    /// Nothing fresh is older than this.
    pub bound: u64,
    pub now: u64,
}

/// A node's number from its id.
pub fn number(id: &str) -> usize {
    id[1..].parse().unwrap()
}

impl Oracle<'_> {
    /// The life of a shipper that an epoch names.
    pub fn life(&self, node: &str, epoch: u64) -> Checked<&Life> {
        match self.lives.get(&(number(node), epoch)) {
            Some(life) => Ok(&self.all[*life]),
            None => violation("values", format!("node {node} never had epoch {epoch}")),
        }
    }

    /// Everything a process holds is as the shipper read it in the round it claims; what it calls fresh is young.
    pub fn holding(&self, holding: &Holding) -> Checked {
        holding.tasks.iter().try_for_each(|task| self.task(task))?;
        holding.rows.iter().try_for_each(|row| self.row(row))?;
        holding.nodes.iter().try_for_each(|node| self.node(node))
    }

    fn task(&self, view: &TaskView) -> Checked {
        let id = &view.meta.task_id;
        let life = self.life(view.meta.node_id.as_str(), view.version.epoch)?;
        let Some(round) = (view.version.q as usize).checked_sub(1).and_then(|at| life.rounds.get(at)) else {
            return violation("values", format!("task {id} claims round {} that never was", view.version.q));
        };
        // One that ended is the one thing whose version may be older than its disappearance.
        let Some(known) = round.tasks.get(id).filter(|known| known.container == view.meta.container_id) else {
            return match view.fresh {
                true => violation("fresh", format!("task {id} is over and fresh at {:?}", view.version)),
                false => Ok(()),
            };
        };
        if view.values != known.values {
            let text = format!("task {id} of {:?}: held {:?}, read {:?}", view.version, view.values, known.values);
            return violation("values", text);
        }
        if !view.ended && view.monotonic != (known.read + life.monotonic) * 1_000_000 {
            return violation("values", format!("task {id} is said to be read at another moment: {view:?}, {known:?}"));
        }
        self.previous(life, view)?;
        self.fresh("task", id.as_str(), view.fresh, known.read)?;
        if view.ended { Ok(()) } else { self.age("task", id.as_str(), view.fresh, view.age, known.read) }
    }

    /// The reading before was one, or the counters stood still since.
    fn previous(&self, life: &Life, view: &TaskView) -> Checked {
        let Some(previous) = &view.previous else { return Ok(()) };
        let (monotonic, counters) = (previous.monotonic, previous.iter().collect::<Values>());
        let known = life.round_of(monotonic).and_then(|round| round.tasks.get(&view.meta.task_id));
        let read = |known: &crate::truth::Known| {
            let same = |values: &Values| bits(RATED).all(|stat| values.get(stat) == counters.get(stat));
            same(&known.values) && (known.fresh || same(&view.values))
        };
        if monotonic < view.monotonic && known.is_some_and(read) {
            return Ok(());
        }
        violation("values", format!("task {}: the reading before is wrong: {view:?}, {known:?}", view.meta.task_id))
    }

    fn row(&self, view: &RowView) -> Checked {
        let (node, service) = (&view.meta.node_id, &view.meta.service_id);
        let life = self.life(node.as_str(), view.version.epoch)?;
        let round = &life.rounds[view.version.q as usize - 1];
        let Some(row) = round.rows.get(service) else {
            return violation("values", format!("row {node}/{service} is not in round {}", view.version.q));
        };
        if row.values != view.values || row.counts != view.counts {
            let text = format!("row {node}/{service} of {:?}: held {view:?}, was {row:?}", view.version);
            return violation("values", text);
        }
        self.fresh("row", &format!("{node}/{service}"), view.fresh, round.at)?;
        self.age("row", &format!("{node}/{service}"), view.fresh, view.age, round.at)
    }

    fn node(&self, view: &NodeView) -> Checked {
        let node = &view.meta.node_id;
        let life = self.life(node.as_str(), view.version.epoch)?;
        let round = &life.rounds[view.version.q as usize - 1];
        if !view.meta.services.iter().eq(round.rows.keys()) {
            let text = format!("node {node} lists {:?}, has {:?}", view.meta.services, round.rows.keys());
            return violation("values", text);
        }
        if view.values != round.machine || view.monotonic != (round.at + life.monotonic) * 1_000_000 {
            return violation("values", format!("machine {node} is {view:?}, was {round:?}"));
        }
        if let Some(previous) = &view.previous {
            let before = life.round_of(previous.monotonic).filter(|before| before.at < round.at);
            let was = before.map(|before| before.machine.iter().filter(|(stat, _)| RATED & stat.bit() != 0));
            if !was.is_some_and(|was| was.eq(previous.iter())) {
                return violation("values", format!("machine {node}: the reading before is wrong: {view:?}"));
            }
        }
        self.fresh("node", node.as_str(), view.fresh, round.at)?;
        self.age("node", node.as_str(), view.fresh, view.age, round.at)
    }

    fn fresh(&self, what: &str, id: &str, fresh: bool, read: u64) -> Checked {
        if fresh && read + self.bound < self.now {
            return violation("fresh", format!("{what} {id} is called fresh, read {} ms ago", self.now - read));
        }
        Ok(())
    }

    /// While fresh, an age lacks at most the time on the way; otherwise it is never less than the truth.
    fn age(&self, what: &str, id: &str, fresh: bool, age: u64, read: u64) -> Checked {
        let truth = self.now - read;
        let wrong = if fresh { age > truth || truth - age > self.bound } else { age + 1 < truth };
        if wrong {
            return violation("age", format!("{what} {id} (fresh: {fresh}) is said to be {age} ms old, is {truth}"));
        }
        Ok(())
    }
}
