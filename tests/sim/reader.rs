//! A router-like reader: LEDGER 21's join, and what its answers must never do (T).

use crate::check::{Checked, Oracle, violation};
use std::collections::{BTreeMap, BTreeSet};
use swarmstats::model::{NodeId, ServiceId, Values};
use swarmstats::stat::COUNTERS;
use swarmstats::view::{Holding, NodeView, RowView};

/// The joined rows of one router process.
#[derive(Debug, Default)]
pub struct Reader {
    rows: BTreeMap<(NodeId, ServiceId), RowView>,
    nodes: BTreeMap<NodeId, NodeView>,
    /// The highest total each (node, epoch, service) was answered with.
    floors: BTreeMap<(NodeId, u64, ServiceId), Values>,
}

/// Every service's rows, newest of each.
#[derive(Debug)]
pub struct Answer {
    pub complete: bool,
    pub rows: BTreeMap<(NodeId, ServiceId), RowView>,
    /// The newest epoch of each node.
    pub epochs: BTreeMap<NodeId, u64>,
}

impl Reader {
    /// Joins what the members hold; `known` are the nodes configured.
    pub fn read(&mut self, known: &[NodeId], holdings: &[Holding]) -> Answer {
        let mut fresh = BTreeSet::new();
        let mut fresh_nodes = BTreeSet::new();
        for holding in holdings {
            for node in &holding.nodes {
                let id = node.meta.node_id.clone();
                if node.fresh {
                    fresh_nodes.insert(id.clone());
                }
                if self.nodes.get(&id).is_none_or(|old| old.version < node.version) {
                    self.nodes.insert(id, node.clone());
                }
            }
            for row in &holding.rows {
                let key = (row.meta.node_id.clone(), row.meta.service_id.clone());
                if row.fresh {
                    fresh.insert(key.clone());
                }
                if self.rows.get(&key).is_none_or(|old| old.version < row.version) {
                    self.rows.insert(key, row.clone());
                }
            }
        }
        let epochs = self.forget();
        let has = |id: &NodeId| {
            let lists = |node: &NodeView| {
                node.meta.services.iter().all(|service| fresh.contains(&(id.clone(), service.clone())))
            };
            fresh_nodes.contains(id) && self.nodes.get(id).is_some_and(lists)
        };
        Answer { complete: known.iter().all(has), rows: self.rows.clone(), epochs }
    }

    /// A newer epoch of a node voids its older rows; a newer node row that does not list a row ends it.
    fn forget(&mut self) -> BTreeMap<NodeId, u64> {
        let mut epochs: BTreeMap<NodeId, u64> = BTreeMap::new();
        let rows = self.rows.iter().map(|((node, _), row)| (node, row.version.epoch));
        for (node, epoch) in rows.chain(self.nodes.iter().map(|(node, view)| (node, view.version.epoch))) {
            let newest = epochs.entry(node.clone()).or_default();
            *newest = epoch.max(*newest);
        }
        let nodes = &self.nodes;
        self.rows.retain(|(id, service), row| {
            let ended = |node: &NodeView| node.version >= row.version && !node.meta.services.contains(service);
            row.version.epoch == epochs[id] && !nodes.get(id).is_some_and(ended)
        });
        self.nodes.retain(|id, node| node.version.epoch == epochs[id]);
        epochs
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
        for (node, epoch, service) in self.floors.keys().filter(|(node, epoch, _)| answer.epochs[node] == *epoch) {
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
