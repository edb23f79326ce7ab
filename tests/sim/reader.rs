//! A router-like reader: LEDGER 21's join, and what its answers must never do (T).

use crate::check::{Checked, Oracle, violation};
use std::collections::{BTreeMap, BTreeSet};
use swarmstats::model::{NodeId, ServiceId, Values, Version};
use swarmstats::stat::COUNTERS;
use swarmstats::view::{Holding, NodeView, RowView};

/// The joined rows of one router process.
#[derive(Debug, Default)]
pub struct Reader {
    rows: BTreeMap<(NodeId, ServiceId), RowView>,
    nodes: BTreeMap<NodeId, NodeView>,
    epochs: BTreeMap<NodeId, u64>,
    /// The highest total each (node, epoch, service) was answered with.
    floors: BTreeMap<(NodeId, u64, ServiceId), Values>,
}

/// Every service's rows, newest of each.
#[derive(Debug)]
pub struct Answer {
    pub complete: bool,
    pub rows: BTreeMap<(NodeId, ServiceId), RowView>,
}

impl Reader {
    /// Joins what the members hold; `known` are the nodes configured.
    pub fn read(&mut self, known: &[NodeId], holdings: &[Holding]) -> Answer {
        self.choose_epochs(holdings);
        let current = |node: &NodeId, version: Version| self.epochs.get(node) == Some(&version.epoch);
        let (mut fresh, mut fresh_nodes) = (BTreeSet::new(), BTreeSet::new());
        for node in holdings.iter().flat_map(|holding| &holding.nodes) {
            let id = &node.meta.node_id;
            if current(id, node.version) {
                fresh_nodes.extend(Some(id.clone()).filter(|_| node.fresh));
                if self.nodes.get(id).is_none_or(|old| old.version < node.version || !current(id, old.version)) {
                    self.nodes.insert(id.clone(), node.clone());
                }
            }
        }
        for row in holdings.iter().flat_map(|holding| &holding.rows) {
            let key = (row.meta.node_id.clone(), row.meta.service_id.clone());
            if current(&key.0, row.version) {
                fresh.extend(Some(key.clone()).filter(|_| row.fresh));
                if self.rows.get(&key).is_none_or(|old| old.version < row.version || !current(&key.0, old.version)) {
                    self.rows.insert(key, row.clone());
                }
            }
        }
        self.nodes.retain(|id, node| current(id, node.version));
        let nodes = &self.nodes;
        self.rows.retain(|(id, service), row| {
            // A newer node row that does not list a row ends it.
            let ended = |node: &NodeView| node.version >= row.version && !node.meta.services.contains(service);
            current(id, row.version) && !nodes.get(id).is_some_and(ended)
        });
        let has = |id: &NodeId| {
            let lists = |node: &NodeView| {
                node.meta.services.iter().all(|service| fresh.contains(&(id.clone(), service.clone())))
            };
            fresh_nodes.contains(id) && self.nodes.get(id).is_some_and(lists)
        };
        Answer { complete: known.iter().all(has), rows: self.rows.clone() }
    }

    /// The epoch of a node that counts: the highest that is fresh, for only a living shipper's is; else the one so far.
    /// (The highest known is wrong for ever where a clock was set back and all who could tell the shipper are gone.)
    fn choose_epochs(&mut self, holdings: &[Holding]) {
        let nodes = holdings.iter().flat_map(|holding| &holding.nodes);
        let nodes = nodes.map(|node| (&node.meta.node_id, node.version.epoch, node.fresh));
        let rows = holdings.iter().flat_map(|holding| &holding.rows);
        let rows = rows.map(|row| (&row.meta.node_id, row.version.epoch, row.fresh));
        let (mut highest, mut living) = (BTreeMap::new(), BTreeMap::new());
        for (node, epoch, fresh) in nodes.chain(rows) {
            let best = if fresh { living.entry(node).or_default() } else { highest.entry(node).or_default() };
            *best = epoch.max(*best);
        }
        for (node, epoch) in highest {
            self.epochs.entry(node.clone()).or_insert(epoch);
        }
        for (node, epoch) in living {
            self.epochs.insert(node.clone(), epoch);
        }
    }

    /// T: never above the truth, never back, and if complete then not older than the bound.
    pub fn check(&mut self, answer: &Answer, oracle: &Oracle<'_>) -> Checked {
        for ((node, service), row) in &answer.rows {
            let (epoch, mut totals) = (row.version.epoch, row.values.clone());
            totals.retain(COUNTERS);
            let life = oracle.life(node.as_str(), epoch)?;
            let truth = life.rounds.last().and_then(|round| round.rows.get(service));
            for (stat, value) in totals.iter() {
                if truth.is_none_or(|truth| value > truth.values.or_zero(stat)) {
                    return violation("T", format!("{node}/{service} {stat:?} is {value}, truth is {truth:?}"));
                }
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
        for (node, epoch, service) in self.floors.keys().filter(|(node, epoch, _)| self.epochs[node] == *epoch) {
            if !answer.rows.contains_key(&(node.clone(), service.clone())) {
                return violation("T", format!("{node}/{service} of epoch {epoch} is gone from the answer"));
            }
        }
        if answer.complete { self.complete(answer, oracle) } else { Ok(()) }
    }

    fn complete(&self, answer: &Answer, oracle: &Oracle<'_>) -> Checked {
        let then = oracle.now.saturating_sub(oracle.bound);
        for (node, view) in &self.nodes {
            let life = oracle.life(node.as_str(), view.version.epoch)?;
            if life.died.is_some_and(|died| died < then) {
                return violation("T", format!("complete, though node {node}'s shipper died at {:?}", life.died));
            }
            for (service, row) in life.round_at(then).iter().flat_map(|round| &round.rows) {
                let total = answer.rows.get(&(node.clone(), service.clone())).map(|row| &row.values);
                for (stat, value) in row.values.iter().filter(|(stat, _)| COUNTERS & stat.bit() != 0) {
                    if total.is_none_or(|total| total.or_zero(stat) < value) {
                        let text =
                            format!("complete, but {node}/{service} {stat:?} is {total:?}, was {value} at {then}");
                        return violation("T", text);
                    }
                }
            }
        }
        Ok(())
    }

    /// T at quiet: complete, and every row is the newest the shippers have.
    pub fn equals(&self, answer: &Answer, newest: &BTreeMap<usize, &crate::truth::Life>) -> Checked {
        if !answer.complete {
            return violation("T", "at quiet an answer is not complete".to_owned());
        }
        let mut n_rows = 0;
        for (node, life) in newest {
            let round = life.rounds.last().unwrap();
            n_rows += round.rows.len();
            for (service, truth) in &round.rows {
                let key = (NodeId::new(format!("n{node}")).unwrap(), service.clone());
                match answer.rows.get(&key) {
                    Some(row) if row.values == truth.values && row.counts == truth.counts => {}
                    other => return violation("T", format!("at quiet {key:?} is {other:?}, truth is {truth:?}")),
                }
            }
        }
        if answer.rows.len() != n_rows {
            return violation("T", format!("at quiet {} rows are answered, there are {n_rows}", answer.rows.len()));
        }
        Ok(())
    }
}
